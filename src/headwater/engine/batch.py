"""A batch as tasks are told it, and what their stages note about it for the driver."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headwater.engine.lateness import LateRecords
from headwater.engine.manifest import Merge
from headwater.engine.runs import HIGHEST, LOWEST, Run
from headwater.log.cutting import OffsetRange
from headwater.views.frontier import NO_TIME, Frontier

_HALF, _WHOLE = 1 << 31, 1 << 32


@dataclass(frozen=True, slots=True)
class Batch:
    """The range of the log that a batch covers, and the state that it begins with.

    `first`: the batch in which every operator begins, before the first record. `tasks`: by how many tasks the hashes
    are shared. `log`: its URL, and which of those that were there at one time or another. `ranges`: where its records
    are. `blobs`: the address of the place where runs are. `files`: where the job before, if there was one, has left
    its rows. `excluded`: records that are passed over, as topic, partition, first and last offset. `frontier`: how far
    time has come at its end; `frontier_before`: at its start. `forgotten`: where records of earlier batches are that do
    not count any more from its end on. `late`: which records of a topic are late, for those of which they are dropped.
    """

    number: int
    log: tuple[str, str]
    start: str
    end: str
    first: bool
    tasks: int
    blobs: str
    runs: Mapping[str, Sequence[Run]]
    ranges: Sequence[OffsetRange] = ()
    forgotten: Sequence[OffsetRange] = ()
    excluded: Sequence[tuple[str, int, int, int]] = ()
    files: Sequence[str] = ()
    frontier: Frontier = NO_TIME
    frontier_before: Frontier = NO_TIME
    late: Mapping[str, LateRecords] = field(default_factory=dict)

    def hash_range(self, task: int) -> tuple[int, int]:
        """The first and the last hash that a task owns."""
        low, high = -(-task * _WHOLE // self.tasks), -(-(task + 1) * _WHOLE // self.tasks)
        return max(LOWEST, (low - _HALF) << 32), min(HIGHEST, ((high - _HALF) << 32) - 1)

    def to_json(self) -> dict[str, Any]:
        runs = {name: [run.to_json()[1:] for run in found] for name, found in self.runs.items()}
        return {
            "number": self.number, "log": list(self.log), "start": self.start, "end": self.end, "first": self.first,
            "tasks": self.tasks, "blobs": self.blobs, "runs": runs, "files": list(self.files),
            "ranges": [one.to_json() for one in self.ranges],
            "forgotten": [one.to_json() for one in self.forgotten],
            "excluded": [list(place) for place in self.excluded],
            "frontier": self.frontier.to_json(), "frontier_before": self.frontier_before.to_json(),
            "late": {topic: one.to_json() for topic, one in self.late.items()},
        }  # fmt: skip

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Batch:
        runs = {name: tuple(Run.from_json([name, *run]) for run in found) for name, found in value["runs"].items()}
        places = {name: [OffsetRange(*one) for one in value[name]] for name in ("ranges", "forgotten")}
        frontiers = {name: Frontier.from_json(value[name]) for name in ("frontier", "frontier_before")}
        late = {topic: LateRecords.from_json(one) for topic, one in value["late"].items()}
        return cls(**{**value, **frontiers, **places, "log": tuple(value["log"]), "runs": runs, "late": late})


@dataclass(slots=True)
class StageNote:
    """What one task of one stage has written, and how many rows went into and out of each operator."""

    level: int
    task: int
    added: list[Run] = field(default_factory=list)
    changes: list[Run] = field(default_factory=list)
    merges: list[Merge] = field(default_factory=list)
    operators: dict[int, tuple[int, int]] = field(default_factory=dict)
    file: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "level": self.level,
            "task": self.task,
            "added": [run.to_json() for run in self.added],
            "changes": [run.to_json() for run in self.changes],
            "merges": [merge.to_json() for merge in self.merges],
            "operators": [[number, *counts] for number, counts in self.operators.items()],
            "file": self.file,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> StageNote:
        return cls(
            value["level"],
            value["task"],
            [Run.from_json(run) for run in value["added"]],
            [Run.from_json(run) for run in value["changes"]],
            [Merge.from_json(merge) for merge in value["merges"]],
            {number: (rows_in, rows_out) for number, rows_in, rows_out in value["operators"]},
            value["file"],
        )

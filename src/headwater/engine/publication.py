"""What a pipeline commits and what becomes of it: batches, generations, publications, and records that views refuse."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from headwater.engine.definition import Definition
from headwater.engine.judging import Judged
from headwater.engine.manifest import Merge
from headwater.engine.runs import Run
from headwater.model.position import Position

Status = Literal["building", "current", "retired"]
"""A generation is built, becomes the one that readers see, and is replaced by the next one."""

Wish = Literal["switch", "discard"]
"""What somebody wants to become of a generation that is building."""


@dataclass(frozen=True, slots=True)
class Generation:
    """One definition of a pipeline with all its state. `batch` and `position` are those of its last commit.

    One that is building may be `former`: readers have seen it before. `wish` is what its driver is asked to do with it.
    """

    id: int
    fingerprint: str
    definition: Definition
    status: Status
    batch: int
    position: Position
    promoted_position: Position | None
    created_at: int
    is_former: bool = False
    wish: Wish | None = None


@dataclass(frozen=True, slots=True)
class BatchStats:
    """What a batch did.

    `seconds` is how long it took, `operators` has the rows into and out of each operator, `changes` the changed rows of
    each view, and `committed_at` when the last commit that it covers was made, in microseconds.
    """

    records: int = 0
    seconds: float = 0.0
    operators: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    changes: Mapping[str, int] = field(default_factory=dict)
    committed_at: int | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "records": self.records,
            "seconds": self.seconds,
            "operators": dict(self.operators),
            "changes": dict(self.changes),
            "committed_at": self.committed_at,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> BatchStats:
        operators = {int(number): (rows_in, rows_out) for number, (rows_in, rows_out) in value["operators"].items()}
        return cls(value["records"], value["seconds"], operators, value["changes"], value["committed_at"])


@dataclass(frozen=True, slots=True)
class Publication:
    """One commit of a generation. `published_at` is in microseconds."""

    batch: int
    position: Position
    published_at: int
    stats: BatchStats

    @property
    def freshness_seconds(self) -> float | None:
        """The time from the last commit that the batch covers to its publication."""
        committed_at = self.stats.committed_at
        return None if committed_at is None else max(0.0, (self.published_at - committed_at) / 1e6)


@dataclass(frozen=True, slots=True)
class ViewChange:
    """What a batch changed of a view: the runs of a Z-set.

    With `first` it is squashed: the net change of several batches, the first of which published at that position.
    """

    batch: int
    position: Position
    runs: tuple[Run, ...]
    first: Position | None = None


@dataclass(frozen=True, slots=True)
class Hold:
    """What is kept of a view's generation for a follower, which has every change up to batch `low`.

    It may have those up to batch `high`, too: it is taking them. `bytes` is the size of all that it has still to get.
    """

    follower: str
    view: str
    generation: int
    low: int
    high: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Base:
    """The state of a generation as it was at one batch, kept so that later ones can be replayed from there.

    `offsets` has the first record after it, by topic and partition. `taken_at` is in microseconds. `judged` is what was
    known there of the lateness of topics' records.
    """

    generation: int
    batch: int
    position: Position
    offsets: Mapping[str, Mapping[int, int]]
    taken_at: int
    judged: Mapping[str, Judged] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Excluded:
    """A record that a view refuses, and why."""

    view: str
    topic: str
    partition: int
    offset: int
    reason: str


@dataclass(frozen=True, slots=True)
class BatchCommit:
    """Everything that one batch makes true.

    `epoch` is that of the driver, `batch` the number after the generation's last. `added` are the new runs of all
    arrangements, `merges` what takes the place of older ones, and `changes` those of the new runs that are a view's
    change. With `promote` the generation becomes the one that readers see, and the one that was is retired. `judged` is
    what is known of the lateness of topics' records at its position.
    """

    generation: int
    epoch: int
    batch: int
    position: Position
    added: Sequence[Run] = ()
    merges: Sequence[Merge] = ()
    changes: Mapping[str, Sequence[Run]] = field(default_factory=dict)
    stats: BatchStats = field(default_factory=BatchStats)
    promote: bool = False
    excluded: Sequence[Excluded] = ()
    judged: Mapping[str, Judged] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Switch:
    """What makes a generation that was built the one that readers see, at the position of the current one.

    `kept` are the arrangements that it has built, `adopted` those that it takes from the current generation: by their
    name there, their names here. Views in `unchanged` keep their history: changes, followers, and what was published.
    The generation gets this `fingerprint`. If the definition that was current is to be kept up to date as well, it gets
    the fingerprint `former`, in a generation that is building again.
    """

    generation: int
    epoch: int
    fingerprint: str
    kept: Collection[str] = ()
    adopted: Mapping[str, Sequence[str]] = field(default_factory=dict)
    unchanged: Collection[str] = ()
    former: str | None = None


@dataclass(frozen=True, slots=True)
class Collected:
    """What a collection removed."""

    files: int
    bytes: int
    changes: int
    generations: int

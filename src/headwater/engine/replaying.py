"""Replaying: a view's content made again from a base, in other batches than those that the pipeline took.

It is how a view is verified that remembers deleted records. The engine that replays is the one that is verified, so
this proves less than the comparison with plain Spark: not that an operator is right, but that since the base every
record has had its effect once, and that what is published is what the operators make of it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from headwater.engine.arrangements import arrangement_of
from headwater.engine.bases import reaches
from headwater.engine.batch import Batch, StageNote
from headwater.engine.changing import Parted
from headwater.engine.comparison import Difference, differences, has_doubles, unexplained
from headwater.engine.frontiers import frontier_at
from headwater.engine.judging import judging_of
from headwater.engine.manifest import Manifest, replacement
from headwater.engine.pipeline import BATCH_ROWS_MAX, ONE_TASK_ROWS_MAX, Program
from headwater.engine.publication import Base, Excluded
from headwater.engine.reading import content_rows, view_zset
from headwater.engine.view_store import GRACE, ViewStore
from headwater.errors import HeadwaterError, HistoryGone, PositionGone, RecordsGone
from headwater.log.port import Log
from headwater.model.position import Position

BATCHES_AGAIN = 3
"""If doubles differ, whose sums depend on their order, a base is replayed once more, in about this many batches."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """What a view's content lacks or has more of than a replay from a base gives, and how many rows that has."""

    base: Base
    rows: int
    differences: Sequence[Difference]


@dataclass(frozen=True, slots=True)
class Replay:
    """Replays one view of a pipeline up to the position where it was read, with what it passes over.

    `program` is the definition of the view's generation, planned for this replay alone.
    """

    log: Log
    store: ViewStore
    program: Parted
    view: str
    position: Position
    excluded: Sequence[Excluded]

    def compare(self, generation: int, content: pa.Table) -> Replayed | None:
        """Compares the view's content with a replay from the oldest base of its generation that can be replayed.

        None if there is no such base. Raises `HistoryGone` if the replay takes too long.
        """
        part = self.program.part([arrangement_of(self.view)])
        for base in self.store.bases(generation):
            if not self._reaches(base, part):
                continue
            try:
                return self._compared(part, base, content)
            except HistoryGone:
                raise
            except HeadwaterError:
                # Retention, compaction or the pipeline may have overtaken it.
                if self._reaches(base, part) and self._is_there(base):
                    raise
        return None

    def _reaches(self, base: Base, part: Program) -> bool:
        if not base.position <= self.position or not reaches(self.log, part.topics, base, self.position):
            return False
        try:
            self.log.cutter(part.topics).cut(base.position, self.position, 1)
        except (PositionGone, RecordsGone):
            # Records, or tombstones, are not there any more.
            return False
        return self.log.compacted(part.topics) <= self.position

    def _is_there(self, base: Base) -> bool:
        return base.batch in [one.batch for one in self.store.bases(base.generation)]

    def _compared(self, part: Program, base: Base, content: pa.Table) -> Replayed:
        answer, records = self._content(part, base, BATCH_ROWS_MAX)
        found = differences(content, answer)
        if found and any(has_doubles(column.type) for column in content.schema):
            again, _ = self._content(part, base, 1 + records // BATCHES_AGAIN)
            found = unexplained(found, content, [answer, again])
        return Replayed(base, answer.num_rows, found)

    def _content(self, part: Program, base: Base, rows_max: int) -> tuple[pa.Table, int]:
        """The view's content after a replay, and how many records that has read."""
        with self.store.read() as look:
            if base not in look.bases(base.generation):
                raise self._overtaken(part, base, "a newer base")
            manifest = Manifest(look.base_runs(base))
        written: set[str] = set()
        try:
            records = self._run(part, base, rows_max, manifest, written)
            if not self._reaches(base, part):
                # Records may have been deleted before they were read.
                raise self._overtaken(part, base, "retention")
            runs = manifest.runs().get(arrangement_of(self.view), [])
            schema = part.definition.view(self.view).stored_schema
            return content_rows(view_zset(self.store.blobs, runs, schema), self.view).select(
                part.definition.view(self.view).schema.names
            ), records
        finally:
            # What is left by a process that was killed has no name, and the pipeline collects it.
            for file in written:
                self.store.blobs.delete(file)

    def _overtaken(self, part: Program, base: Base, cause: str) -> PositionGone:
        return PositionGone(", ".join(part.topics), str(base.position), str(self.position), cause)

    def _run(self, part: Program, base: Base, rows_max: int, manifest: Manifest, written: set[str]) -> int:
        until = time.monotonic() + GRACE.total_seconds()
        cutter, records = self.log.cutter(part.topics), 0
        judging = judging_of(self.log, part.definition, lambda: base.judged)
        number, start = base.batch, base.position
        while not self.position <= start:
            if time.monotonic() > until:
                raise HistoryGone(self.view, [f"a replay from position {base.position} takes longer than {GRACE}"])
            cut = cutter.cut(start, self.position, rows_max)
            if not cut.end <= self.position:
                # Records were compacted: a batch has to reach further than the view.
                raise self._overtaken(part, base, "compaction")
            number += 1
            judged, late = judging.judge(start, cut.end, cut.ranges)
            batch = Batch(
                number=number,
                log=(self.log.url, self.log.identity),
                start=str(start),
                end=str(cut.end),
                first=False,
                tasks=1 if cut.rows <= ONE_TASK_ROWS_MAX else part.tasks,
                blobs=self.store.blobs.address,
                runs=manifest.runs(),
                ranges=cut.ranges,
                excluded=[(row.topic, row.partition, row.offset, row.offset) for row in self.excluded],
                late=late,
                frontier=frontier_at(self.log, part.time_sources, cut.end),
                frontier_before=frontier_at(self.log, part.time_sources, start),
            )
            notes = part.run(batch)
            judging.keep(judged)
            written |= _files(notes)
            merged = replacement([merge for note in notes for merge in note.merges])
            manifest.apply([run for note in notes for run in note.added], merged)
            records, start = records + cut.records, cut.end
        return records


def _files(notes: Sequence[StageNote]) -> set[str]:
    """The blobs that a batch has written."""
    runs = [run.file for note in notes for run in (*note.added, *note.changes)]
    merged = [run.file for note in notes for merge in note.merges for run in merge.added]
    return {*runs, *merged, *(note.file for note in notes if note.file)}

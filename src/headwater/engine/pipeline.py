"""A pipeline at work: it takes the log batch by batch, and each batch becomes true in one commit of its store."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Protocol, TypedDict

from headwater.engine.arrangements import view_of
from headwater.engine.bases import Bases
from headwater.engine.batch import Batch, StageNote
from headwater.engine.definition import Definition
from headwater.engine.following import Following, OnGone
from headwater.engine.frontiers import frontier_at
from headwater.engine.isolation import isolate, shortened
from headwater.engine.judging import Judged, Judging, judging_of
from headwater.engine.manifest import Size
from headwater.engine.opening import open_store
from headwater.engine.publication import BatchCommit, BatchStats, Excluded, Generation
from headwater.engine.runs import Run
from headwater.engine.view_store import ViewStore
from headwater.errors import HeadwaterError, PositionGone, RecordFailed, RecordsGone, ViewFailed
from headwater.log.cutting import Cut
from headwater.log.followers import Missed
from headwater.log.port import Log
from headwater.model.position import START, Position
from headwater.system.clock import microseconds
from headwater.views.frontier import NO_TIME

BATCH_ROWS_MAX = 4_000_000
"""A batch ends with the first commit that brings it to this many records."""
ONE_TASK_ROWS_MAX = 20_000
"""A batch of up to this many records runs in one task, without an exchange."""
COLLECT_BATCHES = 25
"""After this many batches, their changes are packed, and what nobody needs any more is removed."""


class Program(Protocol):
    """The views of a pipeline, planned: what runs a batch."""

    @property
    def definition(self) -> Definition: ...

    @property
    def fingerprint(self) -> str: ...

    @property
    def topics(self) -> Sequence[str]: ...

    @property
    def time_sources(self) -> Sequence[str]:
        """The time sources that views read."""
        ...

    @property
    def tasks(self) -> int:
        """How many tasks a large batch is shared by."""
        ...

    def run(self, batch: Batch) -> list[StageNote]:
        """What the stages of a batch have written. Raises `ViewFailed` when a record makes an expression fail."""
        ...


class PipelineOptions(TypedDict, total=False):
    """`batch_rows_max`: how many records a batch has at most; up to `one_task_rows_max` it is run by one task.

    `on_gone`: what to do when records were deleted before they were read: `fail`, continue with the `earliest` that are
    kept, or `rebuild` the views from what is kept. Otherwise they are rebuilt if that makes them right, which it does
    unless a topic has views='keep'.
    """

    batch_rows_max: int
    one_task_rows_max: int
    on_gone: OnGone | None


@dataclass(frozen=True, slots=True)
class BuildProgress:
    """How far changed views are that are built beside the former ones: `done` records of `total`.

    `seconds_left` is None as long as it cannot be told. `error` is why the build failed.
    """

    views: Sequence[str]
    done: int
    total: int
    seconds_left: float | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Progress:
    """What one batch did. `freshness` is the time from the last commit that it covers to its publication.

    `behind` counts the log's commits that are still to come, `operators` has the rows into and out of each operator,
    `changes` the changed rows of each view, and `state` the size of each part of the state and of each view. `missed`
    is what was deleted before it was read; the batch begins to build the views again, or continues without it. With
    `build` it was a batch of views that readers do not see yet.
    """

    batch: int
    position: Position
    behind: int
    records: int
    duration: timedelta
    freshness: timedelta | None
    caught_up: bool
    operators: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    changes: Mapping[str, int] = field(default_factory=dict)
    excluded: Sequence[Excluded] = ()
    state: Mapping[str, Size] = field(default_factory=dict)
    missed: Sequence[Missed] = ()
    build: BuildProgress | None = None


@dataclass(frozen=True, slots=True)
class Lane:
    """What a pipeline moves on: a generation of a store, as the driver of this epoch. `promotes`: to be seen by readers
    as soon as it has caught up. `heir_of`: the generation of which it has taken state over."""

    store: ViewStore
    epoch: int
    generation: Generation
    promotes: bool = True
    heir_of: int | None = None


class Pipeline:
    """One run of an application's views. A later one over the same store fences this one."""

    def __init__(
        self,
        log: Log,
        address: str | Path,
        program: Program,
        *,
        policies: Mapping[str, str],
        batch_rows_max: int = BATCH_ROWS_MAX,
        one_task_rows_max: int = ONE_TASK_ROWS_MAX,
        lane: Lane | None = None,
        on_gone: OnGone | None = None,
    ) -> None:
        self._log, self._program, self._policies = log, program, policies
        self._batch_rows_max, self.one_task_rows_max = batch_rows_max, one_task_rows_max
        lane = opened(address, program) if lane is None else lane
        self.store, self._epoch, self.generation, self._promotes = (
            lane.store,
            lane.epoch,
            lane.generation,
            lane.promotes,
        )
        self._excluded = self.store.excluded(self.generation.id)
        self._judging = self._judge()
        self._cutter = log.cutter(program.topics)
        self._on_gone = on_gone
        self._following = Following(log, name_of(address), program.topics, on_gone)
        self._bases = Bases(log, self.store, self._epoch, name_of(address), program.topics)
        if lane.heir_of is not None:
            self._following.adopt(self.generation, lane.heir_of)
        self._hold()
        self._release_old()
        self._begun: Progress | None = None
        self.building: BuildProgress | None = None
        """How far changed views are that are built beside these, or why they could not be built."""

    def build_json(self) -> dict[str, object] | None:
        """`building` as JSON."""
        return None if self.building is None else asdict(self.building)

    @property
    def topics(self) -> Sequence[str]:
        """The topics that it reads."""
        return self._program.topics

    @property
    def position(self) -> Position:
        """How far the views are."""
        return self.generation.position

    def close(self) -> None:
        with suppress(HeadwaterError):
            # A log that is closed, or cannot be written to, keeps a little more than this pipeline needs.
            self._following.hold(self.generation, now=True)
        self.store.close()

    def begin(self) -> None:
        """Runs the first batch of a new generation, which has no records: whatever fails then fails by itself."""
        if self.generation.batch == 0:
            self._begun = self._advance(Cut(START), self._log.position())

    def catch_up(self, end: Position | None = None) -> Iterator[Progress]:
        """Batches up to a position, or to where the log is now. Raises `RecordFailed` and `Fenced`."""
        end = self._log.position() if end is None else end
        self.begin()
        if self._begun is not None:
            begun, self._begun = self._begun, None
            yield begun
        while not end <= self.position:
            yield self.step(end)
        self._following.hold(self.generation)
        self._bases.keep(self.generation, now=True)

    def follow(self, stopped: Callable[[], bool], patience: timedelta = timedelta(seconds=1)) -> Iterator[Progress]:
        """Batches for ever, each as soon as the log has moved. Raises `Fenced` soon after another driver took over."""
        yield from self.catch_up()
        yield from self._followed(stopped, patience)

    def pass_over(self, excluded: Sequence[Excluded]) -> None:
        """Leaves these records out from now on."""
        self._excluded = list(excluded)

    def become(self, program: Program, generation: Generation, *, adopts: bool) -> None:
        """Continues with another program, whose generation readers see now, and perhaps `adopts` state of this one."""
        former, self._program, self.generation = self.generation, program, generation
        self._excluded = self.store.excluded(generation.id)
        self._judging = self._judge()
        self._cutter = self._log.cutter(program.topics)
        self._following = Following(self._log, name_of(self.store.address), program.topics, self._on_gone)
        self._bases = Bases(self._log, self.store, self._epoch, name_of(self.store.address), program.topics)
        if adopts:
            self._following.adopt(generation, former.id)
        self._hold()
        self._release_old()

    def _followed(self, stopped: Callable[[], bool], patience: timedelta) -> Iterator[Progress]:
        while not stopped():
            if not self._log.wait(self.position, patience) <= self.position:
                yield self.step(self._log.position())
            else:
                self.store.check_epoch(self._epoch)
                self._following.hold(self.generation)
                self._bases.keep(self.generation)

    def step(self, end: Position) -> Progress:
        """One batch, at most up to a position."""
        try:
            to = self._cut(end)
        except (RecordsGone, PositionGone) as gone:
            return self._resume(gone, end)
        return self._advance(to, end.joined(to.end))

    def _cut(self, end: Position) -> Cut:
        return self._following.check(self._cutter.cut(self.position, end, self._batch_rows_max))

    def _resume(self, gone: RecordsGone | PositionGone, end: Position) -> Progress:
        """Continues in spite of records that are gone, as it was told to. Raises `RecordsMissed` if it may not."""
        policy, missed = self._following.policy(gone), self._following.missed(self.generation.id)
        if policy == "fail":
            raise self._following.failure(self.generation.id, gone) from gone
        if policy == "earliest":
            self._following.skip_gone(self._cutter, self.position)
            return replace(self._advance(to := self._cut(end), end.joined(to.end)), missed=missed)
        self.generation = self.store.open_generation(self._program.fingerprint, self._program.definition, fresh=True)
        self._excluded, self._judging = [], self._judge()
        self._hold()
        return replace(self._advance(Cut(START), end), missed=missed)

    def _hold(self) -> None:
        """Keeps what the generation has still to read, from now on."""
        self._following.hold(self.generation, now=True)
        self._following.begin(self._cutter, self.generation)

    def _judge(self) -> Judging:
        """What tells late records of the program's topics."""
        return judging_of(self._log, self._program.definition, lambda: self.store.judged(self.generation.id))

    def _release_old(self) -> None:
        self._following.keep_only([one.id for one in self.store.generations() if one.status != "retired"])

    def _advance(self, to: Cut, end: Position) -> Progress:
        began = time.monotonic()
        self._judging.check(to.forgotten)
        judged, late = self._judging.judge(self.position, to.end, to.ranges)
        batch = replace(self._batch(to), late=late)
        try:
            notes = self._program.run(batch)
        except ViewFailed as failure:
            return self._skip_poison(batch, failure, end)
        if to.records and not self._log.compacted(self._program.topics) <= to.end:
            # Compaction overtook the reading and may have taken records away: the batch has to reach further.
            return self.step(end)
        return self._commit(batch, notes, to, began, end, judged=judged)

    def _batch(self, to: Cut) -> Batch:
        first = self.generation.batch == 0
        return Batch(
            number=self.generation.batch + 1,
            log=(self._log.url, self._log.identity),
            start=str(self.position),
            end=str(to.end),
            first=first,
            tasks=1 if first or to.rows <= self.one_task_rows_max else self._program.tasks,
            blobs=self.store.blobs.address,
            runs=self.store.runs(self.generation.id),
            ranges=to.ranges,
            forgotten=to.forgotten,
            excluded=[(row.topic, row.partition, row.offset, row.offset) for row in self._excluded],
            frontier=frontier_at(self._log, self._program.time_sources, to.end),
            frontier_before=NO_TIME if first else frontier_at(self._log, self._program.time_sources, self.position),
        )

    def _commit(
        self,
        batch: Batch,
        notes: Sequence[StageNote],
        to: Cut,
        began: float,
        end: Position,
        excluded: Sequence[Excluded] = (),
        judged: Mapping[str, Judged] | None = None,
    ) -> Progress:
        position = Position.parse(batch.end)
        if judged is None:
            # It is shorter than it was to be.
            judged, _ = self._judging.judge(self.position, position, batch.ranges)
        caught_up = position >= end
        changes = _changes(notes)
        stats = BatchStats(
            to.records,
            round(time.monotonic() - began, 6),
            _rows_through(notes),
            {view: sum(run.rows for run in runs) for view, runs in changes.items()},
            None if to.committed_at is None else microseconds(to.committed_at),
        )
        self.store.commit(
            BatchCommit(
                self.generation.id,
                self._epoch,
                batch.number,
                position,
                added=[run for note in notes for run in note.added],
                merges=[merge for note in notes for merge in note.merges],
                changes=changes,
                stats=stats,
                promote=self._promotes
                and self.generation.status == "building"
                and (caught_up or self.store.current() is None),
                excluded=excluded,
                judged=judged,
            )
        )
        self._judging.keep(judged)
        promoted = self.generation.status
        self.generation = self.store.generation(self.generation.id)
        self._following.hold(self.generation)
        self._bases.keep(self.generation)
        if self.generation.status != promoted:
            self._release_old()
        self._excluded = [*self._excluded, *excluded]
        for note in notes:
            if note.file:
                self.store.blobs.delete(note.file)
        if batch.number % COLLECT_BATCHES == 0:
            self.store.collect()
        return Progress(
            batch=batch.number,
            position=position,
            behind=position.behind(self._log.position()),
            records=to.records,
            duration=timedelta(seconds=time.monotonic() - began),
            freshness=None if to.committed_at is None else max(timedelta(0), datetime.now(UTC) - to.committed_at),
            caught_up=caught_up,
            operators=stats.operators,
            changes=stats.changes,
            excluded=excluded,
            state=self.store.sizes(self.generation.id),
        )

    def _skip_poison(self, batch: Batch, failure: ViewFailed, end: Position) -> Progress:
        """A record makes an expression fail: what comes before it is published, and then its view says what to do."""
        began = time.monotonic()
        found = isolate(self._log, self._program, batch, failure, self._sets_aside)
        if not found.records:
            good = shortened(batch, self._log, found.good)
            return self._commit(good, self._program.run(good), self._covered(good), began, end)
        for suspect in found.records:
            if not self._sets_aside(suspect.failure):
                others = [other.place for other in found.records if other is not suspect]
                failure = suspect.failure
                raise RecordFailed(failure.view, *suspect.place, failure.message, others) from failure
        excluded = [
            Excluded(suspect.failure.view or "", *suspect.place, suspect.failure.message) for suspect in found.records
        ]
        places = [(row.topic, row.partition, row.offset, row.offset) for row in excluded]
        rest = replace(shortened(batch, self._log, found.commit), excluded=[*batch.excluded, *places])
        return self._commit(rest, self._program.run(rest), self._covered(rest), began, end, excluded)

    def _sets_aside(self, failure: ViewFailed) -> bool:
        """Whether records that make a view fail in this way are set aside; if it is not known whose failure it is, all
        views have to agree."""
        if failure.view is None:
            return set(self._policies.values()) == {"dead_letter"}
        return self._policies.get(failure.view) == "dead_letter"

    def _covered(self, batch: Batch) -> Cut:
        start, end = Position.parse(batch.start), Position.parse(batch.end)
        return self._log.cutter(self._program.topics).cut(start, end, self._batch_rows_max)


def opened(address: str | Path, program: Program) -> Lane:
    """The generation of a program, and the right to move it on. Every other driver of the store is fenced."""
    store = open_store(address)
    epoch = store.take_over()
    return Lane(store, epoch, store.open_generation(program.fingerprint, program.definition))


def name_of(address: str | Path) -> str:
    """What a pipeline is called as a follower: by the last part of where its store is."""
    return str(address).rstrip("/").rpartition("/")[2]


def _changes(notes: Sequence[StageNote]) -> dict[str, list[Run]]:
    """The changes of each view."""
    changes: dict[str, list[Run]] = {}
    for note in notes:
        for run in note.changes:
            view = view_of(run.arrangement)
            if view is not None:
                changes.setdefault(view, []).append(run)
    return changes


def _rows_through(notes: Sequence[StageNote]) -> dict[int, tuple[int, int]]:
    """The rows into and out of each operator, in all tasks together."""
    operators: dict[int, tuple[int, int]] = {}
    for note in notes:
        for number, (rows_in, rows_out) in note.operators.items():
            before = operators.get(number, (0, 0))
            operators[number] = (before[0] + rows_in, before[1] + rows_out)
    return operators

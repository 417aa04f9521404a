"""Changed views: they are built from the log beside the former ones, which stay current, and then readers see them.

Only what the new definition lacks is built, as a pipeline of its own. When it is at the position of the former one, a
single transaction of the store puts both together. A crash before that costs nothing: both continue where they were.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Protocol, Unpack

from headwater.engine.adoption import WHOLE, Adoption, adopted_by
from headwater.engine.definition import Definition
from headwater.engine.opening import open_store
from headwater.engine.pipeline import BuildProgress, Lane, Pipeline, PipelineOptions, Program, Progress
from headwater.engine.publication import Generation, Wish
from headwater.engine.running import needs_person
from headwater.engine.view_store import ViewStore
from headwater.errors import Fenced, UsageError
from headwater.log.port import Log
from headwater.model.position import Position

BUILD_ROWS_MAX = 500_000
"""A batch of a build ends with this many records, so that the views that are there do not wait for long."""


class Parted(Program, Protocol):
    """A program of which a part can be run by itself."""

    def part(self, names: Collection[str]) -> Program:
        """The operators whose state is called so, and those that they need."""
        ...


def open_pipeline(
    log: Log,
    address: str | Path,
    program: Parted,
    *,
    former: Callable[[Definition], Parted | None],
    policies: Mapping[str, str],
    on_failure: Callable[[Exception], None] = lambda _: None,
    approve: bool = False,
    **options: Unpack[PipelineOptions],
) -> Pipeline:
    """The pipeline of a program, which takes over what it can from the definition that is published.

    `former` plans a definition that was published; None if that is not possible any more. `on_failure` is told why the
    new views cannot be built, while the former ones stay. With `approve` changed views are kept up to date beside the
    current ones until somebody decides, and after a switch the former ones are.
    """
    store = open_store(address)
    epoch = store.take_over()
    current = store.current()
    if current is not None and current.fingerprint == program.fingerprint and approve:
        kept = next((one for one in store.generations() if one.status == "building" and one.is_former), None)
        beside = None if kept is None else former(kept.definition)
        if kept is not None and beside is not None and beside.fingerprint == kept.fingerprint:
            build = Build(log, store, epoch, beside, policies, options)
            lane = Lane(store, epoch, current)
            return ChangingPipeline(log, lane, program, build, policies, options, on_failure, approve=True)
    if current is None or current.fingerprint == program.fingerprint:
        lane = Lane(store, epoch, store.open_generation(program.fingerprint, program.definition))
        return Pipeline(log, address, program, policies=policies, lane=lane, **options)
    build = Build(log, store, epoch, program, policies, options)
    if not build.is_needed:
        lane = Lane(store, epoch, build.switch(current), heir_of=None if build.is_whole else current.id)
        return Pipeline(log, address, program, policies=policies, lane=lane, **options)
    running = former(current.definition)
    lane = Lane(store, epoch, current)
    return ChangingPipeline(log, lane, running, build, policies, options, on_failure, approve=approve)


class Build:
    """What a new definition lacks, on its way to the position of the former one."""

    def __init__(
        self,
        log: Log,
        store: ViewStore,
        epoch: int,
        program: Parted,
        policies: Mapping[str, str],
        options: PipelineOptions,
    ) -> None:
        self.program = program
        self._log, self._store, self._epoch = log, store, epoch
        self._policies, self._options = policies, options
        self._began, self._done_before = time.monotonic(), 0
        whole = WHOLE + program.fingerprint
        begun = any(one.fingerprint == whole and one.status == "building" for one in store.generations())
        self._adoption, self._pipeline = self._opened(whole=begun)

    @property
    def is_needed(self) -> bool:
        """Whether the former definition lacks anything."""
        return bool(self._adoption.missing)

    @property
    def views(self) -> list[str]:
        """The views that readers will see differently."""
        return list(self._adoption.changed)

    @property
    def is_whole(self) -> bool:
        """Whether it takes nothing over."""
        return self._adoption.is_whole

    @property
    def position(self) -> Position:
        return self._pipeline.position

    def begin(self) -> None:
        """Runs the first batch, which has no records: whatever fails then fails by itself."""
        self._pipeline.begin()

    def step(self, end: Position) -> Progress:
        """One batch, at most up to a position. Raises `RecordFailed`."""
        excluded = self._store.excluded(self._current().id)
        if not self._adoption.is_whole:
            # What is taken over does not have these records either.
            self._pipeline.pass_over(excluded)
        found = self._pipeline.step(end)
        progress = replace(found, caught_up=False, build=self.progress(end))
        if not self._adoption.is_whole and found.excluded:
            self._begin_whole()
        return progress

    def is_ready(self, former: Generation) -> bool:
        """Whether both can be put together. A build that can take nothing over any more begins again."""
        if self._adoption.is_whole:
            return former.position <= self.position
        if former.position != self.position:
            return False
        owners = {row.view for row in self._store.excluded(former.id)}
        if owners <= set(self._adoption.unchanged) and not (self.is_needed and self._forgets()):
            return True
        self._begin_whole()
        return False

    def wish(self) -> Wish | None:
        """What somebody wants to become of it."""
        return self._store.generation(self._pipeline.generation.id).wish

    def discard(self) -> None:
        """Gives it up."""
        self._store.discard(self._pipeline.generation.id, self._epoch)

    def switch(self, former: Generation, keeps: str | None = None) -> Generation:
        """Puts both together for readers to see; `keeps` the former definition up to date, under that fingerprint."""
        built = self._pipeline.generation
        return self._store.switch(self._adoption.switch(self._store, self._epoch, built, former, keeps))

    def progress(self, end: Position, error: Exception | None = None) -> BuildProgress:
        """How far it is on its way to a position."""
        done, total = self._records(self.position), self._records(end)
        seconds, fresh = time.monotonic() - self._began, done - self._done_before
        left = seconds * max(0, total - done) / fresh if fresh > 0 else None
        return BuildProgress(self.views, done, max(done, total), left, None if error is None else str(error))

    def reaches_beyond(self, former: Generation) -> bool:
        """Whether it had to read further than the former definition did, because a topic was compacted."""
        return not self.position <= former.position

    def begin_whole(self) -> None:
        """Builds everything: what the former definition has cannot be taken over."""
        if not self._adoption.is_whole:
            self._begin_whole()

    def of(self, program: Parted) -> Build:
        """The build of another program, in the same store."""
        return Build(self._log, self._store, self._epoch, program, self._policies, self._options)

    def _begin_whole(self) -> None:
        self._adoption, self._pipeline = self._opened(whole=True)
        self._began, self._done_before = time.monotonic(), 0

    def _opened(self, *, whole: bool) -> tuple[Adoption, Pipeline]:
        current = self._current()
        fingerprint = WHOLE + self.program.fingerprint if whole else self.program.fingerprint
        generation = self._store.open_generation(fingerprint, self.program.definition)
        found = adopted_by(generation, current, self._store.excluded(current.id))
        if found.missing and not found.is_whole and self._forgets():
            return self._opened(whole=True)
        part = self.program if found.is_whole else self.program.part(found.missing)
        rows_max = min(BUILD_ROWS_MAX, self._options.get("batch_rows_max", BUILD_ROWS_MAX))
        options: PipelineOptions = {**self._options, "batch_rows_max": rows_max}
        lane = Lane(self._store, self._epoch, generation, promotes=False)
        made = Pipeline(self._log, self._store.address, part, policies=self._policies, lane=lane, **options)
        self._done_before = sum(
            end for topic in part.topics for _, end in self._log.offsets(topic, at=made.position).values()
        )
        return found, made

    def _forgets(self) -> bool:
        """Whether records were deleted that views forget: what was built before knows others than what is built now."""
        for name in self.program.topics:
            topic = self._log.topic(name)
            forgets = topic.deletes and not topic.keeps_in_views
            if forgets and any(first for first, _ in self._log.offsets(name).values()):
                return True
        return False

    def _records(self, position: Position) -> int:
        return sum(end for topic in self._pipeline.topics for _, end in self._log.offsets(topic, at=position).values())

    def _current(self) -> Generation:
        current = self._store.current()
        assert current is not None
        return current


class ChangingPipeline(Pipeline):
    """A pipeline whose views have changed: the former ones run on until the new ones are there, and then those.

    Without a `former` program the views that are published stay where they are until then. With `approve` both are kept
    up to date until somebody decides.
    """

    def __init__(
        self,
        log: Log,
        lane: Lane,
        former: Parted | None,
        build: Build,
        policies: Mapping[str, str],
        options: PipelineOptions,
        on_failure: Callable[[Exception], None] = lambda _: None,
        *,
        approve: bool = False,
    ) -> None:
        super().__init__(log, lane.store.address, former or build.program, policies=policies, lane=lane, **options)
        self._build: Build | None = build
        self._former, self._approve = former, approve
        self._stands = former is None
        self._failure: Exception | None = None
        self._on_failure = on_failure

    def begin(self) -> None:
        if self._build is not None:
            self._build.begin()

    def catch_up(self, end: Position | None = None) -> Iterator[Progress]:
        """As `Pipeline.catch_up`: with the new views, unless they cannot be built, which is raised at the end.

        If they wait for approval, they have caught up as well.
        """
        end = self._log.position() if end is None else end
        while self._build is not None:
            yield from self._turn(self._build, end)
            if self._waits(end):
                return
        yield from super().catch_up(end)
        if self._failure is not None:
            raise self._failure

    def follow(self, stopped: Callable[[], bool], patience: timedelta = timedelta(seconds=1)) -> Iterator[Progress]:
        """As `Pipeline.follow`. If the new views cannot be built, the former ones stay, and `building` says why."""
        while self._build is not None and not stopped():
            yield from self._turn(self._build, self._log.position())
            if self._waits(self._log.position()):
                self._log.wait(self.position, patience)
                self.store.check_epoch(self._epoch)
        if not stopped():
            yield from super().catch_up()
            yield from self._followed(stopped, patience)

    def _waits(self, end: Position) -> bool:
        """Whether there is nothing to do before somebody decides, or the log moves on."""
        build = self._build
        if build is None or not self._approve or build.wish() is not None:
            return False
        return build.is_ready(self.generation) and end <= self.position

    def _turn(self, build: Build, end: Position) -> Iterator[Progress]:
        """One batch of the former views, if the log has moved on, and one of the new ones."""
        if build.wish() == "discard":
            self._discard(build)
            return
        if build.reaches_beyond(self.generation):
            end = end.joined(build.position)
        if not self._stands and not end <= self.position:
            try:
                yield self.step(end)
            except Exception as error:
                if not needs_person(error) or isinstance(error, Fenced):
                    raise
                # Perhaps that is why they were changed.
                self._stands = True
        if self._stands and build.reaches_beyond(self.generation):
            build.begin_whole()
        try:
            yield from self._built(build, end)
        except Exception as error:
            if self._stands or not needs_person(error) or isinstance(error, Fenced):
                raise
            self.building = build.progress(self.position, error)
            self._build, self._failure = None, error
            self._on_failure(error)

    def _built(self, build: Build, end: Position) -> Iterator[Progress]:
        build.begin()
        target = end if self._stands and build.is_whole else self.position
        if not target <= build.position:
            found = build.step(target)
            self.building = found.build
            yield found
        if (not self._approve or build.wish() == "switch") and build.is_ready(self.generation):
            self._switch(build)

    def _switch(self, build: Build) -> None:
        """Readers see the new views. If somebody has approved of them, the former ones stay, for a rollback."""
        former = None if self._stands or not self._approve else self._former
        generation = build.switch(self.generation, None if former is None else former.fingerprint)
        self.become(build.program, generation, adopts=not build.is_whole)
        self._former, self._stands = build.program, False
        self._build = self.building = None
        if former is not None:
            kept = build.of(former)
            if kept.is_needed:
                self._build = kept
            else:
                # Everything of it is there still: it comes back as soon as its SQL does.
                kept.discard()

    def _discard(self, build: Build) -> None:
        build.discard()
        self._build = self.building = None
        if self._stands:
            raise UsageError(
                "The changed views were discarded, and the views that are published can no longer be run.",
                hint="Restore their SQL, and run the application again.",
            )

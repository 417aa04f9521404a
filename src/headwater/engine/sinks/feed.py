"""A feed: follows a view for one sink, and sees to it that the sink's target has every change.

Everything that all sinks share is here: one process feeds a sink and the others wait, progress is written down, what
fails is tried again, and where changes are missing the target is told or gets the content again.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeVar

import pyarrow as pa

from headwater.engine.parts import Part, Report, Stop
from headwater.engine.reading import Reader
from headwater.engine.sinks.patience import Patience
from headwater.engine.sinks.port import CannotContinue, Mark, PositionChanged, Sink, SinkStatus, Start
from headwater.engine.sinks.progress import ProgressFile
from headwater.engine.subscription import Changes, Subscription, rows_behind
from headwater.errors import Determinate, TargetFailed, UnknownView, UsageError
from headwater.model.encoding import format_instant
from headwater.system.lock import FileLock

LOOK_SECONDS = 1.0
"""How long it waits for changes, for a view that is not there yet, or for another process that feeds the same sink."""
GATHERED_MAX = 1000
"""Writes that a sink may gather before it has to deliver them."""


_Result = TypeVar("_Result")


class _Paused(Exception):
    """Nothing more is delivered until the next run."""


class _Stopped(Exception):
    """The feed was asked to end."""


class Feed(Part):
    """Brings one view to one sink while it is run. `repr` and everything it says show no secret."""

    def __init__(
        self, directory: Path, sink_name: str, view: str, sink: Sink, start: Start, patience: Patience | None = None
    ) -> None:
        self.sink_name, self.view, self.sink, self.start = sink_name, view, sink, start
        self._directory, self._patience = directory, patience or Patience()
        self._file = ProgressFile(directory, sink_name)

    def __repr__(self) -> str:
        return f"Feed({self.sink_name!r}, view={self.view!r}, to={self.sink.target!r})"

    @property
    def name(self) -> str:
        return f"sink-{self.sink_name}"

    def run(self, stop: Stop, report: Report) -> None:
        """Until it is stopped, or paused because the target takes nothing."""
        self._file.directory.mkdir(parents=True, exist_ok=True)
        lock = FileLock(self._file.lock)
        try:
            while not stop.is_set():
                with lock.try_hold() as alone:
                    if alone:
                        with suppress(_Paused, _Stopped):
                            _Run(self, self._file, stop, report).follow()
                        return
                stop.wait(LOOK_SECONDS)
        finally:
            lock.close()

    def current(self) -> Mark | None:
        """Where the view is now; None if it is not there yet."""
        with Reader(self._directory) as reader:
            current = reader.current()
        if current is None or self.view not in current.definition.views:
            return None
        return Mark(current.position, current.id)

    def subscribe(self, mark: Mark | None) -> Subscription:
        """The changes behind a mark; with the content first if there is none."""
        after, generation = (None, None) if mark is None else (mark.position, mark.generation)
        return Subscription(self._directory, self.view, after, generation=generation, follower=self.name)

    def delay(self, attempts: int, failure: TargetFailed) -> float:
        """Seconds before the next attempt."""
        return self._patience.delay(attempts, failure, random.random())  # noqa: S311 - no secret

    def is_over(self, refusals: int, seconds: float, failure: TargetFailed) -> bool:
        """Whether there is no further attempt."""
        return self._patience.is_over(refusals, seconds, failure)

    def status(self, reader: Reader) -> SinkStatus:
        """How far the sink is, whichever process feeds it."""
        progress = self._file.load(self.view)
        mark, lag = progress.mark, None
        if mark is not None:
            lag = max(0, rows_behind(reader, self.view, mark.position, mark.generation) - mark.rows)
        return SinkStatus(
            sink=self.sink.kind,
            view=self.view,
            target=self.sink.target,
            status=progress.status,
            position=None if mark is None else str(mark.position),
            lag=lag,
            deliveries=progress.deliveries,
            failures=progress.failures,
            error=progress.error,
            failed_at=progress.failed_at,
            delivered_at=progress.delivered_at,
        )


class _Run:
    """One run of a feed, by the only process that feeds the sink. It is also the sink's journal."""

    def __init__(self, feed: Feed, file: ProgressFile, stop: Stop, report: Report) -> None:
        self._feed, self._file, self._stop, self._report = feed, file, stop, report
        self._sink, self._title = feed.sink, f"Sink {feed.sink_name!r}"
        self._progress = self._saved = file.load(feed.view)

    # The journal

    @property
    def mark(self) -> Mark | None:
        return self._progress.mark

    @property
    def deliveries(self) -> int:
        return self._progress.deliveries

    @property
    def under_way(self) -> str | None:
        return self._progress.under_way

    def begin(self, delivery: str) -> None:
        self._progress = replace(self._progress, under_way=delivery)
        self._save()

    def end(self, mark: Mark | None) -> None:
        if self._progress.status != "running":
            self._report.say(f"{self._title} is delivered to again.")
        # It is saved with the next delivery, or as soon as there is none.
        self._progress = replace(
            self._progress,
            mark=mark,
            under_way=None,
            deliveries=self._progress.deliveries + 1,
            status="running",
            error=None,
            delivered_at=_now(),
        )

    def progress(self, done: int, total: int) -> None:
        self._report.progress(f"sink {self._feed.sink_name}", done, total)

    # Following the view

    def follow(self) -> None:
        """Until it is stopped. Raises `_Paused`, `_Stopped`."""
        if self._progress.status == "paused":
            self._progress = replace(self._progress, status="retrying")
        try:
            with self._stop.calling(self._sink.close):
                self._open()
                while not self._stop.is_set():
                    self._follow_on()
        finally:
            self._sink.close()
            self._save()

    def _open(self) -> None:
        """Asks the target how far it is."""
        mark = self._insist(lambda: self._sink.open(self))
        if mark is None and self._progress.mark is not None:
            self._report.warn(f"{self._title}: the target has lost its position, and gets the content again.")
        self._progress = replace(self._progress, mark=mark)

    def _follow_on(self) -> None:
        """Follows the view from where the target is, until it has to look again."""
        try:
            self._follow_from(self._progress.mark)
        except UnknownView:
            # Those who run it have looked: it is being built.
            self._stop.wait(LOOK_SECONDS)
        except UsageError as error:
            # Too old, or of a time before the state was deleted.
            self._begin_again(error.message)
        except PositionChanged:
            self._sink.close()
            self._open()
        except CannotContinue:
            self._begin_again("A change could not be delivered completely.")
        except Determinate as error:
            self._report.warn(f"{self._title} waits: {error.message}")
            self._stop.wait(self._feed.delay(1, TargetFailed(error.message)))

    def _follow_from(self, mark: Mark | None) -> None:
        if mark is None and self._feed.start == "now":
            mark = self._feed.current()
            if mark is None:
                self._stop.wait(LOOK_SECONDS)
                return
            self._move(mark)
            self._save()
        with self._feed.subscribe(mark) as subscription:
            held, gathered = self._next(subscription, 0), 0
            while not self._stop.is_set():
                if held is None:
                    self._rest(subscription)
                    held, gathered = self._next(subscription, LOOK_SECONDS), 0
                    continue
                following, failure = self._after(subscription)
                gathered = gathered + 1 if following is not None and gathered < GATHERED_MAX else 0
                self._write(held, more=gathered > 0)
                if failure is not None:
                    raise failure
                held = following

    def _after(self, subscription: Subscription) -> tuple[Changes | None, Exception | None]:
        """What comes next, if it is there, or why nothing comes: what was there before is delivered first."""
        try:
            return self._next(subscription, 0), None
        except (UsageError, Determinate) as error:
            return None, error

    def _next(self, subscription: Subscription, seconds: float) -> Changes | None:
        arrived = self._saved.mark
        if arrived is not None:
            subscription.confirm(arrived.position, arrived.generation)
        found = subscription.poll(timedelta(seconds=seconds))
        if found is not None and found.snapshot and self._feed.start == "now":
            raise UsageError("The columns of the view have changed.")
        return found

    def _write(self, changes: Changes, *, more: bool) -> None:
        self._insist(lambda: self._sink.write(changes, more=more))
        reached = Mark(changes.position, changes.generation)
        if not more and self._progress.mark != reached and not self._sink.waiting:
            self.end(reached)

    def _move(self, mark: Mark) -> None:
        """Moves the target to a mark without any changes."""
        nothing = Changes(
            mark.position, mark.generation, pa.table({}), pa.chunked_array([], pa.int64()), snapshot=False
        )
        self._insist(lambda: self._sink.write(nothing, more=False))
        self._progress = replace(self._progress, mark=mark)

    def _rest(self, subscription: Subscription) -> None:
        """Keeps how far it has looked, if changes came to nothing, and what has arrived."""
        self._insist(self._sink.rest)
        if self._sink.waiting:
            self._save()
            return
        reached, mark = subscription.reached, self._progress.mark
        if reached is not None and mark is not None and not mark.rows and reached != (mark.position, mark.generation):
            self._move(Mark(*reached))
        self._save()

    def _begin_again(self, reason: str) -> None:
        """Lets the content come, or tells the target that changes are missing."""
        current, before = self._feed.current(), self._progress.mark
        if current is None or (before is not None and current.position < before.position):
            # Views whose state was deleted are built from the log again, and what was before is no news.
            self._stop.wait(LOOK_SECONDS)
            return
        self._report.warn(f"{self._title} begins again: {reason}")
        if self._feed.start == "content":
            self._progress = replace(self._progress, mark=None)
            return
        self._insist(lambda: self._sink.gap(current, reason))
        if self._progress.mark != current:
            self.end(current)

    # Trying again

    def _insist(self, call: Callable[[], _Result]) -> _Result:
        """Calls until the target does not fail. Raises `_Paused`, `_Stopped`."""
        attempts, refusals, began = 0, 0, time.monotonic()
        while not self._stop.is_set():
            arrived = self._progress.deliveries
            try:
                return call()
            except TargetFailed as failure:
                if self._stop.is_set():
                    break
                if self._progress.deliveries != arrived:
                    attempts, refusals, began = 0, 0, time.monotonic()
                attempts += 1
                refusals = refusals + 1 if failure.kind == "refused" else 0
                over = self._feed.is_over(refusals, time.monotonic() - began, failure)
                self._failed(failure, attempts, paused=over)
                if over:
                    raise _Paused from failure
                self._stop.wait(self._feed.delay(attempts, failure))
        raise _Stopped

    def _failed(self, failure: TargetFailed, attempts: int, *, paused: bool) -> None:
        if paused:
            self._report.warn(f"{self._title} is paused: {failure.reason}. The next run continues with it.")
        elif attempts == 1:
            self._report.warn(f"{self._title}: {failure.reason}. It is tried again.")
        self._progress = replace(
            self._progress,
            status="paused" if paused else "retrying",
            error=failure.reason,
            failed_at=_now(),
            failures=self._progress.failures + 1,
        )
        self._save()

    def _save(self) -> None:
        """Returns when the progress is on the disk: nothing is delivered that was not written down first."""
        told = False
        while self._progress != self._saved:
            try:
                self._file.save(self._progress)
                self._saved = self._progress
            except Determinate as error:
                if not told:
                    self._report.warn(f"{self._title} waits: {error.message}")
                told = True
                if self._stop.wait(LOOK_SECONDS):
                    return


def _now() -> str:
    return format_instant(datetime.now(UTC).replace(microsecond=0))

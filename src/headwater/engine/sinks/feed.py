"""A feed: follows a view for one sink, and sees to it that the sink's target has every change.

Everything that all sinks share is here: one process feeds a sink and the others wait, progress is written down, what
fails is tried again, and where changes are missing the target is told or gets the content again.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from headwater.engine.parts import Part, Report, Stop
from headwater.engine.reading import Reader
from headwater.engine.sinks.asking import carried_out, progress_of
from headwater.engine.sinks.control import Control, Request, error_json
from headwater.engine.sinks.operated import Operated
from headwater.engine.sinks.patience import Patience
from headwater.engine.sinks.port import CannotContinue, ChangesReader, Mark, PositionChanged, Sink, SinkStatus, Start
from headwater.engine.sinks.progress import ProgressFile, now_text
from headwater.engine.subscription import Changes, Subscription, has_all, rows_behind, seconds_behind
from headwater.errors import Determinate, HeadwaterError, TargetFailed, UnknownView, UsageError
from headwater.model.position import Position
from headwater.system.lock import FileLock

LOOK_SECONDS = 1.0
"""How long it waits for changes, for a view that is not there yet, or for another process that feeds the same sink."""
GATHERED_MAX = 1000
"""Writes that a sink may gather before it has to deliver them."""
SAVE_SECONDS = 0.2
"""How long what has arrived may be known to this process only, while more arrives."""
CHECK_SECONDS = 10.0
"""How often a target is looked at while there is nothing to deliver: it may have been restored from a backup."""

_Result = TypeVar("_Result")


class _Paused(Exception):
    """Nothing more is delivered until the sink is resumed."""


class _Stopped(Exception):
    """The feed was asked to end."""


class Feed(Part, Operated):
    """Brings one view to one sink while it is run. `repr` and everything it says show no secret."""

    def __init__(
        self, directory: Path, sink_name: str, view: str, sink: Sink, start: Start, patience: Patience | None = None
    ) -> None:
        self.sink_name, self.view, self.sink, self.start = sink_name, view, sink, start
        self._directory, self._patience = directory, patience or Patience()
        self._file, self._noted_as = ProgressFile(directory, sink_name), view
        self.control = Control(self._file.directory, sink_name)

    def __repr__(self) -> str:
        return f"Feed({self.sink_name!r}, view={self.view!r}, to={self.sink.target!r})"

    @property
    def name(self) -> str:
        return f"sink-{self.sink_name}"

    def run(self, stop: Stop, report: Report) -> None:
        """Until it is stopped. While it is paused it waits, and holds nothing."""
        self._file.directory.mkdir(parents=True, exist_ok=True)
        self.control.was_resumed()
        lock = FileLock(self._file.lock)
        try:
            while not stop.is_set():
                gave_up = False
                with lock.try_hold() as alone:
                    if alone and not self.control.is_paused:
                        gave_up = self._feed(stop, report)
                while not stop.is_set() and gave_up and not self.control.was_resumed():
                    stop.wait(LOOK_SECONDS)
                stop.wait(0 if gave_up else LOOK_SECONDS)
        finally:
            lock.close()

    def _feed(self, stop: Stop, report: Report) -> bool:
        """Feeds the sink, by the only process that does; whether it was given up, until it is resumed."""
        try:
            with suppress(_Stopped):
                _Run(self, self._file, stop, report).follow()
        except _Paused:
            return not self.control.is_paused
        return False

    def carry_out(self, request: Request, report: Report | None = None) -> Mapping[str, Any]:
        self._file.directory.mkdir(parents=True, exist_ok=True)
        told = report or Report()

        def here() -> Mapping[str, Any]:
            return _Run(self, self._file, Stop(), told).carry_out(request)

        progress = progress_of(told, self.sink_name)
        return carried_out(self.control, self._file.lock, request, here, progress)

    def has(self, reader: Reader, position: Position) -> bool:
        """Whether the target has everything up to a position of the log."""
        mark = self._file.load(self._noted_as).mark
        return mark is not None and has_all(reader, self.view, mark.position, mark.generation, position)

    def position(self) -> Position | None:
        """How far the target is, as far as it is written down."""
        mark = self._file.load(self._noted_as).mark
        return None if mark is None else mark.position

    def moved_at(self) -> int:
        """Another number whenever the sink may have come further."""
        return self._file.changed_at()

    def let_go(self) -> None:
        """Keeps no changes for the sink any longer."""
        with Reader(self._directory) as reader:
            reader.store.hold(self.name, self.view, {}, 0)

    def current(self) -> Mark | None:
        """Where the view is now; None if it is not there yet."""
        with Reader(self._directory) as reader:
            current = reader.current()
        if current is None or self.view not in current.definition.views:
            return None
        return Mark(current.position, current.id)

    def subscribe(self, mark: Mark | None) -> ChangesReader:
        """The changes behind a mark; with the content first if there is none."""
        after, generation = (None, None) if mark is None else (mark.position, mark.generation)
        return Subscription(self._directory, self.view, after, generation=generation, follower=self.name)

    def delay(self, attempts: int, failure: TargetFailed) -> float:
        """Seconds before the next attempt."""
        return self._patience.delay(attempts, failure, random.random())  # noqa: S311 - no secret

    def is_over(self, refusals: int, seconds: float, failure: TargetFailed) -> bool:
        """Whether there is no further attempt."""
        return self._patience.is_over(refusals, seconds, failure)

    def status(self, reader: Reader | None = None) -> SinkStatus:
        """How far the sink is, whichever process feeds it. A caller that asks often has a reader."""
        if reader is None:
            with Reader(self._directory) as opened:
                return self.status(opened)
        progress, now = self._file.load(self._noted_as), time.time()
        mark, lag, seconds = progress.mark, None, None
        if mark is not None:
            lag = max(0, rows_behind(reader, self.view, mark.position, mark.generation) - mark.rows)
            seconds = seconds_behind(reader, self.view, mark.position, mark.generation, now) if lag else 0.0
        return SinkStatus(
            sink=self.sink.kind,
            view=self.view,
            target=self.sink.target,
            status="paused" if self.control.is_paused else progress.status,
            position=None if mark is None else str(mark.position),
            lag=lag,
            deliveries=progress.deliveries,
            failures=progress.failures,
            error=progress.error,
            failed_at=progress.failed_at,
            delivered_at=progress.delivered_at,
            lag_seconds=None if seconds is None else round(seconds, 3),
            rows=progress.rows,
            rows_per_second=round(progress.rate_at(now), 3),
            done=progress.done,
            total=progress.total,
            dead_letter=self.sink.dead_letter,
        )


class _Run:
    """One run of a feed, by the only process that feeds the sink. It is also the sink's journal."""

    def __init__(self, feed: Feed, file: ProgressFile, stop: Stop, report: Report) -> None:
        self._feed, self._file, self._stop, self._report = feed, file, stop, report
        self._sink, self._title = feed.sink, f"Sink {feed.sink_name!r}"
        self._progress = self._saved = file.load(feed.view)
        self._rows, self._saved_at, self._checked_at = 0, 0.0, time.monotonic()

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
            self._report.say(f"{self._title} is receiving deliveries again.")
        # It is saved with the next delivery, or as soon as there is none.
        self._progress = replace(
            self._progress,
            mark=mark,
            under_way=None,
            deliveries=self._progress.deliveries + 1,
            status="running",
            error=None,
            delivered_at=now_text(),
            done=0,
            total=0,
            reset=self._progress.reset and mark is None,
        )

    def progress(self, done: int, total: int) -> None:
        self._report.progress(f"sink {self._feed.sink_name}", done, total)
        self._progress = replace(self._progress, done=done, total=total)
        self._save_sometimes()

    # Following the view

    def follow(self) -> None:
        """Until it is stopped. Raises `_Paused`, `_Stopped`."""
        if self._progress.status == "paused":
            self._progress = replace(self._progress, status="retrying")
        try:
            with self._stop.calling(self._sink.close):
                while not self._stop.is_set():
                    with suppress(PositionChanged):
                        self._open()
                        while not self._stop.is_set():
                            self._follow_on()
                    self._sink.close()
        finally:
            self._sink.close()
            self._save()

    def _open(self) -> None:
        """Asks the target how far it is."""
        mark, before = self._insist(lambda: self._sink.open(self)), self._progress.mark
        if self._progress.reset:
            mark = None
        elif mark is None and before is not None:
            self._report.warn(f"{self._title}: the target has lost its position, and gets the content again.")
        elif mark is not None and before is not None and mark.position < before.position:
            self._report.warn(
                f"{self._title}: the target went back from position {before.position} to {mark.position}, "
                "and gets what it is missing again."
            )
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
            held, gathered, due = self._next(subscription, 0), 0, 0.0
            while not self._stop.is_set():
                self._attend()
                if held is None:
                    self._rest(subscription)
                    self._stop.wait(min(max(0.0, due - time.monotonic()), LOOK_SECONDS))
                    if time.monotonic() >= due:
                        held = self._next(subscription, LOOK_SECONDS)
                    continue
                following, failure = self._after(subscription)
                gathered = gathered + 1 if following is not None and gathered < GATHERED_MAX else 0
                self._write(held, more=gathered > 0)
                due = time.monotonic() + self._sink.every.total_seconds()
                if failure is not None:
                    raise failure
                held = following

    def _after(self, subscription: ChangesReader) -> tuple[Changes | None, Exception | None]:
        """What comes next, if it is there, or why nothing comes: what was there before is delivered first."""
        try:
            return self._next(subscription, 0), None
        except (UsageError, Determinate) as error:
            return None, error

    def _next(self, subscription: ChangesReader, seconds: float) -> Changes | None:
        arrived = self._saved.mark
        if arrived is not None:
            subscription.confirm(arrived.position, arrived.generation)
        found = subscription.poll(timedelta(seconds=seconds))
        if found is not None and found.snapshot and self._feed.start == "now":
            raise UsageError("The columns of the view have changed.")
        return found

    def _write(self, changes: Changes, *, more: bool) -> None:
        self._insist(lambda: self._sink.write(changes, more=more))
        self._rows += changes.rows.num_rows
        if more:
            return
        reached = Mark(changes.position, changes.generation)
        if self._progress.mark != reached and not self._sink.waiting:
            self.end(reached)
        self._progress, self._rows = self._progress.counting(self._rows, time.time()), 0
        self._save_sometimes()

    def _move(self, mark: Mark) -> None:
        """Moves the target to a mark without any changes."""
        none = pa.chunked_array([], pa.int64())
        nothing = Changes(mark.position, mark.generation, pa.table({}), none, snapshot=False)
        self._insist(lambda: self._sink.write(nothing, more=False))
        self._progress = replace(self._progress, mark=mark)

    def _rest(self, subscription: ChangesReader) -> None:
        """Keeps how far it has looked, if changes came to nothing, and what has arrived."""
        self._insist(self._sink.rest)
        if self._sink.waiting:
            self._save()
            return
        reached, mark = subscription.reached, self._progress.mark
        if reached is not None and mark is not None and not mark.rows and reached != (mark.position, mark.generation):
            self._move(Mark(*reached))
        self._save()
        if time.monotonic() - self._checked_at >= CHECK_SECONDS:
            self._checked_at = time.monotonic()
            # A target that does not answer has time until there is something to deliver.
            with suppress(TargetFailed):
                self._sink.check()

    def _begin_again(self, reason: str) -> None:
        """Lets the content come, or tells the target that changes are missing."""
        current, before = self._feed.current(), self._progress.mark
        if current is None or (before is not None and current.position < before.position):
            # Views whose state was deleted are built from the log again, and what was before is no news.
            self._stop.wait(LOOK_SECONDS)
            return
        self._report.warn(f"{self._title} starts over: {reason}")
        if self._feed.start == "content":
            self._progress = replace(self._progress, mark=None)
            return
        if self._progress.mark is None:
            self._progress = replace(self._progress, reset=False)
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
                self._wait(self._feed.delay(attempts, failure), failure)
        raise _Stopped

    def _wait(self, seconds: float, failure: TargetFailed) -> None:
        """Waits, or not as long if somebody resumes the sink. Raises `_Paused`, and `PositionChanged` after a reset."""
        control, end = self._feed.control, time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0 and not self._stop.wait(min(left, LOOK_SECONDS)):
            self._attend(failure)
            if control.was_resumed():
                return

    def _failed(self, failure: TargetFailed, attempts: int, *, paused: bool) -> None:
        if paused:
            self._report.warn(
                f"{self._title} is paused: {failure.reason}. "
                "The next run continues with it, or `headwater sink resume`."
            )
        elif attempts == 1:
            self._report.warn(f"{self._title}: {failure.reason}. It will be retried.")
        self._progress = replace(
            self._progress,
            status="paused" if paused else "retrying",
            error=failure.reason,
            failed_at=now_text(),
            failures=self._progress.failures + 1,
        )
        self._save()

    # What people ask for

    def carry_out(self, request: Request) -> Mapping[str, Any]:
        """Carries out a request in a process that does not feed the sink; only while no other one does."""
        try:
            if self._sink.holds_content and request.action != "reset":
                mark = self._sink.open(self)
                self._progress = replace(self._progress, mark=None if self._progress.reset else mark)
            return self._perform(request)
        except PositionChanged:
            raise TargetFailed("The target was restored a moment ago; try again") from None
        finally:
            self._sink.close()
            self._save()

    def _attend(self, failure: TargetFailed | None = None) -> None:
        """Carries out what was asked for. Raises `_Paused`, and `PositionChanged` if it was reset or restored."""
        control = self._feed.control
        if control.is_paused:
            self._report.say(f"{self._title} is paused.")
            raise _Paused
        for request in control.pending():
            if not control.take(request):
                continue
            try:
                if failure is not None and request.action != "reset":
                    raise failure
                control.answer(request, {"done": self._perform(request)})
            except HeadwaterError as error:
                control.answer(request, error_json(error))
                continue
            except PositionChanged:
                control.ask(request)  # for when the target, which was restored, was opened again
                raise
            if request.action == "reset":
                raise PositionChanged
            if request.action == "drop":
                raise _Paused

    def _perform(self, request: Request) -> Mapping[str, Any]:
        sink = self._sink.member(request.arguments.get("sink"))
        if request.action == "audit":
            return self._audit(sink, request, repair=bool(request.arguments["repair"]))
        if request.action == "send":
            return {"sent": sink.send(request.arguments["original"], request.arguments["row"])}
        if request.action == "reset":
            self._progress = replace(self._progress, mark=None, under_way=None, error=None, reset=True)
            self._save()
            return {}
        self._sink.forget()
        self._feed.control.pause()
        self._feed.let_go()
        self._file.remove()
        self._progress = self._saved = self._file.load(self._feed.view)
        return {}

    def _audit(self, sink: Sink, request: Request, *, repair: bool) -> Mapping[str, Any]:
        told = 0.0

        def progress(done: int, total: int) -> None:
            nonlocal told
            self._report.progress(f"sink {self._feed.sink_name}", done, total)
            if time.monotonic() - told > SAVE_SECONDS:
                told = time.monotonic()
                self._feed.control.answer(request, {"progress": [done, total]})

        return asdict(sink.audit(repair=repair, progress=progress))

    def _save_sometimes(self) -> None:
        if time.monotonic() - self._saved_at >= SAVE_SECONDS:
            self._save()

    def _save(self) -> None:
        """Returns when the progress is on the disk: nothing is delivered that was not written down first."""
        told, self._saved_at = False, time.monotonic()
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

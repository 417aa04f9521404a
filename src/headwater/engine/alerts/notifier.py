"""A notifier: follows the history of one alert, and tells one receiver through its channel."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path

from headwater.engine.alerts.history import History
from headwater.engine.alerts.rule import Rule
from headwater.engine.alerts.target import DIRECTORY
from headwater.engine.alerts.told import Told, ToldFile, shown
from headwater.engine.parts import Part, Report, Stop
from headwater.engine.sinks.channel import Channel, Sender
from headwater.engine.sinks.messages import NOTICES_MAX
from headwater.engine.sinks.patience import Patience
from headwater.errors import MessageRefused, TargetFailed
from headwater.model.encoding import format_instant
from headwater.system.clock import Clock, instant
from headwater.system.lock import FileLock

LOOK_SECONDS = 1.0
"""How often it looks at the history and at the clock."""


class Notifier(Part):
    """Tells one receiver what fires and clears, at least once, each message with an id that stays the same.

    The history is its queue, so a receiver that is slow or dead holds up nobody else.
    """

    def __init__(
        self,
        rule: Rule,
        number: int,
        channel: Channel,
        directory: Path,
        history: History,
        patience: Patience | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.rule, self.channel, self.history = rule, channel, history
        self.patience, self.clock = patience or Patience(), clock or Clock()
        self._name = f"alert-{rule.sink}-{number}"
        self.messages_name = f"{directory.name}.{rule.sink}_{number}".replace(".", "~")
        self._path = directory / DIRECTORY / f"{rule.sink}.{number}.json"

    def __repr__(self) -> str:
        return f"Notifier({self.rule.name!r}, to={self.channel.address!r})"

    @property
    def name(self) -> str:
        return self._name

    def run(self, stop: Stop, report: Report) -> None:
        """Until it is stopped, or paused because the receiver takes nothing."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(self._path.with_suffix(".lock"))
        try:
            while not stop.is_set():
                with lock.try_hold() as alone:
                    if alone:
                        _Run(self, ToldFile(self._path), stop, report).follow()
                        return
                stop.wait(LOOK_SECONDS)
        finally:
            lock.close()

    def status(self) -> dict[str, object]:
        """How the receiver is, whichever process tells it."""
        return {"kind": self.channel.kind, "address": self.channel.address, **shown(ToldFile(self._path).load())}


class _Run:
    """One run of a notifier, by the only process that tells the receiver."""

    def __init__(self, notifier: Notifier, file: ToldFile, stop: Stop, report: Report) -> None:
        self._notifier, self._rule, self._clock = notifier, notifier.rule, notifier.clock
        self._file, self._stop, self._report = file, stop, report
        self._title = f"Alert {notifier.rule.name!r} to {notifier.channel.address}"
        self._told: Told = file.load()

    def follow(self) -> None:
        sender = self._notifier.channel.open()
        try:
            with self._stop.calling(sender.close):
                while not self._stop.is_set():
                    self._take()
                    while self._told.is_due(self._rule, self._now()):
                        if not self._send(sender):
                            return
                    self._stop.wait(LOOK_SECONDS)
        finally:
            sender.close()

    def _now(self) -> int:
        return self._clock.now()

    def _take(self) -> None:
        """Takes what is new in the history, and what is to be repeated."""
        told, now = self._told, self._now()
        found = list(self._notifier.history.records(told.offset))
        records = [record for _, record in found if record.alert == self._rule.name]
        first = not told.begun
        if first:
            told.begin(records, now)
        else:
            for record in records:
                told.take(record, self._rule, now)
        if found:
            told.offset = found[-1][0] + 1
        queued = len(told.queue)
        told.remind(self._rule, now)
        if first or records or len(told.queue) != queued:
            self._file.save(told)

    def _send(self, sender: Sender) -> bool:
        """Sends the next message until it is taken; whether there may be more."""
        told = self._told
        message = told.next_message(
            self._notifier.messages_name, NOTICES_MAX if self._notifier.channel.takes_several else 1
        )
        self._file.save(told)
        try:
            sent = self._insist(lambda: sender.send(message))
        except MessageRefused as refusal:
            self._report.warn(f"{self._title}: {refusal.reason}. The message is left out; the history has the alert.")
            self._failed(refusal, paused=False)
            sent = True
        if sent:
            told.sent(message, self._now())
            self._file.save(told)
        return sent

    def _insist(self, call: Callable[[], None]) -> bool:
        """Calls until the receiver does not fail; False if it was stopped or is paused. Raises `MessageRefused`."""
        attempts, refusals, began = 0, 0, time.monotonic()
        patience = self._notifier.patience
        while not self._stop.is_set():
            try:
                call()
            except MessageRefused:
                raise
            except TargetFailed as failure:
                if self._stop.is_set():
                    break
                attempts += 1
                refusals = refusals + 1 if failure.kind == "refused" else 0
                over = patience.is_over(refusals, time.monotonic() - began, failure)
                if attempts == 1 or over:
                    then = "It is paused until the next run" if over else "It will be retried"
                    self._report.warn(f"{self._title}: {failure.reason}. {then}.")
                self._failed(failure, paused=over)
                if over:
                    return False
                self._stop.wait(patience.delay(attempts, failure, random.random()))  # noqa: S311 - no secret
            else:
                return True
        return False

    def _failed(self, failure: TargetFailed, *, paused: bool) -> None:
        told = self._told
        told.status, told.error = "paused" if paused else "retrying", failure.reason
        told.failures, told.failed_at = told.failures + 1, format_instant(instant(self._now()))
        self._file.save(told)

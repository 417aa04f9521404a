"""What one receiver of an alert has been told, and what it has still to be told, in a file."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from headwater.engine.alerts.history import AlertRecord, firing
from headwater.engine.alerts.rule import Rule
from headwater.engine.sinks.channel import Event, Message, Notice
from headwater.engine.sinks.port import State
from headwater.errors import ExternalError
from headwater.model.encoding import format_instant
from headwater.system.clock import instant
from headwater.system.storage import Storage, storage_error


@dataclass(slots=True)
class Open:
    """An alert that has fired and not cleared. `told_at` is in microseconds; None before the first message."""

    notice: dict[str, Any]
    told_at: int | None = None


@dataclass(slots=True)
class Told:
    """How far a receiver is in the history, as one value that is saved as a whole. Instants are microseconds.

    `open` are the alerts that fire, by key. `queue` are notices to send, gathered `since` an instant; `under_way` is
    the message that was begun. `number` counts messages.
    """

    offset: int = 0
    begun: bool = False
    number: int = 0
    open: dict[str, Open] = field(default_factory=dict)
    queue: list[dict[str, Any]] = field(default_factory=list)
    since: int | None = None
    under_way: dict[str, Any] | None = None
    status: State = "running"
    failures: int = 0
    error: str | None = None
    failed_at: str | None = None
    sent_at: str | None = None

    def begin(self, records: Iterable[AlertRecord], now: int) -> None:
        """Starts with what fires now: what has cleared before is no news."""
        for record in firing(records):
            self._fire(record, now)
        self.begun = True

    def take(self, record: AlertRecord, rule: Rule, now: int) -> None:
        """Takes the next record of the history into account."""
        if record.event == "fired":
            self._fire(record, now)
            return
        self.open.pop(record.key, None)
        unsent = [each for each in self.queue if each["key"] == record.key and each["event"] == "fired"]
        if unsent and rule.is_quiet(instant(now)):
            self.queue = [each for each in self.queue if each not in unsent]
            return
        self._add(record.notice("cleared"), now)

    def remind(self, rule: Rule, now: int) -> None:
        """Adds what is to be repeated, unless it is quiet."""
        if rule.repeat is None or rule.is_quiet(instant(now)):
            return
        pause = round(rule.repeat.total_seconds() * 1_000_000)
        queued = {each["key"] for each in self.queue}
        for key, one in self.open.items():
            if one.told_at is not None and now - one.told_at >= pause and key not in queued:
                repeated: Event = "repeated"
                self._add(Notice(**{**one.notice, "event": repeated, "at": format_instant(instant(now))}), now)

    def is_due(self, rule: Rule, now: int) -> bool:
        """Whether there is anything to send now."""
        if self.under_way is not None:
            return True
        if not self.queue or rule.is_quiet(instant(now)):
            return False
        return rule.digest is None or self.since is None or now - self.since >= rule.digest.total_seconds() * 1_000_000

    def next_message(self, name: str, notices_max: int) -> Message:
        """The message that is under way; without one, the next one is."""
        if self.under_way is None:
            self.number += 1
            chosen, self.queue = self.queue[:notices_max], self.queue[notices_max:]
            message = Message(f"{name}_{self.number}", tuple(Notice(**each) for each in chosen))
            self.under_way = message.to_json()
        return Message.from_json(self.under_way)

    def sent(self, message: Message, now: int) -> None:
        """The message has been taken, or refused for good."""
        for notice in message.notices:
            if notice.key in self.open and notice.event != "cleared":
                self.open[notice.key].told_at = now
        self.under_way, self.status, self.sent_at = None, "running", format_instant(instant(now))
        if not self.queue:
            self.since = None

    def _fire(self, record: AlertRecord, now: int) -> None:
        notice = record.notice("fired")
        self.open[record.key] = Open(asdict(notice))
        self._add(notice, now)

    def _add(self, notice: Notice, now: int) -> None:
        self.queue.append(asdict(notice))
        if self.since is None:
            self.since = now


class ToldFile:
    """Reads and replaces what one receiver has been told."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def load(self) -> Told:
        """What was saved last. Raises `ExternalError` if it cannot be read."""
        try:
            held: dict[str, Any] = json.loads(self.path.read_bytes())
            return Told(**{**held, "open": {key: Open(**one) for key, one in held["open"].items()}})
        except FileNotFoundError:
            return Told()
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise ExternalError(
                f"The record of what a receiver of alerts was told, {self.path}, cannot be read.",
                hint="Check its permissions; or remove it, and the receiver is told what fires now.",
            ) from error

    def save(self, told: Told) -> None:
        """Returns when it is on the disk. Raises `DiskFull`, `StorageFailed`."""
        fresh = self.path.with_suffix(".new")
        try:
            with fresh.open("wb") as file:
                file.write(json.dumps(asdict(told)).encode())
                file.flush()
                os.fsync(file.fileno())
            fresh.replace(self.path)
            Storage().sync_directory(self.path.parent)
        except OSError as error:
            raise storage_error(error, self.path) from error


def shown(told: Told) -> dict[str, object]:
    """What status shows of a receiver."""
    waiting = len(told.queue) + (0 if told.under_way is None else len(told.under_way["notices"]))
    return {
        "status": told.status, "messages": told.number - (told.under_way is not None), "waiting": waiting,
        "failures": told.failures, "error": told.error if told.status != "running" else None,
        "failed_at": told.failed_at, "sent_at": told.sent_at,
    }  # fmt: skip

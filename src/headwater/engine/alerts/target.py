"""An alert as a target: it is brought the changes of its view, and writes to the history what fires and clears."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar

from headwater.engine.alerts.history import HISTORY_SCHEMA, History, firing
from headwater.engine.alerts.rule import Rule
from headwater.engine.alerts.state import AlertState, Row
from headwater.engine.sinks.channel import dumps
from headwater.engine.sinks.key_texts import key_texts
from headwater.engine.sinks.port import PositionChanged
from headwater.engine.sinks.target import Assignment, Delivery, Target
from headwater.errors import HeadwaterError, TargetFailed, UsageError
from headwater.log.port import Log
from headwater.model.encoding import json_rows
from headwater.system import sqlite
from headwater.system.clock import Clock

DIRECTORY = "alerts"


class AlertTarget(Target):
    """Evaluates one alert. Each record of the history is appended once, whatever is killed.

    A commit to the history moves a bookmark from one number to the next, and the state on disk has the records of
    each number. If the state is lost, or is older than the history, it is made from the history and the view's content.
    """

    kind: ClassVar[str] = "alert"
    # A row that was there for a moment has fired, too.
    joins: ClassVar[bool] = False

    def __init__(self, rule: Rule, directory: Path, log: Log, topic: str, clock: Clock | None = None) -> None:
        self.rule, self.topic = rule, topic
        self._path = directory / DIRECTORY / f"{rule.sink}.sqlite"
        self._log, self._history, self._clock = log, History(log, topic), clock or Clock()
        self._after = round(rule.after.total_seconds() * 1_000_000)
        self._state: AlertState | None = None
        self._bookmark = ""
        self._held: dict[str, Any] | None = None
        self._thread = 0

    @property
    def address(self) -> str:
        return self.topic

    def open(self, assignment: Assignment) -> str | None:
        with _failing():
            self._close()
            self._thread, self._bookmark = threading.get_ident(), f"alert.{assignment.owner}"
            # The state's own files are lost with the state; the topic may be, too.
            self._log.create(self.topic, HISTORY_SCHEMA, exist_ok=True)
            self._state = state = AlertState(self._path, self.rule, assignment.owner)
            held: Any = self._log.bookmark(self._bookmark)
            self._held, number = held, 0 if held is None else int(held["number"])
            if number == state.number + 1 and state.due():
                # The commit has happened, and the process ended before it could note that.
                state.arrived()
            elif number != state.number:
                state.begin_again(number, firing(self._history.of(self.rule.name)))
            self._flush(state)
            return state.stamp

    def deliver(self, delivery: Delivery) -> None:
        state, now = self._opened(), self._clock.now()
        with _failing():
            with state.transaction():
                if not delivery.is_move:
                    self._apply(state, delivery, now)
                state.fire(now, self._after)
                state.stamp = delivery.stamp
            self._flush(state)

    def rest(self) -> None:
        state, now = self._opened(), self._clock.now()
        with _failing():
            if state.is_due(now, self._after):
                with state.transaction():
                    state.fire(now, self._after)
            self._flush(state)

    def forget(self) -> None:
        with _failing():
            self._opened().stamp = None

    def close(self) -> None:
        # Nothing waits for long; the thread that opened the state closes it when it does not use it.
        if threading.get_ident() == self._thread:
            self._close()

    def _close(self) -> None:
        if self._state is not None:
            self._state.close()
        self._state = None

    def _opened(self) -> AlertState:
        assert self._state is not None, "it was opened"
        return self._state

    def _apply(self, state: AlertState, delivery: Delivery, now: int) -> None:
        position = str(delivery.mark.position)
        keys = key_texts(delivery.upserts, self.rule.key)
        gone = state.keep_only(set(keys)) if delivery.content else key_texts(delivery.deletes, self.rule.key)
        state.remove(gone, position, now)
        rows = json_rows(delivery.upserts) if keys else iter(())
        state.put((Row(key, position, dumps(row)) for key, row in zip(keys, rows, strict=True)), now)

    def _flush(self, state: AlertState) -> None:
        """Appends what is due to the history. Raises `PositionChanged` if another state has done so meanwhile."""
        while records := state.due():
            after = {"number": state.number + 1}
            with self._log.commit(on_conflict="return") as commit:
                commit.append(self.topic, [asdict(record) for record in records])
                commit.bookmark(self._bookmark, after, expect=self._held)
            if commit.conflict is not None and commit.conflict.actual != after:
                raise PositionChanged
            self._held = after
            state.arrived()


@contextmanager
def _failing() -> Iterator[None]:
    """What the log and the state raise, as failures of a target."""
    try:
        yield
    except (TargetFailed, PositionChanged):
        raise
    except UsageError as error:
        raise TargetFailed(error.message.rstrip("."), "refused") from error
    except HeadwaterError as error:
        raise TargetFailed(error.message.rstrip(".")) from error
    except sqlite.Error as error:
        raise TargetFailed(f"The state of the alert cannot be used: {sqlite.reason_of(error)}") from error
    except OSError as error:
        raise TargetFailed(f"The state of the alert cannot be used: {error.strerror}") from error

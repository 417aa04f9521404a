"""Audits of sinks that people ask for over HTTP: each in a thread of its own, with the last result of each sink."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime

from headwater.engine.parts import Report
from headwater.engine.sinks.feed import Feed
from headwater.engine.sinks.waiting import found
from headwater.errors import HeadwaterError, Refused
from headwater.model.encoding import format_instant
from headwater.server.failures import error_body
from headwater.system.background import Background


class Audits:
    """What became of audits, from any thread."""

    def __init__(self, feeds: Callable[[], Mapping[str, Feed]]) -> None:
        self._feeds = feeds
        self._turn = threading.Lock()
        self._states: dict[str, dict[str, object]] = {}
        self._threads: dict[str, Background] = {}

    def ask(self, sink: str, *, repair: bool) -> dict[str, object]:
        """Begins an audit, unless one of this sink is under way; its state. Raises `UnknownSink`."""
        feed = found(self._feeds(), sink)
        with self._turn:
            state = self._states.get(sink, {})
            if state.get("status") == "running":
                return dict(state)
            begun = {"sink": sink, "status": "running", "repair": repair, "started_at": _now(), "done": 0, "total": 0}
            self._states[sink] = {**state, **begun, "error": None}
            # Another one each time: a thread runs once.
            self._threads[sink] = Background(f"audit-{sink}", lambda: self._run(feed, repair=repair)).start()
            return dict(self._states[sink])

    def state(self, sink: str) -> dict[str, object]:
        """The state of a sink's audit: never, running, done or failed; and the last result."""
        with self._turn:
            return dict(self._states.get(sink) or {"sink": sink, "status": "never"})

    def close(self) -> None:
        """Waits for nothing: what runs in another process ends there."""
        with self._turn:
            self._threads.clear()

    def _run(self, feed: Feed, *, repair: bool) -> None:
        try:
            audit = feed.audit(repair=repair, report=_Progress(self, feed.sink_name))
        except HeadwaterError as error:
            self.note(feed.sink_name, status="failed", finished_at=_now(), **error_body(error))
        except Exception as error:  # noqa: BLE001 - whatever a driver raises is told to who asked
            told = Refused(500, "audit_failed", f"The audit was interrupted: {type(error).__name__}.")
            self.note(feed.sink_name, status="failed", finished_at=_now(), **error_body(told))
        else:
            result = {**asdict(audit), "equal": audit.equal, "audited_at": _now()}
            self.note(feed.sink_name, status="done", finished_at=_now(), result=result)

    def note(self, sink: str, **about: object) -> None:
        """Adds to the state of a sink's audit."""
        with self._turn:
            self._states[sink] = {**self._states.get(sink, {"sink": sink}), **about}


class _Progress(Report):
    def __init__(self, audits: Audits, sink: str) -> None:
        self._audits, self._sink = audits, sink

    def progress(self, what: str, done: int, total: int) -> None:
        self._audits.note(self._sink, done=done, total=total)


def _now() -> str:
    return format_instant(datetime.now(UTC))

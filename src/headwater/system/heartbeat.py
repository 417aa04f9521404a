"""Heartbeats: a small file by which any process can tell whether a pipeline or a capture runs, and who runs it.

The file says who it is, since when, and what it has to tell; its modification time is the last beat. A beat moves
nothing in the log, wakes nobody, is not synced, and needs no room: it also works on a full disk.
"""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from headwater.errors import HeadwaterError, InternalError
from headwater.system.background import Background, background_states
from headwater.system.clock import Clock

FILE = "heartbeat.json"
BEAT_SECONDS = 2.0
SILENCE_SECONDS_MAX = 10.0
"""A process that has not beaten for this long is not running."""


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """What a file says: times in microseconds since 1970. `error` is what ended it, as `error_of` has it."""

    pid: int
    host: str
    started_at: int
    beat_at: int
    ended_at: int | None = None
    error: Mapping[str, Any] | None = None
    about: Mapping[str, Any] = field(default_factory=dict)
    restarts: Mapping[str, int] = field(default_factory=dict)
    """How often background work of its process had to be restarted, by name."""

    def runs(self, now: int) -> bool:
        """Whether it ran at a time. A beat from the future is of a clock that was set back: it does not count."""
        return self.ended_at is None and abs(now - self.beat_at) <= SILENCE_SECONDS_MAX * 1e6

    def silent_seconds(self, now: int) -> float:
        """How long ago it was last heard of."""
        return max(0.0, (now - (self.ended_at or self.beat_at)) / 1e6)


def read_heartbeat(directory: Path) -> Heartbeat | None:
    """The heartbeat of a folder; None if there never was one, or if it cannot be read."""
    path = directory / FILE
    try:
        held, beat_ns = json.loads(path.read_bytes()), path.stat().st_mtime_ns
        return Heartbeat(**held, beat_at=beat_ns // 1000)
    except (OSError, ValueError, TypeError):
        return None


def error_of(error: BaseException) -> dict[str, str]:
    """An error as a heartbeat keeps it."""
    if not isinstance(error, HeadwaterError):
        error = InternalError(f"Unexpected: {type(error).__name__}.")
    return {"code": error.code, "message": error.message, "hint": error.hint}


class Heart:
    """Beats from `start` until `end`, or within a `with` block; an error that leaves the block is kept."""

    def __init__(
        self, directory: Path, *, clock: Clock | None = None, about: Callable[[], Mapping[str, Any]] = dict
    ) -> None:
        self._path, self._clock, self._about = directory / FILE, clock or Clock(), about
        self._started_at = self._clock.now()
        self._written: dict[str, Any] | None = None
        self._inode: int | None = None
        self._turn = threading.Lock()
        self._ended = threading.Event()
        self._thread = Background("heartbeat", self._run)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        self.end(error if isinstance(error, Exception) else None)

    def start(self) -> Self:
        self.beat()
        self._thread.start()
        return self

    def beat(self) -> None:
        """Says that it runs, and what has changed. A disk that takes no more keeps what was said before."""
        with self._turn:
            if not self._ended.is_set():
                self._say(ended_at=None, error=None)

    def end(self, error: Exception | None = None) -> None:
        """Says that it does not run any more; only the first call counts."""
        with self._turn:
            if self._ended.is_set():
                return
            self._ended.set()
            # Somebody else may have taken over, and runs.
            if self._is_ours():
                self._say(ended_at=self._clock.now(), error=None if error is None else error_of(error))
        self._thread.stop()

    def _run(self) -> None:
        while not self._ended.wait(BEAT_SECONDS):
            self.beat()

    def _say(self, **end: Any) -> None:
        said = {"pid": os.getpid(), "host": socket.gethostname(), "started_at": self._started_at, **end}
        said["about"] = dict(self._about())
        said["restarts"] = {state.name: state.restarts for state in background_states() if state.restarts}
        with suppress(OSError):
            if said != self._written or not self._is_ours():
                self._write(said)
        now = self._clock.now() * 1000
        with suppress(OSError):
            os.utime(self._path, ns=(now, now))

    def _is_ours(self) -> bool:
        try:
            return self._path.stat().st_ino == self._inode
        except OSError:
            return False

    def _write(self, said: dict[str, Any]) -> None:
        fresh = self._path.with_suffix(f".{os.getpid()}")
        self._path.parent.mkdir(parents=True, exist_ok=True)
        try:
            fresh.write_text(json.dumps(said))
            inode = fresh.stat().st_ino
            fresh.replace(self._path)
        finally:
            fresh.unlink(missing_ok=True)
        self._written, self._inode = said, inode

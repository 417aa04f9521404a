"""Presence: by a lock on a file, which the kernel releases when a process dies, others know at once that one runs.

A run begins when nobody else runs: then it gets the lock exclusively, and shares it from then on. One that takes over
shares it at once, and fences the other. A standby waits until it gets it exclusively.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from headwater.errors import AlreadyRunning
from headwater.model.encoding import format_instant
from headwater.system.clock import Clock, instant
from headwater.system.heartbeat import read_heartbeat

FILE = "running.lock"

ENDING_SECONDS_MAX = 3.0
"""A process that is just ending is waited for this long: a supervisor may start the next one before it is gone."""
LOOK_SECONDS = 0.05


@contextmanager
def present(directory: Path, *, take_over: bool = False) -> Iterator[None]:
    """Runs, for as long as the block lasts. Raises `AlreadyRunning` if somebody else does, unless it takes over."""
    file = _open(directory)
    try:
        if take_over:
            # Somebody who stands by may hold it for a moment, and then runs as well, until one of the two is fenced.
            fcntl.flock(file, fcntl.LOCK_SH)
        else:
            _begin(file, directory)
        yield
    finally:
        os.close(file)


def _begin(file: int, directory: Path) -> None:
    deadline = time.monotonic() + ENDING_SECONDS_MAX
    while not _is_alone(file):
        if time.monotonic() >= deadline:
            raise _already_running(directory)
        time.sleep(LOOK_SECONDS)


def _already_running(directory: Path) -> AlreadyRunning:
    heartbeat = read_heartbeat(directory)
    if heartbeat is None or not heartbeat.runs(Clock().now()):
        return AlreadyRunning(directory.name)
    since = format_instant(instant(heartbeat.started_at).replace(microsecond=0))
    return AlreadyRunning(directory.name, heartbeat.pid, heartbeat.host, since)


def _is_alone(file: int) -> bool:
    """Whether nobody else runs. If so, the lock is shared from now on."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # The kernel gives the one up before it takes the other, and somebody else may come between.
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class Turn:
    """Waits within a `with` block until nobody runs, and runs from then on."""

    def __init__(self, directory: Path) -> None:
        self._file = _open(directory)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._file)

    def has_come(self) -> bool:
        """Whether nobody else runs. If so, this process does."""
        return _is_alone(self._file)


def _open(directory: Path) -> int:
    directory.mkdir(parents=True, exist_ok=True)
    return os.open(directory / FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)

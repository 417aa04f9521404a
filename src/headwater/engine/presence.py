"""Presence: by a lock on a file, which the kernel releases when a process dies, others know at once that one runs.

Processes that run a pipeline share the lock, because a second one may fence the first. A standby needs it exclusively,
and gets it when nobody runs.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

FILE = "running.lock"


@contextmanager
def present(directory: Path) -> Iterator[None]:
    """Runs, for as long as the block lasts."""
    file = _open(directory)
    try:
        # Somebody who stands by may hold it for a moment, and then runs as well, until one of the two is fenced.
        fcntl.flock(file, fcntl.LOCK_SH)
        yield
    finally:
        os.close(file)


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
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The kernel gives the one up before it takes the other, and somebody else who stands by may come between.
            fcntl.flock(self._file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def _open(directory: Path) -> int:
    directory.mkdir(parents=True, exist_ok=True)
    return os.open(directory / FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)

"""A lock between processes, held on a file and released by the operating system when its holder dies."""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headwater.errors import LogBusy


class FileLock:
    """One holder at a time, among the threads of this process and all other processes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._threads = threading.Lock()

    @contextmanager
    def hold(self, seconds_max: float) -> Iterator[None]:
        """Waits for the lock, at most so long, and holds it for the block. Raises `LogBusy`."""
        if not self._threads.acquire(timeout=seconds_max):
            raise LogBusy(str(self._path.parent), seconds_max)
        try:
            if not self._try():
                self._wait(seconds_max)
            try:
                yield
            finally:
                fcntl.flock(self._fd, fcntl.LOCK_UN)
        finally:
            self._threads.release()

    @contextmanager
    def try_hold(self) -> Iterator[bool]:
        """Holds the lock for the block if it is free, and says whether it is held."""
        if not self._threads.acquire(blocking=False):
            yield False
            return
        try:
            held = self._try()
            try:
                yield held
            finally:
                if held:
                    fcntl.flock(self._fd, fcntl.LOCK_UN)
        finally:
            self._threads.release()

    def close(self) -> None:
        os.close(self._fd)

    def _try(self) -> bool:
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _wait(self, seconds_max: float) -> None:
        # flock has no time limit of its own, and polling is neither fair nor cheap: a thread waits in the
        # kernel's queue. If we give up first, that thread gives the lock back when it gets it.
        acquired, given_up = threading.Event(), threading.Event()
        decided = threading.Lock()

        def wait_in_kernel() -> None:
            fcntl.flock(self._fd, fcntl.LOCK_EX)
            with decided:
                if given_up.is_set():
                    fcntl.flock(self._fd, fcntl.LOCK_UN)
                acquired.set()

        threading.Thread(target=wait_in_kernel, name="headwater-lock", daemon=True).start()
        if acquired.wait(seconds_max):
            return
        with decided:
            if not acquired.is_set():
                given_up.set()
                raise LogBusy(str(self._path.parent), seconds_max)

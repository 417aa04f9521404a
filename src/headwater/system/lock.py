"""A lock between processes, held on a file and released by the operating system when its holder dies."""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headwater.errors import LogBusy, ReadOnly, UsageError
from headwater.system.storage import READ_ONLY

_open_files: set[int] = set()


class FileLock:
    """One holder at a time, among the threads of this process and all other processes.

    The kernel gives a lock to the first that asks once it is free: mostly the process that has just released
    it. So there is a second lock to wait behind, the queue: only who holds it may ask for the first, and who has got
    that leaves the queue. A process that comes back has to queue like all others.

    Where files may not be written, nobody gets the lock.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._queue_path, self._pid = path, path.with_suffix(".queue"), os.getpid()
        self._fd, self._queue = -1, -1
        try:
            self._fd = _open(path)
            self._queue = _open(self._queue_path)
        except OSError as error:
            if error.errno not in READ_ONLY:
                raise
        self._threads = threading.Lock()
        self._closed = False

    @property
    def is_read_only(self) -> bool:
        """Whether this process may not write the lock's files, nor what the lock is for."""
        return self._queue < 0

    @contextmanager
    def hold(self, seconds_max: float) -> Iterator[None]:
        """Waits for the lock, at most so long, and holds it for the block. Raises `LogBusy`, `ReadOnly`."""
        self._check_open()
        if self.is_read_only:
            raise ReadOnly(str(self._path.parent))
        if not self._threads.acquire(timeout=seconds_max):
            raise LogBusy(str(self._path.parent), seconds_max)
        try:
            self._check_open()
            fd = self._fd if self._try_queued() else self._wait(seconds_max)
            try:
                yield
            finally:
                self._release(fd)
        finally:
            self._threads.release()

    @contextmanager
    def try_hold(self) -> Iterator[bool]:
        """Holds the lock for the block if it is free, and says whether it is held."""
        self._check_open()
        if self.is_read_only or not self._threads.acquire(blocking=False):
            yield False
            return
        try:
            self._check_open()
            held = _try(self._fd)
            try:
                yield held
            finally:
                if held:
                    self._release(self._fd)
        finally:
            self._threads.release()

    @property
    def is_marked(self) -> bool:
        """Whether the holder, or the last one, has left a mark. Only who holds the lock may ask."""
        return os.pread(self._fd, 1, 0) not in (b"", b"\0")

    def mark(self, *, on: bool) -> None:
        """Leaves a mark that outlives the holder, or takes it away. Only who holds the lock may."""
        os.pwrite(self._fd, b"\1" if on else b"\0", 0)

    def close(self) -> None:
        """Waits for the thread that holds it; from then on nobody gets it here."""
        with self._threads:
            if not self._closed:
                self._closed = True
                for fd in (self._fd, self._queue):
                    if fd >= 0:
                        _close(fd)

    def _check_open(self) -> None:
        if self._closed:
            raise UsageError("The log is closed.", hint="Open it again.")
        if self._pid != os.getpid():
            raise UsageError("The log was opened by the parent process.", hint="Open it again in this one.")

    def _release(self, fd: int) -> None:
        if self._pid != os.getpid():
            return
        if fd == self._fd:
            fcntl.flock(fd, fcntl.LOCK_UN)
        else:
            _close(fd)

    def _try_queued(self) -> bool:
        if not _try(self._queue):
            return False
        try:
            return _try(self._fd)
        finally:
            fcntl.flock(self._queue, fcntl.LOCK_UN)

    def _wait(self, seconds_max: float) -> int:
        """The open file that holds the lock now. Raises `LogBusy`."""
        # flock has no time limit of its own, and polling is neither fair nor cheap: a thread waits in the kernel. It
        # has open files of its own: if we give up first, it gives back what it gets and nothing else.
        queue, fd = _open(self._queue_path), _open(self._path)
        acquired, given_up, decided = threading.Event(), threading.Event(), threading.Lock()

        def wait_in_kernel() -> None:
            fcntl.flock(queue, fcntl.LOCK_EX)
            if not given_up.is_set():
                fcntl.flock(fd, fcntl.LOCK_EX)
            _close(queue)
            with decided:
                acquired.set()
                if given_up.is_set():
                    _close(fd)

        try:
            threading.Thread(target=wait_in_kernel, name="headwater-lock", daemon=True).start()
            if acquired.wait(seconds_max):
                return fd
        except BaseException:
            with decided:
                given_up.set()
                if acquired.is_set():
                    _close(fd)
            raise
        with decided:
            if acquired.is_set():
                return fd
            given_up.set()
        raise LogBusy(str(self._path.parent), seconds_max)


def _try(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _open(path: Path) -> int:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    _open_files.add(fd)
    return fd


def _close(fd: int) -> None:
    _open_files.discard(fd)
    os.close(fd)


def _close_inherited() -> None:
    # A forked child shares its parent's open files, and with them their locks: it would continue holding what its
    # parent held when that died.
    for fd in _open_files:
        os.close(fd)
    _open_files.clear()


os.register_at_fork(after_in_child=_close_inherited)

"""How followers learn of a commit within a millisecond, in any process, without asking again and again."""

from __future__ import annotations

import ctypes
import os
import select
import sys
import threading
from contextlib import suppress
from pathlib import Path

from headwater.system.background import Background
from headwater.system.storage import READ_ONLY

IN_MODIFY = 0x2
# A writer killed between its commit and its wake-up leaves followers asleep: they look for themselves this often.
LOOK_EVERY_SECONDS = 1.0
# Where the kernel cannot tell us that a file changed, followers look this often.
POLL_EVERY_SECONDS = 0.005


class Wake:
    """A file that every commit touches, and a thread that watches it while somebody waits.

    `wait` may return early; callers look at the catalog and wait again.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = _open(path)
        self._changed = threading.Condition()
        self._count = 0
        self._watcher: Background | None = None
        self._notifier: int | None = None
        self._stop_read, self._stop_write = os.pipe()
        self._closed = False

    def touch(self) -> None:
        """Wakes every follower of this log, in all processes."""
        # What is told has happened: a full disk must not make it look otherwise. Followers look for themselves soon.
        with self._changed, suppress(OSError):
            if not self._closed and self._fd is not None:
                os.pwrite(self._fd, b"!", 0)

    def ticket(self) -> int:
        """Take one, look at the catalog, then wait with it: no commit in between is missed."""
        with self._changed:
            if self._watcher is None and not self._closed:
                self._start()
            return self._count

    def wait(self, ticket: int, seconds: float) -> None:
        """Returns when something was committed after the ticket was taken, or after this many seconds."""
        with self._changed:
            if self._count == ticket and not self._closed:
                self._changed.wait(min(seconds, LOOK_EVERY_SECONDS))

    def close(self) -> None:
        with self._changed:
            if self._closed:
                return
            self._closed = True
            self._changed.notify_all()
        os.write(self._stop_write, b"!")
        if self._watcher is not None:
            self._watcher.stop()
        for fd in (self._stop_read, self._stop_write, self._fd, self._notifier):
            if fd is not None:
                os.close(fd)

    def _start(self) -> None:
        # The watch is in place before the first ticket is given out.
        self._notifier = _watch(self._path)
        self._watcher = Background("wake", self._run).start()

    def _run(self) -> None:
        notifier = self._notifier
        # Not select, which cannot watch a descriptor above 1023.
        poller = select.poll()
        for fd in (self._stop_read, notifier):
            if fd is not None:
                poller.register(fd, select.POLLIN)
        pause = POLL_EVERY_SECONDS * 1000 if notifier is None else None
        while not self._closed:
            ready = [fd for fd, _ in poller.poll(pause)]
            if notifier is not None and notifier in ready:
                os.read(notifier, 65536)
            with self._changed:
                self._count += 1
                self._changed.notify_all()


def _open(path: Path) -> int | None:
    """The file, or None where this process may not write: it watches what others do, and touches nothing."""
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        if error.errno not in READ_ONLY:
            raise
        return None


def _watch(path: Path) -> int | None:
    """An inotify descriptor that becomes readable when the file is written, or None where there is no inotify."""
    if not sys.platform.startswith("linux"):
        return None
    libc = ctypes.CDLL(None, use_errno=True)
    fd: int = libc.inotify_init1(os.O_CLOEXEC)
    if fd < 0:
        return None
    if libc.inotify_add_watch(fd, os.fsencode(path), IN_MODIFY) < 0:
        os.close(fd)
        return None
    return fd

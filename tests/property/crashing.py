"""Storage on which a process dies: at the n-th operation from now, before or after it happened."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from headwater.system.sqlite import Connection
from headwater.system.storage import Storage


class Crash(BaseException):
    """The process is gone. Not an `Exception`, so that nothing in the log mistakes it for an error it can handle."""


class CrashingStorage(Storage):
    """Real files until `arm`; from the crash on, every operation of the dead process fails."""

    def __init__(self) -> None:
        self._left: int | None = None
        self._after = False
        self._dead = False

    def arm(self, operations: int, *, after: bool) -> None:
        """Dies at the operation after this many: before it (a write: in the middle of it), or right after it."""
        self._left, self._after = operations, after

    def disarm(self) -> None:
        self._left = None

    def make_directory(self, path: Path) -> None:
        dying = self._step()
        super().make_directory(path)
        self._die(dying)

    def open(self, path: Path) -> int:
        dying = self._step()
        if dying:
            self._die(dying)
        return super().open(path)

    def write(self, fd: int, path: Path, position: int, parts: Sequence[bytes | memoryview]) -> None:
        if self._left == 0 and not self._after:
            content = b"".join(parts)
            super().write(fd, path, position, [content[: len(content) // 2]])
        dying = self._step()
        super().write(fd, path, position, parts)
        self._die(dying)

    def sync(self, fd: int, path: Path) -> None:
        dying = self._step()
        super().sync(fd, path)
        self._die(dying)

    def sync_directory(self, path: Path) -> None:
        dying = self._step()
        super().sync_directory(path)
        self._die(dying)

    def truncate(self, fd: int, path: Path, size: int) -> None:
        dying = self._step()
        super().truncate(fd, path, size)
        self._die(dying)

    def remove(self, path: Path) -> None:
        dying = self._step()
        super().remove(path)
        self._die(dying)

    def commit(self, connection: Connection) -> None:
        dying = self._step()
        super().commit(connection)
        self._die(dying)

    def _step(self) -> bool:
        """Counts an operation; whether the process dies right after it. Raises `Crash` if it dies before."""
        if self._dead:
            raise Crash
        if self._left is None:
            return False
        self._left -= 1
        if self._left >= 0:
            return False
        if not self._after:
            self._die(dying=True)
        return True

    def _die(self, dying: bool) -> None:
        if dying:
            self._dead = True
            raise Crash

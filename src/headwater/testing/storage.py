"""Storages that fail: at a chosen operation, in each way that an operation can, or because the power does."""

from __future__ import annotations

import errno
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal, TypeVar

from headwater.system.sqlite import SQLITE_FULL, SQLITE_IOERR_FSYNC, Connection, error_of
from headwater.system.storage import Storage
from headwater.testing.disk import CATALOG, MEMORY, Disk

Operation = Literal[
    "make_directory", "open", "write", "sync", "close", "sync_directory", "truncate", "remove", "commit"
]
Side = Literal["before", "inside", "after"]
Result = TypeVar("Result")

# Where a file operation fails with this, SQLite's COMMIT fails with that.
_COMMIT_ERRORS = {errno.ENOSPC: SQLITE_FULL, errno.EIO: SQLITE_IOERR_FSYNC}


class PowerCut(BaseException):
    """The power is off: nothing that would catch an error can catch this."""


class _Watched(Storage, ABC):
    """Every operation passes through `_run`, which a subclass fills in."""

    def __init__(self) -> None:
        self._paths: dict[int, Path] = {}

    @abstractmethod
    def _run(self, operation: Operation, path: Path, act: Callable[[], Result]) -> Result:
        """Lets the operation happen, or not, and tells the truth about it, or not."""

    def make_directory(self, path: Path) -> None:
        self._run("make_directory", path, partial(super().make_directory, path))

    def open(self, path: Path) -> int:
        fd = self._run("open", path, partial(super().open, path))
        self._paths[fd] = path
        return fd

    def write(self, fd: int, path: Path, position: int, parts: Sequence[bytes | memoryview]) -> None:
        self._run("write", path, partial(super().write, fd, path, position, parts))

    def sync(self, fd: int, path: Path) -> None:
        self._run("sync", path, partial(super().sync, fd, path))

    def close(self, fd: int) -> None:
        self._run("close", self._paths.pop(fd), partial(super().close, fd))

    def sync_directory(self, path: Path) -> None:
        self._run("sync_directory", path, partial(super().sync_directory, path))

    def truncate(self, fd: int, path: Path, size: int) -> None:
        self._run("truncate", path, partial(super().truncate, fd, path, size))

    def remove(self, path: Path) -> None:
        self._run("remove", path, partial(super().remove, path))

    def commit(self, connection: Connection) -> None:
        self._run("commit", Path("catalog.db"), partial(super().commit, connection))


@dataclass(frozen=True, slots=True)
class Failure:
    """One way to fail: whether the operation happened all the same, whether it says so, and with which errno."""

    happened: bool = False
    reported: bool = True
    error: int = errno.EIO


class FailingStorage(_Watched):
    """Fails at operation number `at` (from 0 on, of all or of one kind), and at the `times - 1` after it.

    An operation that neither happened nor was reported is a lie. One that cannot be told, because the caller needs
    what the operation returns, happens.
    """

    def __init__(self, failure: Failure, *, at: int, times: int = 1, only: Operation | None = None) -> None:
        super().__init__()
        self.failure, self._at, self._times, self._only = failure, at, times, only
        self._lock = threading.Lock()
        self._count = 0
        self.operations: list[Operation] = []
        """All operations so far."""
        self.failed: list[tuple[Operation, Path]] = []
        """What failed so far."""

    def heal(self) -> None:
        """From now on nothing fails."""
        self._times = 0

    def _run(self, operation: Operation, path: Path, act: Callable[[], Result]) -> Result:
        with self._lock:
            number = self._count
            self._count += self._only in (None, operation)
            fails = self._only in (None, operation) and self._at <= number < self._at + self._times
            self.operations.append(operation)
            if fails:
                self.failed.append((operation, path))
        if not fails:
            return act()
        result = act() if self.failure.happened or (operation == "open" and not self.failure.reported) else None
        if self.failure.reported:
            if operation == "open" and isinstance(result, int):
                os.close(result)
            # SQLite says that the disk is full only of what it could not write at all.
            doubtful = operation == "commit" and self.failure.happened
            raise _error(operation, path, errno.EIO if doubtful else self.failure.error)
        if operation == "commit" and not self.failure.happened:
            _roll_back(act)
        return result  # type: ignore[return-value]  # None is what a lie about anything but `open` returns


def _error(operation: Operation, path: Path, number: int) -> Exception:
    if operation != "commit":
        return OSError(number, os.strerror(number), str(path))
    return error_of(_COMMIT_ERRORS[number])


def _roll_back(act: Callable[[], object]) -> None:
    assert isinstance(act, partial)
    act.args[0].execute("ROLLBACK")


@dataclass(frozen=True, slots=True, order=True)
class Moment:
    """A moment at which the power may be cut: at one side of an operation, counted from 0 on."""

    number: int
    side: Side
    operation: Operation
    path: str

    def __str__(self) -> str:
        return f"{self.number}:{self.side}"


class PowerCutStorage(_Watched):
    """Knows at every moment what is surely on the disk, and cuts the power at one of them.

    `cut` is the moment as its text, "12:before" or "12:after". At that moment `PowerCut` is raised, and by every
    operation after it; `image` then makes the directory as it may be found when the power is back. Without `cut`,
    `on_moment` is called at every moment instead, and may ask for the `disk` as it is.
    """

    def __init__(
        self, directory: Path, *, cut: str | None = None, on_moment: Callable[[Moment], None] | None = None
    ) -> None:
        super().__init__()
        self._directory, self._cut, self._on_moment = directory.absolute(), cut, on_moment
        self._lock = threading.RLock()
        self._off: Disk | None = None
        self._logged_before: bytes | None = None
        self._synced: dict[str, bytes] = {}
        self._names: dict[str, frozenset[str]] = {"..": frozenset(_names(self._directory.parent))}
        self._removed: dict[str, bytes] = {}
        if self._directory.exists():
            self._take_for_synced()
        self.moments: list[Moment] = []
        self.fail_next: Operation | None = None
        """The next operation of this kind does not happen, and says so."""

    def _take_for_synced(self) -> None:
        """What was there before this storage came is on the disk."""
        self._synced, directories = _content(self._directory)
        for name in (".", *directories):
            self._names[name] = frozenset(_names(self._directory / name))

    def image(self, destination: Path, seed: int) -> bool:
        """See `Disk.image`; the disk is that of the cut, or, before it, the one of now."""
        return self.disk().image(destination, seed)

    def disk(self) -> Disk:
        """The disk as it is at this moment, or as it was at the cut."""
        with self._lock:
            if self._off is not None:
                return self._off
            files, directories = _content(self._directory)
            synced = {name: content for name, content in self._synced.items() if name not in CATALOG}
            if self._logged_before is not None:
                # Inside a COMMIT: the catalog's log is written, and not synced yet.
                synced["catalog.db-wal"] = self._logged_before
            return Disk(
                self._directory.name, files, frozenset(directories), synced, dict(self._names), dict(self._removed)
            )

    def _run(self, operation: Operation, path: Path, act: Callable[[], Result]) -> Result:
        with self._lock:
            if self._off is not None:
                if operation == "close":
                    # No matter of the disk: the process gives back its files, and the test continues.
                    return act()
                raise PowerCut
            moment = Moment(len(self.moments), "before", operation, path.name)
            self.moments.append(moment)
            try:
                self._reach(moment)
            except PowerCut:
                if operation == "close":
                    act()
                raise
            if operation == self.fail_next:
                self.fail_next = None
                raise _error(operation, path, errno.EIO)
            return self._happen(moment, path, act)

    def _happen(self, moment: Moment, path: Path, act: Callable[[], Result]) -> Result:
        name = self._relative(path)
        kept = self._synced.get(name) if moment.operation == "remove" and path.exists() else None
        before = _content(self._directory)[0] if moment.operation == "commit" else {}
        result = act()
        if moment.operation == "commit":
            self._reach_inside(moment, before)
        self._note(moment.operation, path, name, kept)
        try:
            self._reach(replace(moment, side="after"))
        except PowerCut:
            if moment.operation == "open" and isinstance(result, int):
                os.close(result)
            raise
        return result

    def _reach(self, moment: Moment) -> None:
        if self._on_moment is not None:
            self._on_moment(moment)
        if str(moment) == self._cut:
            self._off = self.disk()
            raise PowerCut

    def _reach_inside(self, moment: Moment, before: dict[str, bytes]) -> None:
        """A COMMIT half done: what it wrote to the catalog's log may be torn, while the catalog itself is untouched."""
        after = _content(self._directory)[0]
        if before.get("catalog.db") == after.get("catalog.db"):
            self._logged_before = before.get("catalog.db-wal", b"")
            try:
                self._reach(replace(moment, side="inside"))
            finally:
                self._logged_before = None

    def _note(self, operation: Operation, path: Path, name: str, removed: bytes | None) -> None:
        """What the operation made sure of."""
        if operation == "sync":
            self._synced[name] = path.read_bytes()
        elif operation == "sync_directory":
            self._names[name] = frozenset(_names(path))
            self._removed = {other: content for other, content in self._removed.items() if _above(other) != name}
        elif operation == "remove":
            self._synced.pop(name, None)
            if removed is not None:
                self._removed[name] = removed
        elif operation == "commit":
            # Before its first COMMIT returns, SQLite syncs the directory that it made its files in.
            self._names["."] = self._names.get(".", frozenset()) | CATALOG

    def _relative(self, path: Path) -> str:
        return Path(os.path.relpath(path, self._directory)).as_posix() if path.is_absolute() else path.as_posix()


def _content(directory: Path) -> tuple[dict[str, bytes], set[str]]:
    """All files and directories below a directory."""
    files: dict[str, bytes] = {}
    directories: set[str] = set()
    for path in directory.rglob("*"):
        name = path.relative_to(directory).as_posix()
        if path.is_dir():
            directories.add(name)
        elif name != MEMORY:
            files[name] = path.read_bytes()
    return files, directories


def _names(directory: Path) -> list[str]:
    return [path.name for path in directory.iterdir()]


def _above(path: str) -> str:
    return Path(path).parent.as_posix()

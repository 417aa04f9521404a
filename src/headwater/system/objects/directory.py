"""Objects in a directory: on another disk, or on a network file system."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headwater.errors import ArchiveUnavailable
from headwater.system.objects.port import ObjectInfo, ObjectStore
from headwater.system.storage import Storage


class DirectoryStore(ObjectStore):
    """See `ObjectStore` for the contract. An object is a file below `root`."""

    def __init__(self, root: Path, storage: Storage) -> None:
        self._root, self._storage = root, storage

    def prepare(self) -> None:
        with self._failing("write"):
            self._make_directories(self._root)

    def put(self, name: str, content: bytes) -> None:
        path = self._root / name
        with self._failing("write"):
            # A root that is gone is a disk that is not mounted: it is not made, or the disk below it would fill up.
            self._root.stat()
            self._make_directories(path.parent)
            fd = self._storage.open(path)
            try:
                self._storage.write(fd, path, 0, [content])
                self._storage.sync(fd, path)
            finally:
                self._storage.close(fd)
            self._storage.sync_directory(path.parent)

    def get(self, name: str, begin: int, end: int) -> bytes:
        with self._failing("read"), (self._root / name).open("rb", buffering=0) as file:
            return b"".join(_parts(file.fileno(), begin, end))

    def get_all(self, name: str) -> bytes:
        with self._failing("read"):
            return (self._root / name).read_bytes()

    def size(self, name: str) -> int | None:
        try:
            with self._failing("read"):
                return (self._root / name).stat().st_size
        except FileNotFoundError:
            return None

    def list(self) -> list[ObjectInfo]:
        with self._failing("list"):
            files = [(path, path.stat()) for path in self._root.rglob("*") if path.is_file()]
        return [
            ObjectInfo(path.relative_to(self._root).as_posix(), status.st_size, status.st_mtime_ns // 1000)
            for path, status in files
        ]

    def remove(self, name: str) -> None:
        with self._failing("remove"):
            self._storage.remove(self._root / name)

    def _make_directories(self, directory: Path) -> None:
        """Makes a directory with those above it, and returns when their names are on the disk."""
        for missing in [path for path in reversed([directory, *directory.parents]) if not path.exists()]:
            self._storage.make_directory(missing)
            self._storage.sync_directory(missing.parent)

    @contextmanager
    def _failing(self, doing: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError as error:
            if doing == "read" and self._root.is_dir():
                raise
            raise self._unavailable(f"{error.filename or self._root} is not there") from error
        except OSError as error:
            raise self._unavailable(f"cannot {doing} there: {error.strerror or error}") from error

    def _unavailable(self, reason: str) -> ArchiveUnavailable:
        hint = "Check that its disk is mounted and has room, and the owner and permissions of the directory."
        return ArchiveUnavailable(self._root.as_uri(), reason, hint)


def _parts(fd: int, begin: int, end: int) -> Iterator[bytes]:
    while begin < end and (part := os.pread(fd, end - begin, begin)):
        yield part
        begin += len(part)

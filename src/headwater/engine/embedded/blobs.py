"""Blobs as files of one local directory."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow as pa

from headwater.engine.blobs import BlobInfo
from headwater.errors import BlobMissing, FileUnreadable
from headwater.system.storage import Storage, reading_error, storage_error


class LocalBlobs:
    """The files of a directory that is there."""

    def __init__(self, directory: Path, storage: Storage | None = None) -> None:
        self._directory, self._storage = Path(directory), storage or Storage()

    @property
    def address(self) -> str:
        return str(self._directory)

    def put(self, name: str, parts: Iterable[bytes | memoryview | pa.Buffer], *, durable: bool = True) -> None:
        path, storage, position = self._directory / name, self._storage, 0
        try:
            fd = storage.open(path)
            try:
                for part in parts:
                    content = memoryview(part)
                    storage.write(fd, path, position, [content])
                    position += len(content)
                if durable:
                    storage.sync(fd, path)
            finally:
                storage.close(fd)
            if durable:
                storage.sync_directory(self._directory)
        except OSError as error:
            raise storage_error(error, path) from error

    @contextmanager
    def open(self, name: str) -> Iterator[LocalBlob]:
        path = self._directory / name
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            raise BlobMissing(name) from None
        except OSError as error:
            raise reading_error(error, path) from error
        try:
            yield LocalBlob(fd, path)
        finally:
            os.close(fd)

    def size(self, name: str) -> int | None:
        try:
            return (self._directory / name).stat().st_size
        except FileNotFoundError:
            return None

    def list(self) -> Iterator[BlobInfo]:
        with os.scandir(self._directory) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):
                    status = entry.stat()
                    yield BlobInfo(entry.name, status.st_size, status.st_mtime_ns // 1000)

    def delete(self, name: str) -> None:
        self._storage.discard(self._directory / name)

    def dropped(self, names: Iterable[str]) -> set[str]:
        return {name for name in names if self.size(name) is None}


class LocalBlob:
    """An open file."""

    def __init__(self, fd: int, path: Path) -> None:
        self._fd, self._path = fd, path
        self.size = os.fstat(fd).st_size

    def read(self, start: int, length: int) -> pa.Buffer:
        buffer = pa.allocate_buffer(min(length, max(0, self.size - start)))
        try:
            done = os.preadv(self._fd, [memoryview(buffer)], start) if buffer.size else 0
        except OSError as error:
            raise FileUnreadable(str(self._path), error.strerror or str(error)) from error
        return buffer.slice(0, done)

    def view(self, start: int, length: int) -> pa.Buffer:
        try:
            with pa.memory_map(str(self._path)) as mapped:
                mapped.seek(start)
                return mapped.read_buffer(length)
        except FileNotFoundError:
            raise BlobMissing(self._path.name) from None
        except (OSError, pa.ArrowInvalid) as error:
            raise FileUnreadable(str(self._path), str(error)) from error

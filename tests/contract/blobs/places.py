"""The places for blobs that the contract suite is run for."""

from __future__ import annotations

import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from headwater.engine.blobs import BlobInfo, Blobs
from headwater.engine.objects.blobs import open_objects
from headwater.engine.opening import open_blobs
from headwater.errors import BlobMissing
from headwater.testing.disk import NOTHING_UNSYNCED
from headwater.testing.storage import PowerCutStorage
from tests.archives.servers import S3Server


class Place(ABC):
    """A place without blobs. A new kind of place writes one such class and names it in `conftest.py`."""

    @abstractmethod
    def open(self) -> Blobs:
        """One more handle of the place, as another process would have it."""

    @abstractmethod
    def after_a_power_cut(self) -> Blobs:
        """The place as it is when the power was cut now and is back; what was not durable is lost."""


class LocalPlace(Place):
    def __init__(self, folder: Path) -> None:
        self._directory, self._after = folder / "runs", folder / "after" / "runs"
        for directory in (self._directory, self._after.parent):
            directory.mkdir()
        self._storage = PowerCutStorage(self._directory)

    def open(self) -> Blobs:
        return open_blobs(self._directory, storage=self._storage)

    def after_a_power_cut(self) -> Blobs:
        self._storage.image(self._after, NOTHING_UNSYNCED)
        return open_blobs(self._after)


class ObjectsPlace(Place):
    """A prefix in a bucket; the caches are those of one machine until its power is cut."""

    def __init__(self, server: S3Server, folder: Path) -> None:
        self._server, self._folder, self._prefix = server, folder, uuid.uuid4().hex

    def open(self) -> Blobs:
        return open_objects(self.address("cache"))

    def after_a_power_cut(self) -> Blobs:
        return open_objects(self.address("cache after"))

    def address(self, cache: str) -> str:
        return f"s3://bucket/{self._prefix}?endpoint_override={self._server.url}&cache={self._folder / cache}"


class MemoryPlace(Place):
    """Blobs in this process: what a place has to do at least."""

    def __init__(self, folder: Path) -> None:
        self._blobs = MemoryBlobs(str(folder))

    def open(self) -> Blobs:
        return self._blobs

    def after_a_power_cut(self) -> Blobs:
        return self._blobs


class MemoryBlobs:
    def __init__(self, address: str) -> None:
        self.address = address
        self._content: dict[str, tuple[bytes, int]] = {}

    def put(self, name: str, parts: Iterable[bytes | memoryview | pa.Buffer], *, durable: bool = True) -> None:
        for part in parts:
            before, _ = self._content.get(name, (b"", 0))
            self._content[name] = before + bytes(part), time.time_ns() // 1000
        self._content.setdefault(name, (b"", time.time_ns() // 1000))

    @contextmanager
    def open(self, name: str) -> Iterator[MemoryBlob]:
        if name not in self._content:
            raise BlobMissing(name)
        yield MemoryBlob(self._content[name][0])

    def size(self, name: str) -> int | None:
        return len(self._content[name][0]) if name in self._content else None

    def list(self) -> Iterator[BlobInfo]:
        return iter([BlobInfo(name, len(content), at) for name, (content, at) in self._content.items()])

    def delete(self, name: str) -> None:
        self._content.pop(name, None)

    def dropped(self, names: Iterable[str]) -> set[str]:
        return set(names) - self._content.keys()


class MemoryBlob:
    def __init__(self, content: bytes) -> None:
        self._content, self.size = content, len(content)

    def read(self, start: int, length: int) -> pa.Buffer:
        return pa.py_buffer(self._content[start : start + length])

    view = read

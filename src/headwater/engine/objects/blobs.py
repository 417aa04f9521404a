"""Blobs in an object store, with a cache on the disk of this machine."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

import pyarrow as pa

from headwater.engine.blobs import BlobInfo, OpenBlob
from headwater.engine.objects.cache import CACHE_BYTES_MAX, Cache
from headwater.errors import ArchiveUnavailable, BlobMissing, StoreUnavailable, UsageError
from headwater.system.objects.opening import open_store
from headwater.system.objects.port import ObjectStore, StoreUrl, parse_store_url
from headwater.system.storage import Storage

CACHE, BYTES_MAX = "cache", "cache_bytes_max"
"""What the query of an address may say of the cache, besides what it says of the object store."""


@dataclass(frozen=True)
class ObjectsAddress:
    """A parsed address: where the objects are, and where and how large the cache is."""

    text: str
    url: StoreUrl
    cache: Path
    cache_bytes_max: int


def parse_objects(text: str) -> ObjectsAddress:
    """The address that an `s3:` URL names. Raises `UsageError`."""
    parts = urlsplit(text)
    query = parse_qsl(parts.query, keep_blank_values=True)
    ours = {name: value for name, value in query if name in (CACHE, BYTES_MAX)}
    rest = urlencode([pair for pair in query if pair[0] not in ours], quote_via=quote, safe=":/")
    url = parse_store_url(urlunsplit(parts._replace(query=rest)), what="state")
    bytes_max = ours.get(BYTES_MAX, str(CACHE_BYTES_MAX))
    if not bytes_max.isdecimal() or not int(bytes_max):
        raise UsageError(f"Invalid {BYTES_MAX}={bytes_max!r} in the URL of state.", hint="It is a number of bytes.")
    given = ours.get(CACHE)
    # Users of one machine do not share it: they could put files there that others would believe.
    parent = Path(given) if given else Path(tempfile.gettempdir()) / f"headwater-cache-{os.getuid()}"
    # Buckets of one name at different endpoints are different.
    folder = hashlib.blake2b(str(url).encode(), digest_size=8).hexdigest()
    return ObjectsAddress(text, url, parent / folder, int(bytes_max))


class ObjectBlobs:
    """The objects below a prefix. What this machine has put or read, it reads from its own disk."""

    def __init__(self, address: str, objects: ObjectStore, cache: Cache) -> None:
        self._address, self._objects, self._cache = address, objects, cache

    @property
    def address(self) -> str:
        return self._address

    def put(self, name: str, parts: Iterable[bytes | memoryview | pa.Buffer], *, durable: bool = True) -> None:
        content = b"".join(bytes(part) for part in parts)
        with self._answering():
            self._objects.put(name, content)
        self._cache.add(name, content)

    @contextmanager
    def open(self, name: str) -> Iterator[OpenBlob]:
        with self._cache.opened(name) as cached:
            if cached is not None:
                yield cached
                return
        content = self._fetched(name)
        self._cache.add(name, content)
        with self._cache.opened(name) as cached:
            # A full disk, or a cache that is smaller than the blob, has kept nothing.
            yield FetchedBlob(content) if cached is None else cached

    def size(self, name: str) -> int | None:
        with self._answering():
            return self._objects.size(name)

    def list(self) -> Iterator[BlobInfo]:
        with self._answering():
            found = self._objects.list()
        return (BlobInfo(one.name, one.size, one.written_at) for one in found)

    def delete(self, name: str) -> None:
        self._cache.remove(name)
        try:
            self._objects.remove(name)
        except ArchiveUnavailable:
            # It stays in the list, and goes another time.
            return

    def dropped(self, names: Iterable[str]) -> set[str]:
        return {name for name in names if not self._cache.holds(name)}

    def _fetched(self, name: str) -> bytes:
        try:
            with self._answering():
                return self._objects.get_all(name)
        except FileNotFoundError:
            raise BlobMissing(name) from None

    @contextmanager
    def _answering(self) -> Iterator[None]:
        try:
            yield
        except ArchiveUnavailable as error:
            # A worker's error is told by its text, in which there must not be another one.
            raise StoreUnavailable(error.location, error.reason) from None


class FetchedBlob:
    """A blob in memory."""

    def __init__(self, content: bytes) -> None:
        self._content, self.size = pa.py_buffer(content), len(content)

    def read(self, start: int, length: int) -> pa.Buffer:
        return self._content.slice(start, min(length, max(0, self.size - start))) if start < self.size else _NOTHING

    view = read


_NOTHING = pa.py_buffer(b"")


def open_objects(address: str) -> ObjectBlobs:
    """The blobs at an `s3:` URL. Raises `UsageError`."""
    found = parse_objects(address)
    return ObjectBlobs(address, open_store(found.url, Storage()), Cache(found.cache, found.cache_bytes_max))

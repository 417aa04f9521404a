"""A cache of files that never change: a directory of this machine, shared by its processes, with a limit on its size.

Files that were not used for longest go first. All processes together may exceed the limit by what each of them adds
between two looks at the directory, a sixteenth of the limit.
"""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow as pa

from headwater.engine.embedded.blobs import LocalBlob
from headwater.errors import BlobMissing

CACHE_BYTES_MAX = 4 << 30
"""How large a cache becomes unless its address says otherwise."""

_UNFINISHED = "."
"""What the names of files begin with that are being written."""


class Cache:
    """Files by name. A disk that takes no more is a cache that keeps nothing new."""

    def __init__(self, directory: Path, bytes_max: int = CACHE_BYTES_MAX) -> None:
        self._directory, self._bytes_max = directory, bytes_max
        self._lock = threading.Lock()
        # The first file makes it look at what other processes have left.
        self._added = bytes_max

    def holds(self, name: str) -> bool:
        """Whether a file is there."""
        return (self._directory / name).exists()

    @contextmanager
    def opened(self, name: str) -> Iterator[CachedBlob | None]:
        """A file, which now counts as used; None if it is not there. It may be removed while it is open."""
        path = self._directory / name
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            yield None
            return
        try:
            with suppress(OSError):
                os.utime(fd)
            yield CachedBlob(fd, path)
        finally:
            os.close(fd)

    def add(self, name: str, content: bytes | memoryview) -> None:
        """Keeps a file, if the disk takes it, and removes others if there are too many bytes now."""
        fresh = self._directory / f"{_UNFINISHED}{name}.{uuid.uuid4().hex}"
        try:
            self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            fresh.write_bytes(content)
            # A name stands for all of its bytes, or is not there.
            fresh.replace(self._directory / name)
        except OSError:
            with suppress(OSError):
                fresh.unlink(missing_ok=True)
            return
        with self._lock:
            self._added += len(content)
            if self._added * 16 < self._bytes_max:
                return
            self._added = 0
            self._shrink()

    def remove(self, name: str) -> None:
        """Removes a file, if it is there."""
        with suppress(OSError):
            (self._directory / name).unlink(missing_ok=True)

    def _shrink(self) -> None:
        files: list[tuple[int, int, str]] = []
        with suppress(OSError), os.scandir(self._directory) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):
                    status = entry.stat()
                    files.append((status.st_mtime_ns, status.st_size, entry.name))
        size = sum(size for _, size, _ in files)
        for _, bytes_, name in sorted(files):
            if size <= self._bytes_max:
                return
            self.remove(name)
            size -= bytes_


class CachedBlob(LocalBlob):
    """An open file of a cache. What is removed from there can still be read."""

    def view(self, start: int, length: int) -> pa.Buffer:
        try:
            return super().view(start, length)
        except BlobMissing:
            return self.read(start, length)

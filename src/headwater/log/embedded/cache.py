"""The cache of what was fetched from archives: pieces of objects as files, of which the least used go first."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import xxhash

FOLDER = "archive-cache"
CACHE_BYTES_MAX = 1 << 30
"""How much of archives is kept on the local disk."""
UNCOUNTED_PART = 64
"""The folder is counted again after this part of it has been written, so that it may be larger by so much."""
LEFT_OVER_SECONDS = 3600.0
"""A piece that has not been finished for this long has lost its process."""


class PieceCache:
    """Any number of processes share the folder. Objects never change, so a piece that is there is right or damaged."""

    def __init__(self, directory: Path, *, bytes_max: int = CACHE_BYTES_MAX) -> None:
        self._folder, self._bytes_max = directory / FOLDER, bytes_max
        self._uncounted = bytes_max

    def get(self, object_url: str, begin: int, end: int, fetch: Callable[[], bytes], *, fresh: bool = False) -> bytes:
        """Bytes of an object, from the cache if they are there and not asked for `fresh`."""
        path = self._folder / f"{xxhash.xxh3_128_hexdigest(object_url.encode())}-{begin}-{end}"
        if not fresh:
            with suppress(OSError):
                content = path.read_bytes()
                os.utime(path)
                return content
        content = fetch()
        # A full disk, or one that may not be written to, is no reason not to read.
        with suppress(OSError):
            self._keep(path, content)
        return content

    def _keep(self, path: Path, content: bytes) -> None:
        self._folder.mkdir(exist_ok=True)
        partial = path.with_name(f"{path.name}.{uuid.uuid4().hex}")
        try:
            partial.write_bytes(content)
            partial.replace(path)
        except OSError:
            partial.unlink(missing_ok=True)
            raise
        self._uncounted += len(content)
        if self._uncounted >= self._bytes_max // UNCOUNTED_PART:
            self._uncounted = 0
            self._shrink()

    def _shrink(self) -> None:
        """Removes the pieces that were not used for longest, until the rest is small enough."""
        pieces = []
        for entry in os.scandir(self._folder):
            # Another process may be doing the same.
            with suppress(FileNotFoundError):
                about = entry.stat()
                if "." in entry.name and time.time() - about.st_mtime > LEFT_OVER_SECONDS:
                    Path(entry.path).unlink()
                else:
                    pieces.append((about.st_mtime, about.st_blocks * 512, entry.path))
        excess = sum(size for _, size, _ in pieces) - self._bytes_max
        for _, size, path in sorted(pieces):
            if excess <= 0:
                break
            Path(path).unlink(missing_ok=True)
            excess -= size

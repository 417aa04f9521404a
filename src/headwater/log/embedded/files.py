"""Where the bytes of a log's segments are: in its directory, or, of sealed ones that were moved, in an archive."""

from __future__ import annotations

import mmap
from pathlib import Path

from headwater.log.embedded.archives import Archives
from headwater.log.embedded.cache import PieceCache
from headwater.log.embedded.sealed import SealedFile
from headwater.log.maintenance import Segment

RANGED_BYTES_MIN = 4 << 20
"""A smaller object is fetched at once; of a larger one only the row groups that are read."""


class SegmentFiles:
    """Opens sealed segments, wherever they are. Safe for any number of threads."""

    def __init__(self, directory: Path, archives: Archives) -> None:
        self.directory, self.archives = directory, archives
        self._cache = PieceCache(directory)

    def sealed(self, segment: Segment) -> SealedFile:
        """The segment, from the local file if there is one.

        Raises `FileNotFoundError` if there is neither a file nor an object, `ArchiveUnavailable`, and `Corrupt`.
        """
        try:
            return SealedFile(segment, (self.directory / segment.file).read_bytes())
        except FileNotFoundError:
            if segment.object is None:
                raise
        return self.archived(segment, self._cache)

    def archived(self, segment: Segment, cache: PieceCache | None = None) -> SealedFile:
        """The segment as it is in the archive. Raises as `sealed` does."""
        content = _ArchivedContent(segment, self.archives, cache)
        return SealedFile(segment, content.buffer, content.fill)


class _ArchivedContent:
    """A buffer as large as the object, of which only what was filled in holds anything, and takes memory."""

    def __init__(self, segment: Segment, archives: Archives, cache: PieceCache | None) -> None:
        assert segment.archive is not None
        assert segment.object is not None
        self._location, self._name, self._size = segment.archive, segment.object, segment.bytes
        self._archives, self._store, self._cache = archives, archives.store(segment.archive), cache
        self._filled: set[tuple[int, int]] = set()
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        self.buffer = mmap.mmap(-1, self._size, flags=flags)

    def fill(self, begin: int, end: int, *, fresh: bool) -> None:
        """Fetches a range, unless it is there; `fresh`, from the archive in any case."""
        if self._size < RANGED_BYTES_MIN:
            begin, end = 0, self._size
        if (begin, end) in self._filled and not fresh:
            return
        content = self._get(begin, end, fresh=fresh)
        self.buffer[begin : begin + len(content)] = content
        self._filled.add((begin, end))

    def _get(self, begin: int, end: int, *, fresh: bool) -> bytes:
        if self._cache is None:
            return self._fetch(begin, end)
        url = f"{self._location}/{self._name}"
        return self._cache.get(url, begin, end, lambda: self._fetch(begin, end), fresh=fresh)

    def _fetch(self, begin: int, end: int) -> bytes:
        try:
            return self._store.get(self._name, begin, end)
        except FileNotFoundError:
            # What is not mounted is not lost.
            self._archives.check(self._location)
            raise

"""Verifying the bytes of a database and of its write-ahead log, free pages included, without SQLite's help.

Both checksums are SQLite's: two sums over pairs of 32-bit words, s1 += a + s2 and s2 += b + s1. That is linear, so the
sums after many pairs are one product with the powers of a matrix, for all pages at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from headwater.system.files import read_file
from headwater.system.sqlite import CHECKSUM_BYTES

Words = npt.NDArray[np.uint32]

_PAGES_AT_ONCE = 1024
_HEADER_BYTES = 100
_MAGIC = b"SQLite format 3\0"
_WAL_HEADER_BYTES, _FRAME_HEADER_WORDS = 32, 6
_WAL_MAGIC = 0x377F0682
# Where shared memory says how many frames of the write-ahead log are committed.
_FRAMES_AT = 16
# The words of a frame's header that its checksum leaves out: the salts, and itself.
_UNSUMMED = range(2, 6)
# No database of ours has another: it is SQLite's default.
PAGE_BYTES = 4096
"""The size of every page."""


class BadPage(NamedTuple):
    """A page, counted from 1, or another part of the file, that is not as it was written."""

    place: str
    reason: str


def damaged_pages(path: Path) -> Iterator[BadPage]:
    """What is wrong with a database's file. Nobody may be moving pages into it meanwhile."""
    content = read_file(path, path)
    yield from _header_problems(content[:_HEADER_BYTES], len(content))
    words = np.frombuffer(content[: len(content) // PAGE_BYTES * PAGE_BYTES], "<u4")
    pages = words.reshape(-1, PAGE_BYTES // 4)
    for first in range(0, len(pages), _PAGES_AT_ONCE):
        some = pages[first : first + _PAGES_AT_ONCE]
        data, stored = some[:, : -CHECKSUM_BYTES // 4], some[:, -CHECKSUM_BYTES // 4 :]
        for bad in np.flatnonzero((_sums(data) != stored).any(axis=1)):
            yield BadPage(f"page {first + 1 + int(bad)}", "it does not match its checksum")


def damaged_frames(path: Path) -> Iterator[BadPage]:
    """What is wrong with the committed frames of a database's write-ahead log. Nobody may be committing meanwhile."""
    count, log = _committed_frames(path), Path(f"{path}-wal")
    if not count:
        return
    frame_bytes = 4 * _FRAME_HEADER_WORDS + PAGE_BYTES
    whole = read_file(log, path)
    header, content = whole[:_WAL_HEADER_BYTES], whole[_WAL_HEADER_BYTES : _WAL_HEADER_BYTES + count * frame_bytes]
    order = "<u4" if header[:4] == _WAL_MAGIC.to_bytes(4) else ">u4"
    before = np.frombuffer(header, ">u4")[-2:]
    if len(header) < _WAL_HEADER_BYTES or (_sums(_words(header[:24], order)) != before).any():
        yield BadPage("the header of the write-ahead log", "it does not match its checksum")
        return
    if len(content) < count * frame_bytes:
        yield BadPage("the write-ahead log", f"it has {len(content)} bytes of {count * frame_bytes}")
        return
    raw = _words(content, ">u4", frame_bytes)
    stored = raw[:, 4:6]
    # Each frame's checksum continues that of the previous frame.
    expected = _sums(_words(content, order, frame_bytes), np.vstack([before, stored[:-1]]), _UNSUMMED)
    bad = (expected != stored).any(axis=1) | (raw[:, 2:4] != np.frombuffer(header, ">u4")[4:6]).any(axis=1)
    for number in np.flatnonzero(bad):
        yield BadPage(f"frame {int(number) + 1} of the write-ahead log", "it does not match its checksum")


def _header_problems(header: bytes, size: int) -> Iterator[BadPage]:
    if header[:16] != _MAGIC or int.from_bytes(header[16:18]) != PAGE_BYTES or header[20] != CHECKSUM_BYTES:
        yield BadPage("the header", "it is not that of a database with checksums")
    if size % PAGE_BYTES:
        yield BadPage("the file", f"it has {size} bytes, which are no full pages")


def _committed_frames(path: Path) -> int:
    try:
        shared = read_file(Path(f"{path}-shm"), path)
        return int.from_bytes(shared[_FRAMES_AT : _FRAMES_AT + 4], "little")
    except FileNotFoundError:
        return 0


def _words(content: bytes, order: str, row_bytes: int | None = None) -> Words:
    words: Words = np.frombuffer(content, order)
    return words.reshape(-1, (row_bytes or len(content)) // 4)


def _sums(rows: Words, before: npt.ArrayLike = 0, unsummed: range = range(0)) -> Words:
    """The two sums over each row of words but some, which continue from those before."""
    words = rows.astype(np.uint32, copy=False)
    first, second, whole = _weights(words.shape[1], unsummed)
    start = np.broadcast_to(np.asarray(before).astype(np.uint32), (len(words), 2)) @ whole
    sums: Words = np.stack([np.einsum("ij,j->i", words, first), np.einsum("ij,j->i", words, second)], axis=1) + start
    return sums


@lru_cache
def _weights(words: int, unsummed: range) -> tuple[Words, Words, Words]:
    """How often each word of a row counts in the first sum and in the second, and each sum from before."""
    weights = np.zeros((2, words), np.uint32)
    p, q, r = 1, 0, 1
    summed = [word for word in range(words) if word not in unsummed]
    for a, b in reversed(list(zip(summed[::2], summed[1::2], strict=True))):
        weights[:, a] = (p + q) % 2**32, (q + r) % 2**32
        weights[:, b] = q, r
        p, q, r = (p + q) % 2**32, (p + 2 * q) % 2**32, (q + 2 * r) % 2**32
    return weights[0], weights[1], np.array([[p, q], [q, r]], np.uint32)

"""A transaction that is too large for memory, or not committed yet: its messages in a file, as they came."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

# How much of a spooled transaction is decoded at a time: some ten thousand rows.
PIECE_BYTES = 4 << 20


class Spool:
    """Messages of one transaction, in their order. Close it when it is done with: then its file goes."""

    def __init__(self, file: Path) -> None:
        self._path = file
        self._file: BinaryIO = file.open("wb+", buffering=1 << 20)
        self._lengths = array("I")
        self.bytes = 0

    def add(self, messages: Sequence[bytes | memoryview]) -> None:
        """Adds messages behind those that are there."""
        lengths = array("I", map(len, messages))
        self._lengths += lengths
        self.bytes += sum(lengths)
        self._file.writelines(messages)

    def pieces(self, bytes_max: int = PIECE_BYTES) -> Iterator[tuple[bytes, npt.NDArray[np.int64]]]:
        """The messages, some megabytes at a time, one behind the other; and where in these bytes each ends."""
        self._file.flush()
        self._file.seek(0)
        ends = np.cumsum(np.frombuffer(self._lengths, np.uint32).astype(np.int64))
        done, position = 0, 0
        while done < len(ends):
            until = max(done + 1, int(np.searchsorted(ends, position + bytes_max, side="right")))
            size = int(ends[until - 1]) - position
            yield self._file.read(size), ends[done:until] - position
            done, position = until, position + size

    def close(self) -> None:
        """Removes the file."""
        self._file.close()
        self._path.unlink(missing_ok=True)

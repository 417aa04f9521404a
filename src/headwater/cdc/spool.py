"""A transaction that is too large for memory, or not committed yet: its messages in a file, as they came."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np

from headwater.cdc.stretch import PADDING, RELATION, ROLLED_BACK, TYPE, XLOG_HEADER, Stretch, of_kinds, read_integers

# How much of a spooled transaction is decoded at a time: some ten thousand rows.
CHUNK_BYTES = 4 << 20
_XID = 4


class Spool:
    """Messages of one transaction. In a `streamed` one each message says which subtransaction it is of."""

    def __init__(self, file: Path, *, streamed: bool) -> None:
        self._path, self._streamed = file, streamed
        self._file: BinaryIO = file.open("wb+", buffering=1 << 20)
        self._lengths = array("I")
        self._aborted: set[int] = set()
        self.bytes = 0

    def add(self, payloads: Sequence[bytes | memoryview]) -> None:
        """Adds messages behind those that are there."""
        lengths = array("I", map(len, payloads))
        self._lengths += lengths
        self.bytes += sum(lengths)
        self._file.writelines(payloads)

    def abort(self, subtransaction: int) -> None:
        """Takes the messages of a subtransaction away: it was rolled back."""
        self._aborted.add(subtransaction)

    def chunks(self, bytes_max: int = CHUNK_BYTES) -> Iterator[Stretch]:
        """The messages that count, in their order, some megabytes at a time."""
        self._file.flush()
        self._file.seek(0)
        ends = np.cumsum(np.frombuffer(self._lengths, np.uint32).astype(np.int64))
        done, position = 0, 0
        while done < len(ends):
            until = max(done + 1, int(np.searchsorted(ends, position + bytes_max, side="right")))
            size = int(ends[until - 1]) - position
            content = self._file.read(size)
            yield _stretch(content, ends[done:until] - position, self._aborted, streamed=self._streamed)
            done, position = until, position + size

    def close(self) -> None:
        """Removes the file."""
        self._file.close()
        self._path.unlink(missing_ok=True)


def _stretch(content: bytes, ends: np.ndarray, aborted: Collection[int], *, streamed: bool) -> Stretch:
    data = np.frombuffer(content + PADDING, np.uint8)
    starts = np.concatenate([[0], ends[:-1]]) + XLOG_HEADER
    bodies = starts + 1 + (_XID if streamed else 0)
    kinds = data[starts]
    stretch = Stretch(data, kinds, bodies, ends)
    if not streamed or not aborted:
        return stretch
    gone = np.isin(read_integers(data, starts + 1), list(aborted))
    # The server describes a table once in a transaction, also if that is in a part which is rolled back afterwards.
    kinds[gone & (kinds == RELATION)] = ROLLED_BACK
    return stretch.take(~gone | of_kinds(kinds, (TYPE, ROLLED_BACK)))

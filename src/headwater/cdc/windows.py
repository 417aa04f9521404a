"""What is taken from a chunk of rows that was read while changes were flowing (as DBLog does it).

A chunk is read, then a mark is written into the WAL; where the stream brings the mark, the chunk enters the log. A row
whose key was changed by a transaction that the chunk may not have seen can be older in the chunk than in the stream, so
the stream's is kept. All others are as new as the mark: nothing newer is overwritten.

Which transactions those are, only the database's own snapshot tells. A mark in front of the chunk would not: a
transaction is in the WAL before others see it, for as long as its commit waits for a disk or for a standby.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.model.hashing import hash_columns

Hashes = npt.NDArray[np.uint64]
Xids = npt.NDArray[np.int64]
# The stream's numbers of transactions have 32 bits and go round; half of them are in the past.
_XIDS = 1 << 32
# Keys that passed are put together when there are so many parts of them.
PARTS_MAX = 1000


@dataclass(frozen=True, slots=True)
class Visibility:
    """Which transactions a query sees: those before `end` that were not `running`."""

    end: int
    running: tuple[int, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Visibility:
        """What `pg_current_snapshot()` says: `10:20:10,14`."""
        _, end, running = text.split(":")
        return cls(int(end) % _XIDS, tuple(int(each) % _XIDS for each in running.split(",") if each))

    def sees(self, xids: Xids) -> npt.NDArray[np.bool_]:
        return ((xids - self.end) % _XIDS >= _XIDS // 2) & ~np.isin(xids, self.running)


@dataclass(slots=True)
class Passing:
    """The keys of a table that came by in the stream, as hashes, each with its transaction.

    `visibility` is the newest that is known: who sees what it sees is not asked any more.
    """

    key: tuple[str, ...]
    visibility: Visibility | None = None
    _parts: list[tuple[Hashes, Xids]] = field(default_factory=list)
    _emptied: list[int] = field(default_factory=list)

    def pass_by(self, rows: pa.Table, xids: Xids) -> None:
        """Rows of the table have come by."""
        self._parts.append((key_hashes(rows, self.key), xids))
        if len(self._parts) > PARTS_MAX:
            self._forget()

    def empty(self, xid: int) -> None:
        """The table was emptied."""
        self._emptied.append(xid)

    def unaffected(self, chunk: pa.Table, seen: Visibility) -> pa.Table:
        """The rows of a chunk, read when a query saw at least this, whose keys nobody else can have changed.

        Two keys with one hash are taken for one: then a row is left out that is in the log already, or that the next
        snapshot brings. Among a thousand keys that happens once in 10^13 chunks.
        """
        self.visibility = seen
        self._forget()
        if self._emptied:
            return chunk.slice(0, 0)
        if not self._parts or not chunk.num_rows:
            return chunk
        affected = np.isin(key_hashes(chunk, self.key), self._parts[0][0])
        return chunk.filter(pa.array(~affected)) if affected.any() else chunk

    def _forget(self) -> None:
        """Puts the parts together, without what everybody sees from now on."""
        if self._parts:
            hashes, xids = (np.concatenate(each) for each in zip(*self._parts, strict=True))
            kept = np.ones(len(xids), np.bool_) if self.visibility is None else ~self.visibility.sees(xids)
            self._parts = [(hashes[kept], xids[kept])] if kept.any() else []
        if self._emptied and self.visibility is not None:
            kept = ~self.visibility.sees(np.array(self._emptied, np.int64))
            self._emptied = [xid for xid, keep in zip(self._emptied, kept.tolist(), strict=True) if keep]


def key_hashes(rows: pa.Table, key: Sequence[str]) -> Hashes:
    """A hash of each row's key."""
    return np.asarray(hash_columns([rows[name] for name in key]), np.uint64)

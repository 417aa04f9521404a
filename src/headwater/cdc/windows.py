"""What is taken from a chunk of rows that was read while changes were flowing (as DBLog does it).

A chunk is read, then a mark is written into the database's own log; where the stream brings the mark, the chunk enters
the log. A row whose key was changed by a transaction that the chunk may not have seen can be older in the chunk than in
the stream, so the stream's is kept. All others are as new as the mark: nothing newer is overwritten.

Which transactions those are, only the database's own snapshot tells. A mark in front of the chunk would not: a
transaction is in the database's log before others see it, for as long as its commit waits for a disk or for a standby.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.model.hashing import hash_columns

Hashes = npt.NDArray[np.uint64]
Ids = npt.NDArray[np.int64]
# Keys that passed are put together when there are this many parts of them.
PARTS_MAX = 1000


class Visibility(Protocol):
    """Which transactions a query sees, as the database says."""

    def sees(self, transactions: Ids) -> npt.NDArray[np.bool_]:
        """Whether it sees each of these transactions."""


@dataclass(slots=True)
class Passing:
    """The keys of a table that came by in the stream, as hashes, each with its transaction.

    `visibility` is the newest that is known: who sees what it sees is not asked any more.
    """

    key: tuple[str, ...]
    visibility: Visibility | None = None
    _parts: list[tuple[Hashes, Ids]] = field(default_factory=list)
    _emptied: list[int] = field(default_factory=list)

    def pass_by(self, rows: pa.Table, ids: Ids) -> None:
        """Rows of the table have come by."""
        self._parts.append((key_hashes(rows, self.key), ids))
        if len(self._parts) > PARTS_MAX:
            self._forget()

    def empty(self, transaction: int) -> None:
        """The table was emptied."""
        self._emptied.append(transaction)

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
            hashes, ids = (np.concatenate(each) for each in zip(*self._parts, strict=True))
            kept = np.ones(len(ids), np.bool_) if self.visibility is None else ~self.visibility.sees(ids)
            self._parts = [(hashes[kept], ids[kept])] if kept.any() else []
        if self._emptied and self.visibility is not None:
            kept = ~self.visibility.sees(np.array(self._emptied, np.int64))
            self._emptied = [each for each, keep in zip(self._emptied, kept.tolist(), strict=True) if keep]


def key_hashes(rows: pa.Table, key: Sequence[str]) -> Hashes:
    """A hash of each row's key."""
    return np.asarray(hash_columns([rows[name] for name in key]), np.uint64)

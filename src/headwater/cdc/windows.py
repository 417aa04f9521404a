"""Watermark windows (DBLog): what is taken from a chunk of rows that was read while changes were flowing.

A low mark is written into the WAL, the chunk is read, a high mark is written. A row whose key changed between the marks
may be older in the chunk than in the stream, so the stream's is kept. All others are as new as the high mark, which is
where the chunk enters the log: nothing newer is overwritten.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.model.hashing import hash_columns

Hashes = npt.NDArray[np.uint64]


@dataclass(slots=True)
class Window:
    """The keys that passed in the stream since the low mark, as hashes; all keys, once the table was emptied."""

    key: tuple[str, ...]
    passed: list[Hashes] = field(default_factory=list)
    emptied: bool = False

    def pass_by(self, rows: pa.Table) -> None:
        """Rows of the table have come by."""
        self.passed.append(key_hashes(rows, self.key))

    def unaffected(self, chunk: pa.Table) -> pa.Table:
        """The rows of the chunk whose keys have not come by.

        Two keys with one hash are taken for one: then a row is left out that is in the log already, or that the next
        snapshot brings. Among a thousand keys in a window that happens once in 10^13 chunks.
        """
        if self.emptied:
            return chunk.slice(0, 0)
        if not self.passed or not chunk.num_rows:
            return chunk
        affected = np.isin(key_hashes(chunk, self.key), np.concatenate(self.passed))
        return chunk.filter(pa.array(~affected)) if affected.any() else chunk


def key_hashes(rows: pa.Table, key: Sequence[str]) -> Hashes:
    """A hash of each row's key."""
    return np.asarray(hash_columns([rows[name] for name in key]), np.uint64)

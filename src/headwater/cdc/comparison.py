"""Compares rows of a table with rows of its topic by checksums, and names the keys that differ."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pat

from headwater.model.hashing import hash_columns

Hashes = npt.NDArray[np.uint64]


@dataclass(slots=True)
class Comparison:
    """What is expected (the log's rows), against which the source's rows are held, some at a time."""

    key: tuple[str, ...]
    columns: tuple[str, ...]
    expected: pa.Table
    rows: int = 0
    checksum: int = 0
    missing: list[pa.Table] = field(default_factory=list)
    different: list[pa.Table] = field(default_factory=list)
    _keys: Hashes = field(init=False)
    _values: Hashes = field(init=False)
    _order: npt.NDArray[np.int64] = field(init=False)
    _seen: npt.NDArray[np.bool_] = field(init=False)

    def __post_init__(self) -> None:
        keys = row_hashes(self.expected, self.key)
        self._order = np.argsort(keys)
        self._keys, self._values = keys[self._order], row_hashes(self.expected, self.columns)[self._order]
        self._seen = np.zeros(len(keys), np.bool_)

    @property
    def expected_checksum(self) -> int:
        return int(np.sum(self._values, dtype=np.uint64))

    def hold(self, rows: pa.Table) -> None:
        """Compares some rows of the source."""
        keys, values = row_hashes(rows, self.key), row_hashes(rows, self.columns)
        self.rows += rows.num_rows
        self.checksum = (self.checksum + int(np.sum(values, dtype=np.uint64))) % 2**64
        at = np.searchsorted(self._keys, keys)
        known = at < len(self._keys)
        known[known] = self._keys[at[known]] == keys[known]
        self._seen[at[known]] = True
        same = np.zeros(len(keys), np.bool_)
        same[known] = self._values[at[known]] == values[known]
        self._keep(self.missing, rows, ~known)
        self._keep(self.different, rows, known & ~same)

    def extra(self) -> pa.Table:
        """The keys of the log that the source does not have, once all its rows were compared."""
        return self.expected.select(list(self.key)).take(pa.array(self._order[~self._seen]))

    def _keep(self, keys: list[pa.Table], rows: pa.Table, which: npt.NDArray[np.bool_]) -> None:
        if which.any():
            keys.append(rows.select(list(self.key)).filter(pa.array(which)))


def row_hashes(rows: pa.Table, columns: Sequence[str]) -> Hashes:
    """A hash per row over some columns. Equal for equal values, also of a wider type."""
    return np.asarray(hash_columns([_plain(rows[name]) for name in columns]), np.uint64)


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if not pat.is_nested(column.type):
        return column
    texts = [None if value is None else json.dumps(value, default=str) for value in column.to_pylist()]
    return pa.chunked_array([pa.array(texts, pa.string())])

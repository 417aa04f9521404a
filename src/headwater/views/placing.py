"""Placing: the hash of each row's key, by which state is ordered and rows are shared among tasks.

Keys that are equal as in SQL's GROUP BY have the same hash, whichever task, machine or operator computes it. State that
was kept by other hashes cannot be found again: what changes them here is a new version of the program.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pat

from headwater.model.hashing import hash_columns
from headwater.views.identity import elements, validity

Hashes = npt.NDArray[np.int64]

# Arbitrary odd numbers.
_FOLD = np.uint64(0x9FB21C651E98DF25)
_NULL = np.uint64(0xD6E8FEB86659FD93)
_HALF = 1 << 31
_SAMPLE = 1 << 14


def hashes_of_keys(table: pa.Table, key: Sequence[str]) -> Hashes:
    """For each row of a table the hash of its key; 0 for all if the key has no columns."""
    if not key:
        return np.zeros(table.num_rows, dtype=np.int64)
    return hash_columns([_flat(table[name]) for name in key]).view(np.int64)


def repeats(hashes: Hashes) -> bool:
    """Whether the hashes are so few that adding up by them leaves less than half; an estimate from some of them."""
    total = len(hashes)
    sample = hashes[:: -(-total // _SAMPLE)] if total else hashes
    same = len(sample) - len(np.unique(sample))
    if not same or 2 * same >= len(sample):
        return same > 0
    # Of m among n keys, m * m / 2n are drawn a second time.
    keys = len(sample) ** 2 / (2 * same)
    return bool(keys * -np.expm1(-total / keys) < total / 2)


def tasks_of(hashes: Hashes, tasks: int) -> npt.NDArray[np.int64]:
    """The task that owns each hash: hashes are cut into as many ranges as there are tasks."""
    owners: npt.NDArray[np.int64] = ((hashes >> 32) + _HALF) * tasks >> 32
    return owners


def _flat(column: pa.ChunkedArray) -> pa.ChunkedArray | pa.Array:
    """A column of numbers or bytes that are equal where the values are."""
    kind = column.type
    if pat.is_nested(kind):
        array = pa.concat_arrays(column.chunks) if column.num_chunks else pa.nulls(0, kind)
        return pa.array(_nested(array).view(np.int64))
    if pat.is_duration(kind) or pat.is_time64(kind):
        return pa.chunked_array([chunk.view(pa.int64()) for chunk in column.chunks], pa.int64())
    if pat.is_time32(kind):
        return pa.chunked_array([chunk.view(pa.int32()) for chunk in column.chunks], pa.int32())
    if pat.is_interval(kind):
        return column.cast(pa.string())
    return column


def _nested(array: pa.Array) -> npt.NDArray[np.uint64]:
    kind = array.type
    if pat.is_struct(kind):
        children = [_flat(pa.chunked_array([child])) for child in array.flatten()]
        hashes = hash_columns(children) if children else np.zeros(len(array), dtype=np.uint64)
    else:
        lengths, values = elements(array)
        ends = np.cumsum(lengths)
        places = np.arange(len(values)) - np.repeat(ends - lengths, lengths)
        parts = hash_columns([_flat(pa.chunked_array([values])), pa.array(places)])
        totals = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(parts, dtype=np.uint64)])
        hashes = (totals[ends] - totals[ends - lengths]) * _FOLD + lengths.astype(np.uint64)
    if array.null_count:
        hashes = np.where(validity(array), hashes, _NULL)
    return hashes

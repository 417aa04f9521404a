"""Time order: hashes by which state lies by key and, within a key, by time, so that a stretch of time is found alone.

The upper half of such a hash is that of the key's own; the lower half is the *place* of the row's moment: a number that
never decreases as moments increase. Moments that are close to each other share one. Which task owns a row follows from
the upper half alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pat

from headwater.views.identity import normal, validity
from headwater.views.ordering import sortable
from headwater.views.zset import HASH, WEIGHT, consolidate

Hashes = npt.NDArray[np.int64]
Places = npt.NDArray[np.int64]

_BITS = 32
_LAST = (1 << _BITS) - 1
_HALF = 1 << (_BITS - 1)
# Microseconds of timestamps that share a place are about a second, so that places reach 71 years from 1970.
_SECOND_BITS = 20


def places_of(moments: pa.ChunkedArray) -> Places:
    """The place of each moment; that of a null means nothing. What has no places of its own shares one."""
    kind = moments.type
    if pat.is_timestamp(kind) and kind.unit == "us":
        return _clipped(_numbers(moments, pa.int64()) >> _SECOND_BITS)
    if pat.is_date32(kind):
        return _clipped(_numbers(moments, pa.int32()))
    if pat.is_integer(kind) or pat.is_floating(kind):
        # The upper bits of a double are its sign, its exponent and the first digits.
        doubles = normal(moments.cast(pa.float64(), safe=False))
        bits: Places = sortable(doubles).fill_null(0).to_numpy() >> _BITS
        return _clipped(bits)
    return np.zeros(len(moments), dtype=np.int64)


def mirrored(places: Places) -> Places:
    """The places in the opposite order of time."""
    turned: Places = _LAST - places
    return turned


def time_hashes(hashes: Hashes, places: Places) -> Hashes:
    """The hashes of rows in time order, given those of their keys."""
    return first_of_key(hashes) | places


def present(rows: pa.Table, columns: Sequence[str]) -> npt.NDArray[np.bool_]:
    """Which rows have no null in any of these columns."""
    there = np.ones(rows.num_rows, dtype=bool)
    for name in columns:
        if rows[name].null_count:
            there &= validity(rows[name])
    return there


def in_time_order(
    rows: pa.Table, columns: Sequence[str], key: Sequence[str], moment: str, *, turned: bool = False
) -> pa.Table:
    """The rows that have a key and a moment, consolidated, with their hashes in time order instead of those of keys.

    `turned`: in the opposite order of time.
    """
    rows = rows.select([HASH, *columns, WEIGHT])
    rows = rows.filter(pa.array(present(rows, [*key, moment])))
    places = places_of(rows[moment])
    hashes = time_hashes(rows[HASH].to_numpy(), mirrored(places) if turned else places)
    return consolidate(rows.set_column(0, HASH, pa.chunked_array([hashes])))


def microseconds_of(moments: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    """Timestamps without nulls as numbers."""
    return _numbers(moments, pa.int64())


def first_of_key(hashes: Hashes) -> Hashes:
    """The first hash in time order of the same key."""
    first: Hashes = hashes & ~np.int64(_LAST)
    return first


def last_of_key(hashes: Hashes) -> Hashes:
    """The last hash in time order of the same key."""
    last: Hashes = hashes | np.int64(_LAST)
    return last


def joined(firsts: Hashes, lasts: Hashes) -> tuple[Hashes, Hashes]:
    """Stretches in order, each place in one of them, given stretches that may overlap; an empty one is left out."""
    some = firsts <= lasts
    firsts, lasts = firsts[some], lasts[some]
    if not len(firsts):
        return firsts, lasts
    order = np.argsort(firsts)
    firsts, reached = firsts[order], np.maximum.accumulate(lasts[order])
    begins = np.append(True, firsts[1:] > reached[:-1])
    ends = np.append(begins[1:], True)
    return firsts[begins], reached[ends]


def _numbers(moments: pa.ChunkedArray, kind: pa.DataType) -> Places:
    chunks = [chunk.view(kind).fill_null(0).to_numpy() for chunk in moments.chunks]
    return np.concatenate(chunks).astype(np.int64) if chunks else np.zeros(0, dtype=np.int64)


def _clipped(numbers: Places) -> Places:
    places: Places = np.clip(numbers, -_HALF, _HALF - 1) + _HALF
    return places

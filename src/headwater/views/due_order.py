"""Due order: hashes by which state lies in the order of time, so that what is due can be found without the rest.

The first eight bits of such a hash are those of the row's own, its *bucket*; the others are the moment. So what is due
between two moments is one stretch of each bucket. A task owns whole buckets: those whose middle it owns.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import numpy.typing as npt

Hashes = npt.NDArray[np.int64]
Moments = npt.NDArray[np.int64]

_BITS = 56
_HALF = 1 << (_BITS - 1)
_LAST = (1 << _BITS) - 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def microseconds(moment: datetime) -> int:
    """A moment as a number: microseconds since 1970."""
    return (moment - _EPOCH) // timedelta(microseconds=1)


def due_hashes(hashes: Hashes, moments: Moments) -> Hashes:
    """The hashes of rows in due order, given their own hashes and their moments in microseconds.

    Moments more than 1,100 years from 1970 share the first or the last place.
    """
    placed: Hashes = (hashes >> _BITS << _BITS) | (np.clip(moments, -_HALF, _HALF - 1) + _HALF)
    return placed


def bucket_hashes(hashes: Hashes) -> Hashes:
    """Hashes that take rows to the task that owns their bucket."""
    placed: Hashes = (hashes >> _BITS << _BITS) | _HALF
    return placed


def owned(low: int, high: int) -> tuple[int, int]:
    """The first and the last hash in due order of a task that owns these hashes; the first is greater if none is."""
    first, last = -((_HALF - low) >> _BITS), (high - _HALF) >> _BITS
    return first << _BITS, (last << _BITS) | _LAST


def stretches(low: int, high: int, after: int | None, until: int) -> tuple[Hashes, Hashes]:
    """The first and the last hash of each stretch with moments after one (None: any) and up to another.

    `low` and `high` are the first and the last hash in due order that are wanted, of whole buckets. A stretch may have
    a few rows more than that.
    """
    buckets = np.arange(low >> _BITS, (high >> _BITS) + 1, dtype=np.int64) << _BITS
    start = 0 if after is None else _place(after)
    return buckets | start, buckets | _place(until)


def _place(moment: int) -> int:
    return min(max(moment, -_HALF), _HALF - 1) + _HALF

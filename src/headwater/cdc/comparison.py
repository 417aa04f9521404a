"""Compares a table with its topic by checksums over ranges of keys; only where they differ is it looked closer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from headwater.cdc.digests import Digests

# How many rows a range has, and how many ranges there are, at most.
RANGE_ROWS = 5000
RANGES_MAX = 2000
_CHECKED_DIGITS = 15

Numbers = npt.NDArray[np.int64]
Key = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Sums:
    """Of a range, or of all: how many rows, and the sum of the first 60 bits of their digests, modulo 2^64."""

    rows: int = 0
    checksum: int = 0

    def __add__(self, other: Sums) -> Sums:
        return Sums(self.rows + other.rows, (self.checksum + other.checksum) % 2**64)


@dataclass(frozen=True, slots=True)
class Ranges:
    """Ranges of values that have an order: `bounds` are where each but the first begins."""

    bounds: pa.Array

    def __len__(self) -> int:
        return len(self.bounds) + 1

    def of(self, values: pa.Array) -> Numbers:
        """The range of each value."""
        return np.searchsorted(_ordered(self.bounds), _ordered(values), side="right")


@dataclass(frozen=True, slots=True)
class Differences:
    """Keys, as texts, whose rows differ: not in the topic, other than in the topic, only in the topic."""

    missing: list[Key]
    different: list[Key]
    extra: list[Key]


def ranges_of(values: pa.Array) -> Ranges:
    """Ranges with about equally many of these values each."""
    count = min(RANGES_MAX, max(1, len(values) // RANGE_ROWS))
    ordered = values.take(pc.sort_indices(values))
    places = np.unique(np.arange(1, count) * len(values) // count) if count > 1 else np.empty(0, np.int64)
    return Ranges(pc.unique(ordered.take(pa.array(places, pa.int64()))))


def sums_of(digests: Digests, ranges: Numbers) -> dict[int, Sums]:
    """The sums of each range that has rows."""
    parts = np.array([int(each[:_CHECKED_DIGITS], 16) for each in digests.tolist()], np.uint64)
    order = np.argsort(ranges, kind="stable")
    numbers, first, counts = np.unique(ranges[order], return_index=True, return_counts=True)
    totals = np.add.reduceat(parts[order], first) if len(parts) else np.empty(0, np.uint64)
    return {
        int(number): Sums(int(count), int(total)) for number, count, total in zip(numbers, counts, totals, strict=True)
    }


def differing(source: Mapping[int, Sums], log: Mapping[int, Sums]) -> list[int]:
    """The ranges whose sums are not the same."""
    return sorted(each for each in source.keys() | log.keys() if source.get(each, Sums()) != log.get(each, Sums()))


def differences(source: Sequence[tuple[Key, bytes]], log: Mapping[Key, bytes]) -> Differences:
    """Which rows of the ranges that differ do so; rows are keys and digests."""
    seen: set[Key] = set()
    missing: list[Key] = []
    different: list[Key] = []
    for key, digest in source:
        seen.add(key)
        known = log.get(key)
        if known is None:
            missing.append(key)
        elif known != digest:
            different.append(key)
    return Differences(missing, different, [key for key in log if key not in seen])


def _ordered(values: pa.Array) -> npt.NDArray[Any]:
    """Values that numpy orders as the database does: texts by their bytes."""
    if pat.is_string(values.type):
        return np.array(values.cast(pa.binary()).to_pylist(), object)
    if pat.is_decimal(values.type):
        return np.array(values.to_pylist(), object)
    if pat.is_timestamp(values.type):
        values = values.cast(pa.int64())
    elif pat.is_date(values.type):
        values = values.cast(pa.int32())
    ordered: npt.NDArray[Any] = values.to_numpy(zero_copy_only=False)
    return ordered

"""The audit: a target compared with its view at one position, by checksums over ranges of keys, down to the keys.

All rows of both sides are hashed while they stream by, and the hashes of each range of keys are summed up. Only where
the sums differ are the rows of the target read a second time, and told apart by their keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.model.encoding import json_rows
from headwater.views.identity import normal
from headwater.views.placing import Hashes, hashes_of_keys
from headwater.views.zset import WEIGHT, consolidate, negate, rows_at, weights_of, with_weights

RANGE_ROWS = 4096
"""How many rows a range of keys has, about."""
KEYS_NAMED_MAX = 1000
"""How many keys of each kind an audit names; all of them are counted."""

Rows = Callable[[], Iterator[pa.Table]]


@dataclass(frozen=True, slots=True)
class Keys:
    """Keys that differ: how many, and the first of them."""

    count: int = 0
    named: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class SinkAudit:
    """What a comparison of a target with its view has found, both as of `position`.

    `missing` are keys that the target lacks, `different` those whose rows differ, `extra` those that the view lacks.
    Rows that the target has refused are counted in `refused`: they are dead letters, and no difference. `repaired` says
    whether the target was equal after the repair, None if none was asked for or needed.
    """

    sink: str
    view: str
    target: str
    position: str
    rows_in_view: int
    rows_in_target: int
    checksum_of_view: str
    checksum_of_target: str
    ranges: int
    ranges_different: int
    missing: Keys = Keys()
    different: Keys = Keys()
    extra: Keys = Keys()
    refused: int = 0
    repaired: bool | None = None

    @property
    def equal(self) -> bool:
        """Whether nothing differed when it was compared."""
        return not (self.missing.count or self.different.count or self.extra.count)


def audit_of(told: Mapping[str, Any]) -> SinkAudit:
    """The audit that another process has told."""
    keys = {kind: Keys(told[kind]["count"], tuple(told[kind]["named"])) for kind in ("missing", "different", "extra")}
    return SinkAudit(**{**told, **keys})


@dataclass(frozen=True, slots=True)
class Comparison:
    """Both sides: their rows, checksums and ranges; and what differs, all of it with the columns of the view.

    `difference` is the Z-set that brings the target to the view. `missing` and `different` are rows of the view,
    `extra` rows of the target.
    """

    rows: tuple[int, int]
    checksums: tuple[int, int]
    ranges: int
    ranges_different: int
    difference: pa.Table
    missing: pa.Table
    different: pa.Table
    extra: pa.Table


def compare(
    content: pa.Table, rows: Rows, key: Sequence[str], progress: Callable[[int, int], None] = lambda _, __: None
) -> Comparison:
    """Compares a consolidated Z-set with the rows of a target, which are read once, or twice if they differ.

    Without a key a row is its own key.
    """
    names = list(key) or [name for name in content.column_names if name != WEIGHT]
    bits = (content.num_rows // RANGE_ROWS).bit_length()
    view, target = _Side(bits), _Side(bits)
    view.add(content, names)
    for part in rows():
        target.add(with_weights(part, np.ones(part.num_rows, np.int64)), names)
        progress(target.count, max(target.count, content.num_rows))
    wrong = view.ranges_other_than(target)
    hashes = view.keys_other_than(target, wrong)
    ours, theirs = _chosen(content, names, hashes), _read_again(content, rows, names, hashes)
    difference = consolidate(pa.concat_tables([negate(theirs), ours]))
    return Comparison(
        (view.count, target.count),
        (view.checksum, target.checksum),
        1 << bits,
        len(wrong),
        difference,
        *(_by_key(ours, theirs, names) if key else _by_row(difference)),
    )


def _by_key(ours: pa.Table, theirs: pa.Table, key: Sequence[str]) -> tuple[pa.Table, pa.Table, pa.Table]:
    """What is missing, different and extra, of rows whose keys are known to have other rows on the other side."""
    mine, others = (hashes_of_keys(_keys(rows, key), key) for rows in (ours, theirs))
    known = np.isin(mine, others)
    _, first = np.unique(others, return_index=True)
    extra = np.sort(first[~np.isin(others[first], mine)])
    return tuple(
        rows.drop_columns([WEIGHT])
        for rows in (ours.filter(pa.array(~known)), ours.filter(pa.array(known)), rows_at(theirs, extra))
    )


def _by_row(difference: pa.Table) -> tuple[pa.Table, pa.Table, pa.Table]:
    weights, rows = weights_of(difference), difference.drop_columns([WEIGHT])
    return rows.filter(pa.array(weights > 0)), rows.slice(0, 0), rows.filter(pa.array(weights < 0))


def keys_of(rows: pa.Table, key: Sequence[str]) -> Keys:
    """The keys of rows, as an audit names them."""
    chosen = rows.select(list(key)) if key else rows
    return Keys(rows.num_rows, tuple(json_rows(chosen.slice(0, KEYS_NAMED_MAX))))


class _Side:
    """The rows of one side, as hashes of their keys, and sums of the hashes of the rows."""

    def __init__(self, bits: int) -> None:
        self._bits = bits
        self._hashes: list[Hashes] = []
        self._weights: list[Hashes] = []
        self._sums: list[npt.NDArray[np.uint64]] = []
        self.count, self.checksum = 0, 0

    def add(self, rows: pa.Table, key: Sequence[str]) -> None:
        """Adds a Z-set."""
        weights = weights_of(rows)
        columns = [name for name in rows.column_names if name != WEIGHT]
        self._hashes.append(hashes_of_keys(_keys(rows, key), key))
        self._weights.append(weights)
        self._sums.append(hashes_of_keys(rows, columns).view(np.uint64) * weights.astype(np.uint64))
        self.count += int(weights.sum())
        self.checksum = (self.checksum + int(np.add.reduce(self._sums[-1], dtype=np.uint64))) % 2**64

    def ranges_other_than(self, other: _Side) -> npt.NDArray[np.int64]:
        """The ranges of keys whose sums differ, or their numbers of rows."""
        mine, theirs = self._by_range(), other._by_range()
        return np.flatnonzero((mine != theirs).any(axis=0))

    def keys_other_than(self, other: _Side, ranges: npt.NDArray[np.int64]) -> Hashes:
        """The hashes of the keys in some ranges that have other rows here than there."""
        parts = [side._within(ranges) for side in (self, other)]  # noqa: SLF001 - the other one is one of these
        distinct, places = np.unique(np.concatenate([part[0] for part in parts]), return_inverse=True)
        found = np.zeros((2, 2, len(distinct)), np.uint64)
        first = len(parts[0][0])
        for side, part, chosen in zip(found, parts, (places[:first], places[first:]), strict=True):
            np.add.at(side[0], chosen, part[1])
            np.add.at(side[1], chosen, part[2].astype(np.uint64))
        differ: Hashes = distinct[(found[0] != found[1]).any(axis=0)]
        return differ

    def _by_range(self) -> npt.NDArray[np.uint64]:
        """Two rows: the sum of each range, and how many rows it has."""
        found = np.zeros((2, 1 << self._bits), np.uint64)
        for hashes, sums, weights in zip(self._hashes, self._sums, self._weights, strict=True):
            numbers = self._range_of(hashes)
            np.add.at(found[0], numbers, sums)
            np.add.at(found[1], numbers, weights.astype(np.uint64))
        return found

    def _within(self, ranges: npt.NDArray[np.int64]) -> tuple[Hashes, npt.NDArray[np.uint64], Hashes]:
        hashes = np.concatenate([np.zeros(0, np.int64), *self._hashes])
        chosen = np.isin(self._range_of(hashes), ranges)
        sums = np.concatenate([np.zeros(0, np.uint64), *self._sums])
        return hashes[chosen], sums[chosen], np.concatenate([np.zeros(0, np.int64), *self._weights])[chosen]

    def _range_of(self, hashes: Hashes) -> npt.NDArray[np.int64]:
        if not self._bits:
            return np.zeros(len(hashes), np.int64)
        return (hashes.view(np.uint64) >> np.uint64(64 - self._bits)).astype(np.int64)


def _keys(rows: pa.Table, key: Sequence[str]) -> pa.Table:
    return pa.table({name: normal(rows[name]) for name in key})


def _chosen(rows: pa.Table, key: Sequence[str], hashes: Hashes) -> pa.Table:
    """The rows of some keys."""
    return rows_at(rows, np.flatnonzero(np.isin(hashes_of_keys(_keys(rows, key), key), hashes)))


def _read_again(content: pa.Table, rows: Rows, key: Sequence[str], hashes: Hashes) -> pa.Table:
    """What the target has of some keys, as a Z-set."""
    parts = [content.slice(0, 0)]
    for part in rows() if len(hashes) else ():
        found = _chosen(part, key, hashes)
        parts.append(with_weights(found, np.ones(found.num_rows, np.int64)))
    return pa.concat_tables(parts)

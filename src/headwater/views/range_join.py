"""The range join kernel: pairs of rows with equal keys whose moments are close enough, under changes of both sides."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from headwater.views.frontier import Frontier
from headwater.views.identity import Numbers, number_keys
from headwater.views.kernel import Held, Kernel, Narrowed, Narrowing, Part, Step, Tables, Work
from headwater.views.time_order import Hashes, in_time_order, joined, microseconds_of, places_of, time_hashes
from headwater.views.zset import HASH, add, empty, rows_at, weights_of, with_weights

# Moments that are further away than any timestamp, and can still be added to.
_FAR = 1 << 60


@dataclass(frozen=True, slots=True)
class RangeJoin(Kernel):
    """Rows of `left` and `right` with equal keys, where `least` <= right moment - left moment <= `most`.

    Moments are timestamps, and distances microseconds; one that is None is no limit. A key or a moment that is null has
    no partner. Both sides lie in time order, so that a changed row is paired with those in its reach and no others are
    looked at. What comes out is not consolidated.
    """

    left: pa.Schema
    right: pa.Schema
    left_key: tuple[str, ...]
    right_key: tuple[str, ...]
    left_moment: str
    right_moment: str
    least: int | None = None
    most: int | None = None

    @property
    def ports(self) -> Mapping[str, pa.Schema]:
        return {"left": self.left, "right": self.right}

    @property
    def keys(self) -> Mapping[str, tuple[str, ...]]:
        return {"left": self.left_key, "right": self.right_key}

    @property
    def parts(self) -> Mapping[str, Part]:
        return {"left": Part(self.left, in_time=True), "right": Part(self.right, in_time=True)}

    @property
    def output(self) -> pa.Schema:
        return pa.schema([*self.left, *self.right])

    @property
    def hashed_by(self) -> tuple[str, ...] | None:
        return None

    @property
    def consolidated(self) -> bool:
        return False

    @property
    def narrowing(self) -> Narrowing:
        return self

    def narrowed(self, used: Collection[int]) -> Narrowed:
        count = len(self.left)
        needed = {*self.left_key, *self.right_key, self.left_moment, self.right_moment}
        kept = [place for place, name in enumerate(self.output.names) if place in used or name in needed]
        left, right = [place for place in kept if place < count], [place - count for place in kept if place >= count]
        made = replace(
            self,
            left=pa.schema([self.left.field(place) for place in left]),
            right=pa.schema([self.right.field(place) for place in right]),
        )
        return Narrowed(made, kept, {"left": left, "right": right})

    def work(self, shown: Callable[[str], str]) -> Work:
        del shown
        return Work(added_up=[f"pairs whose moments are {_text(self.least)} to {_text(self.most)} apart"])

    def lookup(self, changes: Tables, held: Held) -> Tables:
        left, right = self._timed("left", changes), self._timed("right", changes)
        return {
            "left": held.between("left", *_reach(right, self.right_moment, _turned(self.most), _turned(self.least))),
            "right": held.between("right", *_reach(left, self.left_moment, self.least, self.most)),
        }

    def step(self, old: Tables, changes: Tables, frontier: Frontier, *, first: bool = False) -> Step:
        left, right = self._timed("left", changes), self._timed("right", changes)
        old_left = old["left"].select(left.column_names)
        old_right = old["right"].select(right.column_names)
        # d(L x R) = dL x (R + dR) + L x dR
        out = add(self._pairs(left, add(old_right, right)), self._pairs(old_left, right))
        return Step({"left": left, "right": right}, out)

    def _timed(self, side: str, changes: Tables) -> pa.Table:
        moment = self.left_moment if side == "left" else self.right_moment
        return in_time_order(changes[side], self.ports[side].names, self.keys[side], moment)

    def _pairs(self, left: pa.Table, right: pa.Table) -> pa.Table:
        """All pairs; weights multiply."""
        if not left.num_rows or not right.num_rows:
            return empty(self.output, hashed=True)
        lefts, rights = self._places(left, right)
        weights = weights_of(left)[lefts] * weights_of(right)[rights]
        columns = rows_at(left.select([HASH, *self.left.names]), lefts).columns
        columns = [*columns, *rows_at(right.select(self.right.names), rights).columns]
        schema = pa.schema([pa.field(HASH, pa.int64()), *(pa.field(one.name, one.type) for one in self.output)])
        return with_weights(pa.table(columns, schema=schema), weights)

    def _places(self, left: pa.Table, right: pa.Table) -> tuple[Numbers, Numbers]:
        """Where the rows of each pair are."""
        numbers = [np.zeros(table.num_rows, dtype=np.int64) for table in (left, right)]
        if self.left_key:
            numbers = number_keys([left, right], [self.left_key, self.right_key])
        keys, right_keys = numbers
        moments, right_moments = microseconds_of(left[self.left_moment]), microseconds_of(right[self.right_moment])
        order = np.lexsort((right_moments, right_keys))
        distinct, dense = np.unique(right_moments, return_inverse=True)
        size = len(distinct) + 1
        # Numbers ordered by key and then by moment, of which only the order counts.
        there = (right_keys * size + dense)[order]
        firsts = keys * size + np.searchsorted(distinct, _shifted(moments, self.least, -_FAR), "left")
        lasts = keys * size + np.searchsorted(distinct, _shifted(moments, self.most, _FAR), "right")
        begins, ends = np.searchsorted(there, firsts, "left"), np.searchsorted(there, lasts, "left")
        counts = np.maximum(ends - begins, 0)
        lefts = np.repeat(np.arange(len(keys)), counts)
        within = np.arange(len(lefts)) - np.repeat(np.cumsum(counts) - counts, counts)
        return lefts, order[np.repeat(begins, counts) + within]


def _reach(rows: pa.Table, moment: str, least: int | None, most: int | None) -> tuple[Hashes, Hashes]:
    """The stretches of the other side in which partners of these rows may lie."""
    hashes, moments = rows[HASH].to_numpy(), microseconds_of(rows[moment])
    ends = []
    for distance, otherwise in ((least, -_FAR), (most, _FAR)):
        places = places_of(pa.chunked_array([pa.array(_shifted(moments, distance, otherwise), pa.timestamp("us"))]))
        ends.append(time_hashes(hashes, places))
    return joined(*ends)


def _shifted(moments: Numbers, distance: int | None, otherwise: int) -> Numbers:
    """Moments that much later; those beyond all time are at its end."""
    if distance is None:
        return np.full(len(moments), otherwise, dtype=np.int64)
    return np.clip(moments + max(-_FAR, min(distance, _FAR)), -_FAR, _FAR)


def _turned(distance: int | None) -> int | None:
    return None if distance is None else -distance


def _text(distance: int | None) -> str:
    return "any time" if distance is None else f"{distance / 1e6:,g} s"

"""The as-of join kernel: each row with the newest version at or before its time, under changes of both sides."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pyarrow as pa

from headwater.errors import InternalError
from headwater.views.exact import Flags
from headwater.views.frontier import Frontier
from headwater.views.identity import Numbers, number_keys
from headwater.views.kernel import Held, Kernel, Narrowed, Narrowing, Part, Step, Tables, Work
from headwater.views.ordering import ranks, sorted_places
from headwater.views.time_order import (
    Hashes,
    first_of_key,
    in_time_order,
    joined,
    last_of_key,
    microseconds_of,
    present,
)
from headwater.views.zset import HASH, WEIGHT, add, consolidate, empty, rows_at, weights_of, with_weights

AsOfKind = Literal["inner", "left"]

_BEFORE, _AFTER = "_before", "_after"
_FIRST_COUNT = 4
"""How many rows the search for a neighbor looks at first; each further look is at eight times as many."""


@dataclass(frozen=True, slots=True)
class Located:
    """Rows of both sides of some keys, as numbers that are ordered by key and then by moment.

    `size` is more than there are moments: two numbers are of the same key if dividing by it gives the same.
    """

    numbers: list[Numbers]
    size: int

    def same_key(self, left: Numbers, right: Numbers) -> Flags:
        same: Flags = left // self.size == right // self.size
        return same


@dataclass(frozen=True, slots=True)
class AsOfJoin(Kernel):
    """Each row of `left` with the row of `right` of an equal key whose moment is the last one at or before its own.

    `strict`: before its own. `later`: the first one at or after its own (with `strict`, after). `tolerance`: moments
    are timestamps, and one that is further away, in microseconds, is none. Of several right rows with that moment the
    first one counts, by all columns ascending with nulls first. A key or moment that is null has no partner. `left`
    fills rows without a partner up with nulls, `inner` leaves them out. What comes out is not consolidated.

    Both sides lie in time order. A changed right row touches only the left rows between it and the next right row.
    """

    kind: AsOfKind
    left: pa.Schema
    right: pa.Schema
    left_key: tuple[str, ...]
    right_key: tuple[str, ...]
    left_moment: str
    right_moment: str
    strict: bool = False
    later: bool = False
    tolerance: int | None = None

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
        # All columns of the right side decide which of several rows counts.
        needed = {*self.left_key, self.left_moment}
        kept = [place for place, name in enumerate(self.left.names) if place in used or name in needed]
        right = list(range(len(self.right)))
        made = replace(self, left=pa.schema([self.left.field(place) for place in kept]))
        return Narrowed(made, [*kept, *(len(self.left) + place for place in right)], {"left": kept, "right": right})

    def work(self, shown: Callable[[str], str]) -> Work:
        del shown
        return Work(recomputed=[f"rows between two versions{_within(self.tolerance)}"])

    def lookup(self, changes: Tables, held: Held) -> Tables:
        left, right = self._matchable("left", changes), self._matchable("right", changes)
        lefts, rights = _hashes(left), _hashes(right)
        queries = pa.concat_tables([self._query("left", left), self._query("right", right)])
        hashes = np.concatenate([lefts, rights])
        # A right row changes what left rows after it have until the next right row, in the place of the one before it.
        firsts = self._neighbors(held, queries, hashes, ahead=False)
        lasts = self._neighbors(held, queries.slice(len(lefts)), rights, ahead=True)
        versions = held.between("right", *joined(firsts, np.concatenate([lefts, lasts])))
        return {"left": held.between("left", *joined(rights, lasts)), "right": versions}

    def step(self, old: Tables, changes: Tables, frontier: Frontier, *, first: bool = False) -> Step:
        left, right = self._matchable("left", changes), self._matchable("right", changes)
        held = old["left"].select([HASH, *self.left.names, WEIGHT])
        versions = self._versions(old["right"], right)
        rows = add(held, left)
        located = self._located([self._query("left", rows), self._query("right", versions)])
        targets, places = located.numbers
        before, after = (
            self._matches(located, targets, rows, places, versions, versions[name].to_numpy() > 0)
            for name in (_BEFORE, _AFTER)
        )
        weights = weights_of(rows)
        is_held = np.arange(rows.num_rows) < held.num_rows
        differs = before != after
        out = add(
            self._pairs(rows, versions, np.flatnonzero(is_held & differs), before, -weights),
            self._pairs(rows, versions, np.flatnonzero(~is_held | differs), after, weights),
        )
        if self.kind == "left":
            out = add(out, self._alone(consolidate(self._unmatchable(changes["left"]))))
        return Step({"left": left, "right": right}, out)

    def _moment(self, side: str) -> str:
        return self.left_moment if side == "left" else self.right_moment

    def _matchable(self, side: str, changes: Tables) -> pa.Table:
        """The changes of rows that can have a partner, in time order."""
        columns, moment = self.ports[side].names, self._moment(side)
        return in_time_order(changes[side], columns, self.keys[side], moment, turned=self.later)

    def _unmatchable(self, rows: pa.Table) -> pa.Table:
        rows = rows.select([HASH, *self.left.names, WEIGHT])
        return rows.filter(pa.array(~present(rows, [*self.left_key, self.left_moment])))

    def _query(self, side: str, rows: pa.Table) -> pa.Table:
        """The hashes, keys and moments of rows, under the names that both sides share."""
        names = [HASH, *self.keys[side], self._moment(side)]
        shared = [HASH, *(f"_key_{place}" for place in range(len(self.keys[side]))), "_moment"]
        return pa.table([rows[name] for name in names], names=shared)

    def _located(self, queries: list[pa.Table]) -> Located:
        names = queries[0].column_names[1:-1]
        keys = number_keys([query.select(names) for query in queries], [names] * len(queries)) if names else []
        numbers = np.concatenate(keys or [np.zeros(sum(query.num_rows for query in queries), dtype=np.int64)])
        kind = queries[0]["_moment"].type
        moments = pa.chunked_array([c for query in queries for c in query["_moment"].cast(kind).chunks], kind)
        found, dense = np.unique(ranks(moments), return_inverse=True)
        dense = dense.astype(np.int64)
        size = len(found) + 1
        combined = numbers * size + (len(found) - 1 - dense if self.later else dense)
        return Located(np.split(combined, np.cumsum([query.num_rows for query in queries])[:-1]), size)

    def _neighbors(self, held: Held, queries: pa.Table, hashes: Hashes, *, ahead: bool) -> Hashes:
        """For each moment the hash of the version right before (`ahead`: after) it, or the end of its key if none is.

        What was taken out may still lie there, so the search continues until it has met a version that counts.
        """
        end = last_of_key(hashes) if ahead else first_of_key(hashes)
        found = end.copy()
        left, count = np.arange(len(hashes)), _FIRST_COUNT
        while len(left):
            reached = (held.ahead if ahead else held.back)("right", hashes[left], count)
            firsts, lasts = (hashes[left], reached) if ahead else (reached, hashes[left])
            versions = held.between("right", *joined(firsts, lasts))
            located = self._located([queries.take(pa.array(left)), self._query("right", versions)])
            targets, places = located.numbers
            order = np.argsort(places)
            beside = np.searchsorted(places[order], targets, "right") if ahead else (
                np.searchsorted(places[order], targets, "left") - 1
            )  # fmt: skip
            inside = (beside >= 0) & (beside < len(order))
            beside = order[np.where(inside, beside, 0)] if len(order) else beside
            met = np.zeros(len(left), dtype=bool)
            if len(order):
                there = _hashes(versions)[beside]
                met = inside & located.same_key(places[beside], targets)
                # Rows that another moment asked for may lie beyond some that were not looked at.
                met &= (there <= reached) if ahead else (there >= reached)
                found[left[met]] = there[met]
            left = left[~met & (reached != end[left])]
            count *= 8
        return found

    def _versions(self, held: pa.Table, delta: pa.Table) -> pa.Table:
        """The right rows, each once, with their weights before and after the change."""
        columns = [HASH, *self.right.names]
        nothing = pa.chunked_array([np.zeros(delta.num_rows, dtype=np.int64)])
        both = add(
            held.select([*columns, WEIGHT]).rename_columns([*columns, _BEFORE]).append_column(_AFTER, held[WEIGHT]),
            delta.select(columns).append_column(_BEFORE, nothing).append_column(_AFTER, delta[WEIGHT]),
        )
        versions = consolidate(both, (_BEFORE, _AFTER))
        if versions.num_rows and min(versions[_AFTER].to_numpy().min(), versions[_BEFORE].to_numpy().min()) < 0:
            raise InternalError("The as-of join kernel was told to retract a row that it does not hold.")
        return versions

    def _matches(
        self, located: Located, targets: Numbers, rows: pa.Table, places: Numbers, versions: pa.Table, there: Flags
    ) -> Numbers:
        """For each row the version that it has among those that are there, by its place; -1 if it has none."""
        chosen = np.flatnonzero(there)
        if not len(chosen):
            return np.full(len(targets), -1, dtype=np.int64)
        chosen = chosen[np.argsort(places[chosen], kind="stable")]
        chosen = self._first_of_ties(versions, places, chosen)
        moments = places[chosen]
        beside = np.searchsorted(moments, targets, "left" if self.strict else "right") - 1
        found = chosen[np.maximum(beside, 0)]
        matched = (beside >= 0) & located.same_key(places[found], targets)
        if self.tolerance is not None:
            moments = microseconds_of(versions[self.right_moment])[found]
            matched &= np.abs(microseconds_of(rows[self.left_moment]) - moments) <= self.tolerance
        return np.where(matched, found, -1)

    def _first_of_ties(self, versions: pa.Table, places: Numbers, chosen: Numbers) -> Numbers:
        """Of the versions of one key and moment, which lie side by side, the first one by all columns."""
        again = places[chosen][1:] == places[chosen][:-1]
        if not again.any():
            return chosen
        tied = chosen[np.append(again, False) | np.append(False, again)]
        rows = rows_at(versions, tied)
        order = sorted_places([places[tied], *(ranks(rows[name], zeros_apart=True) for name in self.right.names)])
        tied = tied[order]
        first = np.append(True, places[tied][1:] != places[tied][:-1])
        alone = chosen[~(np.append(again, False) | np.append(False, again))]
        kept = np.concatenate([alone, tied[first]])
        return kept[np.argsort(places[kept])]

    def _pairs(
        self, rows: pa.Table, versions: pa.Table, chosen: Numbers, matches: Numbers, weights: Numbers
    ) -> pa.Table:
        """The chosen rows beside their versions."""
        if self.kind == "inner":
            chosen = chosen[matches[chosen] >= 0]
        found = matches[chosen]
        partners = versions.combine_chunks().take(pa.array(found, pa.int64(), mask=found < 0))
        columns = rows_at(rows.select([HASH, *self.left.names]), chosen)
        table = [*columns.columns, *(partners[name] for name in self.right.names)]
        return with_weights(pa.table(table, schema=_nullable([columns.schema.field(0), *self.output])), weights[chosen])

    def _alone(self, rows: pa.Table) -> pa.Table:
        """Rows that can have no partner."""
        if not rows.num_rows:
            return empty(self.output, hashed=True)
        missing = [pa.nulls(rows.num_rows, field.type) for field in self.right]
        columns = [*rows.select([HASH, *self.left.names]).columns, *missing]
        return with_weights(pa.table(columns, schema=_nullable([rows.schema.field(0), *self.output])), rows[WEIGHT])


def _hashes(rows: pa.Table) -> Hashes:
    hashes: Hashes = rows[HASH].to_numpy()
    return hashes


def _nullable(fields: list[pa.Field]) -> pa.Schema:
    return pa.schema([pa.field(field.name, field.type) for field in fields])


def _within(tolerance: int | None) -> str:
    return "" if tolerance is None else f", at most {tolerance / 1e6:,g} s away"

"""The sessions kernel: each row with the session that it belongs to, under changes of rows in any order of time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.errors import InternalError
from headwater.views.exact import Flags
from headwater.views.frontier import Frontier
from headwater.views.identity import Numbers, number_keys
from headwater.views.kernel import Held, KeyedKernel, Narrowed, Narrowing, Part, Step, Tables, Work
from headwater.views.time_order import in_time_order, joined, microseconds_of, places_of, time_hashes
from headwater.views.zset import HASH, WEIGHT, add, consolidate, with_weights

_BEFORE, _AFTER = "_before", "_after"
_BEGIN = "_begin"
_FAR = 1 << 60


@dataclass(frozen=True, slots=True)
class Sessions(KeyedKernel):
    """Rows in, and the same rows out with the span of their session in the column `window`, a struct of start and end.

    A row spans `gap` microseconds from its start on. Rows of one key whose spans overlap or touch are of one session,
    which lasts from the first start to the last end. Rows without a start are left out.

    Rows lie in time order. A change touches the sessions that it is in, joins or divides, and looks at no others.
    """

    window: str
    gap: int

    @property
    def parts(self) -> Mapping[str, Part]:
        return {"rows": Part(pa.schema([*self.schema, self._begin]), in_time=True)}

    @property
    def hashed_by(self) -> tuple[str, ...] | None:
        return None

    @property
    def narrowing(self) -> Narrowing:
        return self

    def narrowed(self, used: Collection[int]) -> Narrowed:
        needed = {*self.key, self.window}
        kept = [place for place, name in enumerate(self.schema.names) if place in used or name in needed]
        schema = pa.schema([self.schema.field(place) for place in kept])
        return Narrowed(replace(self, schema=schema), kept, {"rows": kept})

    def work(self, shown: Callable[[str], str]) -> Work:
        del shown
        return Work(recomputed=["sessions that a change is in, joins or divides"])

    def lookup(self, changes: Tables, held: Held) -> Tables:
        delta = self._timed(changes)
        moments, hashes = microseconds_of(delta[_BEGIN]), delta[HASH].to_numpy()
        firsts, lasts, reach = moments - self.gap, moments + self.gap, self.gap
        while True:
            rows = held.between("rows", *joined(_hashes(hashes, firsts), _hashes(hashes, lasts)))
            begin, last = self._around(delta, add(rows.select(delta.column_names), delta))
            # Where a session ends is known only if nothing lies within a gap of its ends.
            short, long = begin - self.gap < firsts, last + self.gap > lasts
            if not short.any() and not long.any():
                return {"rows": rows}
            reach = min(2 * reach, _FAR)
            firsts = np.where(short, np.maximum(begin - reach, -_FAR), firsts)
            lasts = np.where(long, np.minimum(last + reach, _FAR), lasts)

    def step(self, old: Tables, changes: Tables, frontier: Frontier, *, first: bool = False) -> Step:
        delta = self._timed(changes)
        columns = [HASH, *self.schema.names, _BEGIN]
        held = old["rows"].select([*columns, WEIGHT])
        nothing = pa.chunked_array([np.zeros(delta.num_rows, dtype=np.int64)])
        both = add(
            held.rename_columns([*columns, _BEFORE]).append_column(_AFTER, held[WEIGHT]),
            delta.select(columns).append_column(_BEFORE, nothing).append_column(_AFTER, delta[WEIGHT]),
        )
        rows = consolidate(both, (_BEFORE, _AFTER)).combine_chunks()
        numbers, moments = self._numbers([rows])[0], microseconds_of(rows[_BEGIN])
        before, after = rows[_BEFORE].to_numpy(), rows[_AFTER].to_numpy()
        if (before < 0).any() or (after < 0).any():
            raise InternalError("The sessions kernel was told to retract a row that it does not hold.")
        was, is_now = (self._spans(numbers, moments, weights > 0) for weights in (before, after))
        moved = (was[0] != is_now[0]) | (was[1] != is_now[1])
        gone, come = moved & (before > 0), moved & (after > 0)
        same = ~moved & (before != after)
        out = add(
            self._shown(rows, was, gone, -before),
            self._shown(rows, is_now, come, after),
            self._shown(rows, is_now, same, after - before),
        )
        return Step({"rows": delta}, out)

    @property
    def _begin(self) -> pa.Field:
        kind = self.schema.field(self.window).type
        return pa.field(_BEGIN, kind.field("start").type)

    def _timed(self, changes: Tables) -> pa.Table:
        """The changes in time order, each with its start in an extra column."""
        rows = changes["rows"]
        begins = pa.chunked_array([pc.struct_field(c, "start") for c in rows[self.window].chunks], self._begin.type)
        rows = rows.append_column(_BEGIN, begins)
        return in_time_order(rows, [*self.schema.names, _BEGIN], (), _BEGIN)

    def _numbers(self, tables: list[pa.Table]) -> list[Numbers]:
        """The number of each row's key."""
        if not self.key:
            return [np.zeros(table.num_rows, dtype=np.int64) for table in tables]
        return number_keys(tables, [self.key] * len(tables))

    def _around(self, delta: pa.Table, rows: pa.Table) -> tuple[Numbers, Numbers]:
        """The first and the last start of the session that each change is in, among all of these rows."""
        targets, numbers = self._numbers([delta, rows])
        count = delta.num_rows
        moments = microseconds_of(rows[_BEGIN])
        first, last = self._spans(numbers, moments, np.ones(len(moments), dtype=bool))
        # The changes are the last of the rows.
        assert (targets == numbers[len(numbers) - count :]).all()
        return first[len(first) - count :], last[len(last) - count :] - self.gap

    def _spans(self, numbers: Numbers, moments: Numbers, there: Flags) -> tuple[Numbers, Numbers]:
        """The start and the end of each row's session; of rows that are not there both are 0."""
        places = np.flatnonzero(there)
        order = places[np.lexsort((moments[places], numbers[places]))]
        ordered = moments[order]
        new = np.append(True, (numbers[order][1:] != numbers[order][:-1]) | (ordered[1:] - ordered[:-1] > self.gap))
        starts = np.flatnonzero(new[: len(order)])
        session = np.cumsum(new[: len(order)]) - 1
        begins, ends = np.zeros(len(moments), dtype=np.int64), np.zeros(len(moments), dtype=np.int64)
        if len(order):
            begins[order] = ordered[starts][session]
            ends[order] = (np.append(ordered[starts[1:] - 1], ordered[-1]) + self.gap)[session]
        return begins, ends

    def _shown(self, rows: pa.Table, spans: tuple[Numbers, Numbers], chosen: Flags, weights: Numbers) -> pa.Table:
        kind, places = self.schema.field(self.window).type, np.flatnonzero(chosen)
        table = rows.take(pa.array(places))
        parts = [pa.array(span[places], pa.int64()).cast(kind.field(0).type) for span in spans]
        window = pa.chunked_array([pa.StructArray.from_arrays(parts, fields=list(kind))], kind)
        table = table.set_column(table.column_names.index(self.window), self.window, window)
        return with_weights(table.select([HASH, *self.schema.names]), weights[places])


def _hashes(hashes: Numbers, moments: Numbers) -> Numbers:
    return time_hashes(hashes, places_of(pa.chunked_array([pa.array(moments, pa.timestamp("us"))])))

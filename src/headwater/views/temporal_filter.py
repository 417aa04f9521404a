"""The temporal filter kernel: rows that appear and disappear when time passes, without a change of their own."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.views.due_order import Moments, due_hashes, microseconds
from headwater.views.exact import Flags
from headwater.views.frontier import Frontier
from headwater.views.identity import validity
from headwater.views.kernel import Due, KeyedKernel, Narrowed, Narrowing, Part, Step, Tables, Work
from headwater.views.zset import HASH, WEIGHT, add, consolidate, negate

DUE = "_due"
_EVER = np.iinfo(np.int64).max
_ALWAYS = np.iinfo(np.int64).min


@dataclass(frozen=True, slots=True)
class Bound:
    """A moment: that in a column, a number of microseconds later."""

    column: str
    later: int = 0


@dataclass(frozen=True, slots=True)
class TemporalFilter(KeyedKernel):
    """Rows in, and out for as long as `source`'s time is at or after all of `begins` and before all of `ends`.

    A row with a moment that is null is never there, and neither is any row before the source has a time. What is kept
    are rows with a moment to come: they lie in the order of the next one, and a step touches only those that cross it.
    What has disappeared, and what has appeared for good, is not kept.
    """

    source: str
    begins: tuple[Bound, ...]
    ends: tuple[Bound, ...]

    @property
    def parts(self) -> Mapping[str, Part]:
        due = Due(self.source, DUE, in_order=True)
        return {"pending": Part(self.schema.append(pa.field(DUE, pa.int64())), due=due)}

    @property
    def hashed_by(self) -> tuple[str, ...] | None:
        return None

    @property
    def time_sources(self) -> Collection[str]:
        return (self.source,)

    @property
    def narrowing(self) -> Narrowing:
        return self

    def narrowed(self, used: Collection[int]) -> Narrowed:
        needed = {bound.column for bound in (*self.begins, *self.ends)}
        kept = [place for place, name in enumerate(self.schema.names) if place in used or name in needed]
        schema = pa.schema([self.schema.field(place) for place in kept])
        return Narrowed(replace(self, schema=schema, key=tuple(schema.names)), kept, dict.fromkeys(self.ports, kept))

    def work(self, shown: Callable[[str], str]) -> Work:
        bounds = [f"appears when {self.source} reaches {_text(bound, shown)}" for bound in self.begins]
        bounds += [f"disappears when {self.source} reaches {_text(bound, shown)}" for bound in self.ends]
        return Work(added_up=bounds)

    def step(self, old: Tables, changes: Tables, frontier: Frontier, *, first: bool = False) -> Step:
        columns = [HASH, *self.schema.names, WEIGHT]
        given, due = changes["rows"].select(columns), old["pending"].select([HASH, *self.schema.names, DUE, WEIGHT])
        now = microseconds(frontier[self.source]) if self.source in frontier else None
        out, pending = self._entered(given, now)
        if now is not None and due.num_rows:
            crossed, moved = self._crossed(due, now)
            out, pending = add(out, crossed), add(pending, negate(due), moved)
        return Step({"pending": consolidate(pending)}, consolidate(out))

    def _entered(self, rows: pa.Table, now: int | None) -> tuple[pa.Table, pa.Table]:
        """What changes of rows make visible, and what is to be kept of them."""
        begin, end, possible = self._span(rows)
        if now is None:
            return rows.slice(0, 0), _kept(rows, possible, begin)
        there = possible & (begin <= now) & (now < end)
        to_come = possible & (now < begin)
        return rows.filter(pa.array(there)), _kept(
            rows, to_come | (there & (end < _EVER)), np.where(to_come, begin, end)
        )

    def _crossed(self, due: pa.Table, now: int) -> tuple[pa.Table, pa.Table]:
        """What rows that are due make visible or take away, and which of them are kept until another moment."""
        rows = due.drop_columns([DUE])
        begin, end, _ = self._span(rows)
        appears = due[DUE].to_numpy() == np.maximum(begin, _ALWAYS)
        stays = appears & (now < end)
        gone = rows.filter(pa.array(~appears))
        return add(rows.filter(pa.array(stays)), negate(gone)), _kept(rows, stays & (end < _EVER), end)

    def _span(self, rows: pa.Table) -> tuple[Moments, Moments, Flags]:
        """When each row appears and when it disappears, and whether it ever is there."""
        begin = np.full(rows.num_rows, _ALWAYS, dtype=np.int64)
        end = np.full(rows.num_rows, _EVER, dtype=np.int64)
        known = np.ones(rows.num_rows, dtype=bool)
        for bound in self.begins:
            begin = np.maximum(begin, _moments(rows, bound))
            known &= validity(rows[bound.column])
        for bound in self.ends:
            end = np.minimum(end, _moments(rows, bound))
            known &= validity(rows[bound.column])
        return begin, end, known & (begin < end)


def _moments(rows: pa.Table, bound: Bound) -> Moments:
    """The moments of a bound, in microseconds; what lies beyond all time is first or last."""
    column = rows[bound.column].combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks)
    moments: Moments = column.view(pa.int64()).fill_null(0).to_numpy()
    shifted = moments + np.int64(bound.later)
    overflow = (shifted < moments) if bound.later >= 0 else (shifted > moments)
    return np.where(overflow, _EVER if bound.later >= 0 else _ALWAYS, shifted) if overflow.any() else shifted


def _kept(rows: pa.Table, chosen: Flags, moments: npt.NDArray[np.int64]) -> pa.Table:
    """These rows as they are kept until a moment each."""
    kept, due = rows.filter(pa.array(chosen)), moments[chosen]
    hashes = due_hashes(kept[HASH].to_numpy(), due)
    names = [name for name in kept.column_names if name not in (HASH, WEIGHT)]
    columns = [pa.chunked_array([hashes]), *(kept[name] for name in names), pa.chunked_array([due]), kept[WEIGHT]]
    return pa.table(columns, names=[HASH, *names, DUE, WEIGHT])


def _text(bound: Bound, shown: Callable[[str], str]) -> str:
    if not bound.later:
        return shown(bound.column)
    sign = "+" if bound.later > 0 else "-"
    return f"{shown(bound.column)} {sign} {abs(bound.later) / 1e6:,g} s"

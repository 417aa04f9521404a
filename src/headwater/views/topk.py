"""The top-k kernel: the first rows of each group in an order, under changes of its rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headwater.views.exact import Flags
from headwater.views.identity import Numbers, number_keys, validity
from headwater.views.kernel import Part, Step, Tables
from headwater.views.ordering import ranks, sorted_places
from headwater.views.touched import Touched
from headwater.views.zset import HASH, WEIGHT, add, consolidate, negate, weights_of, with_weights


@dataclass(frozen=True, slots=True)
class Order:
    """A column to order by."""

    column: str
    descending: bool
    nulls_first: bool


@dataclass(frozen=True, slots=True)
class TopK:
    """The rows ranked `offset` + 1 to `offset` + `limit` of each group; without a key all rows are one group.

    Rows that the order leaves equal are ordered by all their columns, ascending with nulls first, so that the same rows
    always give the same answer. A row of weight 3 is three rows.
    """

    schema: pa.Schema
    key: tuple[str, ...]
    order: tuple[Order, ...]
    limit: int
    offset: int = 0

    @property
    def ports(self) -> Mapping[str, pa.Schema]:
        return {"rows": self.schema}

    @property
    def keys(self) -> Mapping[str, tuple[str, ...]]:
        return {"rows": self.key}

    @property
    def parts(self) -> Mapping[str, Part]:
        return {"rows": Part(self.schema)}

    @property
    def output(self) -> pa.Schema:
        return self.schema

    @property
    def hashed_by(self) -> tuple[str, ...] | None:
        return self.key

    def step(self, old: Tables, changes: Tables, *, first: bool = False) -> Step:
        columns = [HASH, *self.schema.names, WEIGHT]
        touched = Touched.of(changes["rows"].select(columns), old["rows"].select(columns), self.key, "top-k")
        out = consolidate(add(self._first(touched.after), negate(self._first(touched.before))))
        return Step({"rows": touched.delta}, out)

    def _first(self, rows: pa.Table) -> pa.Table:
        """The rows that are ranked high enough, each with as much of its weight as is."""
        if not rows.num_rows:
            return rows
        places, ties, above = self._within_reach(rows)
        rows = rows.take(pa.array(places))
        order = sorted_places([ties, *self._whole(rows)])
        weights, ties, above = weights_of(rows)[order], ties[order], above[order]
        begins = above + _before(weights, _run_starts([ties]))
        taken = np.minimum(begins + weights, self.offset + self.limit) - np.maximum(begins, self.offset)
        chosen = taken > 0
        return with_weights(rows.take(pa.array(order[chosen])), taken[chosen])

    def _within_reach(self, rows: pa.Table) -> tuple[Numbers, Numbers, Numbers]:
        """The rows that the stated order does not rule out, which are few.

        Gives the place of each, the number of its tie, which are the rows of its group that the order leaves equal, and
        how many rows of its group are ranked above that tie.
        """
        (groups,) = number_keys([rows], [self.key])
        keys = [groups, *self._stated(rows)]
        order = sorted_places(keys)
        weights = weights_of(rows)[order]
        starts = _run_starts([key[order] for key in keys])
        ties = np.cumsum(starts) - 1
        above = _before(weights, _run_starts([groups[order]]))[starts]
        size = np.add.reduceat(weights, np.flatnonzero(starts))
        reached = ((above < self.offset + self.limit) & (above + size > self.offset))[ties]
        return order[reached], ties[reached], above[ties[reached]]

    def _stated(self, rows: pa.Table) -> list[Numbers]:
        """What the order sorts by, the most significant first."""
        numbers = []
        for order in self.order:
            column = rows[order.column]
            rank = ranks(column)
            # A null is less than all others, so it comes first of its own accord if the order ascends.
            if column.null_count and order.nulls_first == order.descending:
                valid = validity(column).astype(np.int64)
                numbers.append(valid if order.nulls_first else 1 - valid)
            numbers.append(~rank if order.descending else rank)
        return numbers

    def _whole(self, rows: pa.Table) -> list[Numbers]:
        """What decides between rows that the order leaves equal."""
        return [ranks(rows[name], zeros_apart=True) for name in self.schema.names]


def _run_starts(keys: Sequence[Numbers]) -> Flags:
    """Where something else begins in sorted rows."""
    starts = np.zeros(len(keys[0]), dtype=bool)
    starts[:1] = True
    for key in keys:
        starts[1:] |= key[1:] != key[:-1]
    return starts


def _before(weights: Numbers, starts: Flags) -> Numbers:
    """The sum of the weights before each row, from the start of its run on."""
    begins: Numbers = np.cumsum(weights) - weights
    since: Numbers = begins - begins[starts][np.cumsum(starts) - 1]
    return since

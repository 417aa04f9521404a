"""The top-k kernel: the first rows of each group in an order, under changes of its rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headwater.errors import InternalError
from headwater.views.frontier import Frontier
from headwater.views.identity import Numbers, number_keys
from headwater.views.kernel import KeyedKernel, Step, Tables, Work
from headwater.views.ordering import Order, run_starts, sorted_places, stated_order, weights_before, whole_order
from headwater.views.zset import HASH, WEIGHT, add, consolidate, rows_at, weights_of, with_weights


@dataclass(frozen=True, slots=True)
class TopK(KeyedKernel):
    """The rows ranked `offset` + 1 to `offset` + `limit` of each group; without a key all rows are one group.

    Rows that the order leaves equal are ordered by all their columns, ascending with nulls first, so that the same rows
    always give the same answer. A row of weight 3 is three rows.
    """

    order: tuple[Order, ...]
    limit: int
    offset: int = 0

    def work(self, shown: Callable[[str], str]) -> Work:
        return Work(recomputed=[f"the first {self.limit:,}{f' after {self.offset:,}' if self.offset else ''}"])

    def step(self, old: Tables, changes: Tables, frontier: Frontier, *, first: bool = False) -> Step:
        columns = [HASH, *self.schema.names, WEIGHT]
        delta = consolidate(changes["rows"].select(columns))
        numbers, held_numbers = number_keys([delta, old["rows"]], [self.key, self.key])
        touched = int(numbers.max()) + 1 if len(numbers) else 0
        inside = held_numbers < touched
        held = old["rows"].select(columns).filter(pa.array(inside))
        rows = add(held, delta)
        groups = np.concatenate([held_numbers[inside], numbers])
        before = np.concatenate([weights_of(held), np.zeros(delta.num_rows, dtype=np.int64)])
        return Step({"rows": delta}, self._moved(rows, groups, before, weights_of(rows)))

    def _moved(self, rows: pa.Table, groups: Numbers, before: Numbers, after: Numbers) -> pa.Table:
        """How much of each row comes into reach and leaves it, given its weights before and after.

        Rows may stand there several times, also with weights below 0 that take others away: how much of a group's first
        n rows is in reach follows from n alone, and a row adds the difference between what ends and begins with it.
        """
        if not rows.num_rows:
            return rows
        keys = [groups, *stated_order(rows, self.order)]
        order = sorted_places(keys)
        starts = run_starts([key[order] for key in keys])
        ties = np.cumsum(starts) - 1
        first_of_group = run_starts([groups[order]])
        reached = np.zeros(len(order), dtype=bool)
        above = []
        for weights in (before[order], after[order]):
            begins = weights_before(weights, first_of_group)[starts]
            size = np.add.reduceat(weights, np.flatnonzero(starts))
            if size.min() < 0:
                raise InternalError("The top-k kernel was told to retract a row that it does not hold.")
            # A tie is all rows of a group that the stated order leaves equal; most of them are out of reach.
            reached |= (self._in_reach(begins + size) != self._in_reach(begins))[ties]
            above.append(begins)
        places, ties = order[reached], ties[reached]
        found = rows_at(rows, places)
        order = sorted_places([ties, *whole_order(found, self.schema.names)])
        ties, places = ties[order], places[order]
        starts = run_starts([ties])
        taken = np.zeros(len(order), dtype=np.int64)
        for sign, weights, begins in ((-1, before[places], above[0]), (1, after[places], above[1])):
            since = begins[ties] + weights_before(weights, starts)
            taken += sign * (self._in_reach(since + weights) - self._in_reach(since))
        chosen = taken != 0
        return consolidate(with_weights(rows_at(found, order[chosen]), taken[chosen]))

    def _in_reach(self, count: Numbers) -> Numbers:
        """How many of a group's first rows are shown, and how many come before those."""
        shown: Numbers = np.clip(count, self.offset, self.offset + self.limit)
        return shown

"""The rows kernel: keeps the rows of groups, and hands over the groups that change as they are now."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headwater.views.frontier import Frontier
from headwater.views.identity import first_places, number_keys
from headwater.views.kernel import KeyedKernel, Step, Tables
from headwater.views.touched import Touched
from headwater.views.zset import HASH, WEIGHT, rows_at, weights_of, with_weights


@dataclass(frozen=True, slots=True)
class Rows(KeyedKernel):
    """For each group that changes: its key goes out, and all rows that it has now are handed to a node of Spark's.

    A row that a group holds three times is handed over three times. Of a group that is empty now there is only the key.
    What the node made of the group before is not computed again: `Replace` remembers it.
    """

    @property
    def output(self) -> pa.Schema:
        return pa.schema([self.schema.field(name) for name in self.key])

    def step(self, old: Tables, changes: Tables, frontier: Frontier, *, first: bool = False) -> Step:
        columns = [HASH, *self.schema.names, WEIGHT]
        touched = Touched.of(changes["rows"].select(columns), old["rows"].select(columns), self.key, "rows")
        return Step({"rows": touched.delta}, self._groups(touched.delta), self._each(touched.after))

    def _groups(self, delta: pa.Table) -> pa.Table:
        """The key of each group in which something changes, once."""
        keys = delta.select([HASH, *self.key])
        (numbers,) = number_keys([keys], [self.key])
        groups = rows_at(keys, first_places(numbers))
        return with_weights(groups, np.ones(groups.num_rows, dtype=np.int64))

    def _each(self, rows: pa.Table) -> pa.Table:
        weights = weights_of(rows)
        repeated = rows.select([HASH, *self.schema.names])
        if (weights != 1).any():
            repeated = rows_at(repeated, np.repeat(np.arange(rows.num_rows), weights))
        return with_weights(repeated, np.ones(repeated.num_rows, dtype=np.int64))

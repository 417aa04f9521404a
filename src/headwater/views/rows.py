"""The rows kernel: keeps the rows of groups, and gives all rows of a group, old and new, when it changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headwater.views.kernel import Part, Step, Tables
from headwater.views.touched import Touched
from headwater.views.zset import HASH, WEIGHT, add, rows_at, weights_of, with_weights


@dataclass(frozen=True, slots=True)
class Rows:
    """For each group that changes: every row it had, with weight -1, and every row it has, with weight +1.

    A row that a group holds three times comes out three times. The output is not consolidated: a row that stays comes
    out twice, so that whoever reads it can compute a group's result before and after.
    """

    schema: pa.Schema
    key: tuple[str, ...]

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
        touched = Touched.of(changes["rows"].select(columns), old["rows"].select(columns), self.key, "rows")
        out = add(self._each(touched.before, -1), self._each(touched.after, 1))
        return Step({"rows": touched.delta}, out)

    def _each(self, rows: pa.Table, sign: int) -> pa.Table:
        weights = weights_of(rows)
        repeated = rows.select([HASH, *self.schema.names])
        if (weights != 1).any():
            repeated = rows_at(repeated, np.repeat(np.arange(rows.num_rows), weights))
        return with_weights(repeated, np.full(int(weights.sum()), sign, dtype=np.int64))

"""The replace kernel: keeps the results of groups, and takes back exactly what it gave when there are new ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headwater.errors import InternalError
from headwater.views.frontier import Frontier
from headwater.views.identity import number_keys
from headwater.views.kernel import KeyedKernel, Part, Step, Tables
from headwater.views.placing import hashes_of_keys
from headwater.views.zset import HASH, WEIGHT, add, consolidate, negate, with_weights


@dataclass(frozen=True, slots=True)
class Replace(KeyedKernel):
    """The new results of groups in, and the difference from their old results out.

    `groups` has the key of every group with new results, `results` the results themselves, of which a group may have
    none. Old results are remembered, not computed again: computing may give other bits (a sum of doubles in another
    order), and a row that was never given cannot be taken back. `empty` is the result of an aggregate without a key
    while it has no rows.
    """

    empty: pa.Table | None = None

    @property
    def ports(self) -> Mapping[str, pa.Schema]:
        return {"groups": pa.schema([self.schema.field(name) for name in self.key]), "results": self.schema}

    @property
    def parts(self) -> Mapping[str, Part]:
        return {"results": Part(self.schema, ports=("groups",))}

    def step(self, old: Tables, changes: Tables, frontier: Frontier, *, first: bool = False) -> Step:
        columns = [HASH, *self.schema.names, WEIGHT]
        groups, held = changes["groups"], old["results"].select(columns)
        results = changes["results"].select(columns)
        numbers, new_numbers, held_numbers = number_keys([groups, results, held], [self.key] * 3)
        touched = int(numbers.max()) + 1 if len(numbers) else 0
        if len(new_numbers) and new_numbers.max() >= touched:
            raise InternalError("The replace kernel was given results of a group that did not change.")
        if self.empty is not None and not results.num_rows and (touched or first):
            results = self._of_nothing(results.schema)
        replaced = held.filter(pa.array(held_numbers < touched))
        delta = consolidate(add(results, negate(replaced)))
        return Step({"results": delta}, delta)

    def _of_nothing(self, schema: pa.Schema) -> pa.Table:
        assert self.empty is not None
        rows = self.empty.rename_columns(self.schema.names)
        rows = rows.add_column(0, HASH, pa.array(hashes_of_keys(rows, self.key)))
        return with_weights(rows, np.ones(rows.num_rows, dtype=np.int64)).cast(schema)

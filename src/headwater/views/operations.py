"""The operations kernel: the records of a table's topic, each with what it does: insert, update or delete."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headwater.errors import InternalError
from headwater.views.frontier import Frontier
from headwater.views.identity import number_keys
from headwater.views.kernel import KeyedKernel, Narrowed, Narrowing, Part, Step, Tables
from headwater.views.upsert import DELETED, by_key, record_order
from headwater.views.zset import HASH, WEIGHT, add, consolidate, negate, rows_at, weights_of, with_weights

OPERATION = "operation"
INSERT, UPDATE, DELETE = "insert", "update", "delete"


@dataclass(frozen=True, slots=True)
class Operations(KeyedKernel):
    """Records in, the same records with their operations out.

    A record that is `_deleted` deletes; another one updates the row of its key if the key has one by then, and
    otherwise inserts it. Which keys have a row is all that is kept. Weights of records do not count. Steps are given in
    the order of commits.
    """

    @property
    def ports(self) -> Mapping[str, pa.Schema]:
        return {"records": pa.schema([*self.schema, *record_order()])}

    @property
    def parts(self) -> Mapping[str, Part]:
        return {"keys": Part(pa.schema([self.schema.field(name) for name in self.key]))}

    @property
    def output(self) -> pa.Schema:
        return self.schema.append(pa.field(OPERATION, pa.string()))

    @property
    def consolidated(self) -> bool:
        # Without the columns that tell records apart, two of them may be the same.
        return False

    @property
    def narrowing(self) -> Narrowing:
        return self

    def narrowed(self, used: Collection[int]) -> Narrowed:
        names = self.schema.names
        kept = [place for place, name in enumerate(names) if place in used or name in self.key]
        schema = pa.schema([self.schema.field(place) for place in kept])
        return Narrowed(
            Operations(schema, self.key),
            [*kept, len(names)],
            {"records": [*kept, *range(len(names), len(self.ports["records"]))]},
        )

    def step(self, old: Tables, changes: Tables, frontier: Frontier, *, first: bool = False) -> Step:
        records, keys = changes["records"], old["keys"]
        if not (weights_of(keys) == 1).all():
            raise InternalError("The operations kernel holds a key more than once.")
        numbers, key_numbers = number_keys([records, keys], [self.key, self.key])
        touched = int(numbers.max()) + 1 if len(numbers) else 0
        inside = key_numbers < touched
        known = np.zeros(touched, dtype=bool)
        known[key_numbers[inside]] = True
        order, begins, ends = by_key(records, numbers)
        gone = records[DELETED].to_numpy()[order]
        # What the record before leaves of the key, and in front of the first one what is kept.
        there = np.append(True, ~gone[:-1]) if len(gone) else ~gone
        there[begins] = known[numbers[order[begins]]]
        operations = np.where(gone, DELETE, np.where(there, UPDATE, INSERT))
        rows = rows_at(records.select([HASH, *self.schema.names]), order)
        out = with_weights(
            rows.append_column(OPERATION, pa.array(operations, pa.string())), np.ones(len(order), dtype=np.int64)
        )
        inserted, stays = np.flatnonzero(~gone & ~there), ~gone[ends]
        # By the key's number, the place of the last record that inserted it; -1 if none did.
        place = np.full(touched, -1, dtype=np.int64)
        place[numbers[order[inserted]]] = inserted
        new = place[numbers[order[ends]]]
        kept = np.zeros(touched, dtype=bool)
        kept[numbers[order[ends]]] = stays & (new < 0)
        lost = inside.copy()
        lost[inside] = ~kept[key_numbers[inside]]
        columns = [HASH, *self.key]
        begun = rows_at(rows.select(columns), new[stays & (new >= 0)])
        begun = with_weights(begun, np.ones(begun.num_rows, dtype=np.int64))
        ended = negate(keys.select([*columns, WEIGHT]).filter(pa.array(lost)))
        return Step({"keys": consolidate(add(begun, ended))}, out)

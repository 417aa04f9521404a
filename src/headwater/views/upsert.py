"""The upsert kernel: a topic read as a table; a newer record of a key retracts the older row."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headwater.errors import InternalError
from headwater.views.frontier import Frontier
from headwater.views.identity import Numbers, number_keys
from headwater.views.kernel import KeyedKernel, Narrowed, Narrowing, Step, Tables
from headwater.views.ordering import sorted_places
from headwater.views.zset import HASH, WEIGHT, add, consolidate, negate, rows_at, weights_of, with_weights

COMMIT, OFFSET, DELETED = "_commit", "_offset", "_deleted"


@dataclass(frozen=True, slots=True)
class Upsert(KeyedKernel):
    """Records in, changes of the table out.

    Of the records of a key the one with the greatest (`_commit`, `_offset`) is its row; if that is `_deleted`, the key
    has none, whatever its other columns say. Weights of records do not count. Steps are given in the order of commits.
    """

    @property
    def ports(self) -> Mapping[str, pa.Schema]:
        return {"records": pa.schema([*self.schema, *record_order()])}

    @property
    def narrowing(self) -> Narrowing:
        return self

    def narrowed(self, used: Collection[int]) -> Narrowed:
        names = self.schema.names
        kept = [place for place, name in enumerate(names) if place in used or name in self.key]
        schema = pa.schema([self.schema.field(place) for place in kept])
        return Narrowed(
            Upsert(schema, self.key), kept, {"records": [*kept, *range(len(names), len(self.ports["records"]))]}
        )

    def step(self, old: Tables, changes: Tables, frontier: Frontier, *, first: bool = False) -> Step:
        records, rows = changes["records"], old["rows"]
        if not (weights_of(rows) == 1).all():
            raise InternalError("The upsert kernel holds a key more than once.")
        numbers, row_numbers = number_keys([records, rows], [self.key, self.key])
        touched = int(numbers.max()) + 1 if len(numbers) else 0
        inside = row_numbers < touched
        known = np.zeros(touched, dtype=bool)
        known[row_numbers[inside]] = True
        last = _last_of_each(records, numbers, touched)
        present = ~records[DELETED].to_numpy()[last]
        columns = [HASH, *self.schema.names]
        new = rows_at(records.select(columns), last[present])
        new = with_weights(new, np.ones(new.num_rows, dtype=np.int64))
        replaced = negate(rows.filter(pa.array(inside))).select([*columns, WEIGHT])
        # Only a row of a key that had one can be what it was.
        again = known[present]
        delta = add(new.filter(pa.array(~again)), consolidate(add(new.filter(pa.array(again)), replaced)))
        return Step({"rows": delta}, delta)


def record_order() -> Sequence[pa.Field]:
    """The columns behind a record's own: what orders records, and whether one is a tombstone."""
    return pa.field(COMMIT, pa.int64()), pa.field(OFFSET, pa.int64()), pa.field(DELETED, pa.bool_())


def by_key(records: pa.Table, numbers: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """The places of records with those of a key side by side, in their order; there, where each key begins and ends."""
    order = sorted_places([numbers, records[COMMIT].to_numpy(), records[OFFSET].to_numpy()])
    keys = numbers[order]
    changed = np.flatnonzero(keys[1:] != keys[:-1])
    some = len(order) > 0
    begins = np.append(0, changed + 1) if some else changed
    ends = np.append(changed, len(order) - 1) if some else changed
    return order, begins, ends


def _last_of_each(records: pa.Table, numbers: Numbers, touched: int) -> Numbers:
    """The place of each key's last record."""
    order = sorted_places([records[COMMIT].to_numpy(), records[OFFSET].to_numpy()])
    last = np.zeros(touched, dtype=np.int64)
    # Where a number occurs several times, numpy keeps what is assigned last.
    last[numbers[order]] = order
    return last

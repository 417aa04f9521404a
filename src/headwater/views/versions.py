"""The versions kernel: every version of the rows of a table, with the moments at which it began and ended."""

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

VALID_FROM, VALID_TO = "valid_from", "valid_to"


@dataclass(frozen=True, slots=True)
class Versions(KeyedKernel):
    """Records in, changes of the versions out.

    A record begins a version at its moment, the column `since`, unless it is `_deleted`, and the next record of its key
    in the order of (`_commit`, `_offset`) ends it; the version that no record has ended has no end. Only that one is
    kept, so that a change costs the same however many versions its key has had. Weights of records do not count. Steps
    are given in the order of commits.
    """

    since: str

    @property
    def ports(self) -> Mapping[str, pa.Schema]:
        return {"records": pa.schema([*self.schema, *record_order()])}

    @property
    def parts(self) -> Mapping[str, Part]:
        return {"current": Part(self.schema)}

    @property
    def output(self) -> pa.Schema:
        return self.schema.append(pa.field(VALID_TO, self.schema.field(self.since).type))

    @property
    def consolidated(self) -> bool:
        # Versions of one moment may be the same.
        return False

    @property
    def narrowing(self) -> Narrowing:
        return self

    def narrowed(self, used: Collection[int]) -> Narrowed:
        names = self.schema.names
        needed = {*self.key, self.since}
        kept = [place for place, name in enumerate(names) if place in used or name in needed]
        schema = pa.schema([self.schema.field(place) for place in kept])
        return Narrowed(
            Versions(schema, self.key, self.since),
            [*kept, len(names)],
            {"records": [*kept, *range(len(names), len(self.ports["records"]))]},
        )

    def step(self, old: Tables, changes: Tables, frontier: Frontier, *, first: bool = False) -> Step:
        records, current = changes["records"], old["current"]
        if not (weights_of(current) == 1).all():
            raise InternalError("The versions kernel holds a key more than once.")
        numbers, current_numbers = number_keys([records, current], [self.key, self.key])
        touched = int(numbers.max()) + 1 if len(numbers) else 0
        inside = current_numbers < touched
        columns = [HASH, *self.schema.names]
        ended = current.select([*columns, WEIGHT]).filter(pa.array(inside))
        order, begins, ends = by_key(records, numbers)
        rows = rows_at(records.select(columns), order)
        present = ~rows_at(records.select([DELETED]), order)[DELETED].to_numpy()
        moments = rows[self.since].combine_chunks()
        follows = np.arange(1, len(order) + 1)
        is_last = np.zeros(len(order), dtype=bool)
        is_last[ends] = True
        until = moments.take(pa.array(follows, pa.int64(), mask=is_last))
        begun = with_weights(rows.append_column(VALID_TO, until), np.ones(len(order), dtype=np.int64))
        # By the key's number, the place of its first record here.
        place = np.zeros(touched, dtype=np.int64)
        place[numbers[order[begins]]] = begins
        ends_at = moments.take(pa.array(place[current_numbers[inside]]))
        out = add(
            begun.filter(pa.array(present)),
            self._until(negate(ended), pa.nulls(ended.num_rows, moments.type)),
            self._until(ended, ends_at),
        )
        newest = with_weights(rows, np.ones(len(order), dtype=np.int64)).filter(pa.array(is_last & present))
        return Step({"current": consolidate(add(newest, negate(ended)))}, out)

    def _until(self, rows: pa.Table, moments: pa.Array) -> pa.Table:
        return rows.add_column(rows.num_columns - 1, VALID_TO, moments)

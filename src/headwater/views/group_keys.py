"""The keys of the groups that a step touches, and the rows that it adds to the state of an aggregate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headwater.views.grouped import Grouped
from headwater.views.identity import Numbers, first_places, normal
from headwater.views.linear import Places, Sums
from headwater.views.zset import HASH, WEIGHT, rows_at

FUNCTION, PLACE = "_function", "_place"


@dataclass(frozen=True, slots=True)
class GroupKeys:
    """For each group `_hash` and the key columns of one of its rows, as SQL shows them.

    `places` has the row of each group; it is empty if there are no rows at all.
    """

    rows: pa.Table
    places: Numbers

    @classmethod
    def of(cls, rows: pa.Table, key: Sequence[str], numbers: Numbers) -> GroupKeys:
        """The keys of rows with these numbers."""
        columns = {HASH: rows[HASH]} | {name: normal(rows[name]) for name in key}
        return cls(pa.table(columns), first_places(numbers))

    def take(self, groups: Numbers) -> pa.Table:
        """Hash and key of these groups."""
        return rows_at(self.rows, self.places[groups])

    def shown(self, group: int) -> dict[str, object]:
        """The key of a group by column."""
        if not len(self.places):
            return {}
        row: dict[str, object] = self.take(np.array([group])).drop_columns([HASH]).slice(0, 1).to_pylist()[0]
        return row

    def groups(self, sums: Sums, measures: Sequence[str]) -> pa.Table:
        """The groups with what is added to their measures."""
        some = np.zeros(len(sums[WEIGHT]), dtype=bool)
        for name in measures:
            some |= sums[name] != 0
        changed = np.flatnonzero(some)
        table = self.take(changed)
        for name in measures:
            table = table.append_column(name, pa.array(sums[name][changed], pa.int64()))
        return table

    def limbs(self, places: Mapping[int, Places]) -> pa.Table:
        """The limbs that are added to sums of doubles."""
        tables = []
        for number, limbs in places.items():
            function = np.full(len(limbs.limbs), number, dtype=np.int32)
            table = self.take(limbs.groups).append_column(FUNCTION, pa.array(function))
            table = table.append_column(PLACE, pa.array(limbs.places.astype(np.int32)))
            tables.append(table.append_column(WEIGHT, pa.array(limbs.limbs, pa.int64())))
        return pa.concat_tables(tables)

    def values(self, values: Grouped, columns: Sequence[str]) -> pa.Table:
        """The values that are added to groups or taken from them."""
        table = self.take(values.numbers)
        for name in columns:
            table = table.append_column(name, values.table[name])
        return table.append_column(WEIGHT, pa.array(values.weights, pa.int64()))

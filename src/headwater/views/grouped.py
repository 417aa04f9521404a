"""Rows of the groups of one step: each row with the number of its group, and what adds up per group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.views.identity import Numbers, first_places, holds_floats, number_keys, validity
from headwater.views.zset import WEIGHT, rows_at, weights_of

FunctionKind = Literal["count", "sum", "min", "max", "count_distinct", "sum_distinct"]


@dataclass(frozen=True, slots=True)
class Function:
    """An aggregate function: what it is, the columns it is applied to, the name and type of its result."""

    kind: FunctionKind
    arguments: tuple[str, ...]
    name: str
    type: pa.DataType

    def __str__(self) -> str:
        function, _, distinct = self.kind.partition("_")
        return f"{function}({'DISTINCT ' if distinct else ''}{', '.join(self.arguments) or '*'})"


@dataclass(frozen=True, slots=True)
class Grouped:
    """Rows, each with the number of its group and its weight; numbers are below `count`."""

    table: pa.Table
    numbers: Numbers
    weights: Numbers
    count: int

    @classmethod
    def of(cls, table: pa.Table, numbers: Numbers, count: int) -> Grouped:
        """The rows of a Z-set whose numbers are below `count`."""
        if len(numbers) and numbers.max() >= count:
            inside = numbers < count
            table, numbers = table.filter(pa.array(inside)), numbers[inside]
        return cls(table, numbers, weights_of(table), count)

    def where(self, chosen: npt.NDArray[np.bool_]) -> Grouped:
        if chosen.all():
            return self
        return Grouped(self.table.filter(pa.array(chosen)), self.numbers[chosen], self.weights[chosen], self.count)

    def with_all(self, columns: tuple[str, ...]) -> Grouped:
        """The rows in which none of the columns is null."""
        present = np.ones(self.table.num_rows, dtype=bool)
        for name in columns:
            if self.table[name].null_count:
                present &= validity(self.table[name])
        return self.where(present)

    def renamed(self, columns: tuple[str, ...], names: tuple[str, ...]) -> Grouped:
        """The rows with these columns alone, under other names."""
        table = pa.table([self.table[name] for name in columns], names=list(names))
        return Grouped(table, self.numbers, self.weights, self.count)

    def distinct(self, columns: tuple[str, ...]) -> Grouped:
        """Of rows that are all different each distinct tuple of a group once, with weight 1; distinct as in SQL."""
        if not any(holds_floats(self.table[name].type) for name in columns):
            return Grouped(self.table, self.numbers, np.ones_like(self.numbers), self.count)
        table = self.table.select(list(columns)).append_column(WEIGHT, pa.array(self.numbers))
        (numbers,) = number_keys([table], [[WEIGHT, *columns]])
        first = first_places(numbers)
        ones = np.ones(len(first), dtype=np.int64)
        return Grouped(rows_at(self.table, first), self.numbers[first], ones, self.count)

    def array(self, column: str) -> pa.Array:
        """A column in one piece."""
        chunks = self.table[column].chunks
        return chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks or [pa.nulls(0, self.table[column].type)])

    def total(self, values: Numbers) -> Numbers:
        """Per group the sum of the values."""
        sums = np.zeros(self.count, dtype=np.int64)
        np.add.at(sums, self.numbers, values)
        return sums

    def spread(self, values: pa.Table, numbers: Numbers, column: str) -> pa.ChunkedArray:
        """The column of a table that has at most one row per group, with a row for every group; null if it has none."""
        places = np.full(self.count, -1, dtype=np.int64)
        places[numbers] = np.arange(len(numbers))
        return values[column].take(pa.array(places, mask=places < 0))

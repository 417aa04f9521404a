"""Ranges of a table's rows in SQL, by a column of its key or by the digests of its rows, as the topic divides them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from headwater.cdc.comparison import Ranges, ranges_of
from headwater.cdc.postgres.relations import Column
from headwater.cdc.postgres.texts import to_texts
from headwater.connectors.postgres.copying import row_text, text_of
from headwater.connectors.postgres.log_side import LogSide
from headwater.connectors.postgres.naming import literal, quoted
from headwater.connectors.postgres.tables import Table

# This many ranges are asked for by conditions that an index may serve; more, by a look at every row.
CONDITIONS_MAX = 50
_DIGITS = 7


@dataclass(frozen=True, slots=True)
class Division:
    """Rows divided into ranges. `value` is what they are divided by, in SQL, and `type` its type there.

    `numbers` is, for each row of the topic, its range.
    """

    ranges: Ranges
    numbers: npt.NDArray[np.int64]
    value: str
    type: str

    @property
    def number(self) -> str:
        """The range of a row, in SQL."""
        if not len(self.ranges.bounds):
            return "0"
        return f"width_bucket({self.value}, {self._array(range(len(self.ranges.bounds)))})"

    def condition(self, numbers: Sequence[int]) -> str:
        """That a row is in one of some ranges, in SQL."""
        if not len(self.ranges.bounds):
            return "true"
        if len(numbers) > CONDITIONS_MAX:
            return f"{self.number} = ANY(ARRAY[{', '.join(map(str, numbers))}])"
        return " OR ".join(self._between(number) for number in numbers)

    def _between(self, number: int) -> str:
        least = [f"{self.value} >= {self._bound(number - 1)}"] if number > 0 else []
        most = [f"{self.value} < {self._bound(number)}"] if number < len(self.ranges.bounds) else []
        return f"({' AND '.join([*least, *most])})"

    def _bound(self, at: int) -> str:
        return f"{literal(self._texts([at])[0])}::{self.type}"

    def _array(self, places: Iterable[int]) -> str:
        return f"ARRAY[{', '.join(map(literal, self._texts(list(places))))}]::{self.type}[]"

    def _texts(self, places: list[int]) -> list[str]:
        bounds = self.ranges.bounds
        return [str(text) for text in to_texts(bounds.take(pa.array(places, pa.int64())), bounds.type).to_pylist()]


def divided(table: Table, rows: LogSide) -> Division:
    """The rows of a topic in ranges: by the column of the key that has most values, or by digests."""
    if table.counted:
        numbers = [int(each[:_DIGITS], 16) for each in rows.digests.tolist()]
        values, column = pa.array(numbers, pa.int64()), None
    else:
        name = max(table.key, key=lambda each: pc.count_distinct(rows.keys[each]).as_py())
        column = next(each for each in table.relation.columns if each.name == name)
        values = pa.concat_arrays([pa.array([], rows.keys[name].type), *rows.keys[name].chunks])
        values = values.cast(column.arrow) if _has_order(column) else to_texts(values, column.arrow)
    ranges = ranges_of(values)
    value, kind = _in_sql(table, column)
    return Division(ranges, ranges.of(values), value, kind)


def _has_order(column: Column) -> bool:
    """Whether values of the column have the same order here and there; texts have only by their bytes."""
    arrow = column.arrow
    return bool(pat.is_integer(arrow) or pat.is_decimal(arrow) or pat.is_date(arrow) or pat.is_timestamp(arrow))


def _in_sql(table: Table, column: Column | None) -> tuple[str, str]:
    if column is None:
        return f"('x' || substr(md5({row_text(table.relation)}), 1, {_DIGITS}))::bit({4 * _DIGITS})::int4", "int4"
    if _has_order(column):
        # Whose index is by int4 is not asked for by int8: the bounds take the column's own type.
        kind = "int8" if column.type == "oid" else column.type
        return (f"{quoted(column.name)}::int8" if column.type == "oid" else quoted(column.name)), kind
    return f'({text_of(column)}) COLLATE "C"', "text"

"""DuckDB as an oracle: what it answers to those views of a case file that are written in its dialect, too."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.types as pat

from tests.sql.casefile import CaseFile
from tests.sql.oracles import Content
from tests.sql.rendering import Written, cell

_SETTINGS = {"default_null_order": "nulls_first_on_asc_last_on_desc", "TimeZone": "UTC"}
"""Spark's choices where DuckDB offers one."""


class DuckOracle:
    """A DuckDB that knows the views of a case file by their SQL, as far as it takes it."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, file: CaseFile, content: Content) -> None:
        self._connection = connection
        for topic, rows in content.items():
            connection.register(topic.name, rows)
        self._views = {view.name for view in file.views if self._takes(view.name, view.sql)}

    def answer(self, view: str, like: pa.Schema) -> Written | None:
        """What a view's query gives, with the types of a schema; None if it cannot be run here."""
        if view not in self._views:
            return None
        try:
            found = self._connection.execute(f'SELECT * FROM "{view}"').to_arrow_table()
        except duckdb.Error:
            return None
        if found.num_columns != len(like):
            return None
        columns = [
            [cell(_as(value, one.type), one.type) for value in column.to_pylist()]
            for column, one in zip(found.columns, like, strict=True)
        ]
        return [like.names, *sorted(map(list, zip(*columns, strict=True)))]

    def _takes(self, view: str, sql: str) -> bool:
        try:
            self._connection.execute(f'CREATE VIEW "{view}" AS {sql}')
        except duckdb.Error:
            return False
        return True


@contextmanager
def duck_oracle(file: CaseFile, content: Content) -> Iterator[DuckOracle]:
    with duckdb.connect() as connection:
        for name, value in _SETTINGS.items():
            connection.execute(f"SET {name} = '{value}'")
        yield DuckOracle(connection, file, content)


def _as(value: Any, kind: pa.DataType) -> Any:
    """A value of DuckDB's as one of another type, if it can be one: sums are wider there, and averages are doubles."""
    if value is None:
        return None
    if pat.is_list(kind):
        return [_as(one, kind.value_type) for one in value]
    if pat.is_map(kind):
        return [(_as(key, kind.key_type), _as(one, kind.item_type)) for key, one in value]
    if pat.is_struct(kind):
        fields = [kind.field(number) for number in range(kind.num_fields)]
        return {one.name: _as(part, one.type) for one, part in zip(fields, value.values(), strict=True)}
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        return _number(value, kind)
    if pat.is_timestamp(kind) and isinstance(value, date) and not isinstance(value, datetime):
        return datetime(value.year, value.month, value.day, tzinfo=UTC)
    return value


def _number(value: float | Decimal, kind: pa.DataType) -> float | Decimal:
    if pat.is_decimal(kind):
        return Decimal(str(value)).quantize(Decimal(1).scaleb(-kind.scale), ROUND_HALF_UP)
    if pat.is_floating(kind):
        return float(value)
    return int(value) if pat.is_integer(kind) and value == int(value) else value

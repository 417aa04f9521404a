"""DuckDB as an oracle: what it answers to those views of a case file that are written in its dialect, too."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.types as pat

from headwater.log.topic import Topic
from headwater.model.record import SQL_COLUMNS
from tests.sql.casefile import CaseFile
from tests.sql.oracles import with_clock
from tests.sql.rendering import Written, written
from tests.sql.running import Oracle

_SETTINGS = {"default_null_order": "nulls_first_on_asc_last_on_desc", "TimeZone": "UTC"}
"""Spark's choices where DuckDB offers one."""
_SPELLINGS = {
    r"\b(at|limit)\b": r'"\1"',
    r"\b(LEFT |INNER |)(?:OUTER )?ASOF JOIN (.+?)\s+MATCH_CONDITION \(([^()]*)\)\s+ON ": r"ASOF \1JOIN \2 ON \3 AND ",
    r"<=>": "IS NOT DISTINCT FROM",
    r"\bLEFT (SEMI|ANTI) JOIN\b": r"\1 JOIN",
    r"\bMINUS\b": "EXCEPT",
    r"\bany\(": "bool_or(",
    r"\bsome\(": "bool_or(",
    r"\bevery\(": "bool_and(",
    r"\bsize\(": "len(",
    r"\b(\d+)L\b": r"\1::bigint",
    r"\b(changes|versions)\('([\w.]+)'\)": r'"\1 of \2"',
    r"(?<!of )\bshop\.visits\b": r'"shop.visits"',
}
"""What both have, but under different names. Case files write keywords in capitals, and names in small letters."""


def run_by_duckdb(file: CaseFile, oracle: Oracle) -> dict[str, Written]:
    """The answers, with Spark's types, to those views that DuckDB runs and that have one answer."""
    found = {}
    with duckdb.connect() as connection:
        for name, value in _SETTINGS.items():
            connection.execute(f"SET {name} = '{value}'")
        for topic, rows in oracle.content.items():
            connection.register(topic.name, rows)
        for topic, records in oracle.records.items():
            _put_history(connection, topic, records)
        for view in file.views:
            answer = _answer(connection, view.name, _spelled(with_clock(view.sql, oracle.content)))
            if answer is not None and not view.open:
                schema = answer.schema if view.spark else oracle.answers[view.name].first.schema
                if answer.num_columns == len(schema):
                    found[view.name] = _with_types(answer, schema)
    return found


def _put_history(connection: duckdb.DuckDBPyConnection, topic: Topic, records: pa.Table) -> None:
    """Lets DuckDB know a topic by all of its records: with system columns, which `*` has here, changes and versions."""
    own, system = (", ".join(f'"{name}"' for name in names) for names in (topic.schema.names, SQL_COLUMNS))
    connection.register("records", records)
    connection.execute(f'CREATE TEMP TABLE "records of {topic.name}" AS FROM records')
    source = f'FROM "records of {topic.name}"'
    keys = ", ".join(f'"{name}"' for name in topic.key)
    window = f"OVER (PARTITION BY {keys} ORDER BY _commit, _offset)"
    rows, changes = f"SELECT {own}, {system} {source}", f"SELECT {own}, 'insert' AS operation, {system} {source}"
    if topic.key:
        last = f"QUALIFY NOT _deleted AND lead(_offset) {window} IS NULL"
        operation = (
            f"CASE WHEN _deleted THEN 'delete' WHEN lag(_deleted, 1, true) {window} THEN 'insert' ELSE 'update' END"
        )
        rows, changes = f"{rows} {last}", f"SELECT {own}, {operation} AS operation, {system} {source}"
        moments = f"_received_at AS valid_from, lead(_received_at) {window} AS valid_to"
        versions = f"SELECT {own}, {moments}, {system} {source} QUALIFY NOT _deleted"
        connection.execute(f'CREATE TEMP VIEW "versions of {topic.name}" AS {versions}')
    connection.unregister(topic.name)
    connection.execute(f'CREATE TEMP VIEW "{topic.name}" AS {rows}')
    connection.execute(f'CREATE TEMP VIEW "changes of {topic.name}" AS {changes}')


def _spelled(sql: str) -> str:
    for pattern, spelling in _SPELLINGS.items():
        sql = re.sub(pattern, spelling, sql)
    return sql


def _answer(connection: duckdb.DuckDBPyConnection, view: str, sql: str) -> pa.Table | None:
    """The rows of a view, which later ones may read; None if DuckDB does not run it."""
    try:
        connection.execute(f'CREATE TEMP VIEW "{view}" AS {sql}')
        return connection.sql(f'SELECT * FROM "{view}"').to_arrow_table()
    except duckdb.Error:
        return None


def _with_types(answer: pa.Table, schema: pa.Schema) -> Written:
    columns = zip(answer.columns, schema.types, strict=True)
    return written(schema, [[_as(value, kind) for value in column.to_pylist()] for column, kind in columns])


def _as(value: Any, kind: pa.DataType) -> Any:
    """A value as one of Spark's type, if it can be one: in DuckDB sums are wider, and averages are doubles."""
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

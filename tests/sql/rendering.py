"""Rows as they are written in case files."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.types as pat

_PLAIN = re.compile(r"(?!NULL$|true$|false$)[^\s'|,{}\[\]]+(?: [^\s'|,{}\[\]]+)*")

Written: TypeAlias = list[list[str]]
"""A table as text: the names of the columns, and then the rows, sorted."""


def table_cells(table: pa.Table) -> Written:
    return written(table.schema, [column.to_pylist() for column in table.columns])


def written(schema: pa.Schema, columns: Sequence[Sequence[Any]]) -> Written:
    """Columns of values as a table."""
    cells = [[cell(value, kind) for value in column] for column, kind in zip(columns, schema.types, strict=True)]
    return [schema.names, *sorted(map(list, zip(*cells, strict=True)))]


def table_lines(table: Written) -> list[str]:
    """The lines of a table, its columns aligned."""
    widths = [max(len(row[at]) for row in table) for at in range(len(table[0]))]
    padded = ([cell.ljust(width) for cell, width in zip(row, widths, strict=True)] for row in table)
    return ["| " + " | ".join(row) + " |" for row in padded]


def unordered(text: str) -> str:
    """A cell without the order of a list: lists of the same items look the same."""
    return "[" + ", ".join(sorted(text[1:-1].split(", "))) + "]" if text.startswith("[") else text


def cell(value: Any, given: pa.DataType) -> str:
    """One value. Text is quoted where it would not be clear without."""
    if value is None:
        return "NULL"
    if pat.is_map(given):
        pairs = value.items() if isinstance(value, dict) else value
        parts = [f"{cell(key, given.key_type)} -> {cell(one, given.item_type)}" for key, one in pairs]
        return "{" + ", ".join(parts) + "}"
    if pat.is_struct(given):
        fields = [given.field(at) for at in range(given.num_fields)]
        return "{" + ", ".join(f"{one.name}: {cell(value[one.name], one.type)}" for one in fields) + "}"
    if pat.is_list(given) or pat.is_large_list(given):
        return "[" + ", ".join(cell(one, given.value_type) for one in value) + "]"
    return _scalar(value)


def _scalar(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, str):
        return value if _PLAIN.fullmatch(value) else "'" + value.replace("'", "''").replace("|", "\\|") + "'"
    if isinstance(value, datetime):
        return str(value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value)
    if isinstance(value, bytes):
        return f"x'{value.hex()}'"
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, int | date | time | timedelta):
        return str(value)
    raise TypeError(f"no way to write {value!r}")


def _number(value: float) -> str:
    """A double, as closely as doubles are compared; always with a point, so that it is told from whole numbers."""
    if math.isnan(value) or math.isinf(value):
        return str(value)
    text = f"{value:.10g}"
    return text if "." in text or "e" in text else f"{text}.0"

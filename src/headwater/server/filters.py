"""Conditions, order and pages of rows, as a query string has them: `where=country:eq:DE&order=-revenue&limit=10`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from headwater.errors import HeadwaterError, Refused
from headwater.model.rows import parse_json_lines
from headwater.server.failures import bad_request

_LITERAL = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?|true|false")
_WHOLE = re.compile(r"-?\d{1,18}")
_COMPARE: dict[str, Callable[[pa.ChunkedArray, pa.Scalar], pa.ChunkedArray]] = {
    "eq": pc.equal,
    "ne": pc.not_equal,
    "lt": pc.less,
    "le": pc.less_equal,
    "gt": pc.greater,
    "ge": pc.greater_equal,
}
OPERATORS = (*_COMPARE, "contains", "null", "notnull")
PATTERN = rf"^[^:]+:({'|'.join(OPERATORS)})(:[\s\S]*)?$"


@dataclass(frozen=True, slots=True)
class Condition:
    """What a column of a row has to be."""

    column: str
    operator: str
    value: str


def parse_condition(text: str) -> Condition:
    """Raises `Refused`."""
    column, _, rest = text.partition(":")
    operator, colon, value = rest.partition(":")
    if operator not in OPERATORS or (operator in ("null", "notnull")) == bool(colon):
        raise bad_request(
            f"{text!r} is not a condition.",
            f"Write column:operator:value with one of {', '.join(OPERATORS)}; null and notnull take no value.",
        )
    return Condition(column, operator, value)


def matching(table: pa.Table, conditions: Sequence[Condition]) -> pa.Table:
    """The rows that meet all conditions. Raises `Refused`."""
    for condition in conditions:
        table = table.filter(_mask(table, condition))
    return table


def ordered(table: pa.Table, order: str | None) -> pa.Table:
    """The rows in the order of some columns, separated by commas; one with a minus comes from large to small.

    Rows without a value come last.
    """
    if not order:
        return table
    keys: list[tuple[str, str]] = []
    for part in order.split(","):
        name = part.removeprefix("-")
        field = _field(table.schema, name)
        if pat.is_nested(field.type):
            raise bad_request(f"Rows cannot be ordered by {name!r}, which is nested.")
        keys.append((name, "descending" if part.startswith("-") else "ascending"))
    return table.take(pc.sort_indices(table, sort_keys=keys))


def typed(text: str, field: pa.Field) -> pa.Array:
    """An array of the one value that a text stands for in a column. Raises `Refused`."""
    # What most keys are, without a detour.
    if pat.is_string(field.type):
        return pa.array([text], field.type)
    if pat.is_int64(field.type) and _WHOLE.fullmatch(text):
        return pa.array([int(text)], field.type)
    plain = not pat.is_string(field.type) and _LITERAL.fullmatch(text)
    line = f"{{{json.dumps(field.name)}: {text if plain else json.dumps(text)}}}".encode()
    try:
        found, rejected = parse_json_lines(line, pa.schema([field.with_nullable(True)]))
    except (HeadwaterError, pa.ArrowException, TypeError, ValueError) as error:
        raise bad_request(f"Column {field.name!r} cannot be compared with a text.") from error
    if rejected:
        raise bad_request(f"{text!r} is not a value of column {field.name!r}: expected {rejected[0].expected}.")
    return found[field.name].combine_chunks()


def _mask(table: pa.Table, condition: Condition) -> pa.ChunkedArray:
    field = _field(table.schema, condition.column)
    column = table[condition.column]
    if condition.operator == "null":
        return pc.is_null(column)
    if condition.operator == "notnull":
        return pc.is_valid(column)
    if pat.is_nested(field.type):
        raise bad_request(f"Column {field.name!r} is nested: it can only be asked whether it is null.")
    if condition.operator == "contains":
        if not pat.is_string(field.type):
            raise bad_request(f"Column {field.name!r} is not text.")
        return pc.match_substring(column, condition.value)
    return _COMPARE[condition.operator](column, typed(condition.value, field)[0])


def _field(schema: pa.Schema, name: str) -> pa.Field:
    if schema.names.count(name) != 1:
        raise _unknown(name, schema)
    return schema.field(name)


def _unknown(name: str, schema: pa.Schema) -> Refused:
    return bad_request(f"There is no column {name!r}.", f"Columns: {', '.join(schema.names)}.")

"""Records written as JSON, one object per line."""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from headwater.model.coercion import Rejection, describe
from headwater.model.strict_json import duplicate_keys

Decoded: TypeAlias = tuple[Sequence[Mapping[str, object]], dict[int, Rejection]]


# An exponent that no Decimal has is JSON by the letter, and of no use.
_NOT_JSON = (ValueError, RecursionError, InvalidOperation)


def split(data: bytes) -> list[bytes]:
    """The lines that are not blank."""
    return [line for line in data.split(b"\n") if line and not line.isspace()]


def decode(lines: Sequence[bytes], *, exact: bool) -> Decoded:
    """The object of each line, and by line number those that are none, which are empty objects in the result.

    An object with a name more than once is none. If `exact`, a number with a point or an exponent is a Decimal,
    otherwise a float.
    """
    decoder = json.JSONDecoder(parse_float=Decimal if exact else None, parse_constant=_refuse_constant)
    rows, rejections = _decode_all(lines, decoder) or _decode_each(lines, decoder)
    return _without_duplicates(lines, rows, rejections)


def with_binary(rows: Sequence[Mapping[str, object]], schema: pa.Schema) -> Sequence[Mapping[str, object]]:
    """The rows with the base64 texts of binary columns decoded; other text is left for the schema to refuse."""
    names = [field.name for field in schema if pat.is_binary(field.type)]
    if not names:
        return rows
    return [{**row, **{name: _from_base64(row[name]) for name in names if name in row}} for row in rows]


def _from_base64(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return base64.b64decode(value, validate=True)
    except ValueError:
        return value


def needs_digits(schema: pa.Schema) -> bool:
    """Whether numbers must be read exactly: for decimals, and for nested floats, where `has_infinity` does not look."""
    return any(_needs_digits(field.type) for field in schema)


def has_infinity(table: pa.Table) -> bool:
    """Whether a float column holds an infinity."""
    floats = (column for column in table.columns if pat.is_floating(column.type))
    return any(pc.any(pc.is_inf(column)).as_py() for column in floats)


def _decode_all(lines: Sequence[bytes], decoder: json.JSONDecoder) -> Decoded | None:
    """All lines as one JSON array, which is twice as fast as one by one; None if a line is not exactly one object.

    Between two lines stands a number that nobody can know. If every second element is that number, then no line has
    opened what another one closes, and none has more than one value.
    """
    if not lines:
        return [], {}
    separator = secrets.randbits(62)
    text = b"[" + (b",%d," % separator).join(lines) + b"]"
    try:
        values = decoder.decode(text.decode())
    except _NOT_JSON:
        return None
    rows = values[::2]
    whole = len(values) == 2 * len(lines) - 1 and values[1::2].count(separator) == len(lines) - 1
    return (rows, {}) if whole and set(map(type, rows)) == {dict} else None


def _decode_each(lines: Sequence[bytes], decoder: json.JSONDecoder) -> Decoded:
    rows: list[Mapping[str, object]] = []
    rejections: dict[int, Rejection] = {}
    for at, line in enumerate(lines):
        try:
            row = decoder.decode(line.decode())
        except _NOT_JSON:
            row = None
        if not isinstance(row, dict):
            rejections[at] = Rejection("a JSON object", describe(line))
        rows.append(row if isinstance(row, dict) else {})
    return rows, rejections


def _without_duplicates(
    lines: Sequence[bytes], rows: Sequence[Mapping[str, object]], rejections: dict[int, Rejection]
) -> Decoded:
    doubled = duplicate_keys(lines, list(map(len, rows)), all_json=not rejections)
    if not doubled:
        return rows, rejections
    kept = [{} if at in doubled else row for at, row in enumerate(rows)]
    return kept, {**rejections, **{at: Rejection("one value", "several", key) for at, key in doubled.items()}}


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def _needs_digits(arrow: pa.DataType) -> bool:
    if pat.is_nested(arrow):
        children = (arrow.field(at).type for at in range(arrow.num_fields))
        return any(bool(pat.is_floating(child)) or _needs_digits(child) for child in children)
    return bool(pat.is_decimal(arrow))

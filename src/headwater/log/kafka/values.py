"""Records as JSON in Kafka's messages, and back: in bulk where a column's type allows it, and exactly in any case."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
import pyarrow.types as pat

from headwater.model.encoding import json_rows

BLOCK_BYTES = 64 << 20

Decode = Callable[[Any], object]


def to_json(table: pa.Table) -> list[bytes]:
    """Each row as a JSON object with all columns."""
    columns = [_texts(table.schema.field(number), table.column(number)) for number in range(table.num_columns)]
    if any(column is None for column in columns):
        return [json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode() for row in json_rows(table)]
    joined = pc.binary_join_element_wise(*columns, ",")
    whole = pc.binary_join_element_wise("{", joined, "}", "")
    rows: list[bytes] = whole.cast(pa.binary()).to_pylist()
    return rows


def from_json(rows: Sequence[bytes], schema: pa.Schema) -> pa.Table:
    """The rows that `to_json` has made; a column that a row does not have is null. Raises `ValueError` for others."""
    fields = pa.schema([field.with_nullable(True) for field in schema])
    if not rows:
        return fields.empty_table()
    if len(fields) and all(_reads_fast(field.type) for field in fields):
        try:
            table = _read_all(rows, fields)
        except pa.ArrowInvalid:
            # A number that JSON does not have, which is text.
            return _read_each(rows, fields)
        if table.num_rows == len(rows):
            return table
    return _read_each(rows, fields)


def message_headers(column: pa.ChunkedArray) -> list[list[tuple[str, str | bytes | None]] | None]:
    """The headers of each record as Kafka has them."""
    return [[(name, value.encode()) for name, value in row] if row else None for row in column.to_pylist()]


def record_headers(headers: Sequence[tuple[str, bytes]] | None) -> list[tuple[str, str]] | None:
    """The headers of a message as a record has them."""
    return [(name, (value or b"").decode(errors="replace")) for name, value in headers] if headers else None


def _texts(field: pa.Field, column: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """`"name":value` for each row; None for a type, or for values, that are written one by one."""
    name = json.dumps(field.name, ensure_ascii=False) + ":"
    arrow = field.type
    if pat.is_integer(arrow) or pat.is_boolean(arrow):
        texts = column.cast(pa.string())
    elif pat.is_float64(arrow):
        if not pc.all(pc.is_finite(column), min_count=0).as_py():
            return None
        texts = column.cast(pa.string())
    elif pat.is_string(arrow):
        texts = _quoted(column)
    elif pat.is_date32(arrow):
        texts = pc.binary_join_element_wise('"', column.cast(pa.string()), '"', "")
    else:
        return None
    if texts is None:
        return None
    return pc.binary_join_element_wise(pa.scalar(name), pc.fill_null(texts, "null"), "")


def _quoted(column: pa.ChunkedArray) -> pa.ChunkedArray | None:
    # Control characters and what is not UTF-8 are left to Python.
    if pc.any(pc.match_substring_regex(column, r'["\\\x00-\x1f]')).as_py():
        return None
    return pc.binary_join_element_wise('"', column, '"', "")


def _reads_fast(arrow: pa.DataType) -> bool:
    return bool(pat.is_integer(arrow) or pat.is_boolean(arrow) or pat.is_float64(arrow) or pat.is_string(arrow))


def _read_all(rows: Sequence[bytes], schema: pa.Schema) -> pa.Table:
    content = b"\n".join(rows)
    return pj.read_json(
        io.BytesIO(content),
        read_options=pj.ReadOptions(block_size=min(BLOCK_BYTES, len(content) + 1), use_threads=False),
        parse_options=pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
    ).select(schema.names)


def _read_each(rows: Sequence[bytes], schema: pa.Schema) -> pa.Table:
    decoded = [json.loads(row) for row in rows]
    columns = []
    for field in schema:
        decode = _decoder(field.type)
        columns.append(pa.array([_inside(decode, row.get(field.name)) for row in decoded], field.type))
    return pa.Table.from_arrays(columns, schema=schema)


def _decoder(arrow: pa.DataType) -> Decode:
    """What makes a value of JSON one of a type."""
    if pat.is_decimal(arrow):
        return lambda value: Decimal(str(value))
    if pat.is_timestamp(arrow):
        return _instant
    if pat.is_date(arrow):
        return date.fromisoformat
    if pat.is_binary(arrow):
        return base64.b64decode
    if pat.is_floating(arrow):
        return float
    if pat.is_map(arrow):
        return _map(_decoder(arrow.key_type), _decoder(arrow.item_type))
    if pat.is_list(arrow):
        element = _decoder(arrow.value_type)
        return lambda value: [_inside(element, item) for item in value]
    if pat.is_struct(arrow):
        return _struct({field.name: _decoder(field.type) for field in arrow})
    return lambda value: value


def _instant(value: str) -> datetime:
    return datetime.fromisoformat(value)


def _map(key: Decode, item: Decode) -> Decode:
    def decode(value: Any) -> list[tuple[object, object]]:
        pairs = value.items() if isinstance(value, dict) else value
        return [(key(k), _inside(item, v)) for k, v in pairs]

    return decode


def _struct(fields: Mapping[str, Decode]) -> Decode:
    def decode(value: Any) -> dict[str, object]:
        return {name: _inside(inner, value.get(name)) for name, inner in fields.items()}

    return decode


def _inside(decode: Decode, value: Any) -> object:
    return None if value is None else decode(value)

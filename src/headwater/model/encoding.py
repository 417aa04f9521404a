"""Values as JSON that loses nothing: what stands for a decimal, an instant, bytes, and a number that JSON lacks."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.types as pat

Encoder: TypeAlias = Callable[[object], object]


def encoder(arrow: pa.DataType) -> Encoder:
    """What makes a value of a canonical type, not null, fit for JSON.

    Decimals are strings, timestamps and dates ISO 8601, binary is base64; what JSON has no number for is a string, too.
    """
    if pat.is_decimal(arrow):
        return str
    if pat.is_timestamp(arrow):
        return _instant if arrow.tz is not None else _iso
    if pat.is_date(arrow):
        return _iso
    if pat.is_binary(arrow) or pat.is_large_binary(arrow) or pat.is_fixed_size_binary(arrow):
        return _base64
    if pat.is_floating(arrow):
        return _float
    if pat.is_map(arrow):
        return _map(encoder(arrow.key_type), encoder(arrow.item_type), text_keys=pat.is_string(arrow.key_type))
    if pat.is_list(arrow) or pat.is_large_list(arrow) or pat.is_fixed_size_list(arrow):
        return _array(encoder(arrow.value_type))
    if pat.is_struct(arrow):
        return _struct({field.name: encoder(field.type) for field in arrow})
    return _any if pat.is_union(arrow) else _same


def format_instant(at: datetime) -> str:
    """ISO 8601 in UTC, with a Z."""
    return at.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z"


def json_rows(table: pa.Table) -> Iterator[dict[str, object]]:
    """The rows of a table, each value fit for JSON."""
    names = table.column_names
    for batch in table.to_batches():
        columns = [_encoded(column) for column in batch.columns]
        for values in zip(*columns, strict=True):
            yield dict(zip(names, values, strict=True))


def python_values(column: pa.Array | pa.ChunkedArray) -> list[object]:
    """The values of a column. One that Python has no value for is text: a time after the year 9999 as Arrow writes it,
    and text that is not valid UTF-8 with a replacement character for each byte that is not."""
    try:
        values: list[object] = column.to_pylist()
    except (ValueError, OverflowError):
        return [_value_alone(column.slice(place, 1)) for place in range(len(column))]
    return values


def python_rows(table: pa.Table) -> list[dict[str, object]]:
    """The rows of a table, with values as in `python_values`."""
    if not table.num_columns:
        return [{} for _ in range(table.num_rows)]
    columns = [python_values(column) for column in table.columns]
    return [dict(zip(table.column_names, values, strict=True)) for values in zip(*columns, strict=True)]


def _value_alone(column: pa.Array | pa.ChunkedArray) -> object:
    try:
        value: object = column[0].as_py()
    except (ValueError, OverflowError):
        return _readable(column.type, column.cast(_safe(column.type))[0].as_py())
    return value


def _encoded(column: pa.Array) -> list[object]:
    encode = encoder(column.type)
    try:
        values: list[object] = column.to_pylist()
    except (ValueError, OverflowError):
        return [_encoded_alone(column.slice(place, 1), encode) for place in range(len(column))]
    return values if encode is _same else [None if value is None else encode(value) for value in values]


def _encoded_alone(column: pa.Array, encode: Encoder) -> object:
    """One value, or what `python_values` has for it."""
    try:
        return _inside(encode, column[0].as_py())
    except (ValueError, OverflowError):
        return _inside(encoder(_with_text_for_times(column.type)), _value_alone(column))


def _safe(arrow: pa.DataType) -> pa.DataType:
    """The type with text in the place of times, and bytes in the place of text."""
    return _replaced(
        arrow, lambda leaf: pa.string() if pat.is_temporal(leaf) else pa.binary() if _is_text(leaf) else leaf
    )


def _with_text_for_times(arrow: pa.DataType) -> pa.DataType:
    return _replaced(arrow, lambda leaf: pa.string() if pat.is_temporal(leaf) else leaf)


def _replaced(arrow: pa.DataType, leaf: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    """The type with others in the place of those that hold no others."""
    if pat.is_map(arrow):
        return pa.map_(_replaced(arrow.key_type, leaf), _replaced(arrow.item_type, leaf))
    if pat.is_list(arrow) or pat.is_large_list(arrow) or pat.is_fixed_size_list(arrow):
        return pa.list_(_replaced(arrow.value_type, leaf))
    if pat.is_struct(arrow):
        return pa.struct([field.with_type(_replaced(field.type, leaf)) for field in arrow])
    return leaf(arrow)


def _is_text(arrow: pa.DataType) -> bool:
    return bool(pat.is_string(arrow) or pat.is_large_string(arrow))


def _readable(arrow: pa.DataType, value: Any) -> Any:
    """A value that was read as the safe form of a type, with bytes turned back into text."""
    if value is None:
        return None
    if _is_text(arrow):
        return value.decode("utf-8", "replace")
    if pat.is_map(arrow):
        return [(_readable(arrow.key_type, key), _readable(arrow.item_type, item)) for key, item in value]
    if pat.is_list(arrow) or pat.is_large_list(arrow) or pat.is_fixed_size_list(arrow):
        return [_readable(arrow.value_type, item) for item in value]
    if pat.is_struct(arrow):
        return {field.name: _readable(field.type, value[field.name]) for field in arrow}
    return value


def _any(value: object) -> object:
    return _float(value) if isinstance(value, float) else value


def _same(value: object) -> object:
    return value


def _iso(value: object) -> str:
    isoformat: Callable[[], str] = value.isoformat  # type: ignore[attr-defined]
    return isoformat()


def _instant(value: object) -> str:
    assert isinstance(value, datetime)
    return format_instant(value)


def _base64(value: object) -> str:
    assert isinstance(value, bytes)
    return base64.b64encode(value).decode()


def _float(value: object) -> object:
    assert isinstance(value, float)
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _inside(inner: Encoder, value: object) -> object:
    return None if value is None else inner(value)


def _array(element: Encoder) -> Encoder:
    def encode(value: object) -> list[object]:
        assert isinstance(value, list)
        return [_inside(element, item) for item in value]

    return encode


def _struct(fields: Mapping[str, Encoder]) -> Encoder:
    def encode(value: object) -> dict[str, object]:
        assert isinstance(value, dict)
        return {name: _inside(inner, value[name]) for name, inner in fields.items()}

    return encode


def _map(key: Encoder, item: Encoder, *, text_keys: bool) -> Encoder:
    """An object if the keys are text, as JSON has no other ones; otherwise an array of pairs."""

    def encode(value: object) -> object:
        assert isinstance(value, list)
        pairs = [(key(k), _inside(item, v)) for k, v in value]
        return dict(pairs) if text_keys else [list(pair) for pair in pairs]

    return encode

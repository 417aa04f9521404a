"""Columns of a view in PostgreSQL: the type that holds each without loss, rows as COPY takes them, and the way back."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pv
import pyarrow.types as pat

from headwater.cdc.postgres.texts import to_texts
from headwater.cdc.postgres.values import convert
from headwater.model.encoding import encoder
from headwater.model.rows import parse_json_lines

COPY_FORMAT = "(FORMAT csv, NULL '')"
"""Null is nothing, and an empty text is a quoted one: that is how Arrow writes CSV."""
_DIGITS = np.frombuffer(b"0123456789abcdef", np.uint8)
_PLAIN: Sequence[tuple[Callable[[pa.DataType], bool], str]] = (
    (pat.is_boolean, "boolean"),
    (pat.is_int8, "smallint"),
    (pat.is_int16, "smallint"),
    (pat.is_int32, "integer"),
    (pat.is_int64, "bigint"),
    (pat.is_float32, "real"),
    (pat.is_float64, "double precision"),
    (pat.is_string, "text"),
    (pat.is_large_string, "text"),
    (pat.is_binary, "bytea"),
    (pat.is_large_binary, "bytea"),
    (pat.is_date, "date"),
    (pat.is_null, "text"),
)
_ROOMIER: dict[str, tuple[str, ...]] = {
    "smallint": ("integer", "bigint", "numeric"),
    "integer": ("bigint", "numeric"),
    "bigint": ("numeric",),
    "real": ("double precision",),
    "text": ("character varying", "uuid", "json", "jsonb", "xml", "citext", "inet", "cidr", "interval"),
    "jsonb": ("json", "text"),
}
"""Types of a user's table that also hold all values of a type, or refuse those that they do not hold."""


def sql_type(arrow: pa.DataType) -> str:
    """The type of the column that holds all values of an Arrow type. What is nested is JSON."""
    for fits, name in _PLAIN:
        if fits(arrow):
            return name
    if pat.is_decimal(arrow):
        return f"numeric({arrow.precision},{arrow.scale})"
    if pat.is_timestamp(arrow):
        return "timestamp without time zone" if arrow.tz is None else "timestamp with time zone"
    if pat.is_duration(arrow):
        return "bigint"
    if pat.is_list(arrow) and not _is_document(arrow):
        return f"{sql_type(arrow.value_type)}[]"
    return "jsonb" if pat.is_nested(arrow) else "text"


def holds(actual: str, arrow: pa.DataType) -> bool:
    """Whether a column of a user's table, as `format_type` names its type, holds all values, or refuses some."""
    wanted = sql_type(arrow)
    if actual == wanted or (pat.is_decimal(arrow) and actual == "numeric"):
        return True
    known = _ROOMIER.get(wanted, ())
    return actual in known or actual.partition("(")[0] in set(known) - {"numeric"}


def csv_of(rows: pa.Table) -> bytes:
    """Rows as `COPY_FORMAT` says."""
    columns = [_written(column) for column in rows.columns]
    held = io.BytesIO()
    pv.write_csv(pa.table(columns, names=rows.column_names), held, pv.WriteOptions(include_header=False))
    return held.getvalue()


def rows_of(csv: bytes, columns: pa.Schema) -> pa.Table:
    """The way back, from what COPY gives for `readable`."""
    parsed = pv.read_csv(
        io.BytesIO(csv),
        pv.ReadOptions(column_names=columns.names, block_size=max(1 << 20, len(csv))),
        pv.ParseOptions(newlines_in_values=True),
        pv.ConvertOptions(
            column_types=dict.fromkeys(columns.names, pa.string()),
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    return pa.table([_read(parsed[field.name], field.type) for field in columns], schema=columns)


def readable(quoted: str, arrow: pa.DataType) -> str:
    """What of a column has to be asked for, so that `rows_of` reads it."""
    return f"CASE WHEN {quoted} THEN 't' WHEN NOT {quoted} THEN 'f' END" if pat.is_boolean(arrow) else f"{quoted}::text"


def _written(column: pa.ChunkedArray) -> pa.ChunkedArray | pa.Array:
    """A column that Arrow writes as PostgreSQL reads it."""
    kind = column.type
    if pat.is_binary(kind) or pat.is_large_binary(kind):
        return pa.chunked_array([_hexadecimal(chunk) for chunk in column.chunks], pa.string())
    if pat.is_timestamp(kind):
        # Written with a Z, which PostgreSQL reads; a session has UTC anyway.
        return column
    if pat.is_duration(kind):
        return column.cast(pa.int64())
    if pat.is_list(kind) and not _is_document(kind):
        return pa.chunked_array([to_texts(chunk, kind) for chunk in column.chunks], pa.string())
    return _documents(column) if pat.is_nested(kind) else column


def _documents(column: pa.ChunkedArray) -> pa.Array:
    encode = encoder(column.type)
    values = column.to_pylist()
    texts = [None if value is None else json.dumps(encode(value), ensure_ascii=False) for value in values]
    return pa.array(texts, pa.string())


def _read(texts: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray | pa.Array:
    if pat.is_nested(kind) and (not pat.is_list(kind) or _is_document(kind)):
        return _from_documents(texts, kind)
    if pat.is_duration(kind):
        return texts.cast(pa.int64()).cast(kind)
    plain = pa.string() if pat.is_null(kind) or pat.is_large_string(kind) else kind
    found = [convert(chunk, plain)[0] for chunk in texts.chunks]
    return pa.chunked_array(found, plain).cast(kind)


def _from_documents(texts: pa.ChunkedArray, kind: pa.DataType) -> pa.Array:
    lines = "\n".join(f'{{"v":{text or "null"}}}' for text in texts.to_pylist()).encode()
    schema = pa.schema([("v", kind)])
    found, rejected = parse_json_lines(lines, schema, key=())
    return pa.nulls(len(texts), kind) if rejected or found.num_rows != len(texts) else found["v"]


def _is_document(kind: pa.DataType) -> bool:
    """Whether a list is JSON: what it holds is nested itself, or has no array type here."""
    return bool(pat.is_nested(kind.value_type) or pat.is_duration(kind.value_type)) if pat.is_list(kind) else True


def _hexadecimal(values: pa.Array) -> pa.Array:
    r"""Bytes as `\x0a0b`, for all values at once."""
    lengths = pc.fill_null(pc.binary_length(values), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    data = np.frombuffer(b"".join(value for value in values.to_pylist() if value), np.uint8)
    starts = np.cumsum(lengths) - lengths
    offsets = np.concatenate([[0], np.cumsum(2 * lengths + 2)])
    text = np.empty(int(offsets[-1]), np.uint8)
    text[offsets[:-1]], text[offsets[:-1] + 1] = ord("\\"), ord("x")
    places = np.repeat(offsets[:-1] + 2 - 2 * starts, lengths) + 2 * np.arange(len(data))
    text[places], text[places + 1] = _DIGITS[data >> 4], _DIGITS[data & 15]
    valid = pa.py_buffer(np.packbits(values.is_valid().to_numpy(zero_copy_only=False), bitorder="little"))
    buffers = [valid, pa.py_buffer(offsets.astype(np.int64)), pa.py_buffer(text)]
    return pa.LargeStringArray.from_buffers(len(values), *buffers[1:], buffers[0]).cast(pa.string())

"""How rows are laid out in Redis: the name of each row's key, and its value as JSON or as the fields of a hash."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Literal
from urllib.parse import quote

import pyarrow as pa
import pyarrow.types as pat

from headwater.model.encoding import json_rows
from headwater.model.rows import parse_json_lines

Format = Literal["json", "hash"]
# What separates the columns of a key, and what would be taken for it.
_SEPARATOR = ":"
_UNSAFE = ":%"
# One for all: `json.dumps` with options makes an encoder for each call.
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def names(keys: pa.Table, prefix: str) -> list[str]:
    """The names of rows' keys: the prefix and the values as text, those of several columns with colons in between."""
    return [prefix + _SEPARATOR.join(_part(value) for value in row.values()) for row in json_rows(keys)]


def values(rows: pa.Table, form: Format) -> Iterator[list[str]]:
    """What is kept of each row: one JSON object, or the names and values of the fields that are not null."""
    for row in json_rows(rows):
        if form == "json":
            yield [_encode(row)]
        else:
            yield [part for name, value in row.items() if value is not None for part in (name, _text(value))]


def rows_of(found: Sequence[tuple[str, object]], columns: pa.Schema, key: Sequence[str], prefix: str) -> pa.Table:
    """The rows of keys and what is kept there. What cannot be read, or is of another key, is not among them."""
    lines = b"\n".join(_line(held, columns) for _, held in found)
    rows, rejected = parse_json_lines(lines, columns, key=())
    if rejected:
        parts = [rows_of([one], columns, key, prefix) for one in found] if len(found) > 1 else []
        return pa.concat_tables([columns.empty_table(), *parts])
    rows = rows.select(columns.names).cast(columns)
    there = {name for name, _ in found}
    own = [name if name in there else None for name in names(rows.select(list(key)), prefix)]
    kept = pa.array([mine == name for mine, (name, _) in zip(own, found, strict=True)], pa.bool_())
    return rows.filter(kept)


def escaped(prefix: str) -> str:
    """The pattern for all keys with a prefix."""
    return "".join(f"\\{each}" if each in "*?[]\\^-" else each for each in prefix) + "*"


def _part(value: object) -> str:
    text = _text(value)
    return quote(text, safe="") if any(each in text for each in _UNSAFE) else text


def _text(value: object) -> str:
    return value if isinstance(value, str) else _encode(value)


def _line(held: object, columns: pa.Schema) -> bytes:
    """What is kept, as one line of JSON."""
    if isinstance(held, bytes):
        return held.replace(b"\n", b" ")
    if not isinstance(held, dict):
        return b"{"
    row = {}
    for name, value in held.items():
        text, called = bytes(value).decode(errors="replace"), bytes(name).decode(errors="replace")
        found = columns.get_field_index(called)
        row[called] = text if found >= 0 and _is_text(columns.field(found).type) else _loaded(text)
    return json.dumps(row).encode()


def _is_text(kind: pa.DataType) -> bool:
    """Whether a value of this type is text in JSON."""
    is_text = pat.is_string(kind) or pat.is_large_string(kind) or pat.is_binary(kind) or pat.is_large_binary(kind)
    return bool(is_text or pat.is_decimal(kind) or pat.is_timestamp(kind) or pat.is_date(kind))


def _loaded(text: str) -> object:
    try:
        found: object = json.loads(text)
    except ValueError:
        return text
    return found

"""Records as text: as JSON that loses nothing, and as a line for people."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import TypeAlias

import pyarrow as pa
import pyarrow.types as pat

from headwater.log.topic import Topic
from headwater.model.record import Record

Encoder: TypeAlias = Callable[[object], object]


class RecordText:
    """The records of one topic as text."""

    def __init__(self, topic: Topic) -> None:
        self.topic = topic
        self._encoders = {field.name: encoder(field.type) for field in topic.schema}

    def fits(self, record: Record) -> bool:
        """Whether the record has the columns of the topic as it was known here; another process may evolve it."""
        return record.value is None or record.value.keys() == self._encoders.keys()

    def to_json(self, record: Record) -> dict[str, object]:
        """The record with everything that is known of it."""
        return {
            "topic": record.topic,
            "partition": record.partition,
            "offset": record.offset,
            "position": str(record.position),
            "at": format_instant(record.at),
            "key": self._key(record),
            "value": None if record.value is None else self._encoded(record.value),
            "headers": dict(record.headers),
        }

    def to_row(self, record: Record) -> dict[str, object]:
        """The record as `headwater log append` takes it: its columns, and what else makes it the same record."""
        if record.value is not None:
            row = self._encoded(record.value)
        else:
            row = {**self._encoded(self._key_columns(record)), "_deleted": True}
        if record.headers:
            row["_headers"] = dict(record.headers)
        return row

    def to_line(self, record: Record) -> str:
        """The columns of the record for people."""
        shown = self._key_columns(record) if record.value is None else record.value
        encoded = self._encoded(shown)
        parts = [f"{name}={_glance(shown[name], encoded[name])}" for name in shown]
        if record.value is None:
            parts.append("(deleted)")
        if record.headers:
            parts.append("{" + ", ".join(f"{name}={readable(value)}" for name, value in record.headers.items()) + "}")
        return "  ".join(parts)

    def _encoded(self, values: Mapping[str, object]) -> dict[str, object]:
        return {name: None if value is None else self._encoders[name](value) for name, value in values.items()}

    def _key_columns(self, record: Record) -> dict[str, object]:
        names = self.topic.key
        values = record.key if isinstance(record.key, tuple) else (record.key,)
        return dict(zip(names, values, strict=True)) if names else {}

    def _key(self, record: Record) -> object:
        values = list(self._encoded(self._key_columns(record)).values())
        if not values:
            return None
        return values[0] if len(values) == 1 else values


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
    if pat.is_binary(arrow):
        return _base64
    if pat.is_floating(arrow):
        return _float
    if pat.is_map(arrow):
        return _map(encoder(arrow.key_type), encoder(arrow.item_type), text_keys=pat.is_string(arrow.key_type))
    if pat.is_list(arrow):
        return _array(encoder(arrow.value_type))
    if pat.is_struct(arrow):
        return _struct({field.name: encoder(field.type) for field in arrow})
    return _same


def format_instant(at: datetime) -> str:
    """ISO 8601 in UTC, with a Z."""
    return at.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z"


def readable(value: object) -> str:
    """A JSON value for people: text without quotes where it can do without."""
    if isinstance(value, str):
        plain = value.isprintable() and value and not any(sign in value for sign in ' "=')
        # What is not printable could change the terminal; as an escape it can not.
        return value if plain else json.dumps(value, ensure_ascii=not value.isprintable())
    return json.dumps(value, separators=(",", ":"))


def _glance(value: object, encoded: object) -> str:
    """Bytes that are text are shown as text, everything else as in JSON."""
    if isinstance(value, bytes):
        with suppress(UnicodeDecodeError):
            return readable(value.decode())
    return readable(encoded)


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

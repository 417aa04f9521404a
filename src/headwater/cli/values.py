"""Records as text: as JSON that loses nothing, and as a line for people."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress

from headwater.log.topic import Topic
from headwater.model.encoding import encoder, format_instant
from headwater.model.record import Record


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


def readable(value: object) -> str:
    """A JSON value for people: text without quotes where it can do without."""
    if isinstance(value, str):
        plain = value.isprintable() and value and not any(sign in value for sign in ' "=')
        # What is not printable could change the terminal; as an escape it cannot.
        return value if plain else json.dumps(value, ensure_ascii=not value.isprintable())
    return json.dumps(value, separators=(",", ":"))


def _glance(value: object, encoded: object) -> str:
    """Bytes that are text are shown as text, everything else as in JSON."""
    if isinstance(value, bytes):
        with suppress(UnicodeDecodeError):
            return readable(value.decode())
    return readable(encoded)

"""Debezium's JSON: change events of other databases as records of a topic, and records as such events.

    {"before": …, "after": …, "source": {…}, "op": "c" | "u" | "d" | "r" | "t", "ts_ms": …}

Also within {"schema": …, "payload": …}, which says how times and decimals are written; without it, dates are days and
times are microseconds since 1970, or ISO texts, and decimals are texts or numbers. A tombstone (`null`) says nothing
that the delete before it has not said.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.types as pat

from headwater.errors import UsageError
from headwater.model import strict_json
from headwater.model.record import Record

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY_ZERO = date(1970, 1, 1)
_DECIMAL = "org.apache.kafka.connect.data.Decimal"
# Microseconds in the unit of each of the types in which Debezium and Kafka Connect write times.
_UNITS = {
    "io.debezium.time.Timestamp": 1000.0,
    "org.apache.kafka.connect.data.Timestamp": 1000.0,
    "io.debezium.time.MicroTimestamp": 1.0,
    "io.debezium.time.NanoTimestamp": 0.001,
}


def from_debezium(line: bytes | str, schema: pa.Schema, key: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The records that a change event is: a row, a tombstone, or both if the row got another key.

    None for an event that is not about a row; see `truncates`. Raises `UsageError` for what is no such event.
    """
    try:
        event = strict_json.loads(line, parse_float=Decimal)
    except strict_json.DuplicateKey as error:
        raise UsageError(f"{error}.", hint="Use each name only once in an object.") from error
    except ValueError as error:
        raise UsageError(f"This is not JSON: {error}.", hint="One change event per line.") from error
    described = isinstance(event, dict) and "payload" in event and "schema" in event
    payload = event["payload"] if described else event
    if payload is None:
        return
    if not isinstance(payload, dict) or "op" not in payload:
        raise UsageError("This is not a Debezium change event: it has no 'op'.", hint="One change event per line.")
    if payload["op"] in ("t", "m"):
        return
    types = _types(event["schema"]) if described else {}
    before, after = (_row(payload.get(part), schema, types) for part in ("before", "after"))
    headers = _headers(payload)
    former = None if before is None else {name: before[name] for name in key}
    moved = after is None or former != {name: after[name] for name in key}
    # Some databases send an old row without its key, which then has not changed.
    if former is not None and moved and None not in former.values():
        yield {**former, "_deleted": True, "_headers": headers}
    if after is not None:
        yield {**after, "_headers": headers}


def truncates(line: bytes | str) -> bool:
    """Whether a change event says that its table was emptied: of all rows that were there before."""
    mark = b'"t"' if isinstance(line, bytes) else '"t"'
    if mark not in line:  # type: ignore[operator]
        return False
    event = json.loads(line)
    payload = event.get("payload", event) if isinstance(event, dict) else None
    return isinstance(payload, dict) and payload.get("op") == "t"


def to_debezium(records: Iterable[Record], schema: pa.Schema, key: Sequence[str], *, source: str) -> Iterator[str]:
    """A change event for each record, one JSON object each: the topic's schema, its key, and what the source is called.

    `before` has the key for a delete, and is null otherwise; times with a zone are ISO texts, others microseconds,
    dates are days, decimals are texts, bytes are base64: Debezium with `decimal.handling.mode=string`.
    """
    types = {field.name: field.type for field in schema}
    for record in records:
        moment = int(record.at.timestamp() * 1000)
        after = None if record.value is None else {n: _json(v, types[n]) for n, v in record.value.items()}
        before = None
        if record.value is None:
            values = record.key if isinstance(record.key, tuple) else (record.key,)
            before = {name: _json(value, types[name]) for name, value in zip(key, values, strict=True)}
        operation = "d" if record.value is None else record.headers.get("op", "u")
        place = {name: record.headers[name] for name in ("lsn", "xid", "origin") if name in record.headers}
        origin = {"connector": "headwater", "name": source, "table": record.topic.rpartition(".")[2], **place}
        yield json.dumps(
            {"before": before, "after": after, "source": origin, "op": operation, "ts_ms": moment}, ensure_ascii=False
        )


def _types(schema: Any) -> dict[str, Mapping[str, Any]]:
    """How the fields of a row are written, by their names."""
    for part in schema.get("fields", []):
        if part.get("field") in ("after", "before"):
            return {field["field"]: field for field in part.get("fields", [])}
    return {}


def _row(row: Any, schema: pa.Schema, types: Mapping[str, Mapping[str, Any]]) -> dict[str, Any] | None:
    if row is None:
        return None
    return {field.name: _value(row.get(field.name), field.type, types.get(field.name, {})) for field in schema}


def _value(value: Any, arrow: pa.DataType, written: Mapping[str, Any]) -> Any:
    """The value for a column of this type; as it is written if it is none, so that the one that appends it says so."""
    if value is None:
        return None
    try:
        return _read(value, arrow, written)
    except (ValueError, TypeError, ArithmeticError):
        return value


def _read(value: Any, arrow: pa.DataType, written: Mapping[str, Any]) -> Any:
    name = written.get("name", "")
    if pat.is_decimal(arrow):
        if name == _DECIMAL:
            unscaled = int.from_bytes(base64.b64decode(value), "big", signed=True)
            return Decimal(unscaled).scaleb(-int(written.get("parameters", {}).get("scale", 0)))
        return Decimal(str(value))
    if pat.is_timestamp(arrow):
        return _time(value, arrow, _UNITS.get(name, 1.0))
    if pat.is_date(arrow):
        return _DAY_ZERO + timedelta(days=value) if isinstance(value, int) else date.fromisoformat(value)
    if pat.is_binary(arrow):
        return base64.b64decode(value)
    if pat.is_string(arrow) and not isinstance(value, str):
        return json.dumps(value, default=str)
    if pat.is_floating(arrow):
        return float(value)
    return value


def _time(value: Any, arrow: pa.DataType, unit: float) -> datetime:
    if isinstance(value, str):
        moment = datetime.fromisoformat(value)
    else:
        moment = _EPOCH + timedelta(microseconds=int(value * Decimal(str(unit))))
    if arrow.tz is None:
        return moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _headers(payload: Mapping[str, Any]) -> dict[str, str]:
    source = payload.get("source") or {}
    kept = {name: source.get(name) for name in ("connector", "lsn", "txId", "pos", "file", "ts_ms", "table")}
    return {"op": str(payload["op"]), **{name: str(value) for name, value in kept.items() if value is not None}}


def _json(value: Any, arrow: pa.DataType) -> Any:
    if value is None:
        return None
    if pat.is_timestamp(arrow):
        if arrow.tz is not None:
            return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
        return (value.replace(tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)
    if pat.is_date(arrow):
        return (value - _DAY_ZERO).days
    if pat.is_binary(arrow):
        return base64.b64encode(value).decode()
    if isinstance(value, Decimal):
        return str(value)
    if pat.is_list(arrow):
        return [_json(each, arrow.value_type) for each in value]
    return value

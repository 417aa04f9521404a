"""Which Python values a column takes: one value at a time, exactly or not at all."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, date, datetime, time
from decimal import Context, Decimal
from typing import TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from headwater.model.ddl import format_type

_T = TypeVar("_T")
Coercer: TypeAlias = Callable[[object], object]

# From here on the nearest single-precision number is infinity.
FLOAT32_LIMIT = 2.0**128 - 2.0**103

_GOT_LENGTH_MAX = 80
_DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,6})?", re.ASCII)
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_TIMESTAMP = re.compile(
    _DATE.pattern + r"([T ]\d\d(:\d\d(:\d\d(\.(?P<micros>\d{1,6})0*)?)?)?(Z|[+-]\d\d(:?\d\d)?)?)?", re.ASCII
)
_EXACT = Context(prec=80)


class Rejection(Exception):
    """A value that does not fit: where inside the column, what was expected, what was there."""

    def __init__(self, expected: str, got: str, where: str = "") -> None:
        super().__init__(expected, got, where)
        self.expected, self.got, self.where = expected, got, where

    def inside(self, where: str) -> Rejection:
        """The same rejection as seen from the value that holds this one."""
        return Rejection(self.expected, self.got, where + self.where)


def describe(value: object, kind: str | None = None) -> str:
    """A value for an error message: its text, shortened, and its type."""
    if value is None:
        return "null"
    text = repr(value)
    shown = text if len(text) <= _GOT_LENGTH_MAX else text[: _GOT_LENGTH_MAX - 3] + "..."
    return f"{shown} ({kind or type(value).__name__})"


def coercer(arrow: pa.DataType) -> Coercer:
    """The function that turns a Python value, not None, into the one `pa.array` stores exactly; raises Rejection."""
    if pat.is_integer(arrow):
        return _integer(arrow)
    if pat.is_floating(arrow):
        return _float(arrow)
    if pat.is_decimal128(arrow):
        return _decimal(arrow)
    if pat.is_timestamp(arrow):
        return _timestamp if arrow.tz is not None else _timestamp_ntz
    if pat.is_map(arrow):
        return _map(arrow)
    if pat.is_list(arrow):
        return _array(arrow)
    if pat.is_struct(arrow):
        return _struct(arrow)
    return _PLAIN[arrow]


def _integer(arrow: pa.DataType) -> Coercer:
    limit = 1 << (arrow.bit_width - 1)

    def coerce(value: object) -> int:
        if isinstance(value, (int, np.integer)) and not isinstance(value, bool) and -limit <= int(value) < limit:
            return int(value)
        raise Rejection(f"{format_type(arrow)} ({-limit} to {limit - 1})", describe(value))

    return coerce


def _float(arrow: pa.DataType) -> Coercer:
    """Integers must be exact. A fraction becomes the nearest number of the type, which is what such a column means."""
    single = arrow == pa.float32()
    limit = FLOAT32_LIMIT if single else math.inf

    def coerce(value: object) -> float:
        if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
            if abs(int(value)) < FLOAT32_LIMIT and int(np.float32(value) if single else float(value)) == value:
                return float(value)
        elif isinstance(value, (float, np.floating)):
            if not math.isfinite(value) or abs(float(value)) < limit:
                return float(value)
        elif isinstance(value, Decimal) and not value.is_snan():
            number = float(value)
            if not value.is_finite() or abs(number) < limit:
                return number
        raise Rejection(format_type(arrow), describe(value))

    return coerce


def _decimal(arrow: pa.DataType) -> Coercer:
    integer_digits, scale = arrow.precision - arrow.scale, arrow.scale
    unit = Decimal(1).scaleb(-scale)

    def coerce(value: object) -> Decimal:
        number = _as_decimal(value)
        if number is None or not number.is_finite() or (number and number.adjusted() >= integer_digits):
            raise Rejection(format_type(arrow), describe(value))
        _, digits, exponent = number.as_tuple()
        lost = -(int(exponent) + scale)
        if lost > 0 and any(digits[-lost:]):
            raise Rejection(f"{format_type(arrow)}, so at most {scale} digits after the point", describe(value))
        return number.quantize(unit, context=_EXACT) if number else Decimal(0)

    return coerce


def _as_decimal(value: object) -> Decimal | None:
    if isinstance(value, Decimal):
        return value
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        return Decimal(int(value))
    if isinstance(value, float):
        return Decimal(float.__repr__(value))
    if isinstance(value, str) and _DECIMAL.fullmatch(value):
        return Decimal(value)
    return None


def _timestamp(value: object) -> datetime:
    moment = _as_datetime(value)
    if moment is None:
        raise Rejection("timestamp (ISO 8601 text or a datetime)", describe(value))
    if moment.tzinfo is None:
        return moment.replace(tzinfo=UTC)
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise Rejection("timestamp from year 1 to 9999", describe(value)) from None


def _timestamp_ntz(value: object) -> datetime:
    moment = _as_datetime(value)
    if moment is None or moment.tzinfo is not None:
        raise Rejection("timestamp_ntz (ISO 8601 text or a datetime, without a zone)", describe(value))
    return moment


def _as_datetime(value: object) -> datetime | None:
    if isinstance(value, str):
        return _parse(datetime.fromisoformat, value) if _TIMESTAMP.fullmatch(value) else None
    # pandas' Timestamp is a datetime with nanoseconds besides, and its NaT one that differs from itself.
    if isinstance(value, datetime):
        return value if value == value and not getattr(value, "nanosecond", 0) else None  # noqa: PLR0124
    return datetime.combine(value, time()) if isinstance(value, date) else None


def _date(value: object) -> date:
    if isinstance(value, str) and _DATE.fullmatch(value):
        parsed = _parse(date.fromisoformat, value)
        if parsed is not None:
            return parsed
    elif isinstance(value, date) and not isinstance(value, datetime):
        return value
    raise Rejection("date (YYYY-MM-DD or a date)", describe(value))


def _parse(parser: Callable[[str], _T], text: str) -> _T | None:
    try:
        return parser(text)
    except ValueError:
        return None


def _string(value: object) -> str:
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise Rejection("string that UTF-8 can encode", describe(value)) from None
        return value
    raise Rejection("string", describe(value))


def _binary(value: object) -> bytes:
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    hint = " (bytes; encode text, decode base64 first)" if isinstance(value, str) else ""
    raise Rejection(f"binary{hint}", describe(value))


def _boolean(value: object) -> bool:
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    raise Rejection("boolean", describe(value))


_PLAIN: dict[pa.DataType, Coercer] = {
    pa.string(): _string,
    pa.binary(): _binary,
    pa.bool_(): _boolean,
    pa.date32(): _date,
}


def _array(arrow: pa.DataType) -> Coercer:
    element = coercer(arrow.value_type)

    def coerce(value: object) -> list[object]:
        if not isinstance(value, (list, tuple)):
            raise Rejection(format_type(arrow), describe(value))
        return [_inside(element, item, f"[{at}]") for at, item in enumerate(value)]

    return coerce


def _struct(arrow: pa.DataType) -> Coercer:
    fields = {field.name: (field, coercer(field.type)) for field in arrow}

    def coerce(value: object) -> dict[str, object]:
        if not isinstance(value, Mapping):
            raise Rejection(format_type(arrow), describe(value))
        for name in value:
            if name not in fields:
                raise unknown_field(fields, value[name], f".{name}")
        for name, (field, _) in fields.items():
            if not field.nullable and value.get(name) is None:
                raise Rejection(f"{format_type(field.type)} NOT NULL", "null", f".{name}")
        return {name: _inside(inner, value.get(name), f".{name}") for name, (_, inner) in fields.items()}

    return coerce


def _map(arrow: pa.DataType) -> Coercer:
    key, item = coercer(arrow.key_type), coercer(arrow.item_type)

    def coerce(value: object) -> list[tuple[object, object]]:
        pairs = [(_inside(key, k, " key"), _inside(item, v, f"[{k!r}]")) for k, v in _pairs(value, arrow)]
        if any(k is None for k, _ in pairs) or len({repr(k) for k, _ in pairs}) < len(pairs):
            raise Rejection(f"{format_type(arrow)} with distinct keys, none of them null", describe(value))
        return pairs

    return coerce


def _pairs(value: object, arrow: pa.DataType) -> list[tuple[object, object]]:
    if isinstance(value, Mapping):
        return list(value.items())
    if isinstance(value, (list, tuple)) and all(isinstance(pair, (list, tuple)) and len(pair) == 2 for pair in value):
        return [(pair[0], pair[1]) for pair in value]
    raise Rejection(f"{format_type(arrow)} (a mapping, or a list of pairs)", describe(value))


def _inside(inner: Coercer, value: object, where: str) -> object:
    if value is None:
        return None
    try:
        return inner(value)
    except Rejection as rejection:
        raise rejection.inside(where) from None


def unknown_field(known: Iterable[str], value: object, where: str = "") -> Rejection:
    """The rejection for a field that the schema does not have."""
    return Rejection(f"one of {', '.join(known)}", f"an unknown field with {describe(value)}", where)

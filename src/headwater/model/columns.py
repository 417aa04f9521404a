"""A column of Python values as an Arrow array: all at once where the types allow it, one by one where they do not.

`pa.array` alone is not safe: it turns 1.5 to 1 for an integer column, 1 to 1970-01-01 for a date, a datetime to its
date, 1e300 to infinity for a float, bytes to text, and drops fields that a struct does not have. So a column goes to it
as a whole only when the Python types that occur in it (one C-speed pass) leave no such door open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime
from decimal import Clamped, Context, Decimal, DecimalException, InvalidOperation, Overflow, Rounded
from itertools import chain
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from headwater.model.coercion import FLOAT32_LIMIT, Rejection, coercer

Column: TypeAlias = pa.Array | pa.ChunkedArray
Values: TypeAlias = Sequence[object]
Kinds: TypeAlias = frozenset[type]

_LIST_OFFSET_MAX = 2**31 - 1
_EPOCH = date(1970, 1, 1).toordinal()
_CALENDAR_DAYS = (date.min.toordinal() - _EPOCH, date.max.toordinal() - _EPOCH)
_CALENDAR_MICROSECONDS = (_CALENDAR_DAYS[0] * 86_400_000_000, (_CALENDAR_DAYS[1] + 1) * 86_400_000_000 - 1)

# Arrow looks up a power of ten by a decimal's exponent without checking it, and reads more digits than it has room for:
# 1E-999999999 ends the process, and 1 with 100,000 zeros behind its point becomes 0. A number of more than 38 digits,
# or with one further from the point than that, is rounded or clamped in this context, which raises.
_SAFE = Context(prec=38, Emin=-1, Emax=37, traps=[Clamped, InvalidOperation, Overflow, Rounded])


def build_column(values: Values, arrow: pa.DataType) -> tuple[Column, dict[int, Rejection]]:
    """The values as an array, and by row number those that do not fit, which are null in the array."""
    column = vectorised(values, arrow)
    return (column, {}) if column is not None else one_by_one(values, arrow)


def one_by_one(values: Values, arrow: pa.DataType) -> tuple[Column, dict[int, Rejection]]:
    """As `build_column`, without the shortcut: the definition of what fits."""
    coerce = coercer(arrow)
    coerced: list[object] = [None] * len(values)
    rejections: dict[int, Rejection] = {}
    for at, value in enumerate(values):
        if value is not None:
            try:
                coerced[at] = coerce(value)
            except Rejection as rejection:
                rejections[at] = rejection
    return pa.array(coerced, arrow), rejections


def vectorised(values: Values, arrow: pa.DataType) -> Column | None:
    """The same array as `one_by_one` gives, or None where that cannot be told without looking at each value."""
    kinds = frozenset(map(type, values)) - {type(None)}
    if not kinds:
        return pa.nulls(len(values), arrow)
    try:
        return _builder(arrow)(values, arrow, kinds)
    except (pa.ArrowException, OverflowError, ValueError, TypeError):
        return None


def in_calendar(column: Column) -> bool:
    """Whether all dates or timestamps are from year 1 to 9999, which Python and Spark can both show."""
    unit = pa.int32() if pat.is_date32(column.type) else pa.int64()
    first, last = _CALENDAR_DAYS if pat.is_date32(column.type) else _CALENDAR_MICROSECONDS
    ends = pc.min_max(column.cast(unit)).as_py()
    return ends["min"] is None or bool(first <= ends["min"] and ends["max"] <= last)


_Builder = Callable[[Values, pa.DataType, Kinds], Column | None]


def _builder(arrow: pa.DataType) -> _Builder:
    if arrow in _EXACT_KINDS:
        return _exact
    if pat.is_floating(arrow):
        return _floats
    if pat.is_decimal128(arrow):
        return _decimals
    if pat.is_timestamp(arrow):
        return _timestamps
    if pat.is_date32(arrow):
        return _dates
    if pat.is_map(arrow):
        return _maps
    return _lists if pat.is_list(arrow) else _structs


_EXACT_KINDS: dict[pa.DataType, Kinds] = {
    pa.int8(): frozenset({int}),
    pa.int16(): frozenset({int}),
    pa.int32(): frozenset({int}),
    pa.int64(): frozenset({int}),
    pa.bool_(): frozenset({bool}),
    pa.string(): frozenset({str}),
    pa.binary(): frozenset({bytes, bytearray}),
}


def _exact(values: Values, arrow: pa.DataType, kinds: Kinds) -> Column | None:
    return pa.array(values, arrow) if kinds <= _EXACT_KINDS[arrow] else None


def _floats(values: Values, arrow: pa.DataType, kinds: Kinds) -> Column | None:
    if Decimal in kinds and kinds <= {Decimal, float, int}:
        numbers = [float(value) if isinstance(value, Decimal) else value for value in values]
        column = pa.array(numbers, arrow)
        # An infinity may be a number that was too large: let the slow way look.
        return None if pc.any(pc.is_inf(column)).as_py() else column
    if arrow == pa.float64():
        return pa.array(values, arrow) if kinds <= {float, int} else None
    return to_single(pa.array(values, pa.float64())) if kinds == {float} else None


def to_single(doubles: Column) -> Column | None:
    """The nearest single-precision numbers, or None if one of them would become infinite."""
    finite = pc.if_else(pc.is_finite(doubles), pc.abs(doubles), 0.0)
    largest = pc.max(finite).as_py()
    return doubles.cast(pa.float32()) if largest is None or largest < FLOAT32_LIMIT else None


def _decimals(values: Values, arrow: pa.DataType, kinds: Kinds) -> Column | None:
    if kinds == {str}:
        return parse_decimals(pa.array(values, pa.string()), arrow)
    if not kinds <= {Decimal, int} or not all(_is_safe(value) for value in values if isinstance(value, Decimal)):
        return None
    return pa.array(values, arrow)


def parse_decimals(texts: Column, arrow: pa.DataType) -> Column | None:
    """Decimals from text, or None if Arrow cannot be trusted with one of the texts."""
    if pc.any(pc.match_substring(texts, "e", ignore_case=True)).as_py():
        return None
    longest = pc.max(pc.binary_length(texts)).as_py()
    return texts.cast(arrow) if longest is None or longest <= _SAFE.prec else None


def _is_safe(value: Decimal) -> bool:
    """Whether Arrow can be trusted with a decimal."""
    try:
        _SAFE.plus(value)
    except DecimalException:
        return False
    return True


def _timestamps(values: Values, arrow: pa.DataType, kinds: Kinds) -> Column | None:
    if kinds == {str}:
        return parse_timestamps(pa.array(values, pa.string()), arrow)
    if kinds != {datetime}:
        return None
    if arrow.tz is None and {value.tzinfo for value in values if isinstance(value, datetime)} != {None}:
        return None
    column = pa.array(values, arrow)
    return column if in_calendar(column) else None


def parse_timestamps(texts: Column, arrow: pa.DataType) -> Column | None:
    """ISO 8601 texts, all with a zone or all without; without one, a timestamp is in UTC."""
    try:
        column = texts.cast(arrow)
    except pa.ArrowInvalid:
        if arrow.tz is None:
            raise
        column = texts.cast(pa.timestamp("us")).cast(arrow)
    return column if in_calendar(column) else None


def _dates(values: Values, arrow: pa.DataType, kinds: Kinds) -> Column | None:
    if kinds == {str}:
        column = pa.array(values, pa.string()).cast(arrow)
        return column if in_calendar(column) else None
    return pa.array(values, arrow) if kinds == {date} else None


def _lists(values: Values, arrow: pa.DataType, kinds: Kinds) -> Column | None:
    if not kinds <= {list, tuple}:
        return None
    elements = vectorised(list(chain.from_iterable(_present(values))), arrow.value_type)
    offsets = _offsets(values)
    if elements is None or offsets is None:
        return None
    return pa.ListArray.from_arrays(offsets, elements, type=arrow, mask=_null_mask(values))


def _maps(values: Values, arrow: pa.DataType, kinds: Kinds) -> Column | None:
    if kinds != {dict}:
        return None
    dicts = _present(values)
    keys = vectorised(list(chain.from_iterable(dicts)), arrow.key_type)
    items = vectorised([item for one in dicts for item in one.values()], arrow.item_type)
    offsets = _offsets(values)
    if keys is None or items is None or offsets is None:
        return None
    return pa.MapArray.from_arrays(offsets, keys, items, type=arrow, mask=_null_mask(values))


def _structs(values: Values, arrow: pa.DataType, kinds: Kinds) -> Column | None:
    if kinds != {dict} or not {field.name for field in arrow}.issuperset(chain.from_iterable(_present(values))):
        return None
    mask = _null_mask(values)
    rows = values if mask is None else [{} if value is None else value for value in values]
    children = []
    for field in arrow:
        child = vectorised([row.get(field.name) for row in rows], field.type)  # type: ignore[attr-defined]
        if child is None or (not field.nullable and _breaks_not_null(child, mask)):
            return None
        children.append(child)
    return pa.StructArray.from_arrays(children, fields=list(arrow), mask=mask)


def _breaks_not_null(child: Column, parent_is_null: pa.Array | None) -> bool:
    if parent_is_null is None:
        return bool(child.null_count)
    return bool(child.null_count > pc.sum(parent_is_null).as_py())


def _present(values: Values) -> list[dict[object, object]]:
    return [value for value in values if value is not None]  # type: ignore[misc]


def _null_mask(values: Values) -> pa.Array | None:
    mask = [value is None for value in values]
    return pa.array(mask) if any(mask) else None


def _offsets(values: Values) -> pa.Array | None:
    lengths: Iterable[int] = (0 if value is None else len(value) for value in values)  # type: ignore[arg-type]
    ends = np.zeros(len(values) + 1, np.int64)
    np.cumsum(np.fromiter(lengths, np.int64, len(values)), out=ends[1:])
    return pa.array(ends.astype(np.int32)) if ends[-1] <= _LIST_OFFSET_MAX else None

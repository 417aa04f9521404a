"""An Arrow column of any type as one of a topic's types, where no value changes by it.

Arrow's safe cast alone is not enough: it takes booleans for integers, binary for text, 1.0 for 1, a zoned timestamp for
one without a zone, and 1e300 for a float's infinity. `_plain` says which pairs of types it is trusted with.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from headwater.model.coercion import Rejection, coercer, describe
from headwater.model.columns import Column, in_calendar, parse_decimals, parse_timestamps, to_single

_INT64_DIGITS = 19
_DECIMAL_PRECISION_MAX = 38


def cast_column(column: pa.ChunkedArray, arrow: pa.DataType) -> tuple[Column, dict[int, Rejection]]:
    """The column as one of type `arrow`, and by row number the values that do not fit, which are null in it."""
    column = _decoded(column)
    cast = _cast(column, arrow)
    if cast is not None and _is_sound(cast, arrow):
        return cast, {}
    return _one_by_one(column, arrow)


@dataclass(frozen=True, slots=True)
class NotInPython:
    """A value that Python has no type for, such as a nanosecond or the year 10000; shown as Arrow shows it."""

    text: str

    def __repr__(self) -> str:
        return self.text


def python_value(scalar: pa.Scalar) -> object:
    """The scalar as a Python value, or NotInPython."""
    try:
        value: object = scalar.as_py()
    except (ValueError, ArithmeticError):
        # `str` and `repr` of such a scalar fail as well; only an array can be shown.
        return NotInPython(" ".join(pa.repeat(scalar, 1).to_string().split()))
    return value


def _decoded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pat.is_dictionary(column.type):
        return _decoded(_per_chunk(pa.DictionaryArray.dictionary_decode, column))
    if pat.is_run_end_encoded(column.type):
        return _decoded(_per_chunk(pc.run_end_decode, column))
    return column


def _per_chunk(decode: Callable[[pa.Array], pa.Array], column: pa.ChunkedArray) -> pa.ChunkedArray:
    return pa.chunked_array([decode(chunk) for chunk in column.chunks], column.type.value_type)


def _cast(column: pa.ChunkedArray, arrow: pa.DataType) -> Column | None:
    """None if some value may not fit."""
    if column.type == arrow:
        return column
    try:
        if _plain(column.type, arrow):
            return column.cast(arrow)
        if pat.is_integer(column.type) and pat.is_decimal128(arrow):
            return _integers_to_decimals(column, arrow)
        if _is_text(column.type) and pat.is_decimal128(arrow):
            return parse_decimals(column, arrow)
        if column.type == pa.float64() and arrow == pa.float32():
            return to_single(column)
        if _is_text(column.type) and pat.is_timestamp(arrow):
            return parse_timestamps(column, arrow)
    except pa.ArrowException:
        return None
    return None


def _integers_to_decimals(column: pa.ChunkedArray, arrow: pa.DataType) -> Column | None:
    # Arrow wants room for every value of the integer type, so give it room, and let the second cast look at the values.
    precision = _INT64_DIGITS + 1 + arrow.scale
    if precision > _DECIMAL_PRECISION_MAX:
        return None
    return column.cast(pa.decimal128(precision, arrow.scale)).cast(arrow)


def _plain(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether Arrow's safe cast keeps every value that it does not refuse."""
    if source == target or pat.is_null(source):
        return True
    if pat.is_struct(target):
        return bool(pat.is_struct(source)) and _plain_fields(source, target)
    if pat.is_map(target):
        return bool(pat.is_map(source)) and _plain_entries(source, target)
    if pat.is_list(target):
        return _is_list(source) and _plain(source.value_type, target.value_type)
    return any(is_source(source) and is_target(target) for is_source, is_target in _PLAIN)


def _plain_fields(source: pa.DataType, target: pa.DataType) -> bool:
    given = {field.name: field.type for field in source}
    wanted = {field.name: field.type for field in target}
    if len(given) < source.num_fields or not wanted.keys() >= given.keys():
        return False
    return all(field.nullable or field.name in given for field in target) and all(
        _plain(arrow, wanted[name]) for name, arrow in given.items()
    )


def _plain_entries(source: pa.DataType, target: pa.DataType) -> bool:
    return _plain(source.key_type, target.key_type) and _plain(source.item_type, target.item_type)


def _is_text(arrow: pa.DataType) -> bool:
    return bool(pat.is_string(arrow) or pat.is_large_string(arrow) or pat.is_string_view(arrow))


def _is_bytes(arrow: pa.DataType) -> bool:
    kinds = (pat.is_binary, pat.is_large_binary, pat.is_binary_view, pat.is_fixed_size_binary)
    return any(kind(arrow) for kind in kinds)


def _is_list(arrow: pa.DataType) -> bool:
    kinds = (pat.is_list, pat.is_large_list, pat.is_fixed_size_list, pat.is_list_view, pat.is_large_list_view)
    return any(kind(arrow) for kind in kinds)


def _is_zoned(arrow: pa.DataType) -> bool:
    return bool(pat.is_timestamp(arrow)) and arrow.tz is not None


def _is_zoneless(arrow: pa.DataType) -> bool:
    return bool(pat.is_timestamp(arrow)) and arrow.tz is None


def _is_usual_decimal(arrow: pa.DataType) -> bool:
    """Arrow allows any scale, and looks up a power of ten by it without checking it."""
    return bool(pat.is_decimal(arrow)) and 0 <= arrow.scale <= arrow.precision


def _is_small_float(arrow: pa.DataType) -> bool:
    return bool(pat.is_float16(arrow) or pat.is_float32(arrow))


_PLAIN = (
    (pat.is_integer, pat.is_integer),
    (pat.is_integer, pat.is_floating),
    (_is_small_float, pat.is_floating),
    (_is_usual_decimal, pat.is_decimal),
    (_is_text, pat.is_string),
    (_is_bytes, pat.is_binary),
    (_is_text, pat.is_date),
    (pat.is_date, pat.is_date),
    (pat.is_date, pat.is_timestamp),
    (_is_zoned, _is_zoned),
    (_is_zoneless, pat.is_timestamp),
)


def _is_sound(column: Column, arrow: pa.DataType) -> bool:
    """Whether dates are in the calendar and NOT NULL holds, also inside nested values."""
    if pat.is_date32(arrow) or pat.is_timestamp(arrow):
        return in_calendar(column)
    if not pat.is_nested(arrow):
        return True
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    return all(_is_sound_inside(chunk, arrow) for chunk in chunks)


def _is_sound_inside(array: pa.Array, arrow: pa.DataType) -> bool:
    if pat.is_map(arrow):
        # Unlike `flatten`, `keys` and `items` know nothing of a slice.
        first, end = array.offsets[0].as_py(), array.offsets[-1].as_py()
        keys, items = array.keys[first:end], array.items[first:end]
        return _is_sound(keys, arrow.key_type) and _is_sound(items, arrow.item_type)
    if pat.is_list(arrow):
        return _is_sound(array.flatten(), arrow.value_type)
    present = array.drop_null() if array.null_count else array
    children = zip(arrow, present.flatten(), strict=True)
    return all((field.nullable or not child.null_count) and _is_sound(child, field.type) for field, child in children)


def _one_by_one(column: pa.ChunkedArray, arrow: pa.DataType) -> tuple[Column, dict[int, Rejection]]:
    coerce = coercer(arrow)
    values: list[object] = [None] * len(column)
    rejections: dict[int, Rejection] = {}
    for at, scalar in enumerate(column):
        value = python_value(scalar)
        if value is not None:
            try:
                values[at] = coerce(value)
            except Rejection as rejection:
                got = rejection.got if rejection.where else describe(value, str(column.type))
                rejections[at] = Rejection(rejection.expected, got, rejection.where)
    return pa.array(values, arrow), rejections

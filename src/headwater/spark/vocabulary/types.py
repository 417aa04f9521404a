"""The types of columns that operators may keep: those whose values come back from Arrow and from Python as they were.

Inside an expression every type may occur: `parse_json(body):id::int` is a number when it leaves the expression.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pyspark.sql import types

from headwater.errors import UnsupportedQuery

KEPT: Final[frozenset[type[types.DataType]]] = frozenset(
    {
        types.BinaryType,
        types.BooleanType,
        types.ByteType,
        types.DateType,
        types.DayTimeIntervalType,
        types.DecimalType,
        types.DoubleType,
        types.FloatType,
        types.IntegerType,
        types.LongType,
        types.ShortType,
        types.StringType,
        types.TimestampNTZType,
        types.TimestampType,
    }
)
"""Types that are kept, wherever they stand; strings only without a collation."""

CONTAINERS: Final[frozenset[type[types.DataType]]] = frozenset({types.ArrayType, types.MapType, types.StructType})
"""Types that are kept if what they hold is."""

_TEXT = "Cast it to a string."
REFUSED: Final[dict[type[types.DataType], tuple[str, str]]] = {
    types.CalendarIntervalType: ("an interval of months, days and a time has no type in Arrow", _TEXT),
    types.CharType: ("its length is lost in Arrow", _TEXT),
    types.GeographyType: ("it has no type in Arrow that holds nulls", "Use st_asbinary(...)."),
    types.GeometryType: ("it has no type in Arrow that holds nulls", "Use st_asbinary(...)."),
    types.NullType: ("an element that is always null is lost in Arrow", "Cast it: CAST(NULL AS int), for example."),
    types.TimeType: ("Spark's own support of it is not complete", "Cast it to a string or to a timestamp."),
    types.UserDefinedType: ("only Spark knows what its values mean", "Select the fields of it."),
    types.VarcharType: ("its length is lost in Arrow", _TEXT),
    types.VariantType: ("it has no type in Arrow that holds nulls", "Use to_json(...), or a field: body:id::int."),
    types.YearMonthIntervalType: (
        "an interval of months has no type in Arrow",
        "Make it a number of months: CAST(CAST(... AS INTERVAL MONTH) AS int).",
    ),
}
"""Types that are not kept, with the reason and what to do instead."""

_COLLATION = ("values that are equal but not the same leave open which of them is shown", "Use lower(...).")
_NO_FIELDS = ("a struct without fields holds nothing", "Give it a field, or leave it out.")
_SAME_NAMES = ("two of its fields have the same name, ignoring case", "Give one of them another name.")
_UNKNOWN = ("nothing is known about it", "Cast it to another type.")


def accepted_type(given: types.DataType) -> str | None:
    """The reason why a column of a type cannot be kept; None if it can."""
    found = _refusal(given)
    return None if found is None else found[0]


def check_type(given: types.DataType) -> None:
    """Raises `UnsupportedQuery` if a column of a type cannot be kept."""
    found = _refusal(given)
    if found is not None:
        reason, hint = found
        raise UnsupportedQuery(f"a column of type {given.simpleString()}", reason, hint=hint)


def _refusal(given: types.DataType) -> tuple[str, str] | None:
    # Arrow has a type for a column of nothing but nulls, though it cannot be inside of another one.
    if type(given) is types.NullType:
        return None
    return next(_refusals(given), None)


def _refusals(given: types.DataType) -> Iterator[tuple[str, str]]:
    if isinstance(given, types.StringType) and not given.isUTF8BinaryCollation():
        yield _COLLATION
    elif type(given) in CONTAINERS:
        if isinstance(given, types.StructType):
            yield from _refusals_of_names(given)
        for part in _parts(given):
            yield from _refusals(part)
    elif type(given) not in KEPT:
        yield next((why for refused, why in REFUSED.items() if isinstance(given, refused)), _UNKNOWN)


def _refusals_of_names(given: types.StructType) -> Iterator[tuple[str, str]]:
    names = [name.lower() for name in given.names]
    if not names:
        yield _NO_FIELDS
    if len(set(names)) < len(names):
        yield _SAME_NAMES


def _parts(given: types.DataType) -> list[types.DataType]:
    match given:
        case types.ArrayType():
            return [given.elementType]
        case types.MapType():
            return [given.keyType, given.valueType]
        case types.StructType():
            return [field.dataType for field in given.fields]
        case _:
            return []

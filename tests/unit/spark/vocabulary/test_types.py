"""Every type of Spark's is kept as the column of an operator, or refused with a reason."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import types
from pyspark.sql.types import DataType, StructType

from headwater.errors import UnsupportedQuery
from headwater.spark.vocabulary import accepted_type, check_type
from headwater.spark.vocabulary.types import CONTAINERS, KEPT, REFUSED

ABSTRACT = {
    types.AnsiIntervalType,
    types.AnyTimeType,
    types.AtomicType,
    types.DatetimeType,
    types.FractionalType,
    types.IntegralType,
    types.NumericType,
    types.SpatialType,
    types.StructField,
}
"""Classes that no column is of."""


def subclasses(given: type[DataType]) -> Iterator[type[DataType]]:
    for one in given.__subclasses__():
        # Types that a user has defined, and those that another test defines, are all refused alike.
        if one.__module__ == types.__name__:
            yield one
            yield from subclasses(one)


def test_every_type_is_classified() -> None:
    every = set(subclasses(DataType))
    assert len(every) > 30
    assert every - ABSTRACT == {*KEPT, *CONTAINERS, *REFUSED}


def test_no_type_is_classified_twice() -> None:
    assert len({*KEPT, *CONTAINERS, *REFUSED}) == len(KEPT) + len(CONTAINERS) + len(REFUSED)


STRING, INT = types.StringType(), types.IntegerType()


@pytest.mark.parametrize(
    "given",
    [
        *(one() for one in sorted(KEPT, key=lambda one: one.__name__)),
        types.DecimalType(38, 18),
        types.DayTimeIntervalType(0, 0),
        types.NullType(),
        types.ArrayType(STRING),
        types.MapType(STRING, types.ArrayType(types.DecimalType(5, 2))),
        types.MapType(StructType().add("a", INT), INT),
        StructType().add("a", INT).add("b", StructType().add("a", types.TimestampType())),
    ],
    ids=lambda given: given.simpleString(),
)
def test_a_type_is_kept(given: DataType) -> None:
    assert accepted_type(given) is None
    check_type(given)


@pytest.mark.parametrize(
    ("inner", "hint"),
    [
        (types.VariantType(), "Use to_json(...), or a field: body:id::int."),
        (types.CalendarIntervalType(), "Cast it to a string."),
        (types.YearMonthIntervalType(), "Make it a number of months: CAST(CAST(... AS INTERVAL MONTH) AS int)."),
        (types.TimeType(), "Cast it to a string or to a timestamp."),
        (types.CharType(3), "Cast it to a string."),
        (types.VarcharType(3), "Cast it to a string."),
        (types.StringType("UTF8_LCASE"), "Use lower(...)."),
        (types.GeometryType(4326), "Use st_asbinary(...)."),
        (types.GeographyType(4326), "Use st_asbinary(...)."),
    ],
    ids=lambda given: given.simpleString() if isinstance(given, DataType) else "",
)
def test_a_type_is_refused_wherever_it_stands(inner: DataType, hint: str) -> None:
    struct = StructType().add("a", INT).add("b", inner)
    for given in (inner, types.ArrayType(inner), types.MapType(STRING, inner), types.MapType(inner, STRING), struct):
        assert accepted_type(given)
        with pytest.raises(UnsupportedQuery) as raised:
            check_type(given)
        assert raised.value.construct == f"a column of type {given.simpleString()}"
        assert raised.value.hint == hint


VOID = types.NullType()


@pytest.mark.parametrize(
    "given", [types.ArrayType(VOID), types.MapType(STRING, VOID), StructType().add("a", VOID)], ids=str
)
def test_a_void_inside_of_another_type_is_refused(given: DataType) -> None:
    assert accepted_type(given) == "an element that is always null is lost in Arrow"


def test_a_struct_needs_fields_with_names_of_their_own() -> None:
    assert accepted_type(StructType()) == "a struct without fields holds nothing"
    twins = StructType().add("a", INT).add("A", INT)
    assert accepted_type(types.ArrayType(twins)) == "two of its fields have the same name, ignoring case"


def test_a_type_of_a_user_is_refused() -> None:
    class Point(types.UserDefinedType):
        """A point."""

    class Unknown(DataType):
        """A type that a new Spark may bring."""

    assert accepted_type(Point()) == "only Spark knows what its values mean"
    assert accepted_type(Unknown()) == "nothing is known about it"

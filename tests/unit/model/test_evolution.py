"""Which schemas a topic can go over to, and that its records come along."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.types as pat
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import SchemaError
from headwater.model.ddl import parse_ddl
from headwater.model.evolution import check_evolution, conform
from headwater.model.rows import to_arrow
from tests.unit.model.strategies import SCHEMAS, TYPES, records

ALLOWED = [
    ("a int NOT NULL", "a int NOT NULL"),
    ("a int", "a int COMMENT 'text'"),
    ("a int", "b string, a int"),
    ("a int, b string", "b string, a int"),
    ("a int NOT NULL", "a int"),
    ("a tinyint", "a smallint"),
    ("a tinyint", "a bigint"),
    ("a tinyint", "a double"),
    ("a int", "a bigint"),
    ("a int", "a double"),
    ("a float", "a double"),
    ("a tinyint", "a decimal(3,0)"),
    ("a int", "a decimal(12,2)"),
    ("a bigint", "a decimal(19,0)"),
    ("a decimal(5,2)", "a decimal(6,3)"),
    ("a decimal(5,2)", "a decimal(6,2)"),
    ("a date", "a timestamp_ntz"),
    ("a struct<x: int NOT NULL>", "a struct<y: string, x: bigint>"),
    ("a array<struct<x: int>>", "a array<struct<x: int, y: int>>"),
    ("a map<string,int>", "a map<string,bigint>"),
]
REFUSED = [
    ("a int, b int", "a int", "b", "dropped"),
    ("a int", "A int", "a", "names have case"),
    ("a int", "a smallint", "a", "from int to smallint"),
    ("a int", "a float", "a", "from int to float"),
    ("a bigint", "a double", "a", "from bigint to double"),
    ("a double", "a float", "a", "from double to float"),
    ("a int", "a string", "a", "from int to string"),
    ("a int", "a decimal(10,1)", "a", r"from int to decimal\(10,1\)"),
    ("a decimal(5,2)", "a decimal(5,3)", "a", "decimal"),
    ("a decimal(5,2)", "a decimal(6,1)", "a", "decimal"),
    ("a decimal(5,0)", "a bigint", "a", "to bigint"),
    ("a date", "a timestamp", "a", "from date to timestamp"),
    ("a timestamp", "a timestamp_ntz", "a", "to timestamp_ntz"),
    ("a int", "a int NOT NULL", "a", "become NOT NULL"),
    ("a int", "a int, b int NOT NULL", "b", "added as NOT NULL"),
    ("a struct<x: int, y: int>", "a struct<x: int>", "a.y", "dropped"),
    ("a struct<x: int>", "a struct<x: int, y: int NOT NULL>", "a.y", "added as NOT NULL"),
    ("a array<int>", "a array<smallint>", "a.element", "from int to smallint"),
    ("a map<string,int>", "a map<string,string>", "a.value", "from int to string"),
    ("a map<int,int>", "a map<bigint,int>", "a", "from map"),
    ("a array<int>", "a int", "a", "from array"),
]


@pytest.mark.parametrize(("old", "new"), ALLOWED)
def test_what_keeps_every_record_readable_is_allowed(old: str, new: str) -> None:
    check_evolution(parse_ddl(old), parse_ddl(new))


@pytest.mark.parametrize(("old", "new", "column", "reason"), REFUSED)
def test_everything_else_is_refused(old: str, new: str, column: str, reason: str) -> None:
    with pytest.raises(SchemaError, match=reason) as caught:
        check_evolution(parse_ddl(old), parse_ddl(new))
    assert caught.value.column == column
    assert caught.value.hint


def test_the_hint_says_what_a_type_can_become() -> None:
    with pytest.raises(SchemaError) as caught:
        check_evolution(parse_ddl("a int"), parse_ddl("a string"))
    assert "A int can become bigint or double or decimal(p,s) with p - s >= 10." in caught.value.hint


def test_a_table_that_conforms_is_returned_itself() -> None:
    table = pa.table({"a": [1, 2]})
    assert conform(table, table.schema) is table


def test_a_column_that_keeps_its_type_is_not_copied() -> None:
    table = pa.table({"a": pa.array([1, 2], pa.int64())})
    conformed = conform(table, parse_ddl("b string, a bigint COMMENT 'x'"))
    assert conformed["a"].chunk(0).buffers()[1].address == table["a"].chunk(0).buffers()[1].address
    assert conformed.to_pylist() == [{"b": None, "a": 1}, {"b": None, "a": 2}]
    assert conformed.schema.field("a").metadata == {b"comment": b"x"}


def test_values_are_widened_and_columns_added_at_every_depth() -> None:
    old = parse_ddl("n int, d date, m decimal(4,2), s array<struct<x: int>>, p map<string,tinyint>")
    new = parse_ddl(
        "p map<string,double>, s array<struct<y: string, x: decimal(12,2)>>, m decimal(9,3), d timestamp_ntz, n bigint"
    )
    row = {"n": 1, "d": date(2024, 2, 29), "m": Decimal("1.50"), "s": [{"x": 7}, None], "p": [("k", 3)]}
    table = pa.Table.from_pylist([{}, row, {}], schema=old).slice(1)
    conformed = conform(table, new)
    assert conformed.schema.equals(new)
    assert conformed.to_pylist() == [
        {
            "p": [("k", 3.0)],
            "s": [{"y": None, "x": Decimal("7.00")}, None],
            "m": Decimal("1.500"),
            "d": datetime(2024, 2, 29),  # noqa: DTZ001
            "n": 1,
        },
        {"p": None, "s": None, "m": None, "d": None, "n": None},
    ]


def test_a_null_struct_with_a_not_null_field_is_kept() -> None:
    schema = "s struct<{} inner: struct<x: int NOT NULL>>, l array<struct<{} inner: struct<x: int NOT NULL>>>"
    rows: list[dict[str, object]] = [{"s": {"inner": None}, "l": [{"inner": None}]}, {"s": None, "l": None}]
    table, _ = to_arrow(rows, parse_ddl(schema.format("", "")))
    conformed = conform(table, parse_ddl(schema.format("y: int, ", "y: int, ")))
    assert conformed.to_pylist() == [
        {"s": {"y": None, "inner": None}, "l": [{"y": None, "inner": None}]},
        {"s": None, "l": None},
    ]


@pytest.mark.parametrize(("schema", "column"), [("a string", "a"), ("b int", "a"), ("a int, b int NOT NULL", "b")])
def test_a_table_of_another_schema_is_refused(schema: str, column: str) -> None:
    with pytest.raises(SchemaError) as caught:
        conform(pa.table({"a": pa.array([1], pa.int32())}), parse_ddl(schema))
    assert caught.value.column == column


def wider_types(arrow: pa.DataType) -> st.SearchStrategy[pa.DataType]:
    if pat.is_struct(arrow):
        return wider_fields(list(arrow)).map(pa.struct)
    if pat.is_map(arrow):
        return wider_types(arrow.item_type).map(lambda item: pa.map_(arrow.key_type, item))
    if pat.is_list(arrow):
        return wider_types(arrow.value_type).map(pa.list_)
    if pat.is_decimal128(arrow):
        room = 38 - arrow.precision
        return st.tuples(st.integers(0, room), st.integers(0, room)).map(
            lambda more: pa.decimal128(arrow.precision + max(more), arrow.scale + min(more))
        )
    wider = {
        pa.int8(): [pa.int16(), pa.int64(), pa.float64(), pa.decimal128(3, 0)],
        pa.int16(): [pa.int32(), pa.float64(), pa.decimal128(38, 33)],
        pa.int32(): [pa.int64(), pa.float64(), pa.decimal128(11, 1)],
        pa.int64(): [pa.decimal128(19, 0), pa.decimal128(38, 19)],
        pa.float32(): [pa.float64()],
        pa.date32(): [pa.timestamp("us")],
    }
    return st.sampled_from([arrow, *wider.get(arrow, [])])


def wider_fields(fields: list[pa.Field]) -> st.SearchStrategy[list[pa.Field]]:
    kept = st.tuples(
        *(
            st.builds(pa.field, st.just(f.name), wider_types(f.type), st.just(True) | st.just(f.nullable))
            for f in fields
        )
    )
    taken = {field.name.lower() for field in fields}
    names = st.sampled_from([name for name in ("new", "newer") if name not in taken] or ["the newest"])
    added = st.lists(st.builds(pa.field, names, TYPES), max_size=2, unique_by=lambda field: field.name)
    return st.tuples(kept, added).flatmap(lambda both: st.permutations([*both[0], *both[1]]))


def same(old: object, new: object) -> bool:
    """Whether the newer value holds the older one, and nulls where it has more."""
    if isinstance(old, dict) and isinstance(new, dict):
        return all(same(old.get(name), value) for name, value in new.items()) and old.keys() <= new.keys()
    if isinstance(old, (list, tuple)) and isinstance(new, (list, tuple)):
        return len(old) == len(new) and all(map(same, old, new))
    if isinstance(new, datetime) and not isinstance(old, datetime) and isinstance(old, date):
        return new == datetime(old.year, old.month, old.day)  # noqa: DTZ001
    return old == new


@given(st.data())
def test_after_the_check_no_record_fails_and_no_value_changes(data: st.DataObject) -> None:
    old = data.draw(SCHEMAS)
    new = data.draw(wider_fields(list(old)).map(pa.schema))
    check_evolution(old, new)
    table, rejected = to_arrow(data.draw(st.lists(records(old), max_size=4)), old)
    assert rejected == []
    table = table.slice(data.draw(st.integers(0, 2)))
    nullable = pa.schema([field.with_nullable(True) for field in new])
    conformed = conform(table, nullable)
    conformed.validate(full=True)
    assert conformed.schema.equals(nullable)
    assert len(conformed) == len(table)
    for before, after in zip(table.to_pylist(), conformed.to_pylist(), strict=True):
        assert same(before, after), (before, after)

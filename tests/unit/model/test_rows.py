"""Records to a table: what fits arrives unchanged, what does not is named, and pyarrow's own leniency stays out."""

from __future__ import annotations

import json
from collections import OrderedDict, defaultdict
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import IntEnum, StrEnum

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import RejectedRecord, SchemaError
from headwater.model.columns import one_by_one, vectorised
from headwater.model.ddl import parse_ddl
from headwater.model.rows import parse_json_lines, to_arrow
from tests.unit.model.strategies import SCHEMAS, TYPES, as_arrow_gives_it, optional, records, values

EAST = timezone(timedelta(hours=2))
NAIVE = datetime(2024, 2, 29, 12)  # noqa: DTZ001
NOON = NAIVE.replace(tzinfo=UTC)


class Size(IntEnum):
    SMALL = 1


class Color(StrEnum):
    RED = "red"


def only(value: object, ddl: str) -> object:
    """What a column of this type gives back for the value."""
    table, rejected = to_arrow([{"c": value}], parse_ddl(f"c {ddl}"))
    assert rejected == []
    assert table.schema.field("c").type == parse_ddl(f"c {ddl}").field("c").type
    return table["c"][0].as_py()


def why_not(value: object, ddl: str) -> RejectedRecord:
    """Why the value is rejected, between two that are not there."""
    table, rejected = to_arrow([{}, {"c": value}, {"c": None}], parse_ddl(f"c {ddl}"))
    assert table.to_pylist() == [{"c": None}, {"c": None}]
    assert [record.index for record in rejected] == [1]
    return rejected[0]


ACCEPTED: list[tuple[object, str, object]] = [
    (127, "tinyint", 127),
    (-(2**63), "bigint", -(2**63)),
    (np.int64(5), "int", 5),
    (Size.SMALL, "int", 1),
    (1.5, "double", 1.5),
    (2**53, "double", 2.0**53),
    (2**60, "double", 2.0**60),
    (Decimal("0.1"), "double", 0.1),
    (np.float32(0.5), "double", 0.5),
    (float("inf"), "double", float("inf")),
    (Decimal("-Infinity"), "double", float("-inf")),
    (0.1, "float", 0.10000000149011612),
    (2**24, "float", 2.0**24),
    (2**100, "float", 2.0**100),
    (float("-inf"), "float", float("-inf")),
    (3.4028234663852886e38, "float", 3.4028234663852886e38),
    (Decimal("9.5"), "decimal(5,2)", Decimal("9.50")),
    (Decimal("1E+2"), "decimal(5,2)", Decimal("100.00")),
    (Decimal("1.500000"), "decimal(5,2)", Decimal("1.50")),
    (Decimal("0E-50"), "decimal(5,2)", Decimal("0.00")),
    (Decimal("0E+50"), "decimal(5,2)", Decimal("0.00")),
    (Decimal("9" * 38), "decimal(38,0)", Decimal("9" * 38)),
    (Decimal("0E-999999999"), "decimal(5,2)", Decimal("0.00")),
    (Decimal("1." + "0" * 100), "decimal(5,2)", Decimal("1.00")),
    ("1." + "0" * 100, "decimal(5,2)", Decimal("1.00")),
    (999, "decimal(5,2)", Decimal("999.00")),
    ("9.50", "decimal(5,2)", Decimal("9.50")),
    ("-.5e1", "decimal(5,2)", Decimal("-5.00")),
    (0.1, "decimal(5,2)", Decimal("0.10")),
    ("text", "string", "text"),
    (Color.RED, "string", "red"),
    (np.str_("text"), "string", "text"),
    (b"\xff", "binary", b"\xff"),
    (bytearray(b"ab"), "binary", b"ab"),
    (memoryview(b"ab"), "binary", b"ab"),
    (True, "boolean", True),
    (np.False_, "boolean", False),
    (date(2024, 2, 29), "date", date(2024, 2, 29)),
    ("2024-02-29", "date", date(2024, 2, 29)),
    (NOON, "timestamp", NOON),
    (NAIVE, "timestamp", NOON),
    (NAIVE.replace(tzinfo=EAST), "timestamp", NOON - timedelta(hours=2)),
    ("2024-02-29T12:00:00Z", "timestamp", NOON),
    ("2024-02-29 12:00:00", "timestamp", NOON),
    ("2024-02-29T14:00:00+02:00", "timestamp", NOON),
    ("2024-02-29T14:00+0200", "timestamp", NOON),
    ("2024-02-29T12:00:00.000001Z", "timestamp", NOON + timedelta(microseconds=1)),
    ("2024-02-29T12:00:00.000001000Z", "timestamp", NOON + timedelta(microseconds=1)),
    ("2024-02-29", "timestamp", NOON - timedelta(hours=12)),
    (date(2024, 2, 29), "timestamp", NOON - timedelta(hours=12)),
    (pd.Timestamp(NOON), "timestamp", NOON),
    (datetime.min, "timestamp_ntz", datetime.min),  # noqa: DTZ901
    (datetime.max, "timestamp_ntz", datetime.max),  # noqa: DTZ901
    (NAIVE, "timestamp_ntz", NAIVE),
    ("2024-02-29T12:00:00", "timestamp_ntz", NAIVE),
    ([1, None], "array<int>", [1, None]),
    ((), "array<int>", []),
    ({"x": 1}, "struct<x: int, y: string>", {"x": 1, "y": None}),
    ({"k": 1}, "map<string,int>", [("k", 1)]),
    ([["k", 1], ("l", None)], "map<string,int>", [("k", 1), ("l", None)]),
    ([(1, "a")], "map<int,string>", [(1, "a")]),
    (OrderedDict(k=1), "map<string,int>", [("k", 1)]),
]


def _id(value: object) -> str:
    """What a value prints as in every process; a memoryview prints its address."""
    return f"memoryview({bytes(value)!r})" if isinstance(value, memoryview) else repr(value)


@pytest.mark.parametrize(("value", "ddl", "stored"), ACCEPTED, ids=_id)
def test_a_value_that_fits_is_stored_exactly(value: object, ddl: str, stored: object) -> None:
    assert only(value, ddl) == stored


def test_a_number_of_many_digits_keeps_its_value() -> None:
    text = "1." + "0" * 100_000
    assert only(text, "decimal(5,2)") == only(Decimal(text), "decimal(5,2)") == Decimal("1.00")
    assert arrow_column(pa.array([text]), "decimal(5,2)") == ([Decimal("1.00")], [])


@pytest.mark.parametrize(("value", "ddl", "stored"), ACCEPTED, ids=_id)
def test_it_does_not_matter_what_else_is_in_the_column(value: object, ddl: str, stored: object) -> None:
    schema = parse_ddl(f"c {ddl}")
    table, rejected = to_arrow([{"c": value}, {"c": object()}, {"c": value}], schema)
    assert table["c"].to_pylist() == [stored, stored]
    assert [record.index for record in rejected] == [1]


@pytest.mark.parametrize(
    ("value", "ddl"),
    [
        (True, "int"),
        (1.0, "int"),
        (1.5, "int"),
        (Decimal(1), "int"),
        ("1", "int"),
        (128, "tinyint"),
        (-129, "tinyint"),
        (2**63, "bigint"),
        (2**200, "bigint"),
        (True, "double"),
        ("1.5", "double"),
        (2**53 + 1, "double"),
        (2**2000, "double"),
        (Decimal("1e400"), "double"),
        (Decimal("sNaN"), "double"),
        (2**24 + 1, "float"),
        (1e300, "float"),
        (3.5e38, "float"),
        (Decimal("1e39"), "float"),
        (True, "decimal(5,2)"),
        (Decimal("1.555"), "decimal(5,2)"),
        (Decimal(1000), "decimal(5,2)"),
        (1000, "decimal(5,2)"),
        (Decimal("NaN"), "decimal(5,2)"),
        (Decimal("Infinity"), "decimal(5,2)"),
        (Decimal("1E+999999"), "decimal(5,2)"),
        (Decimal("1E-999999"), "decimal(5,2)"),
        (Decimal("1E-999999999"), "decimal(5,2)"),
        ("1E-999999999", "decimal(5,2)"),
        ("0E-999999999", "decimal(5,2)"),
        ("1" + "0" * 100 + ".0", "decimal(5,2)"),
        (Decimal("1" + "0" * 100 + ".0"), "decimal(5,2)"),
        (10**100, "decimal(5,2)"),
        (0.125, "decimal(5,2)"),
        (float("nan"), "decimal(5,2)"),
        ("1.555", "decimal(5,2)"),
        ("1_0", "decimal(5,2)"),
        (" 1", "decimal(5,2)"),
        ("", "decimal(5,2)"),
        ("NaN", "decimal(5,2)"),
        ("\u0661", "decimal(5,2)"),
        (1, "string"),
        (b"ab", "string"),
        ("\ud800", "string"),
        ("ab", "binary"),
        ([1, 2], "binary"),
        (1, "boolean"),
        ("true", "boolean"),
        (1, "date"),
        (NAIVE, "date"),
        ("2024-02-30", "date"),
        ("2024-02-29T00:00:00", "date"),
        ("20240229", "date"),
        ("0000-01-01", "date"),
        (1, "timestamp"),
        (1.5, "timestamp"),
        ("2024-02-29T12:00:00.0000001Z", "timestamp"),
        ("2024-02-29T25:00:00Z", "timestamp"),
        ("yesterday", "timestamp"),
        ("0000-01-01T00:00:00Z", "timestamp"),
        (datetime(1, 1, 1, tzinfo=EAST), "timestamp"),
        ("0001-01-01T00:00:00+02:00", "timestamp"),
        (pd.Timestamp(1, unit="ns", tz="UTC"), "timestamp"),
        (pd.NaT, "timestamp"),
        (NOON, "timestamp_ntz"),
        ("2024-02-29T12:00:00Z", "timestamp_ntz"),
        ("ab", "array<string>"),
        ({"a": 1}, "array<string>"),
        ([1.5], "array<int>"),
        ([[True]], "array<array<int>>"),
        ((1,), "struct<x: int>"),
        ({"x": 1, "z": 1}, "struct<x: int>"),
        ({"x": None}, "struct<x: int NOT NULL>"),
        ({}, "struct<x: int NOT NULL>"),
        ({"x": 1.5}, "struct<x: int>"),
        ({1: 1}, "map<string,int>"),
        ({None: 1}, "map<string,int>"),
        ([("k", 1), ("k", 2)], "map<string,int>"),
        ([("k",)], "map<string,int>"),
        ("k", "map<string,int>"),
    ],
    ids=repr,
)
def test_a_value_that_does_not_fit_is_rejected(value: object, ddl: str) -> None:
    rejection = why_not(value, ddl)
    assert rejection.field is not None
    assert rejection.field.startswith("c")


@pytest.mark.parametrize(
    ("value", "ddl", "field", "expected", "got"),
    [
        (300, "tinyint", "c", "tinyint (-128 to 127)", "300 (int)"),
        ("x" * 200, "int", "c", "int (-2147483648 to 2147483647)", "'" + "x" * 76 + "... (str)"),
        ("1.555", "decimal(5,2)", "c", "decimal(5,2), so at most 2 digits after the point", "'1.555' (str)"),
        ([1, "a"], "array<string>", "c[0]", "string", "1 (int)"),
        ({"x": {"y": True}}, "struct<x: struct<y: double>>", "c.x.y", "double", "True (bool)"),
        ({"y": 1}, "struct<x: int>", "c.y", "one of x", "an unknown field with 1 (int)"),
        ({"k": "v"}, "map<string,boolean>", "c['k']", "boolean", "'v' (str)"),
        ({"x": None}, "struct<x: int NOT NULL>", "c.x", "int NOT NULL", "null"),
        ("ab", "binary", "c", "binary (bytes; encode text, decode base64 first)", "'ab' (str)"),
    ],
    ids=repr,
)
def test_a_rejection_says_where_what_and_what_instead(
    value: object, ddl: str, field: str, expected: str, got: str
) -> None:
    rejection = why_not(value, ddl)
    assert (rejection.field, rejection.expected, rejection.got) == (field, expected, got)


@given(st.data())
def test_records_come_back_as_they_were_given(data: st.DataObject) -> None:
    schema = data.draw(SCHEMAS)
    rows = data.draw(st.lists(records(schema), max_size=5))
    table, rejected = to_arrow(rows, schema)
    table.validate(full=True)
    expected = [{field.name: as_arrow_gives_it(row[field.name], field.type) for field in schema} for row in rows]
    assert rejected == []
    assert table.to_pylist() == expected
    again, rejected = to_arrow(table, schema)
    assert rejected == []
    assert again.equals(table)


MESSY = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-300, 300),
    st.sampled_from([2**24 + 1, 2**31, 2**53 + 1, 2**63, -(2**70)]),
    st.floats(),
    st.decimals(),
    st.decimals(-1000, 1000, places=2),
    st.datetimes(timezones=st.sampled_from([None, UTC, EAST])),
    st.dates(),
    st.text(max_size=4),
    st.dates().map(str),
    st.decimals().map(str),
    st.datetimes(timezones=st.sampled_from([None, UTC, EAST])).map(str),
    st.binary(max_size=3),
)


@given(st.data())
def test_the_whole_column_at_once_gives_what_one_by_one_gives(data: st.DataObject) -> None:
    arrow = data.draw(TYPES)
    sources = data.draw(st.lists(st.sampled_from([optional(arrow), MESSY, values(data.draw(TYPES))]), min_size=1))
    column = data.draw(st.lists(st.one_of(sources), max_size=4))
    fast = vectorised(column, arrow)
    slow, rejections = one_by_one(column, arrow)
    if fast is not None:
        assert rejections == {}
        assert fast.type == slow.type
        assert repr(fast.to_pylist()) == repr(slow.to_pylist())


@given(st.data())
def test_one_kind_of_messy_values_is_told_apart_too(data: st.DataObject) -> None:
    arrow = data.draw(TYPES)
    column = data.draw(st.lists(data.draw(st.sampled_from(MESSY.element_strategies)), max_size=4))  # type: ignore[attr-defined]
    fast = vectorised(column, arrow)
    slow, rejections = one_by_one(column, arrow)
    if fast is not None:
        assert rejections == {}
        assert repr(fast.to_pylist()) == repr(slow.to_pylist())


@given(st.lists(st.one_of(st.none(), st.text(alphabet="0123456789-+:.TZ eE_", max_size=26)), min_size=1, max_size=1))
def test_texts_are_parsed_alike_at_once_and_one_by_one(column: list[object]) -> None:
    for arrow in (pa.decimal128(8, 3), pa.date32(), pa.timestamp("us"), pa.timestamp("us", "UTC")):
        fast = vectorised(column, arrow)
        slow, rejections = one_by_one(column, arrow)
        if fast is not None:
            assert rejections == {}
            assert fast.equals(slow)


@given(st.data())
def test_good_records_are_kept_in_order_between_bad_ones(data: st.DataObject) -> None:
    schema = data.draw(SCHEMAS)
    rows = data.draw(st.lists(records(schema), max_size=6))
    bad = data.draw(st.sets(st.integers(0, len(rows) - 1))) if rows else set()
    spoiled = [{**row, schema.names[0]: object()} if at in bad else row for at, row in enumerate(rows)]
    table, rejected = to_arrow(spoiled, schema)
    kept, _ = to_arrow([row for at, row in enumerate(rows) if at not in bad], schema)
    assert table.to_pylist() == kept.to_pylist()
    assert [record.index for record in rejected] == sorted(bad)


def test_the_columns_are_the_schemas_all_nullable() -> None:
    schema = parse_ddl("id bigint NOT NULL COMMENT 'key', name string")
    table, _ = to_arrow([{"name": "a", "id": 1}], schema)
    assert table.schema.names == ["id", "name"]
    assert all(field.nullable for field in table.schema)
    assert table.schema.field("id").metadata == {b"comment": b"key"}


def test_no_records_make_an_empty_table() -> None:
    table, rejected = to_arrow([], parse_ddl("id bigint, tags array<string>"))
    assert (table.num_rows, table.num_columns, rejected) == (0, 2, [])


def test_an_unknown_field_rejects_the_record() -> None:
    table, rejected = to_arrow([{"id": 1}, {"id": 2, "nam": "x"}], parse_ddl("id int, name string"))
    assert table["id"].to_pylist() == [1]
    assert rejected == [
        RejectedRecord(
            1,
            "nam",
            "one of id, name, _deleted, _headers, _partition",
            "an unknown field with 'x' (str)",
            b'{"id": 2, "nam": "x"}',
        )
    ]


def test_not_null_holds_but_for_deleted_records() -> None:
    schema = parse_ddl("id int NOT NULL, name string NOT NULL")
    rows: list[Mapping[str, object]] = [
        {"id": 1, "name": "a"},
        {"id": 2},
        {"id": 3, "_deleted": True},
        {"id": 4, "_deleted": False},
        {"_deleted": True},
    ]
    table, rejected = to_arrow(rows, schema, key=("id",))
    assert table.to_pylist() == [
        {"id": 1, "name": "a", "_deleted": False},
        {"id": 3, "name": None, "_deleted": True},
    ]
    assert [(record.index, record.field, record.expected) for record in rejected] == [
        (1, "name", "string NOT NULL"),
        (3, "name", "string NOT NULL"),
        (4, "id", "int NOT NULL (part of the key)"),
    ]
    arrow_rows = pa.table({name: [row.get(name) for row in rows] for name in ("id", "name", "_deleted")})
    from_arrow, rejected_again = to_arrow(arrow_rows, schema, key=("id",))
    assert from_arrow.equals(table)
    assert [record.index for record in rejected_again] == [1, 3, 4]


def test_a_key_may_not_be_null_even_if_its_column_may() -> None:
    table, rejected = to_arrow([{"id": None}, {"id": 1}], parse_ddl("id int"), key=("id",))
    assert table["id"].to_pylist() == [1]
    assert [(record.index, record.field, record.got) for record in rejected] == [(0, "id", "null")]


def test_a_key_must_be_a_column() -> None:
    with pytest.raises(SchemaError, match="not a column"):
        to_arrow([], parse_ddl("id int"), key=("name",))


def test_system_columns_are_there_only_if_given() -> None:
    schema = parse_ddl("id int")
    table, rejected = to_arrow([{"id": 1, "_headers": {"trace": "x"}, "_partition": 3}, {"id": 2}], schema)
    assert rejected == []
    assert table.schema.names == ["id", "_headers", "_partition"]
    assert table.schema.field("_headers").type == pa.map_(pa.string(), pa.string())
    assert table.schema.field("_partition").type == pa.int32()
    assert table.to_pylist()[1] == {"id": 2, "_headers": None, "_partition": None}
    _, rejected = to_arrow([{"id": 1, "_headers": {"n": 1}}, {"id": 1, "_deleted": 1}], schema)
    assert [record.field for record in rejected] == ["_headers['n']", "_deleted"]


def test_what_is_no_mapping_is_rejected_as_a_whole() -> None:
    table, rejected = to_arrow([{"id": 1}, 5, None], parse_ddl("id int NOT NULL"))
    assert table["id"].to_pylist() == [1]
    assert [(record.index, record.field, record.got, record.original) for record in rejected] == [
        (1, None, "5 (int)", b"5"),
        (2, None, "null", b"null"),
    ]


def test_a_mapping_that_invents_values_is_not_asked_to() -> None:
    row: defaultdict[str, object] = defaultdict(lambda: 7)
    table, _ = to_arrow([row, {"id": 1}], parse_ddl("id int"))
    assert table["id"].to_pylist() == [None, 1]
    assert row == {}


def test_the_original_is_kept_whatever_it_holds() -> None:
    rows: list[object] = [{"id": NOON}, {"id": b"x"}, {("no", "json"): 1}]
    _, rejected = to_arrow(rows, parse_ddl("id int"))
    assert [record.original for record in rejected] == [
        b'{"id": "2024-02-29 12:00:00+00:00"}',
        b'{"id": "b\'x\'"}',
        b"{('no', 'json'): 1}",
    ]


def with_scale(scale: int) -> pa.Array:
    """Null, and a decimal of any scale."""
    return pa.Array.from_buffers(
        pa.decimal128(5, scale), 2, [pa.py_buffer(b"\x02"), pa.py_buffer(bytes(16) + (123).to_bytes(16, "little"))]
    )


def arrow_column(column: pa.Array, ddl: str) -> tuple[list[object], list[RejectedRecord]]:
    table, rejected = to_arrow(pa.table({"c": column}), parse_ddl(f"c {ddl}"))
    table.validate(full=True)
    assert table.schema.field("c").type == parse_ddl(f"c {ddl}").field("c").type
    return table["c"].to_pylist(), rejected


@pytest.mark.parametrize(
    ("column", "ddl", "stored"),
    [
        (pa.array([1, None], pa.int64()), "tinyint", [1, None]),
        (pa.array([1], pa.uint64()), "int", [1]),
        (pa.array([2**64 - 1], pa.uint64()), "decimal(20,0)", [Decimal(2**64 - 1)]),
        (pa.array([5], pa.int64()), "decimal(3,2)", [Decimal("5.00")]),
        (pa.array([5], pa.int64()), "decimal(38,30)", [Decimal(5)]),
        (pa.array([2**53], pa.int64()), "double", [2.0**53]),
        (pa.array([2**60], pa.int64()), "double", [2.0**60]),
        (pa.array([0.1], pa.float64()), "float", [0.10000000149011612]),
        (pa.array([0.1], pa.float64()), "decimal(3,1)", [Decimal("0.1")]),
        (pa.array([Decimal("1.50")]), "decimal(2,1)", [Decimal("1.5")]),
        (pa.array(["1.5", None]), "decimal(5,2)", [Decimal("1.50"), None]),
        (pa.array(["1." + "0" * 100, "1e2"]), "decimal(5,2)", [Decimal("1.00"), Decimal("100.00")]),
        (pa.array([["1.5"]]), "array<decimal(5,2)>", [[Decimal("1.50")]]),
        (pa.array(["2024-02-29"], pa.string_view()), "date", [date(2024, 2, 29)]),
        (pa.array(["2024-02-29T12:00:00Z"]), "timestamp", [NOON]),
        (pa.array(["2024-02-29T12:00:00"]), "timestamp", [NOON]),
        (pa.array(["2024-02-29T12:00:00Z", "2024-02-29T12:00:00"]), "timestamp", [NOON, NOON]),
        (pa.array(["2024-02-29T12:00:00"]), "timestamp_ntz", [NAIVE]),
        (pa.array([NAIVE], pa.timestamp("ns")), "timestamp", [NOON]),
        (pa.array([NOON], pa.timestamp("s", "Asia/Tokyo")), "timestamp", [NOON]),
        (pa.array([date(2024, 2, 29)], pa.date64()), "date", [date(2024, 2, 29)]),
        (pa.array(["a", None]).dictionary_encode(), "string", ["a", None]),
        (pa.array([[1]], pa.large_list(pa.int64())), "array<int>", [[1]]),
        (pa.array([[0.5]], pa.list_(pa.float64())), "array<float>", [[0.5]]),
        (pa.array([b"ab"], pa.binary(2)), "binary", [b"ab"]),
        (pa.nulls(2), "struct<x: int>", [None, None]),
        (pa.array([{"x": 1}]), "struct<y: string, x: int>", [{"y": None, "x": 1}]),
        (pa.array([[("k", 1)]], pa.map_(pa.large_string(), pa.int64())), "map<string,int>", [[("k", 1)]]),
    ],
    ids=str,
)
def test_an_arrow_column_is_cast_where_nothing_is_lost(column: pa.Array, ddl: str, stored: list[object]) -> None:
    assert arrow_column(column, ddl) == (stored, [])


def test_run_ends_are_decoded() -> None:
    column = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array([7, None]))
    assert arrow_column(column, "int") == ([7, 7, None], [])


@pytest.mark.parametrize(
    ("column", "ddl", "kept", "got"),
    [
        (pa.array([1, 300]), "tinyint", [1], "300 (int64)"),
        (pa.array([None, True]), "int", [None], "True (bool)"),
        (pa.array([None, 1.0]), "int", [None], "1.0 (double)"),
        (pa.array([1, 2**53 + 1]), "double", [1.0], "9007199254740993 (int64)"),
        (pa.array([1.0, 1e300]), "float", [1.0], "1e+300 (double)"),
        (pa.array([1, 1000]), "decimal(3,1)", [Decimal("1.0")], "1000 (int64)"),
        (pa.array(["1", "1.55"]), "decimal(3,1)", [Decimal("1.0")], "'1.55' (string)"),
        (pa.array(["1", "1E-999999999"]), "decimal(3,1)", [Decimal("1.0")], "'1E-999999999' (string)"),
        (pa.array(["1", "1" + "0" * 100 + ".0"]), "decimal(3,1)", [Decimal("1.0")], None),
        (pa.array([[], ["1E-999999999"]]), "array<decimal(3,1)>", [[]], None),
        (with_scale(100_000_000), "decimal(3,1)", [None], None),
        (with_scale(-100_000_000), "decimal(3,1)", [None], None),
        (
            pa.array([Decimal("1.00"), Decimal("1.55")]),
            "decimal(3,1)",
            [Decimal("1.0")],
            "Decimal('1.55') (decimal128(3, 2))",
        ),
        (pa.array([None, 1]), "boolean", [None], "1 (int64)"),
        (pa.array([None, 1]), "date", [None], "1 (int64)"),
        (pa.array([None, b"ab"]), "string", [None], "b'ab' (binary)"),
        (pa.array([None, "ab"]), "binary", [None], "'ab' (string)"),
        (pa.array([None, NOON], pa.timestamp("us", "UTC")), "timestamp_ntz", [None], None),
        (pa.array([None, NAIVE]), "date", [None], None),
        (pa.array([None, NAIVE]), "string", [None], None),
        (pa.array([1000, 1], pa.timestamp("ns")), "timestamp_ntz", [datetime(1970, 1, 1, 0, 0, 0, 1)], None),  # noqa: DTZ001
        (pa.array([0, 2**62], pa.timestamp("us")), "timestamp_ntz", [datetime(1970, 1, 1)], None),  # noqa: DTZ001
        (pa.array([0, 2**31 - 1], pa.date32()), "date", [date(1970, 1, 1)], None),
        (pa.array([0, 2**31 - 1], pa.date32()), "timestamp_ntz", [datetime(1970, 1, 1)], None),  # noqa: DTZ001
        (pa.array([[0], [2**31 - 1]], pa.list_(pa.date32())), "array<date>", [[date(1970, 1, 1)]], None),
        (
            pa.array([None, [True]]),
            "array<int>",
            [None],
            "True (bool)",
        ),
        (pa.array([{"x": 1}, {"x": None}]), "struct<x: int NOT NULL>", [{"x": 1}], "null"),
        (pa.array([None, {"x": 1}]), "struct<y: int>", [None], "an unknown field with 1 (int)"),
        (pa.array([None, {"x": 1}]), "struct<x: int, y: int NOT NULL>", [None], "null"),
    ],
    ids=str,
)
def test_an_arrow_value_that_does_not_fit_is_named(
    column: pa.Array, ddl: str, kept: list[object], got: str | None
) -> None:
    stored, rejected = arrow_column(column, ddl)
    assert stored == kept
    assert [record.index for record in rejected] == [1]
    assert got is None or rejected[0].got == got


@pytest.mark.parametrize("ddl", ["array<struct<x: int NOT NULL>>", "map<string,struct<x: int NOT NULL>>"])
def test_not_null_holds_at_every_depth_and_in_slices(ddl: str) -> None:
    def nest(item: object) -> object:
        return [item] if ddl.startswith("array") else [("k", item)]

    loose = parse_ddl(f"c {ddl.replace(' NOT NULL', '')}")
    rows = [{"c": nest({"x": value})} for value in (None, 1, None, 2)] + [{"c": None}]
    table = pa.Table.from_pylist(rows, schema=loose)
    good, rejected = to_arrow(table, parse_ddl(f"c {ddl}"))
    assert [record.index for record in rejected] == [0, 2]
    assert good.to_pylist() == [rows[1], rows[3], rows[4]]
    assert to_arrow(table.slice(3), parse_ddl(f"c {ddl}"))[1] == []


def test_a_table_that_fits_is_not_copied() -> None:
    table = pa.table({"a": pa.array([1, 2], pa.int64())})
    taken, _ = to_arrow(table, parse_ddl("a bigint NOT NULL"))
    assert taken["a"].chunk(0).buffers()[1].address == table["a"].chunk(0).buffers()[1].address


def test_a_record_batch_is_taken_and_chunks_are_counted_through() -> None:
    batch = pa.RecordBatch.from_pydict({"b": ["x"], "a": [1]})
    assert to_arrow(batch, parse_ddl("a int, b string"))[0].to_pylist() == [{"a": 1, "b": "x"}]
    chunked = pa.table({"a": pa.chunked_array([[1, 2], [300], [3]])})
    table, rejected = to_arrow(chunked, parse_ddl("a tinyint"))
    assert table["a"].to_pylist() == [1, 2, 3]
    assert [(record.index, record.original) for record in rejected] == [(2, b'{"a": 300}')]


def test_a_column_that_the_schema_does_not_have_rejects_every_record() -> None:
    table, rejected = to_arrow(pa.table({"a": [1, 2], "z": [3, None]}), parse_ddl("a int"))
    assert table.num_rows == 0
    assert [(record.index, record.field) for record in rejected] == [(0, "z"), (1, "z")]


def test_a_column_that_is_there_twice_is_refused() -> None:
    with pytest.raises(SchemaError, match="more than once"):
        to_arrow(pa.table([[1], [2]], names=["a", "a"]), parse_ddl("a int"))


def test_the_original_of_an_arrow_record_is_kept_even_if_python_has_no_such_value() -> None:
    table = pa.table({"a": [300], "t": pa.array([2**62], pa.timestamp("us"))})
    _, rejected = to_arrow(table, parse_ddl("a tinyint, t timestamp_ntz"))
    assert json.loads(rejected[0].original)["a"] == 300


JSON_SCHEMA = parse_ddl("id int NOT NULL, price decimal(20,10), ratio double, tags array<string>, at timestamp")


def test_json_lines_are_read() -> None:
    data = (
        b'{"id": 1, "price": 0.1234567891, "ratio": 1, "tags": ["a"], "at": "2024-02-29T12:00:00Z"}\r\n'
        b'\n  \n{"ratio": 0.10000000000000001, "id": 2, "_deleted": true}'
    )
    table, rejected = parse_json_lines(data, JSON_SCHEMA, key=("id",))
    assert rejected == []
    assert table.to_pylist() == [
        {"id": 1, "price": Decimal("0.1234567891"), "ratio": 1.0, "tags": ["a"], "at": NOON, "_deleted": False},
        {"id": 2, "price": None, "ratio": 0.1, "tags": None, "at": None, "_deleted": True},
    ]


@pytest.mark.parametrize(
    "line",
    [
        b'{"id": 1',
        b"[1]",
        b"1",
        b"null",
        b'{"id": 1}{"id": 2}',
        b'{"id": 1},{"id": 2}',
        b'{"id": NaN}',
        b'{"id": "\xff"}',
        b"{'id': 1}",
        b"[" * 100_000,
        b'{"id": %s}' % (b"9" * 5000),
        b'{"id": 1e99999999999999999999}',
    ],
    ids=lambda line: line[:20],
)
def test_a_line_that_is_not_one_json_object_is_rejected(line: bytes) -> None:
    table, rejected = parse_json_lines(b'{"id": 1}\n\n' + line + b'\n{"id": 2}\n', JSON_SCHEMA)
    assert table["id"].to_pylist() == [1, 2]
    assert [(record.index, record.field, record.expected, record.original) for record in rejected] == [
        (1, None, "a JSON object", line)
    ]


def test_lines_that_are_json_only_together_are_rejected() -> None:
    # Three values in one line make up for the two lines that are one value, so counting them is not enough.
    lines = [b'{"id": 1},{"id": 2},{"id": 3}', b'{"id": [{}', b"{}]}"]
    table, rejected = parse_json_lines(b"\n".join(lines), JSON_SCHEMA)
    assert table.num_rows == 0
    assert [record.original for record in rejected] == lines


def test_a_rejected_line_is_kept_as_it_was() -> None:
    line = b'{"id":1.0,   "price": 1}'
    _, rejected = parse_json_lines(line + b"\n", JSON_SCHEMA)
    assert [(record.field, record.got, record.original) for record in rejected] == [
        ("id", "Decimal('1.0') (Decimal)", line)
    ]


@pytest.mark.parametrize("ddl", ["ratio double", "ratio float", "ratio struct<x: double>"])
@pytest.mark.parametrize("number", ["1e400", "-1e400", "1" + "0" * 400 + ".0", "1" + "0" * 400])
def test_a_number_that_is_too_large_does_not_become_infinite(ddl: str, number: str) -> None:
    nested = "struct" in ddl
    lines = [f'{{"ratio": {{"x": {text}}}}}' if nested else f'{{"ratio": {text}}}' for text in ("0.5", number)]
    table, rejected = parse_json_lines("\n".join(lines).encode(), parse_ddl(ddl))
    assert table["ratio"].to_pylist() == [{"x": 0.5} if nested else 0.5]
    assert [record.index for record in rejected] == [1]


def test_no_lines_make_an_empty_table() -> None:
    table, rejected = parse_json_lines(b"\n \n", JSON_SCHEMA)
    assert (table.num_rows, rejected) == (0, [])


@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "n": st.integers(-(2**31), 2**31 - 1),
                "t": st.text(),
                "f": st.floats(allow_nan=False, allow_infinity=False),
            }
        )
    )
)
def test_json_comes_back_as_it_was_written(rows: list[dict[str, object]]) -> None:
    schema = parse_ddl("n int, t string, f double")
    fits = [row for row in rows if not any("\ud800" <= char <= "\udfff" for char in str(row["t"]))]
    data = "\n".join(json.dumps(row) for row in rows).encode()
    table, rejected = parse_json_lines(data, schema)
    assert table.to_pylist() == fits
    assert len(rejected) == len(rows) - len(fits)


def test_a_binary_column_takes_base64_in_json_and_nothing_else() -> None:
    lines = b'{"c": "/w=="}\n{"c": "not base64!"}\n{"c": null}\n'
    table, rejected = parse_json_lines(lines, parse_ddl("c binary"))
    assert table.to_pylist() == [{"c": b"\xff"}, {"c": None}]
    assert [(letter.index, letter.original) for letter in rejected] == [(1, b'{"c": "not base64!"}')]

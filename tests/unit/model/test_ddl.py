"""Schemas as text, and the canonical form of a user's Arrow schema."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import SchemaError
from headwater.model.ddl import check_schema, format_ddl, format_type, parse_ddl
from tests.unit.model.strategies import SCHEMAS

UTC = pa.timestamp("us", "UTC")


@pytest.mark.parametrize(
    ("text", "arrow"),
    [
        ("tinyint", pa.int8()),
        ("byte", pa.int8()),
        ("smallint", pa.int16()),
        ("short", pa.int16()),
        ("int", pa.int32()),
        ("INTEGER", pa.int32()),
        ("bigint", pa.int64()),
        ("Long", pa.int64()),
        ("float", pa.float32()),
        ("real", pa.float32()),
        ("double", pa.float64()),
        ("decimal", pa.decimal128(10, 0)),
        ("dec(5)", pa.decimal128(5, 0)),
        ("numeric( 38 , 38 )", pa.decimal128(38, 38)),
        ("string", pa.string()),
        ("varchar(20)", pa.string()),
        ("char(1)", pa.string()),
        ("binary", pa.binary()),
        ("boolean", pa.bool_()),
        ("date", pa.date32()),
        ("timestamp", UTC),
        ("timestamp_ltz", UTC),
        ("timestamp_ntz", pa.timestamp("us")),
        ("array<array<int>>", pa.list_(pa.list_(pa.int32()))),
        ("map<string, map<string,int>>", pa.map_(pa.string(), pa.map_(pa.string(), pa.int32()))),
        ("struct<a: int NOT NULL, b string>", pa.struct([pa.field("a", pa.int32(), False), ("b", pa.string())])),
    ],
)
def test_every_type_is_read(text: str, arrow: pa.DataType) -> None:
    assert parse_ddl(f"c {text}").equals(pa.schema([("c", arrow)]))


def test_columns_have_names_nullability_and_comments() -> None:
    schema = parse_ddl(
        """id: BIGINT not null COMMENT 'it\\'s ''the'' key \\\\',
           `a``b c` string comment "tab\\t",
           array array<int> NOT NULL"""
    )
    assert schema.names == ["id", "a`b c", "array"]
    assert [field.nullable for field in schema] == [False, True, False]
    assert schema.field("id").metadata == {b"comment": b"it's 'the' key \\"}
    assert schema.field(1).metadata == {b"comment": b"tab\t"}
    assert schema.field(2).metadata is None


def test_the_text_is_what_spark_would_take() -> None:
    text = (
        "id bigint NOT NULL COMMENT 'it\\'s', `a b` decimal(10,2), "
        "s struct<x: int NOT NULL, y: array<timestamp_ntz>>, m map<string,timestamp>"
    )
    assert format_ddl(parse_ddl(text)) == text


@given(SCHEMAS)
def test_a_schema_survives_being_written_and_read(schema: pa.Schema) -> None:
    assert parse_ddl(format_ddl(schema)).equals(schema, check_metadata=True)


@given(SCHEMAS)
def test_what_is_canonical_stays_as_it_is(schema: pa.Schema) -> None:
    assert check_schema(schema).equals(schema, check_metadata=True)


@given(st.text(alphabet="ab ,:<>()`'\"\\int09$\n"))
def test_any_text_is_a_schema_or_a_schema_error(text: str) -> None:
    try:
        schema = parse_ddl(text)
    except SchemaError:
        return
    assert parse_ddl(format_ddl(schema)).equals(schema, check_metadata=True)


@pytest.mark.parametrize(
    ("text", "column", "message", "hint"),
    [
        ("a text", "a", "Column 'a': expected a type, found 'text' at character 3.", "Did you mean 'string'?"),
        ("a struct<b: bigimt>", "a.b", "Column 'a.b': expected a type, found 'bigimt' at character 13.", "'bigint'?"),
        ("a qqqq", "a", "Column 'a': expected a type, found 'qqqq' at character 3.", "Types: tinyint, "),
        ("a", "a", "Column 'a': expected a type, found the end.", "Types: "),
        ("a int b int", None, "The schema: expected ',' or the end, found 'b' at character 7.", "separated by commas"),
        ("a int,", None, "The schema: expected a column name, found the end.", "A column is: "),
        ("a int not", "a", "Column 'a': expected NULL after NOT, found the end.", "NOT NULL"),
        (
            "a int comment x",
            "a",
            "Column 'a': expected a quoted text after COMMENT, found 'x' at character 15.",
            "'text'",
        ),
        ("a array<int", "a", "Column 'a': expected '>', found the end.", "array<T>"),
        ("a varchar", "a", "Column 'a': expected '(', found the end.", "string"),
        ("a decimal(x)", "a", "Column 'a': expected a number, found 'x' at character 11.", "decimal(p,s)"),
        ("a struct<>", "a", "Column 'a': expected a column name, found '>' at character 10.", "A column is"),
        ("a int; b int", None, "The schema: expected ',' or the end, found ';' at character 6.", "separated by commas"),
        (" \n", None, "The schema is empty.", "A column is"),
        ("a int, A int", "A", "Column 'A' appears twice (the other is 'a').", "without case"),
        ("s struct<x: int, x: int>", "s.x", "Column 's.x' appears twice.", "rename"),
    ],
)
def test_an_error_says_where_what_and_what_to_do(text: str, column: str | None, message: str, hint: str) -> None:
    with pytest.raises(SchemaError) as caught:
        parse_ddl(text)
    assert (caught.value.message, caught.value.column) == (message, column)
    assert hint in caught.value.hint


@pytest.mark.parametrize("text", ["decimal(39,0)", "decimal(0)", "decimal(5,6)", "map<map<int,int>,int>"])
def test_types_that_do_not_exist_are_refused(text: str) -> None:
    with pytest.raises(SchemaError, match="expected a"):
        parse_ddl(f"a {text}")


def test_a_type_outside_the_ddl_is_shown_by_its_arrow_name() -> None:
    assert format_type(pa.list_(pa.duration("us"))) == "array<duration[us]>"


@pytest.mark.parametrize(
    ("given_type", "canonical"),
    [
        (pa.uint8(), pa.int16()),
        (pa.uint16(), pa.int32()),
        (pa.uint32(), pa.int64()),
        (pa.uint64(), pa.decimal128(20, 0)),
        (pa.float16(), pa.float32()),
        (pa.large_string(), pa.string()),
        (pa.string_view(), pa.string()),
        (pa.large_binary(), pa.binary()),
        (pa.binary_view(), pa.binary()),
        (pa.binary(4), pa.binary()),
        (pa.date64(), pa.date32()),
        (pa.timestamp("ns"), pa.timestamp("us")),
        (pa.timestamp("s", "Europe/Berlin"), UTC),
        (pa.dictionary(pa.int8(), pa.large_string()), pa.string()),
        (pa.run_end_encoded(pa.int32(), pa.uint8()), pa.int16()),
        (pa.decimal256(38, 3), pa.decimal128(38, 3)),
        (pa.decimal128(5, -2), pa.decimal128(7, 0)),
        (pa.decimal128(2, 5), pa.decimal128(5, 5)),
        (pa.large_list(pa.uint8()), pa.list_(pa.int16())),
        (pa.list_(pa.field("element", pa.int8(), nullable=False)), pa.list_(pa.int8())),
        (pa.list_(pa.int8(), 3), pa.list_(pa.int8())),
        (pa.map_(pa.large_string(), pa.uint8()), pa.map_(pa.string(), pa.int16())),
        (pa.struct([("x", pa.uint8())]), pa.struct([("x", pa.int16())])),
    ],
    ids=str,
)
def test_a_type_is_replaced_where_nothing_is_lost(given_type: pa.DataType, canonical: pa.DataType) -> None:
    assert check_schema(pa.schema([("c", given_type)])).field("c").type == canonical


@pytest.mark.parametrize(
    ("arrow", "reason"),
    [
        (pa.null(), "only nulls"),
        (pa.time64("us"), "time of day"),
        (pa.duration("us"), "length of time"),
        (pa.month_day_nano_interval(), "length of time"),
        (pa.struct([]), "without fields"),
        (pa.decimal256(50, 2), "needs 50 digits"),
        (pa.dense_union([pa.field("a", pa.int8())]), "no counterpart"),
        (pa.map_(pa.map_(pa.string(), pa.string()), pa.string()), "cannot be a map"),
        (pa.struct([("x", pa.int8()), ("X", pa.int8())]), "'c.X' appears twice"),
    ],
    ids=str,
)
def test_a_type_that_can_not_be_kept_is_refused(arrow: pa.DataType, reason: str) -> None:
    with pytest.raises(SchemaError, match=reason) as caught:
        check_schema(pa.schema([("c", arrow)]))
    assert caught.value.column is not None
    assert caught.value.column.startswith("c")
    assert caught.value.hint


def test_a_nested_type_is_named_by_its_path() -> None:
    with pytest.raises(SchemaError) as caught:
        check_schema(pa.schema([("c", pa.list_(pa.struct([("t", pa.time32("s"))])))]))
    assert caught.value.column == "c.element.t"


def test_names_that_spark_takes_for_one_are_refused() -> None:
    with pytest.raises(SchemaError, match="appears twice"):
        check_schema(pa.schema([("id", pa.int8()), ("ID", pa.int8())]))


@pytest.mark.parametrize("name", ["_offset", "_DELETED"])
def test_a_reserved_name_is_refused(name: str) -> None:
    with pytest.raises(SchemaError, match="headwater itself uses"):
        check_schema(pa.schema([(name, pa.int8())]))


def test_a_schema_needs_columns_and_columns_need_names() -> None:
    with pytest.raises(SchemaError, match="no columns"):
        check_schema(pa.schema([]))
    with pytest.raises(SchemaError, match="no name"):
        check_schema(pa.schema([("", pa.int8())]))


def test_only_comments_are_kept_of_the_metadata() -> None:
    field = pa.field("c", pa.int8(), metadata={"comment": "text", "PARQUET:field_id": "1"})
    checked = check_schema(pa.schema([field], metadata={"pandas": "{}"}))
    assert checked.field("c").metadata == {b"comment": b"text"}
    assert checked.metadata is None

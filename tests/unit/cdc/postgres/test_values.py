"""Texts of PostgreSQL as Arrow values, and types as types."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.cdc.headers import HEADERS, header_column
from headwater.cdc.postgres.arrays import parse_array
from headwater.cdc.postgres.types import arrow_type
from headwater.cdc.postgres.values import convert


def modifier(precision: int, scale: int) -> int:
    return (precision << 16 | scale & 0x7FF) + 4


@pytest.mark.parametrize(
    ("name", "given_modifier", "expected"),
    [
        ("numeric", modifier(10, 2), pa.decimal128(10, 2)),
        ("numeric", modifier(3, -2), pa.decimal128(5, 0)),
        ("numeric", modifier(3, 5), pa.decimal128(5, 5)),
        ("numeric", modifier(39, 2), pa.string()),
        ("numeric", -1, pa.string()),
        ("_numeric", modifier(6, 2), pa.list_(pa.decimal128(6, 2))),
        ("_int4", -1, pa.list_(pa.int32())),
        ("_box", -1, pa.string()),
        ("public.mood", -1, pa.string()),
    ],
)
def test_types(name: str, given_modifier: int, expected: pa.DataType) -> None:
    assert arrow_type(name, given_modifier) == expected


@pytest.mark.parametrize(
    ("arrow", "texts", "values", "specials"),
    [
        (pa.decimal128(10, 2), ["1.50", "NaN", None], [Decimal("1.50"), None, None], {1: "NaN"}),
        (pa.binary(), ["\\x00ff", None, "\\x", "\\x61"], [b"\x00\xff", None, b"", b"a"], {}),
        (pa.bool_(), ["t", "f", None], [True, False, None], {}),
        (pa.list_(pa.int32()), ["{1,NULL}", "{{1}}", None], [[1, None], None, None], {1: "{{1}}"}),
        (pa.list_(pa.date32()), ["{infinity}"], [None], {0: "{infinity}"}),
    ],
)
def test_values(arrow: pa.DataType, texts: list[str | None], values: list[Any], specials: dict[int, str]) -> None:
    found, refused = convert(pa.array(texts, pa.string()), arrow)
    assert (found.to_pylist(), refused) == (values, specials)
    sliced, _ = convert(pa.array(["junk", *texts], pa.string()).slice(1), arrow)
    assert sliced.to_pylist() == values


def quoted(element: str | None) -> str:
    return "NULL" if element is None else '"' + element.replace("\\", "\\\\").replace('"', '\\"') + '"'


@given(st.lists(st.none() | st.text()))
def test_arrays_are_read_back(elements: list[str | None]) -> None:
    assert parse_array("{" + ",".join(map(quoted, elements)) + "}") == elements


@pytest.mark.parametrize("text", ["", "{", "{1", "{1,2}}", "[0:1]={1,2}", "{{1},{2}}", '{"a}', "{1 2"])
def test_what_is_no_plain_array(text: str) -> None:
    assert parse_array(text) is None


@pytest.mark.parametrize("operations", ["rrr", "cud", "r", ""])
@pytest.mark.parametrize("shared", [{"lsn": "0/10", "xid": "7"}, {}, {"origin": "Köln", "empty": ""}])
def test_headers_of_one_transaction(operations: str, shared: dict[str, str]) -> None:
    letters = np.frombuffer(operations.encode(), np.uint8)
    found = header_column([shared], np.zeros(len(letters), np.int64), letters)
    found.validate(full=True)
    assert found.type == HEADERS.type
    assert [dict(each) for each in found.to_pylist()] == [{"op": letter, **shared} for letter in operations]

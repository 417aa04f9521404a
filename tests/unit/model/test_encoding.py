"""Values as JSON: what JSON or Python have no value for is text, and its neighbours stay as they are."""

from __future__ import annotations

import json
import math

import pyarrow as pa
import pytest

from headwater.model.encoding import json_rows, python_rows, python_values

YEAR_10000 = 253_402_300_800_000_000
TIMES = pa.array([YEAR_10000, 0, None], pa.int64()).cast(pa.timestamp("us", "UTC"))
ENDS = pa.array([0, 1, 2, 3], pa.int32())


@pytest.mark.parametrize(
    ("column", "inside"),
    [
        (TIMES, lambda value: value),
        (pa.ListArray.from_arrays(ENDS, TIMES), lambda value: value[0]),
        (pa.FixedSizeListArray.from_arrays(TIMES, 1), lambda value: value[0]),
        (pa.StructArray.from_arrays([TIMES], ["at"]), lambda value: value["at"]),
        (pa.MapArray.from_arrays(ENDS, pa.array(["at"] * 3), TIMES), lambda value: value["at"]),
    ],
)
def test_a_time_that_python_has_no_value_for(column, inside) -> None:  # type: ignore[no-untyped-def]
    found = [inside(row["x"]) for row in json_rows(pa.table({"x": column}))]
    assert found == ["10000-01-01 00:00:00.000000Z", "1970-01-01T00:00:00Z", None]


def test_a_date_that_has_no_name() -> None:
    days = pa.array([2**31 - 1, 0], pa.int32()).cast(pa.date32())
    assert [row["x"] for row in json_rows(pa.table({"x": days}))] == ["<value out of range: 2147483647>", "1970-01-01"]


@pytest.mark.parametrize(
    "column",
    [
        pa.array([math.nan]),
        pa.array([[math.nan]]),
        pa.array([[math.nan]], pa.list_(pa.float64(), 1)),
        pa.array([{"a": math.nan}]),
        pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([math.nan])]),
    ],
)
def test_what_json_has_no_number_for_is_text(column: pa.Array) -> None:
    (row,) = json_rows(pa.table({"x": column}))
    assert "NaN" in json.dumps(row, allow_nan=False)


TEXTS = pa.array([b"a\xff", b"b", None], pa.binary()).view(pa.string())


@pytest.mark.parametrize(
    ("column", "inside"),
    [
        (TEXTS, lambda value: value),
        (pa.ListArray.from_arrays(ENDS, TEXTS), lambda value: value[0]),
        (pa.StructArray.from_arrays([TEXTS], ["s"]), lambda value: value["s"]),
        (pa.MapArray.from_arrays(ENDS, pa.array(["s"] * 3), TEXTS), lambda value: value["s"]),
    ],
)
def test_text_that_is_not_utf_8_is_replaced(column, inside) -> None:  # type: ignore[no-untyped-def]
    assert [inside(row["x"]) for row in json_rows(pa.table({"x": column}))] == ["a\ufffd", "b", None]


def test_rows_whose_values_python_lacks_can_be_read() -> None:
    both = pa.table({"at": TIMES, "s": TEXTS, "n": [1, 2, 3]})
    assert python_values(both["s"]) == ["a\ufffd", "b", None]
    first = {"at": "10000-01-01 00:00:00.000000Z", "s": "a\ufffd", "n": 1}
    assert python_rows(both)[0] == first
    assert python_rows(both.select([])) == [{}, {}, {}]

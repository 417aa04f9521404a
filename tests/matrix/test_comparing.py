"""How views are compared with raw Spark, where it has one answer and where it has several."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, nan

import pyarrow as pa
import pytest

from tests.matrix.comparing import Outcome, judge


def outcome(
    content: Sequence[object],
    *answers: Sequence[object],
    kind: pa.DataType,
    settled: bool = False,
    unordered: bool = False,
) -> Outcome:
    tables = [pa.table({"v": pa.array(list(values), kind)}) for values in (content, *answers)]
    return judge(tables[0], tables[1], lambda: tables[2:], lambda: settled, unordered=unordered).outcome


def test_rows_have_no_order_and_count_as_often_as_they_are_there() -> None:
    assert outcome([1, 2, 2], [2, 1, 2], kind=pa.int32()) == "equal"
    assert outcome([1, 2, 2], [1, 1, 2], kind=pa.int32()) == "different"
    assert outcome([1, 2], [1, 2, 2], kind=pa.int32()) == "different"
    assert outcome([None], [0], kind=pa.int32()) == "different"
    assert outcome([], [], kind=pa.int32()) == "equal"


def test_columns_are_compared_by_name_and_type() -> None:
    one, other = pa.table({"v": pa.array([1], pa.int32())}), pa.table({"v": pa.array([1], pa.int64())})
    assert judge(one, other, list, bool).outcome == "different"
    assert judge(one, one.rename_columns(["w"]), list, bool).outcome == "different"


@pytest.mark.parametrize(
    ("value", "wanted", "same"),
    [
        (0.1 + 0.2, 0.3, True),
        (1.0, 1.00001, False),
        (nan, nan, True),
        (nan, 1.0, False),
        (inf, -inf, False),
        (0.0, -0.0, False),
        (1e-300, 0.0, True),
    ],
)
def test_doubles(value: float, wanted: float, same: bool) -> None:
    assert (outcome([value], [wanted], [wanted], kind=pa.float64()) == "equal") is same


def test_maps_have_no_order_and_arrays_have_one() -> None:
    maps, arrays = pa.map_(pa.string(), pa.int32()), pa.list_(pa.int32())
    assert outcome([[("q", 1), ("w", None)]], [[("w", None), ("q", 1)]], kind=maps) == "equal"
    assert outcome([[("q", 0)]], [[("q", None)]], kind=maps) == "different"
    assert outcome([[1, 2]], [[2, 1]], kind=arrays) == "different"
    assert outcome([[1, 2]], [[2, 1]], kind=arrays, unordered=True) == "open"
    assert outcome([[1, 2]], [[2, 2]], kind=arrays, unordered=True) == "different"


def test_an_answer_that_changes_with_the_order_of_rows_is_open() -> None:
    assert outcome([2], [1], [1], [2], kind=pa.int32()) == "open"
    assert outcome([3], [1], [1], [2], kind=pa.int32()) == "different"
    assert outcome([3], [1], [1], [2], kind=pa.int32(), settled=True) == "open"
    assert outcome([2], [1], [1], kind=pa.int32(), settled=True) == "different"


def test_a_sum_of_doubles_that_cancel_lies_between_those_of_spark() -> None:
    assert outcome([1.0], [0.0], [2.0], kind=pa.float64()) == "open"
    assert outcome([3.0], [0.0], [2.0], kind=pa.float64()) == "different"

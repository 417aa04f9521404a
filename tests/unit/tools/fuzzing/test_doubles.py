"""Doubles that depend on the order in which they were added up."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from tools.fuzzing.doubles import within


def table(*rows: tuple[Any, ...]) -> pa.Table:
    names = ["g", "s", "n"][: len(rows[0])]
    return pa.table({name: [row[place] for row in rows] for place, name in enumerate(names)})


@pytest.mark.parametrize("number", [0.0, 0.5, 1.0, 2.0, -1.0])
def test_in_the_range_of_the_answers_or_as_far_outside_as_it_is_wide(number: float) -> None:
    assert within(table(("a", number)), table(("a", 0.0)), [table(("a", 1.0)), table(("a", 0.0))])


@pytest.mark.parametrize("number", [2.1, -1.1, math.nan, math.inf])
def test_outside_of_the_range(number: float) -> None:
    assert not within(table(("a", number)), table(("a", 0.0)), [table(("a", 1.0))])


def test_the_last_digits_do_not_count() -> None:
    assert within(table(("a", 1e12 + 0.1)), table(("a", 1e12)), [])
    assert not within(table(("a", 1.001)), table(("a", 1.0)), [])


@pytest.mark.parametrize(
    "rows",
    [
        [("b", 0.5)],
        [("a", 0.5), ("a", 0.5)],
        [("a", None)],
    ],
)
def test_everything_else_must_be_the_same(rows: Sequence[tuple[Any, ...]]) -> None:
    assert not within(table(*rows), table(("a", 0.0)), [table(("a", 1.0))])


def test_a_double_that_all_answers_agree_on_tells_rows_apart() -> None:
    expected, other = table(("a", 1.0, 10.0), ("a", 2.0, 0.0)), table(("a", 1.0, 11.0), ("a", 2.0, 0.0))
    assert within(table(("a", 1.0, 10.5), ("a", 2.0, 0.0)), expected, [other])
    assert not within(table(("a", 1.0, 0.0), ("a", 2.0, 10.5)), expected, [other])


def test_not_a_number_is_right_where_an_answer_has_it() -> None:
    assert within(table(("a", math.nan)), table(("a", 1.0)), [table(("a", math.nan))])
    assert within(table(("a", -math.inf)), table(("a", 1.0)), [table(("a", -math.inf))])


def test_doubles_in_lists() -> None:
    expected, other = pa.table({"l": [[1.0, 5.0]]}), pa.table({"l": [[2.0, 5.0]]})
    assert within(pa.table({"l": [[1.5, 5.0]]}), expected, [other])
    assert not within(pa.table({"l": [[1.5, 7.0]]}), expected, [other])
    assert not within(pa.table({"l": [[1.5]]}), expected, [other])

"""The rows, top-k and ranks kernels: whole groups, ties, and duplicates that count."""

from __future__ import annotations

import pickle
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

from headwater.errors import InternalError
from headwater.views.kernel import Kernel
from headwater.views.ordering import Order
from headwater.views.publish import Publish
from headwater.views.ranks import RankFunction, Ranks
from headwater.views.replace import Replace
from headwater.views.rows import Rows
from headwater.views.topk import TopK
from tests.property.views.driver import Driver
from tests.property.views.values import identity

SCHEMA = pa.schema([("k", pa.string()), ("v", pa.float64()), ("t", pa.string())])
NAN = float("nan")


def driver_of(kernel: Rows | TopK | Ranks) -> Driver:
    copy: Kernel = pickle.loads(pickle.dumps(kernel))
    return Driver(copy, {"rows": kernel.key}, 1)


def give(driver: Driver, *changes: tuple[tuple[Any, ...], int]) -> list[tuple[tuple[Any, ...], int]]:
    return sorted(driver.step({"rows": changes}), key=lambda change: (change[1], repr(change[0])))


def top(limit: int, *orders: Order, key: tuple[str, ...] = (), offset: int = 0) -> Driver:
    return driver_of(TopK(SCHEMA, key, orders, limit, offset))


def ranks(*functions: RankFunction, key: tuple[str, ...] = ("k",)) -> Driver:
    return driver_of(Ranks(SCHEMA, key, (Order("v", descending=False, nulls_first=True),), 1, functions))


DESCENDING = Order("v", descending=True, nulls_first=False)


def test_a_group_that_changes_is_handed_over_whole() -> None:
    driver = driver_of(Rows(SCHEMA, ("k",)))
    one, two, other = ("a", 1.0, "x"), ("a", 2.0, "x"), ("b", 1.0, "x")
    assert give(driver, (one, 2), (other, 1)) == [(("a",), 1), (("b",), 1)]
    assert sorted(driver.handed) == [one, one, other]
    assert give(driver, (two, 1)) == [(("a",), 1)]
    assert sorted(driver.handed) == [one, one, two]
    assert give(driver, (one, -2), (two, -1)) == [(("a",), 1)]
    assert driver.handed == []


def test_results_are_replaced_by_new_ones() -> None:
    schema = pa.schema([("total", pa.float64()), ("k", pa.string())])
    driver = Driver(pickle.loads(pickle.dumps(Replace(schema, ("k",)))), {"groups": ("k",), "results": ("k",)})
    driver.step({"groups": [(("a",), 1), (("b",), 1)], "results": [((0.1, "a"), 1), ((NAN, "b"), 1)]})
    out = driver.step({"groups": [(("a",), 1)], "results": [((0.2, "a"), 1)]})
    assert sorted(out) == [((0.1, "a"), -1), ((0.2, "a"), 1)]
    assert driver.step({"groups": [(("a",), 1)], "results": [((0.2, "a"), 1)]}) == []
    assert driver.step({"groups": [(("a",), 1)]}) == [((0.2, "a"), -1)]


def test_a_result_of_a_group_that_did_not_change_is_refused() -> None:
    schema = pa.schema([("total", pa.float64()), ("k", pa.string())])
    driver = Driver(Replace(schema, ("k",)), {"groups": ("k",), "results": ("k",)})
    with pytest.raises(InternalError, match="did not change"):
        driver.step({"groups": [(("a",), 1)], "results": [((1.0, "b"), 1)]})


def test_an_aggregate_of_nothing_has_a_result() -> None:
    empty = pa.table({"total": pa.array([None], pa.float64())})
    driver = Driver(Replace(pa.schema([("total", pa.float64())]), (), empty), {"groups": (), "results": ()})
    assert driver.step({}) == [((None,), 1)]
    assert driver.step({}) == []
    assert sorted(driver.step({"groups": [((), 1)], "results": [((1.5,), 1)]}), key=repr) == [
        ((1.5,), 1),
        ((None,), -1),
    ]
    assert sorted(driver.step({"groups": [((), 1)]}), key=repr) == [((1.5,), -1), ((None,), 1)]


def test_a_view_does_not_lose_a_row_that_it_does_not_hold() -> None:
    driver = Driver(Publish(SCHEMA), {"rows": tuple(SCHEMA.names)})
    row, other = ("a", 1.0, "x"), ("a", -0.0, "x")
    driver.step({"rows": [(row, 2), (other, 1)]})
    driver.step({"rows": [(row, -2)]})
    with pytest.raises(InternalError, match=r"retract a row that it does not hold: .*'v': 0\.0"):
        driver.step({"rows": [(("a", 0.0, "x"), -1)]})


def test_a_change_and_its_retraction_in_one_batch_are_nothing() -> None:
    row = ("a", NAN, None)
    for driver in (driver_of(Rows(SCHEMA, ("k",))), top(3, DESCENDING)):
        assert give(driver, (row, 1), (row, -1)) == []
        assert driver.state["rows"].num_rows == 0


def test_zeros_are_one_group_of_different_rows() -> None:
    driver = driver_of(Rows(SCHEMA, ("v",)))
    give(driver, (("a", 0.0, "x"), 1))
    give(driver, (("a", -0.0, "x"), 1))
    assert sorted(map(repr, driver.handed)) == ["('a', -0.0, 'x')", "('a', 0.0, 'x')"]


def test_a_row_that_is_not_there_can_not_be_retracted() -> None:
    with pytest.raises(InternalError, match="rows"):
        give(driver_of(Rows(SCHEMA, ("k",))), (("a", 1.0, "x"), -1))
    with pytest.raises(InternalError, match="top-k"):
        give(top(3), (("a", 1.0, "x"), -1))


def test_ties_are_broken_by_the_whole_row() -> None:
    rows = [("b", 1.0, None), ("a", 1.0, "y"), ("a", 1.0, "x"), ("a", 0.0, "w"), (None, 1.0, "z")]
    for order in (rows, rows[::-1]):
        driver = top(3, DESCENDING)
        out = give(driver, *((row, 1) for row in order))
        assert {row for row, _ in out} == {(None, 1.0, "z"), ("a", 1.0, "x"), ("a", 1.0, "y")}


def test_the_next_row_moves_up() -> None:
    driver = top(2, DESCENDING, key=("k",))
    first, second, third, other = (("a", 3.0, ""), ("a", 2.0, ""), ("a", 1.0, ""), ("b", 9.0, ""))
    assert give(driver, *((row, 1) for row in (third, second, first, other))) == [(second, 1), (first, 1), (other, 1)]
    assert give(driver, (first, -1)) == [(first, -1), (third, 1)]
    assert give(driver, (first, 1)) == [(third, -1), (first, 1)]


def test_duplicates_are_rows_of_their_own() -> None:
    driver = top(2, DESCENDING, offset=1)
    three, one = ("a", 3.0, ""), ("a", 1.0, "")
    assert give(driver, (three, 3), (one, 3)) == [(three, 2)]
    assert give(driver, (three, -1)) == [(three, -1), (one, 1)]
    assert give(driver, (three, -1)) == [(three, -1), (one, 1)]
    assert give(driver, (three, -1)) == []
    assert give(driver, (one, -1)) == [(one, -1)]


@pytest.mark.parametrize(
    ("descending", "nulls_first", "expected"),
    [
        (False, True, [None, -1.0, 0.0, NAN]),
        (False, False, [-1.0, 0.0, NAN, None]),
        (True, True, [None, NAN, 0.0, -1.0]),
        (True, False, [NAN, 0.0, -1.0, None]),
    ],
)
def test_nulls_and_nan_have_their_place(descending: bool, nulls_first: bool, expected: list[float | None]) -> None:
    rows = [(("a", value, ""), 1) for value in (0.0, NAN, None, -1.0)]
    for rank, value in enumerate(expected):
        driver = top(1, Order("v", descending=descending, nulls_first=nulls_first), offset=rank)
        ((row, weight),) = give(driver, *rows)
        assert (repr(row[1]), weight) == (repr(value), 1)


def test_zeros_tie_and_the_next_column_decides() -> None:
    driver = top(1, Order("v", descending=False, nulls_first=True), Order("t", descending=True, nulls_first=False))
    assert give(driver, (("a", -0.0, "x"), 1), (("a", 0.0, "y"), 1)) == [(("a", 0.0, "y"), 1)]


def test_a_limit_of_nothing_gives_nothing() -> None:
    driver = top(0, DESCENDING)
    assert give(driver, (("a", 1.0, ""), 1)) == []
    assert driver.state["rows"].num_rows == 1


def test_ties_share_a_rank_and_the_next_one_is_behind_all_of_them() -> None:
    driver = ranks("rank", "dense_rank", "row_number")
    rows = [("a", 1.0, "y"), ("a", 1.0, "x"), ("a", 2.0, "")]
    assert give(driver, *((row, 1) for row in rows)) == [
        ((*rows[1], 1, 1, 1), 1),
        ((*rows[0], 1, 1, 2), 1),
        ((*rows[2], 3, 2, 3), 1),
    ]


def test_only_rows_with_other_results_come_out() -> None:
    driver = ranks("rank")
    rows = [("a", float(number), "") for number in range(1, 5)]
    give(driver, *((row, 1) for row in rows), (("b", 1.0, ""), 1))
    assert give(driver, (rows[2], -1)) == [((*rows[2], 3), -1), ((*rows[3], 4), -1), ((*rows[3], 3), 1)]
    tied = ("a", 1.0, "another")
    assert give(driver, (tied, 1), (rows[1], -1)) == [((*rows[1], 2), -1), ((*tied, 1), 1)]


def test_each_copy_of_a_row_has_a_number_and_all_share_a_rank() -> None:
    driver = ranks("row_number", "rank")
    row, first = ("a", 2.0, ""), ("a", 1.0, "")
    assert give(driver, (row, 2)) == [((*row, 1, 1), 1), ((*row, 2, 1), 1)]
    assert give(driver, (first, 1)) == [
        ((*row, 1, 1), -1),
        ((*row, 2, 1), -1),
        ((*first, 1, 1), 1),
        ((*row, 2, 2), 1),
        ((*row, 3, 2), 1),
    ]
    alone = ranks("rank")
    assert give(alone, (row, 2)) == [((*row, 1), 2)]
    assert give(alone, (row, -1)) == [((*row, 1), -1)]


def test_the_number_of_one_copy_may_be_that_of_another_one_before() -> None:
    driver = ranks("row_number")
    row, first = ("a", 2.0, ""), ("a", 1.0, "")
    give(driver, (row, 2))
    assert give(driver, (first, 1)) == [((*row, 1), -1), ((*first, 1), 1), ((*row, 3), 1)]


def test_values_that_are_gone_count_no_more() -> None:
    driver = ranks("dense_rank")
    rows = [("a", 1.0, ""), ("a", 2.0, "")]
    give(driver, *((row, 1) for row in rows))
    assert give(driver, (rows[0], -1)) == [((*rows[0], 1), -1), ((*rows[1], 2), -1), ((*rows[1], 1), 1)]


def test_shares_are_of_the_rows_that_the_group_has_now() -> None:
    driver = ranks("percent_rank", "cume_dist")
    rows = [("a", value, "") for value in (1.0, 2.0, 2.0, NAN)]
    assert give(driver, (rows[0], 1)) == [((*rows[0], 0.0, 1.0), 1)]
    give(driver, (rows[1], 2), (rows[3], 1))
    assert driver.result() == Counter(
        identity(row) for row in [(*rows[0], 0.0, 0.25), *[(*rows[1], 1 / 3, 0.75)] * 2, (*rows[3], 1.0, 1.0)]
    )


def test_ranks_do_not_lose_a_row_that_they_do_not_hold() -> None:
    with pytest.raises(InternalError, match="a row that it does not hold"):
        ranks("rank").step({"rows": [(("a", 1.0, ""), -1)]})

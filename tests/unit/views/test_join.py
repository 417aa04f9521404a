"""The join kernel: null keys, duplicates, partners that come and go."""

from __future__ import annotations

import pickle
from typing import get_args

import pyarrow as pa
import pytest

from headwater.errors import TooManyRows
from headwater.views.join import EXISTS, Join, JoinKind
from tests.property.views.driver import Change, Driver

LEFT = pa.schema([("a", pa.float64()), ("b", pa.string())])
RIGHT = pa.schema([("x", pa.float64()), ("y", pa.string())])


def join(kind: JoinKind, *, keys: int = 1, null_safe: bool = False, single: bool = False) -> Driver:
    kernel = Join(kind, LEFT, RIGHT, ("a", "b")[:keys], ("x", "y")[:keys], null_safe, single)
    return Driver(pickle.loads(pickle.dumps(kernel)), {"left": kernel.left_key, "right": kernel.right_key}, 1)


def give(driver: Driver, left: list[Change] | None = None, right: list[Change] | None = None) -> list[Change]:
    """What comes out, each row once: a join does not add its output up."""
    totals: dict[str, tuple[Change, int]] = {}
    for change in driver.step({"left": left or [], "right": right or []}):
        totals[repr(change[0])] = (change, totals.get(repr(change[0]), (change, 0))[1] + change[1])
    return sorted(((change[0], weight) for change, weight in totals.values() if weight), key=repr)


def test_null_keys_match_nothing() -> None:
    driver = join("full")
    assert give(driver, [((None, "l"), 1)], [((None, "r"), 1)]) == [
        ((None, "l", None, None), 1),
        ((None, None, None, "r"), 1),
    ]


def test_null_safe_keys_match_nulls() -> None:
    driver = join("full", null_safe=True)
    assert give(driver, [((None, "l"), 1)], [((None, "r"), 1)]) == [((None, "l", None, "r"), 1)]
    assert give(driver, right=[((None, "r"), -1)]) == [((None, "l", None, "r"), -1), ((None, "l", None, None), 1)]


def test_one_null_of_two_keys_is_enough_to_match_nothing() -> None:
    assert give(join("inner", keys=2), [((1.0, None), 1)], [((1.0, None), 1)]) == []
    assert len(give(join("inner", keys=2, null_safe=True), [((1.0, None), 1)], [((1.0, None), 1)])) == 1


def test_a_null_key_has_no_partner_in_an_anti_join() -> None:
    driver = join("anti")
    assert give(driver, [((None, "l"), 1), ((1.0, "m"), 1)], [((1.0, "r"), 1)]) == [((None, "l"), 1)]


def test_zeros_and_nan_are_one_key() -> None:
    driver = join("inner")
    out = give(driver, [((0.0, "l"), 1), ((float("nan"), "n"), 1)], [((-0.0, "r"), 1), ((float("nan"), "s"), 1)])
    assert [(row[1], row[3], weight) for row, weight in out] == [("l", "r", 1), ("n", "s", 1)]


def test_weights_multiply_and_go_one_at_a_time() -> None:
    driver = join("inner")
    assert give(driver, [((1.0, "l"), 3)], [((1.0, "r"), 2)]) == [((1.0, "l", 1.0, "r"), 6)]
    for _ in range(3):
        assert give(driver, [((1.0, "l"), -1)]) == [((1.0, "l", 1.0, "r"), -2)]
    assert driver.state["left"].num_rows == 0


def test_a_change_and_its_retraction_in_one_batch_are_nothing() -> None:
    for kind in get_args(JoinKind):
        driver = join(kind)
        there_and_back = [((1.0, "l"), 1), ((1.0, "l"), -1)]
        assert give(driver, there_and_back, there_and_back) == []
        assert give(driver, right=[((2.0, "r"), 1), ((2.0, "r"), -1)]) == []


def test_a_row_that_moves_to_another_key_leaves_its_partner() -> None:
    driver = join("left")
    give(driver, [((1.0, "l"), 1)], [((1.0, "r"), 1), ((2.0, "s"), 1)])
    assert give(driver, [((1.0, "l"), -1), ((2.0, "l"), 1)]) == [
        ((1.0, "l", 1.0, "r"), -1),
        ((2.0, "l", 2.0, "s"), 1),
    ]


def test_the_last_partner_goes_and_comes_back() -> None:
    driver = join("left")
    give(driver, [((1.0, "l"), 1)], [((1.0, "r"), 2)])
    assert give(driver, right=[((1.0, "r"), -1)]) == [((1.0, "l", 1.0, "r"), -1)]
    gone = give(driver, right=[((1.0, "r"), -1)])
    assert gone == [((1.0, "l", 1.0, "r"), -1), ((1.0, "l", None, None), 1)]
    assert give(driver, right=[((1.0, "r"), 1)]) == [((row), -weight) for row, weight in gone]


def test_existence_tells_of_every_left_row() -> None:
    driver = join("existence")
    assert driver.kernel.output.names == ["a", "b", EXISTS]
    assert give(driver, [((1.0, "l"), 2), ((None, "m"), 1)]) == [((1.0, "l", False), 2), ((None, "m", False), 1)]
    assert give(driver, right=[((1.0, "r"), 1)]) == [((1.0, "l", False), -2), ((1.0, "l", True), 2)]


def test_without_keys_everything_is_a_partner() -> None:
    driver = join("left", keys=0)
    assert give(driver, [((None, "l"), 1)]) == [((None, "l", None, None), 1)]
    assert give(driver, right=[((None, "r"), 1), ((2.0, "s"), 1)]) == [
        ((None, "l", 2.0, "s"), 1),
        ((None, "l", None, "r"), 1),
        ((None, "l", None, None), -1),
    ]


def test_a_second_row_of_a_scalar_subquery_is_an_error() -> None:
    driver = join("left", single=True)
    give(driver, right=[((1.0, "r"), 2)])
    with pytest.raises(TooManyRows) as caught:
        give(driver, [((1.0, "l"), 1)])
    assert (caught.value.code, caught.value.rows) == ("too_many_rows", 2)
    assert give(driver, [((2.0, "l"), 1)]) == [((2.0, "l", None, None), 1)]


def test_a_partner_of_nulls_takes_the_place_of_no_partner() -> None:
    driver = join("left", null_safe=True)
    give(driver, [((None, "l"), 1)])
    assert give(driver, right=[((None, None), 1)]) == []
    assert give(driver, right=[((None, None), 1)]) == [((None, "l", None, None), 1)]


def test_nested_keys_are_compared_by_what_they_hold() -> None:
    kind = pa.list_(pa.struct([("n", pa.float64())]))
    kernel = Join("inner", pa.schema([("a", kind)]), pa.schema([("x", kind)]), ("a",), ("x",))
    driver = Driver(kernel, {"left": ("a",), "right": ("x",)})
    left = [(([{"n": 5.0}],), 1), (([{"n": 0.0}, None],), 1)]
    right = [(([],), 1), (([{"n": -0.0}, None],), 1), (([{"n": 4.0}],), 1)]
    assert give(driver, left, right) == [(([{"n": 0.0}, None], [{"n": -0.0}, None]), 1)]


def test_a_join_without_a_key_says_that_it_pairs_everything() -> None:
    left, right = pa.schema([("a", pa.int64())]), pa.schema([("b", pa.int64())])
    assert Join("inner", left, right, (), ()).work(str).added_up == ["each changed row with all rows of the other side"]
    assert not Join("left", left, right, (), (), single=True).work(str).added_up
    assert not Join("inner", left, right, ("a",), ("b",)).work(str).added_up

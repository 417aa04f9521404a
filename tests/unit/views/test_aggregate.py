"""The aggregate kernel: the traps of sums, extremes and groups that come and go."""

from __future__ import annotations

import math
import pickle
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from headwater.errors import InternalError, Overflow
from headwater.views.aggregate import Aggregate, Function
from tests.property.views.driver import Driver

INT, DOUBLE, MONEY = pa.int64(), pa.float64(), pa.decimal128(12, 2)
SCHEMA = pa.schema([("k", pa.string()), ("i", INT), ("d", DOUBLE), ("m", MONEY)])
COUNT = Function("count", (), "n", INT)
INT_SUM, DOUBLE_SUM = Function("sum", ("i",), "s", INT), Function("sum", ("d",), "s", DOUBLE)
INFINITE = float("inf")


def aggregate(*functions: Function, key: tuple[str, ...] = (), schema: pa.Schema = SCHEMA, hashes: int = 1) -> Driver:
    kernel = Aggregate(key, functions, schema)
    return Driver(pickle.loads(pickle.dumps(kernel)), {"rows": key}, hashes)


def row(k: str | None = "a", i: int | None = None, d: float | None = None, m: str | None = None) -> tuple[Any, ...]:
    return (k, i, d, None if m is None else Decimal(m))


def give(driver: Driver, *changes: tuple[tuple[Any, ...], int]) -> list[tuple[tuple[Any, ...], int]]:
    return sorted(driver.step({"rows": changes}), key=lambda change: (change[1], repr(change[0])))


def double_after(driver: Driver, *changes: tuple[float, int]) -> float | None:
    """The only row's last column once these doubles are added."""
    out = give(driver, *((row(d=value), weight) for value, weight in changes))
    found: float | None = out[-1][0][-1]
    return found


def test_the_last_row_of_a_global_aggregate_stays() -> None:
    driver = aggregate(COUNT, INT_SUM, Function("max", ("k",), "x", pa.string()))
    assert give(driver) == [((0, None, None), 1)]
    assert give(driver) == []
    assert give(driver, (row(i=5), 1)) == [((0, None, None), -1), ((1, 5, "a"), 1)]
    assert give(driver, (row(i=5), -1)) == [((1, 5, "a"), -1), ((0, None, None), 1)]
    assert all(part.num_rows == 0 for part in driver.state.values())


def test_a_global_aggregate_that_begins_with_rows_says_nothing_of_nothing() -> None:
    assert give(aggregate(COUNT), (row(), 2)) == [((2,), 1)]


def test_a_group_that_empties_vanishes_and_comes_back() -> None:
    driver = aggregate(COUNT, INT_SUM, key=("k",))
    assert give(driver) == []
    assert give(driver, (row("a", 1), 1)) == [(("a", 1, 1), 1)]
    assert give(driver, (row("a", 1), -1)) == [(("a", 1, 1), -1)]
    assert driver.state["groups"].num_rows == 0
    assert give(driver, (row("a", 2), 1)) == [(("a", 1, 2), 1)]


def test_duplicates_are_retracted_one_at_a_time() -> None:
    driver = aggregate(COUNT, INT_SUM, Function("count_distinct", ("i",), "u", INT), key=("k",))
    assert give(driver, (row("a", 7), 3)) == [(("a", 3, 21, 1), 1)]
    assert give(driver, (row("a", 7), -1)) == [(("a", 3, 21, 1), -1), (("a", 2, 14, 1), 1)]
    assert give(driver, (row("a", 7), -1)) == [(("a", 2, 14, 1), -1), (("a", 1, 7, 1), 1)]
    assert give(driver, (row("a", 7), -1)) == [(("a", 1, 7, 1), -1)]


def test_a_change_and_its_retraction_in_one_batch_are_nothing() -> None:
    functions = (COUNT, DOUBLE_SUM, Function("min", ("d",), "x", DOUBLE))
    driver = aggregate(*functions, key=("k",))
    assert give(driver, (row("a", d=0.1), 1), (row("a", d=0.1), -1)) == []
    assert all(part.num_rows == 0 for part in driver.state.values())


def test_a_change_that_leaves_the_result_says_nothing() -> None:
    driver = aggregate(Function("max", ("i",), "x", INT), key=("k",))
    give(driver, (row("a", 5), 1))
    assert give(driver, (row("a", 3), 1)) == []
    assert give(driver, (row("a", 5), -1)) == [(("a", 5), -1), (("a", 3), 1)]


def test_double_sums_that_cancel_leave_nothing() -> None:
    driver = aggregate(DOUBLE_SUM)
    assert double_after(driver, (1e16, 1), (1.0, 1)) == 1e16
    assert double_after(driver, (1e16, -1)) == 1.0
    assert double_after(driver, (1.0, -1)) is None
    assert driver.state["places"].num_rows == 0


def test_double_sums_do_not_depend_on_how_they_came_about() -> None:
    values = [0.1, 0.2, 0.3, 1e100, -1e100, 5e-324]
    forth, back = aggregate(DOUBLE_SUM), aggregate(DOUBLE_SUM)
    assert double_after(forth, *((value, 1) for value in values)) == math.fsum(values)
    assert [double_after(back, (value, 1)) for value in reversed(values)][-1] == math.fsum(values)


def test_a_nan_that_is_retracted_leaves_the_rest() -> None:
    driver = aggregate(DOUBLE_SUM)
    assert double_after(driver, (1.5, 1)) == 1.5
    found = double_after(driver, (float("nan"), 1))
    assert found is not None
    assert math.isnan(found)
    assert double_after(driver, (float("nan"), -1)) == 1.5


def test_infinities_that_are_retracted_leave_the_rest() -> None:
    driver = aggregate(DOUBLE_SUM)
    assert double_after(driver, (1.5, 1), (INFINITE, 1)) == INFINITE
    found = double_after(driver, (-INFINITE, 2))
    assert found is not None
    assert math.isnan(found)
    assert double_after(driver, (INFINITE, -1)) == -INFINITE
    assert double_after(driver, (-INFINITE, -2)) == 1.5


def test_double_sums_that_are_too_large_for_a_moment() -> None:
    driver = aggregate(DOUBLE_SUM)
    assert double_after(driver, (1.7e308, 3)) == INFINITE
    assert double_after(driver, (1.7e308, -2)) == 1.7e308
    assert double_after(driver, (-1.7e308, 3)) == -INFINITE


def test_integer_sums_that_overflow_for_a_moment() -> None:
    driver = aggregate(INT_SUM)
    most = 2**63 - 1
    assert give(driver, (row(i=most), 3), (row(i=-most), 2))[-1] == ((most,), 1)
    assert give(driver, (row(i=1), 1), (row(i=most), -1))[-1] == ((1,), 1)


def test_an_integer_sum_that_does_not_fit_is_an_error_that_names_the_group() -> None:
    driver = aggregate(INT_SUM, key=("k",))
    give(driver, (row("x", 2**63 - 1), 1), (row("y", 1), 1))
    with pytest.raises(Overflow, match=r"sum\(i\) does not fit int64 in the group k = 'x'") as caught:
        give(driver, (row("y", 1), 1), (row("x", 1), 1))
    assert (caught.value.code, caught.value.group) == ("overflow", {"k": "x"})
    with pytest.raises(Overflow, match=r"sum\(i\) does not fit int64\."):
        give(aggregate(INT_SUM), (row(i=-(2**63)), 2))
    assert give(aggregate(INT_SUM), (row(i=-(2**63)), 1)) == [((-(2**63),), 1)]


def test_a_decimal_sum_that_does_not_fit_is_an_error() -> None:
    narrow = Function("sum", ("m",), "s", pa.decimal128(12, 2))
    most = "9999999999.99"
    assert give(aggregate(narrow), (row(m=most), 1)) == [((Decimal(most),), 1)]
    with pytest.raises(Overflow, match="decimal128"):
        give(aggregate(narrow), (row(m=most), 1), (row(m="0.01"), 1))
    with pytest.raises(Overflow, match=r"sum\(DISTINCT m\)"):
        give(aggregate(Function("sum_distinct", ("m",), "s", MONEY)), (row(m=most), 1), (row(m="0.01"), 1))


def test_sums_of_durations_are_durations() -> None:
    kind = pa.duration("us")
    driver = aggregate(Function("sum", ("t",), "s", kind), schema=pa.schema([("t", kind)]))
    give(driver, ((86_400_000_000,), 2), ((-1,), 1))
    assert driver.kernel.output.field("s").type == kind
    assert [out.total_seconds() for (out,), _ in driver.out] == [2 * 86_400 - 0.000001]


def test_nulls_are_left_out() -> None:
    functions = (
        COUNT,
        Function("count", ("i",), "c", INT),
        Function("count", ("i", "d"), "b", INT),
        Function("count_distinct", ("i", "d"), "u", INT),
        Function("sum_distinct", ("i",), "t", INT),
    )
    driver = aggregate(*functions, key=("k",))
    assert give(driver, (row("a"), 2), (row("a", 1), 1), (row("a", 1, 2.0), 2)) == [(("a", 5, 3, 2, 1, 1), 1)]
    assert give(driver, (row("b"), 1)) == [(("b", 1, 0, 0, 0, None), 1)]


def test_nan_is_the_greatest_and_zeros_are_one_distinct_value() -> None:
    functions = (
        Function("min", ("d",), "a", DOUBLE),
        Function("max", ("d",), "b", DOUBLE),
        Function("count_distinct", ("d",), "u", INT),
    )
    driver = aggregate(*functions)
    ((least, greatest, distinct),) = (
        out
        for out, _ in give(driver, (row(d=INFINITE), 1), (row(d=float("nan")), 2), (row(d=0.0), 1), (row(d=-0.0), 1))
    )
    assert (least, distinct) == (0.0, 3)
    assert math.isnan(greatest)
    give(driver, (row(d=float("nan")), -2))
    assert driver.out[-1][0][1:] == (INFINITE, 2)


def test_a_minimum_of_nothing_but_nan_is_nan() -> None:
    assert math.isnan(double_after(aggregate(Function("min", ("d",), "x", DOUBLE)), (float("nan"), 1)) or 0.0)


def test_zeros_are_one_group_and_shown_as_zero() -> None:
    driver = aggregate(COUNT, key=("d",), hashes=2**31)
    assert repr(give(driver, (row(d=-0.0), 1))) == "[((0.0, 1), 1)]"
    assert repr(give(driver, (row(d=0.0), 1))) == "[((0.0, 1), -1), ((0.0, 2), 1)]"


def test_nulls_and_nan_are_one_group_each() -> None:
    driver = aggregate(COUNT, key=("k", "d"))
    out = give(
        driver, (row(None, d=float("nan")), 1), (row(None, d=-float("nan")), 1), (row(None), 1), (row(None, 1), 1)
    )
    assert repr(out) == "[((None, None, 2), 1), ((None, nan, 2), 1)]"


def test_strings_that_differ_in_case_or_trailing_spaces_are_groups_of_their_own() -> None:
    driver = aggregate(COUNT, key=("k",))
    out = give(driver, *((row(k), 1) for k in ("a", "A", "a ", "", None)))
    assert {(key, count) for (key, count), _ in out} == {("a", 1), ("A", 1), ("a ", 1), ("", 1), (None, 1)}


def test_strings_are_compared_byte_by_byte() -> None:
    functions = (Function("min", ("k",), "x", pa.string()), Function("max", ("k",), "y", pa.string()))
    driver = aggregate(*functions)
    # By its UTF-16 units the second one would be less.
    assert give(driver, (row("\uffff"), 1), (row("\U0001f600"), 1)) == [(("\uffff", "\U0001f600"), 1)]


def test_a_row_that_moves_to_another_group() -> None:
    driver = aggregate(INT_SUM, key=("k",))
    give(driver, (row("a", 1), 1), (row("b", 2), 1))
    assert give(driver, (row("a", 1), -1), (row("b", 1), 1)) == [(("a", 1), -1), (("b", 2), -1), (("b", 3), 1)]


def test_without_functions_it_is_distinct() -> None:
    driver = aggregate(key=("k", "i"))
    assert give(driver, (row("a", 1), 2), (row("a"), 1)) == [(("a", 1), 1), (("a", None), 1)]
    assert give(driver, (row("a", 1), -1)) == []
    assert give(driver, (row("a", 1), -1)) == [(("a", 1), -1)]


def test_a_key_may_be_an_argument_too() -> None:
    driver = aggregate(Function("max", ("k",), "x", pa.string()), Function("sum", ("i",), "s", INT), key=("k", "i"))
    assert give(driver, (row("a", 4), 2)) == [(("a", 4, "a", 8), 1)]


def test_structs_have_a_maximum() -> None:
    kind = pa.struct([("x", INT), ("y", DOUBLE)])
    driver = aggregate(Function("max", ("v",), "m", kind), schema=pa.schema([("v", kind)]))
    values = [{"x": 1, "y": None}, {"x": 1, "y": float("nan")}, {"x": None, "y": 9.0}]
    give(driver, *(((value,), 1) for value in values))
    assert repr(driver.out) == repr([((values[1],), 1)])
    give(driver, ((values[1],), -1))
    assert driver.out[-1] == ((values[0],), 1)


def test_counts_are_never_null() -> None:
    fields = aggregate(COUNT, INT_SUM).kernel.output
    assert (fields.field("n").nullable, fields.field("s").nullable) == (False, True)


@pytest.mark.parametrize("function", [COUNT, Function("max", ("i",), "x", INT)])
def test_a_row_that_is_not_there_can_not_be_retracted(function: Function) -> None:
    driver = aggregate(function, key=("k",))
    give(driver, (row("a", 1), 1), (row("a", 2), 2))
    with pytest.raises(InternalError, match="aggregate"):
        give(driver, (row("a", 1), -1), (row("a", 2), -3))


def test_a_value_that_is_not_there_can_not_be_retracted() -> None:
    driver = aggregate(Function("max", ("i",), "x", INT), key=("k",))
    give(driver, (row("a", 1), 2))
    with pytest.raises(InternalError, match="aggregate"):
        give(driver, (row("a", 2), -1))

"""Exact sums: limbs that add up to the number itself, and totals that are right to the last bit."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.views.exact import double_limbs, double_totals, whole_limbs, whole_totals

INT64 = pa.int64()


def total_of(column: pa.Array, kind: pa.DataType, weights: list[int]) -> tuple[object, bool]:
    limbs = [np.array([(limb * np.array(weights)).sum()]) for limb in whole_limbs(column)]
    totals, fits = whole_totals(limbs, kind, np.array([True]))
    return totals[0].as_py(), bool(fits[0])


@given(st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.integers(-3, 3)), min_size=1))
def test_integers_add_up_and_what_does_not_fit_is_told(numbers: list[tuple[int, int]]) -> None:
    expected = sum(number * weight for number, weight in numbers)
    column = pa.array([number for number, _ in numbers], INT64)
    total, fits = total_of(column, INT64, [weight for _, weight in numbers])
    assert fits == (-(2**63) <= expected < 2**63)
    assert total == expected or not fits


@given(
    st.sampled_from([(5, 15), (18, 28), (19, 29), (28, 38), (38, 38)]),
    st.lists(st.tuples(st.integers(-(10**38) + 1, 10**38 - 1), st.integers(-3, 3)), min_size=1),
)
def test_decimals_add_up_and_what_does_not_fit_is_told(digits: tuple[int, int], numbers: list[tuple[int, int]]) -> None:
    bound = 10 ** digits[0]
    whole = [number % bound if number > 0 else -(-number % bound) for number, _ in numbers]
    column = pa.array([None, *(Decimal(f"{number}E-2") for number in whole)], pa.decimal128(digits[0], 2))
    weights = [weight for _, weight in numbers]
    expected = sum(number * weight for number, weight in zip(whole, weights, strict=True))
    total, fits = total_of(column.slice(1), pa.decimal128(digits[1], 2), weights)
    assert fits == (abs(expected) < 10 ** digits[1])
    assert total == Decimal(f"{expected}E-2") or not fits


@pytest.mark.parametrize("digits", [28, 38])
@pytest.mark.parametrize("sign", [1, -1])
def test_the_last_decimal_fits_and_the_next_does_not(digits: int, sign: int) -> None:
    greatest = sign * (10**digits - 1)
    kind = pa.decimal128(digits, 0)
    column = pa.array([Decimal(greatest), Decimal(sign)], kind)
    assert total_of(column, kind, [1, 0]) == (Decimal(greatest), True)
    assert not total_of(column, kind, [1, 1])[1]
    # Three of the widest decimals are more than 128 bits hold, and would look like a small number.
    assert not total_of(column, kind, [3, 0])[1]


def test_a_total_without_numbers_is_null() -> None:
    for kind in (INT64, pa.decimal128(38, 2), pa.duration("us")):
        totals, _ = whole_totals([np.zeros(2, dtype=np.int64)] * 2, kind, np.array([False, True]))
        assert totals.null_count == 1
        assert totals.type == kind


@pytest.mark.parametrize("kind", [INT64, pa.duration("us"), pa.decimal128(12, 2), pa.decimal128(38, 2)], ids=str)
def test_arrays_without_any_memory_have_no_limbs(kind: pa.DataType) -> None:
    nothing = pa.Array.from_buffers(kind, 0, [None, None])
    assert [len(limbs) for limbs in whole_limbs(nothing)] == [0] * (4 if kind == pa.decimal128(38, 2) else 2)


def nearest(exact: Fraction) -> float:
    try:
        return float(exact)
    except OverflowError:
        return float("inf") if exact > 0 else float("-inf")


FINITE = st.floats(allow_nan=False, allow_infinity=False)


@given(st.lists(st.lists(st.tuples(FINITE, st.integers(-3, 3))), min_size=1, max_size=4))
def test_doubles_add_up_to_the_nearest(groups: list[list[tuple[float, int]]]) -> None:
    numbers = np.array([n for n, group in enumerate(groups) for _ in group], dtype=np.int64)
    values = np.array([value for group in groups for value, _ in group])
    weights = np.array([weight for group in groups for _, weight in group], dtype=np.int64)
    lowest, limbs = double_limbs(values)
    totals = double_totals(
        np.tile(numbers, 3),
        np.concatenate([lowest + place for place in range(3)]),
        np.concatenate([limb * weights for limb in limbs]),
        len(groups),
    )
    expected = [nearest(sum((Fraction(value) * weight for value, weight in group), Fraction())) for group in groups]
    assert totals.tolist() == expected
    assert not np.signbit(totals[totals == 0]).any()


@given(st.integers(-(2**200), 2**200), st.integers(-1074, 800))
def test_sums_between_two_doubles_are_rounded_to_even(number: int, exponent: int) -> None:
    exact = Fraction(number) * Fraction(2) ** exponent
    places, limbs = [], []
    shift = exponent + 1152
    for place in range(8):
        limb = (abs(number) << shift % 32) >> (32 * place) & 0xFFFFFFFF
        places.append(shift // 32 + place)
        limbs.append(limb if number > 0 else -limb)
    groups = np.zeros(8, dtype=np.int64)
    assert double_totals(groups, np.array(places), np.array(limbs), 1).tolist() == [nearest(exact)]


def summed(*values: float) -> float:
    lowest, limbs = double_limbs(np.array(values))
    places = np.concatenate([lowest + place for place in range(3)])
    return float(double_totals(np.zeros(len(places), dtype=np.int64), places, np.concatenate(limbs), 1)[0])


@pytest.mark.parametrize("tiny", [2.0**-5, 2.0**-30, 2.0**-64, 2.0**-100, 5e-324])
def test_the_least_bit_decides_between_two_doubles_that_are_equally_near(tiny: float) -> None:
    for exponent in range(33):
        unit = 2.0**exponent
        assert summed(2**53 * unit, unit) == 2**53 * unit
        assert summed(2**53 * unit, unit, tiny) == (2**53 + 2) * unit
        assert summed(2**53 * unit, unit, -tiny) == 2**53 * unit
        assert summed(-(2**53) * unit, -unit, -tiny) == -(2**53 + 2) * unit


def test_many_groups_are_summed_in_blocks() -> None:
    count = 100_000
    values = np.resize([1e300, 1e-300], 2 * count)
    numbers = np.repeat(np.arange(count), 2)
    lowest, limbs = double_limbs(values)
    places = np.concatenate([lowest + place for place in range(3)])
    assert (double_totals(np.tile(numbers, 3), places, np.concatenate(limbs), count) == 1e300).all()

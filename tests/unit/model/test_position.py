"""Positions: a text that is read back, and a partial order, whatever log they are of."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import UsageError
from headwater.model.position import START, UNNAMED, Position

NUMBERS = st.integers(0, 10**18 - 1)
NAMES = st.sampled_from(["orders/0", "orders/1", "orders-dead/0", "a.b_c/12"])
single = st.builds(lambda number: Position.of([(UNNAMED, number)]), NUMBERS)
vectors = st.builds(lambda counters: Position.of(counters.items()), st.dictionaries(NAMES, st.integers(0, 3)))
positions = st.one_of(single, vectors)


def named(**counters: int) -> Position:
    return Position.of([(f"{name}/0", number) for name, number in counters.items()])


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("0", START),
        ("123", Position.of([(UNNAMED, 123)])),
        ("007", Position.of([(UNNAMED, 7)])),
        ("orders/0:5,orders/1:7", Position.of([("orders/1", 7), ("orders/0", 5)])),
        ("orders/1:7,orders/0:5", Position.of([("orders/0", 5), ("orders/1", 7)])),
        ("orders/0:5,orders/1:0", Position.of([("orders/0", 5)])),
        ("orders/0:0", START),
    ],
)
def test_texts(text: str, position: Position) -> None:
    assert Position.parse(text) == position


@pytest.mark.parametrize(
    "text",
    ["", " 1", "1\n", "-1", "+1", "1.5", "1" * 19, "a", "a:", ":1", "a:-1", "a:1,", "a:1,a:2", "a:1,2", "a b:1", "é:1"],
)
def test_what_is_no_position(text: str) -> None:
    with pytest.raises(UsageError, match="is not a position") as error:
        Position.parse(text)
    assert "returned" in error.value.hint


@given(positions)
def test_a_position_is_its_text(position: Position) -> None:
    assert Position.parse(str(position)) == position
    assert hash(Position.parse(str(position))) == hash(position)


@given(vectors, vectors, vectors)
def test_the_order_is_partial(a: Position, b: Position, c: Position) -> None:
    assert (a <= b <= a) == (a == b)
    assert (a < b) == (a <= b and a != b)
    assert (a >= b, a > b) == (b <= a, b < a)
    if a <= b <= c:
        assert a <= c


@given(positions)
def test_nothing_is_before_the_start(position: Position) -> None:
    assert position >= START
    assert not position < START


def test_neither_of_two_positions_need_be_before_the_other() -> None:
    a, b = named(a=2, b=1), named(a=1, b=2)
    assert not a <= b
    assert not b <= a
    assert (a.behind(b), b.behind(a)) == (1, 1)
    assert a.joined(b) == named(a=2, b=2)


@given(single, single)
def test_positions_of_one_counter_are_ordered_by_it(a: Position, b: Position) -> None:
    first, second = int(str(a)), int(str(b))
    assert (a < b, a <= b, a == b) == (first < second, first <= second, first == second)
    assert a.behind(b) == max(0, second - first)
    assert a.joined(b) == max(a, b)


@given(vectors, vectors)
def test_what_is_not_behind_is_not_before(a: Position, b: Position) -> None:
    assert (a.behind(b) == 0) == (b <= a)
    assert a.behind(a.joined(b)) == a.behind(b)


@given(vectors, vectors, vectors)
def test_the_join_is_the_first_position_that_is_before_neither(a: Position, b: Position, c: Position) -> None:
    joined = a.joined(b)
    assert joined == b.joined(a)
    assert a <= joined
    assert b <= joined
    if a <= c and b <= c:
        assert joined <= c

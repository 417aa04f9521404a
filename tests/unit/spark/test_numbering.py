"""Windows of expression numbers: each behind the last, and all alike to a hash."""

from __future__ import annotations

import pytest

from headwater.spark.numbering import WINDOW_BITS, window_after

LAST = (2 ** (31 - WINDOW_BITS) - 1) << WINDOW_BITS


def java_hash(number: int) -> int:
    """What `Long.hashCode` gives."""
    return (number ^ (number >> 32)) & 0xFFFFFFFF


@pytest.mark.parametrize("number", [0, 1, 5_000, 2**31, 2**47, 2**62])
def test_numbers_of_a_window_hash_like_their_places(number: int) -> None:
    start = window_after(number)
    assert start > number
    places = (0, 1, 17, 2**WINDOW_BITS - 1)
    assert [java_hash(start + place) for place in places] == list(places)


def test_a_window_begins_behind_numbers_that_the_last_one_did_not_hold() -> None:
    start = window_after(0)
    assert window_after(start + 2**WINDOW_BITS + 3) > start + 2**WINDOW_BITS + 3


def test_numbers_still_differ_when_all_windows_are_used() -> None:
    last = (LAST << 32) | LAST
    assert window_after(last - 2**47) == last
    assert last < 2**63
    assert window_after(last + 5) == last + 5

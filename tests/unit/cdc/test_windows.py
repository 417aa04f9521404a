"""What of a chunk enters the log, after changes that came by while it was read."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from headwater.cdc.postgres.visibility import Visibility
from headwater.cdc.windows import PARTS_MAX, Passing

CHUNK = pa.table({"id": [1, 2, 3], "note": ["a", "b", "c"]})
XIDS = 2**32


def passed(*changes: tuple[int, int]) -> Passing:
    """Keys that transactions have changed."""
    passing = Passing(("id",))
    for key, xid in changes:
        passing.pass_by(pa.table({"id": [key], "note": ["new"]}), np.array([xid]))
    return passing


def kept(passing: Passing, seen: str) -> list[int]:
    keys: list[int] = passing.unaffected(CHUNK, Visibility.parse(seen))["id"].to_pylist()
    return keys


def test_rows_that_nobody_changed_are_taken() -> None:
    passing = Passing(("id",))
    assert passing.unaffected(CHUNK, Visibility.parse("5:5:")) is CHUNK
    assert kept(passed((9, 7)), "5:5:") == [1, 2, 3]


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        ("10:10:", [1, 3]),
        ("11:11:", [1, 2, 3]),
        ("10:12:10", [1, 3]),
        ("9:12:9,11", [1, 2, 3]),
    ],
)
def test_a_row_is_left_out_if_the_chunk_may_not_show_its_change(seen: str, expected: list[int]) -> None:
    assert kept(passed((2, 10)), seen) == expected


def test_numbers_of_transactions_go_round() -> None:
    last = XIDS - 1
    assert kept(passed((2, last), (3, 3)), f"{XIDS + 2}:{XIDS + 3}:") == [1, 2]
    assert kept(passed((2, last), (3, 3)), f"{last}:{XIDS + 4}:{last}") == [1, 3]
    assert kept(passed((2, 7)), f"{last}:{last}:") == [1, 3]


def test_what_one_query_saw_all_later_ones_see() -> None:
    passing = passed((2, 10), (3, 11))
    assert kept(passing, "11:11:") == [1, 2]
    # It was forgotten, and is not remembered by who looks with older eyes.
    assert kept(passing, "5:5:") == [1, 2]


def test_it_stays_small_while_nothing_is_read() -> None:
    passing = passed((1, 10), (2, 20))
    passing.visibility = Visibility.parse("15:15:")
    for _ in range(PARTS_MAX):
        passing.pass_by(pa.table({"id": [9], "note": ["x"]}), np.array([12]))
    assert sum(len(hashes) for hashes, _ in passing._parts) < PARTS_MAX
    assert kept(passing, "15:15:") == [1, 3]


def test_of_a_table_that_was_emptied_unseen_nothing_is_left() -> None:
    passing = Passing(("id",))
    passing.empty(10)
    nothing = passing.unaffected(CHUNK, Visibility.parse("10:10:"))
    assert nothing.num_rows == 0
    assert nothing.schema == CHUNK.schema
    assert passing.unaffected(CHUNK, Visibility.parse("11:11:")) is CHUNK

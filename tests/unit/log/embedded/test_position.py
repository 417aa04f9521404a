"""Positions of an embedded log are numbers of commits."""

from __future__ import annotations

import pytest

from headwater.errors import UsageError
from headwater.log.embedded.position import commit_of, commit_position
from headwater.model.position import START, Position


@pytest.mark.parametrize("number", [0, 1, 2**40])
def test_a_commit_is_a_position_and_back(number: int) -> None:
    assert commit_of(commit_position(number)) == number
    assert str(commit_position(number)) == str(number)


def test_the_first_position_is_the_start() -> None:
    assert commit_position(0) == START


def test_a_position_of_another_log_is_refused() -> None:
    for text in ("orders/0:5", "orders/0:5,orders/1:7"):
        with pytest.raises(UsageError, match="of another log"):
            commit_of(Position.parse(text))

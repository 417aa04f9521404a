"""Positions of an embedded log: the number of its last commit is their one counter."""

from __future__ import annotations

from headwater.errors import UsageError
from headwater.model.position import UNNAMED, Position
from headwater.model.types import CommitNumber


def commit_position(number: int) -> Position:
    """Everything up to and including a commit."""
    return Position(((UNNAMED, number),)) if number else Position()


def commit_of(position: Position) -> CommitNumber:
    """The number of the last commit that a position has; 0 before the first. Raises `UsageError` for another log's."""
    counters = position.counters
    if not counters:
        return CommitNumber(0)
    if len(counters) > 1 or counters[0][0] != UNNAMED:
        raise UsageError(f"Position {position} is of another log.", hint="Use a position that this log has given.")
    return CommitNumber(counters[0][1])

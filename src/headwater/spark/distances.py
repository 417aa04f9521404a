"""Conditions about how far apart two moments are: `a.at <= b.at + INTERVAL 1 HOUR`, in any way of writing it."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from pyspark.sql.types import DayTimeIntervalType, TimestampNTZType, TimestampType

from headwater.spark.catalyst import Expression

_SIGNS = {
    "LessThan": (1, True),
    "LessThanOrEqual": (1, False),
    "GreaterThan": (-1, True),
    "GreaterThanOrEqual": (-1, False),
}
"""By a comparison: 1 if the left side is the lesser one, and whether they must differ."""


@dataclass(frozen=True, slots=True)
class Moment:
    """A moment: the value of an expression, and a number of microseconds later."""

    base: Expression
    later: int

    @classmethod
    def of(cls, expression: Expression) -> Moment | None:
        """What a timestamp is; None if it is none."""
        if not isinstance(expression.type, TimestampType | TimestampNTZType):
            return None
        later = 0
        while expression.kind == "TimestampAddInterval":
            added = microseconds(expression.children[1])
            if added is None:
                break
            expression, later = expression.children[0], later + added
        return cls(expression, later)


@dataclass(frozen=True, slots=True)
class Distance:
    """`end` is no more than a number of microseconds after `start`; the number may be below 0."""

    start: Expression
    end: Expression
    most: int

    @classmethod
    def of(cls, condition: Expression) -> Distance | None:
        """What a condition says; None if it is about something else."""
        if condition.kind not in _SIGNS:
            return None
        sign, strict = _SIGNS[condition.kind]
        lesser, greater = condition.children[::sign]
        between = cls._between(lesser, greater)
        return between and cls(between.start, between.end, between.most - strict)

    @classmethod
    def _between(cls, lesser: Expression, greater: Expression) -> Distance | None:
        """What `lesser <= greater` says."""
        if lesser.kind == "SubtractTimestamps":
            most, (end, start) = microseconds(greater), map(Moment.of, lesser.children)
        elif greater.kind == "SubtractTimestamps":
            least, (start, end) = microseconds(lesser), map(Moment.of, greater.children)
            most = None if least is None else -least
        else:
            most, end, start = 0, Moment.of(lesser), Moment.of(greater)
        if most is None or end is None or start is None:
            return None
        return cls(start.base, end.base, most + start.later - end.later)


@dataclass(frozen=True, slots=True)
class Span:
    """How far apart two moments are, one of each side of a join: `least` <= right - left <= `most`, in microseconds.

    `stated` are the conditions that say so, `rest` all others.
    """

    left: Expression
    right: Expression
    least: int | None
    most: int | None
    stated: Sequence[Expression]
    rest: Sequence[Expression]

    @classmethod
    def of(
        cls, conditions: Sequence[Expression], left: Sequence[Expression], right: Sequence[Expression]
    ) -> Span | None:
        """What the conditions of a join say about two of its moments; None if it is nothing."""
        sides = [{column.identity for column in side} for side in (left, right)]
        found = [_limit(condition, *sides) for condition in conditions]
        spans = [cls._around(limit, conditions, found) for limit in found if limit is not None]
        # One with two limits leaves less to look at.
        return max(spans, key=lambda span: (span.least is not None) + (span.most is not None), default=None)

    @classmethod
    def _around(cls, limit: _Limit, conditions: Sequence[Expression], limits: Sequence[_Limit | None]) -> Span:
        same = [one is not None and one.left.same_as(limit.left) and one.right.same_as(limit.right) for one in limits]
        mine = [one for one, chosen in zip(limits, same, strict=True) if one is not None and chosen]
        return cls(
            limit.left,
            limit.right,
            max((one.least for one in mine if one.least is not None), default=None),
            min((one.most for one in mine if one.most is not None), default=None),
            [condition for condition, chosen in zip(conditions, same, strict=True) if chosen],
            [condition for condition, chosen in zip(conditions, same, strict=True) if not chosen],
        )


@dataclass(frozen=True, slots=True)
class _Limit:
    """What one condition says about a moment of each side."""

    left: Expression
    right: Expression
    least: int | None = None
    most: int | None = None


def _limit(condition: Expression, left: AbstractSet[int], right: AbstractSet[int]) -> _Limit | None:
    found = Distance.of(condition)
    if found is None or "subquery" in condition.text:
        return None
    start, end = found.start.references, found.end.references
    if start and end and start <= left and end <= right:
        return _Limit(found.start, found.end, most=found.most)
    if start and end and start <= right and end <= left:
        return _Limit(found.end, found.start, least=-found.most)
    return None


def microseconds(expression: Expression) -> int | None:
    """How long an interval is that the query says; None if it does not, or if months have their own lengths."""
    if not expression.is_literal or not isinstance(expression.type, DayTimeIntervalType):
        return None
    value = expression.value
    return value if isinstance(value, int) else None

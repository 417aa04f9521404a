"""Comparisons with a time source in a condition: which moments of a row they mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql.types import TimestampType

from headwater.errors import UnsupportedQuery
from headwater.spark.catalyst import Catalyst, Expression, conjuncts, plans, read_subquery, walk
from headwater.spark.distances import microseconds
from headwater.spark.time_calls import called_as
from headwater.spark.wording import short

_COMPARISONS = {"LessThan": "<", "LessThanOrEqual": "<=", "GreaterThan": ">", "GreaterThanOrEqual": ">="}
_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_HINT = "Compare it with a time of the row in WHERE: WHERE at > {0} - INTERVAL 10 MINUTES."
_AND = "Conditions with AND work; instead of OR, write two queries with UNION."
_FIXED = "Take the interval in days or less, or put it on the other side: WHERE at + INTERVAL 1 MONTH > {0}."


@dataclass(frozen=True, slots=True)
class Crossing:
    """A condition that is true from a moment of the row on, or before it, by a time source.

    The moment is the value of `row`, and a number of microseconds `later`. `text` is the condition for people.
    """

    source: str
    row: Expression
    later: int
    begins: bool
    text: str


class Temporal:
    """Finds comparisons with time sources; `sources` says which relations of plans stand for which."""

    def __init__(self, catalyst: Catalyst, sources: Mapping[int, str]) -> None:
        self._catalyst, self._sources = catalyst, sources

    def split(self, condition: Expression) -> tuple[list[Expression], list[Crossing]]:
        """The conditions without a time source, and what the others mean. Raises `UnsupportedQuery`."""
        if not self._sources or "subquery" not in condition.text:
            return [condition], []
        plain: list[Expression] = []
        crossings: list[Crossing] = []
        for part in conjuncts(condition):
            source = self._named(part)
            if source is None:
                plain.append(part)
            else:
                crossings.append(self._crossing(part, source))
        return plain, crossings

    def refusal(self, source: str) -> UnsupportedQuery:
        """What is said of a time source that stands anywhere else."""
        name = called_as(source)
        return UnsupportedQuery(f"{name} outside of a comparison in WHERE", hint=_HINT.format(name))

    def _named(self, expression: Expression) -> str | None:
        """A time source that is named in an expression."""
        found = (self._source(part) for part in walk(expression))
        return next((source for source in found if source is not None), None)

    def _source(self, expression: Expression) -> str | None:
        """The time source that an expression is."""
        if expression.kind != "ScalarSubquery":
            return None
        plan = read_subquery(self._catalyst, expression)
        while isinstance(plan, plans.Project) and all(column.is_attribute for column in plan.columns):
            plan = plan.child
        return self._sources.get(plan.relation) if isinstance(plan, plans.Scan) else None

    def _crossing(self, part: Expression, source: str) -> Crossing:
        name = called_as(source)
        if part.kind == "Or":
            raise UnsupportedQuery(f"{name} in a condition with OR", hint=_AND)
        sign = _COMPARISONS.get(part.kind)
        if sign is None:
            raise UnsupportedQuery(f"{name} in {short(part)!r}"[:80], hint=_HINT.format(name))
        left, right = part.children
        if self._named(left) is not None:
            left, right, sign = right, left, _FLIPPED[sign]
        if self._named(left) is not None:
            raise UnsupportedQuery(f"{name} on both sides of a comparison", hint=_HINT.format(name))
        row, sign, earlier = self._moment(left, sign, right, source)
        if not isinstance(row.type, TimestampType):
            raise self.refusal(source)
        return _crossing(source, row, sign, earlier)

    def _moment(self, given: Expression, sign: str, timed: Expression, source: str) -> tuple[Expression, str, int]:
        """A comparison of a row's value with a time source as `row sign source + offset`."""
        if timed.kind == "SubtractTimestamps":
            # now() - at < INTERVAL 1 HOUR, with the interval on the left by now.
            left, right = timed.children
            distance = microseconds(given)
            if distance is None:
                raise self.refusal(source)
            if self._named(left) is not None:
                return right, sign, self._offset(left, source) - distance
            return left, _FLIPPED[sign], self._offset(right, source) + distance
        return given, sign, self._offset(timed, source)

    def _offset(self, expression: Expression, source: str) -> int:
        """How many microseconds are added to a time source."""
        if self._source(expression) is not None:
            return 0
        name = called_as(source)
        if expression.kind == "TimestampAddYMInterval":
            raise UnsupportedQuery(f"{name} and an interval of months", hint=_FIXED.format(name))
        added = microseconds(expression.children[1]) if expression.kind == "TimestampAddInterval" else None
        if added is None:
            raise self.refusal(source)
        return self._offset(expression.children[0], source) + added


def _crossing(source: str, row: Expression, sign: str, offset: int) -> Crossing:
    # Moments are whole microseconds: later than one is at or after the next.
    later = -offset + (1 if sign in ("<", ">=") else 0)
    shown = f" {'+' if offset > 0 else '-'} {_seconds(abs(offset))}" if offset else ""
    return Crossing(source, row, later, sign in ("<", "<="), f"{short(row)} {sign} {called_as(source)}{shown}")


def _seconds(value: int) -> str:
    for name, unit in (("d", 86_400_000_000), ("h", 3_600_000_000), ("m", 60_000_000), ("s", 1_000_000)):
        if value % unit == 0:
            return f"{value // unit}{name}"
    return f"{value}us"

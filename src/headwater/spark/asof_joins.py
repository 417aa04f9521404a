"""As-of joins: Spark's ASOF JOIN as a kernel over two sides in time order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce

from headwater.errors import UnsupportedQuery
from headwater.spark.builder import FlowBuilder, Input, port_schema
from headwater.spark.catalyst import Expression, plans
from headwater.spark.catalyst.expressions import SortOrder
from headwater.spark.catalyst.plans import Plan
from headwater.spark.distances import Distance, Moment
from headwater.spark.flow import Branch, Relation
from headwater.spark.ranking import ranking
from headwater.spark.wording import short
from headwater.views.asof_join import AsOfJoin, AsOfKind

_KINDS: dict[str, AsOfKind] = {"Inner": "inner", "LeftOuter": "left"}
_MATCHES = {
    "GreaterThanOrEqual": (False, False),
    "GreaterThan": (False, True),
    "LessThanOrEqual": (True, False),
    "LessThan": (True, True),
}
"""By the comparison of the left moment with the right one: whether later versions are meant, and only those."""
_MIRRORED = {
    "GreaterThanOrEqual": "LessThanOrEqual",
    "GreaterThan": "LessThan",
    "LessThanOrEqual": "GreaterThanOrEqual",
    "LessThan": "GreaterThan",
}
_HINT = (
    "Conditions on one side work, and how far apart the moments may be: l.at <= r.at + INTERVAL 1 HOUR. "
    "Put others into a subquery of the right side."
)


@dataclass(frozen=True, slots=True)
class _Match:
    """Which moments are compared, and how."""

    left: Expression
    right: Expression
    later: bool
    strict: bool


class AsOfJoins:
    """Adds as-of joins to a flow."""

    def __init__(self, builder: FlowBuilder) -> None:
        self._builder = builder

    def relation(self, plan: plans.AsOfJoin, relation_of: Callable[[Plan], Relation]) -> Relation:
        """What an as-of join stands for. Raises `UnsupportedQuery`."""
        below, deciding = self._right(plan)
        left, right = relation_of(plan.left), relation_of(below)
        decided = {column.identity for column in deciding}
        ordered = [*deciding, *(column for column in right.output if column.identity not in decided)]
        match = _match(plan.match, left)
        mine = {column.identity for column in left.output}
        own = [condition for condition in plan.conditions if condition.references <= mine]
        distances = [_tolerance(one, match) for one in plan.conditions if not one.references <= mine]
        moment = match.left
        if own:
            # A left row that is not to be joined has no moment.
            moment = self._builder.catalyst.only_if(reduce(self._builder.catalyst.both, own), moment)
        lefts, rights = [*left.output, *plan.left_key, moment], [*ordered, *plan.right_key, match.right]
        left_schema, right_schema = port_schema("l", lefts), port_schema("r", rights)
        kernel = AsOfJoin(
            _KINDS[plan.kind],
            left_schema,
            right_schema,
            tuple(left_schema.names[len(left.output) : -1]),
            tuple(right_schema.names[len(ordered) : -1]),
            left_schema.names[-1],
            right_schema.names[-1],
            match.strict,
            match.later,
            min(distances, default=None),
        )
        detail = [
            *(f"{one.sql} = {other.sql}" for one, other in zip(plan.left_key, plan.right_key, strict=True)),
            short(plan.match),
            *map(short, plan.conditions),
        ]
        inputs = {"left": Input(left, lefts), "right": Input(right, rights)}
        types = [column.type for column in (*lefts, *rights)]
        operator = self._builder.add(f"{kernel.kind} as-of join", " and ".join(detail), kernel, inputs, types)
        unnamed = [None] * (len(plan.left_key) + 1)
        binding = [*left.output, *unnamed, *ordered, *unnamed]
        return Relation((Branch(operator.number, binding),), [*left.output, *ordered])

    def _right(self, plan: plans.AsOfJoin) -> tuple[Plan, Sequence[Expression]]:
        """The right side, and the columns that decide between rows of one moment before the others do.

        A settled plan leaves one row of each key and moment. The kernel does that itself, without keeping rows twice.
        """
        found = ranking(plan.right) if isinstance(plan.right, plans.Project) else None
        if found is None or (found.first, found.last) != (1, 1) or found.conditions:
            return plan.right, []
        assert isinstance(plan.right, plans.Project)
        columns = {column.identity for column in plan.right.columns}
        moments = [side for side in plan.match.children if side.references & columns]
        key = [self._builder.catalyst.normalized(one) for one in (*plan.right_key, *moments)]
        order = [SortOrder.of(one) for one in found.window.order]
        is_simple = all(one.child.is_attribute and one.nulls_first and not one.descending for one in order)
        is_simple = is_simple and all(column.is_attribute for column in plan.right.columns)
        if not is_simple or not _same(found.window.partition, key):
            return plan.right, []
        return found.window.child, [one.child for one in order]


def _same(some: Sequence[Expression], others: Sequence[Expression]) -> bool:
    """Whether these are the same expressions, in any order."""
    return all(any(one.same_as(other) for other in others) for one in some) and all(
        any(one.same_as(other) for other in some) for one in others
    )


def _match(condition: Expression, left: Relation) -> _Match:
    if condition.kind not in _MATCHES:
        raise UnsupportedQuery(f"{short(condition)!r} as a MATCH_CONDITION", hint="Compare a column of each side.")
    one, other = condition.children
    mine = {column.identity for column in left.output}
    is_turned = not one.references <= mine
    later, strict = _MATCHES[_MIRRORED[condition.kind] if is_turned else condition.kind]
    return _Match(other, one, later, strict) if is_turned else _Match(one, other, later, strict)


def _tolerance(condition: Expression, match: _Match) -> int:
    """How far apart the moments may be, in microseconds, by a condition on both. Raises `UnsupportedQuery`."""
    found, moments = Distance.of(condition), (Moment.of(match.right), Moment.of(match.left))
    start, end = moments[::-1] if match.later else moments
    if found and start and end and found.start.same_as(start.base) and found.end.same_as(end.base):
        return found.most + end.later - start.later
    raise UnsupportedQuery(f"{short(condition)!r} in an ASOF JOIN", hint=_HINT)

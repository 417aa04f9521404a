"""A view is a function of the log: what would depend on chance or the clock is refused, and open orders are settled.

Spark leaves open which of several equal rows comes first, and in which order a list is collected. Here rows that are
equal by the stated order are ordered by all their columns, and collected lists come in ascending order. A settled plan
gives one of the answers that Spark may give: it is what a pipeline keeps up to date, and what decides a verification
where the SQL itself does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from headwater.spark.catalyst import Catalyst, Expression, Node, children, items, kind, unaliased
from headwater.spark.settling import completed, in_settled_order, is_open
from headwater.spark.vocabulary import Kind, Place, check, hashed_map, unorderable

TIES = "ties in ORDER BY ... LIMIT are decided by all columns"
WINDOWS = "rows that a window's order leaves equal are ordered by all columns"
COLLECTED = "collected values are in ascending order"
SETS = "the values of a collected set are in ascending order"
BY = "of equal orders, max_by takes the greatest value and min_by the least"
LISTED = "listagg orders equal rows by the value"
CORRELATED = "the ORDER BY of a correlated LIMIT counts, even where Spark drops it because its column is not selected"
FOR_EACH_ROW = "a correlated LIMIT counts for each outer row, even where Spark applies it once to rows of all of them"
CORRECTED = frozenset({CORRELATED, FOR_EACH_ROW})
"""Rules by which a view is what its SQL says where Spark itself, in this version, is not."""

_WITH_EXPRESSIONS = frozenset({
    "Aggregate", "Project", "Filter", "Join", "LateralJoin", "Window", "Generate", "Sort",
})  # fmt: skip
_LIMITS = ("LocalLimit", "GlobalLimit", "Offset")
_HASHES = frozenset({"Murmur3Hash", "XxHash64"})
_SUBQUERIES = frozenset({"ScalarSubquery", "Exists", "ListQuery", "LateralSubquery", "InSubquery"})


@dataclass(frozen=True, slots=True)
class Settled:
    """An analyzed plan with every order settled, and the rules by which that was done."""

    plan: Node
    rules: tuple[str, ...]


def settled(catalyst: Catalyst, sql: str, plan: Node) -> Settled:
    """The analyzed plan of a view with every order settled. Raises `UnsupportedQuery`."""
    # One call to Java instead of one for every node and expression.
    found = check(str(plan.toJSON()), sql)
    if found.names & _HASHES:
        _Hashes(catalyst).plan(plan)
    aggregates = any(word.kind is Kind.SETTLED and word.place is Place.AGGREGATE for word in found.expressions)
    subqueries = bool(found.names & _SUBQUERIES)
    if not aggregates and not found.nodes & {"Sort", "Window"} and not (subqueries and found.nodes & {*_LIMITS}):
        return Settled(plan, ())
    settlement = _Settlement(catalyst, aggregates=aggregates, subqueries=subqueries)
    made = settlement.plan(plan)
    if "Sort" in found.nodes and found.nodes & {"GlobalLimit", "Offset"}:
        settlement.rules.add(TIES)
    return Settled(made, tuple(sorted(settlement.rules)))


def with_sorted_sets(catalyst: Catalyst, plan: Node) -> Node:
    """The analyzed plan with collected sets in ascending order, and as it is in all else.

    Spark gives the values of a set by their hash: documented as open, and yet the same in every run.
    """
    return _SortedSets(catalyst).plan(plan)


class _Rewriting:
    """Looks at all aggregate functions of a plan, in its subqueries, too."""

    def __init__(self, catalyst: Catalyst) -> None:
        self._catalyst = catalyst
        self._depth = 0
        """In how many subqueries the plan stands that is looked at."""

    def plan(self, node: Node) -> Node:
        below = [self.plan(child) for child in children(node)]
        if below:
            node = node.withNewChildren(self._catalyst.sequence(below))
        return self._node(kind(node), node)

    def _node(self, name: str, node: Node) -> Node:
        return self._with_expressions(node, in_window=name == "Window") if name in _WITH_EXPRESSIONS else node

    def _with_expressions(self, node: Node, *, in_window: bool) -> Node:
        """The node with its expressions looked at, and changed where that is needed."""
        changed = False
        parts: list[Any] = []
        for number in range(node.productArity()):
            part = node.productElement(number)
            new = self._part(part, in_window=in_window)
            changed = changed or new is not part
            parts.append(new)
        return node.makeCopy(self._catalyst.array(parts)) if changed else node

    def _part(self, part: Any, *, in_window: bool) -> Any:
        if not hasattr(part, "getClass"):
            return part
        if self._catalyst.is_expression(part):
            return self._expression(part, in_window=in_window)
        if self._catalyst.is_sequence(part):
            found = items(part)
            if found and all(hasattr(one, "getClass") and self._catalyst.is_expression(one) for one in found):
                made = [self._expression(one, in_window=in_window) for one in found]
                return part if all(a is b for a, b in zip(found, made, strict=True)) else self._catalyst.sequence(made)
        if self._catalyst.is_option(part) and part.isDefined():
            value = part.get()
            if hasattr(value, "getClass") and self._catalyst.is_expression(value):
                return self._catalyst.some(self._expression(value, in_window=in_window))
        return part

    def _expression(self, expression: Expression, *, in_window: bool) -> Expression:
        if self._catalyst.is_subquery(expression):
            self._depth += 1
            expression = expression.withNewPlan(self.plan(expression.plan()))
            self._depth -= 1
        name = kind(expression)
        below = children(expression)
        made = [self._expression(child, in_window=in_window or name == "WindowExpression") for child in below]
        if any(one is not other for one, other in zip(below, made, strict=True)):
            expression = expression.withNewChildren(self._catalyst.sequence(made))
        if name != "AggregateExpression" or in_window:
            return expression
        return self._aggregate(expression)

    def _aggregate(self, expression: Expression) -> Expression:
        """What stands for an aggregate function."""
        return expression


class _Hashes(_Rewriting):
    """Refuses hashes of maps; changes nothing."""

    def _expression(self, expression: Expression, *, in_window: bool) -> Expression:
        if kind(expression) in _HASHES:
            for child in children(expression):
                if "map<" in str(child.dataType().catalogString()):
                    raise hashed_map(str(expression.prettyName()))
        return super()._expression(expression, in_window=in_window)


class _SortedSets(_Rewriting):
    def _aggregate(self, expression: Expression) -> Expression:
        if kind(expression.aggregateFunction()) != "CollectSet":
            return expression
        return self._catalyst.expressions.SortArray(expression)


class _Settlement(_Rewriting):
    def __init__(self, catalyst: Catalyst, *, aggregates: bool, subqueries: bool) -> None:
        super().__init__(catalyst)
        self._aggregates, self._subqueries = aggregates, subqueries
        self.rules: set[str] = set()

    def _node(self, name: str, node: Node) -> Node:
        if self._depth and name in _LIMITS:
            return self._limit(node)
        if self._aggregates or self._subqueries:
            node = super()._node(name, node)
        if name == "Sort":
            order = completed(self._catalyst, items(node.order()), items(node.child().output()))
            everywhere = getattr(node, "global")()
            return self._catalyst.plans.Sort(
                self._catalyst.sequence(order), everywhere, node.child(), self._catalyst.none
            )
        return self._window(node) if name == "Window" else node

    def _limit(self, node: Node) -> Node:
        """A limit in a subquery, below the projection of sorted rows: there Spark does not lose their order."""
        project = self._compared(node.child())
        node = node.withNewChildren(self._catalyst.sequence([project]))
        if kind(project) != "Project" or kind(project.child()) not in ("Sort", *_LIMITS):
            return node
        self.rules.add(CORRELATED)
        limited = node.withNewChildren(self._catalyst.sequence([project.child()]))
        return project.withNewChildren(self._catalyst.sequence([limited]))

    def _compared(self, node: Node) -> Node:
        """A plan below a limit, whose columns are compared with outer expressions as expressions, too.

        Spark 4.3 takes `CAST(outer AS bigint) = column` for a condition that does not divide the rows, and then applies
        the limit once instead of for each outer row. It gets the comparison of two expressions right.
        """
        below = [self._compared(child) for child in children(node)]
        if below:
            node = node.withNewChildren(self._catalyst.sequence(below))
        if kind(node) != "Filter" or "outer(" not in str(node.condition().toString()):
            return node
        return self._catalyst.plans.Filter(self._as_expressions(node.condition()), node.child())

    def _as_expressions(self, condition: Expression) -> Expression:
        sides = children(condition)
        if kind(condition) == "And":
            made = [self._as_expressions(side) for side in sides]
        elif kind(condition) in ("EqualTo", "EqualNullSafe") and _divides(*sides):
            self.rules.add(FOR_EACH_ROW)
            made = [
                self._catalyst.expressions.Coalesce(self._catalyst.sequence([side]))
                if kind(side) == "AttributeReference"
                else side
                for side in sides
            ]
        else:
            return condition
        return condition.withNewChildren(self._catalyst.sequence(made))

    def _aggregate(self, expression: Expression) -> Expression:
        """An aggregate function whose result does not depend on the order of rows."""
        function = expression.aggregateFunction()
        name = kind(function)
        if name in ("CollectList", "CollectSet"):
            self._check_order(function, function.dataType().elementType())
            self.rules.add(SETS if name == "CollectSet" else COLLECTED)
            return self._catalyst.expressions.SortArray(expression)
        if name == "Mode":
            self._check_order(function, function.dataType())
        if name in ("MaxBy", "MinBy"):
            self.rules.add(BY)
            value, order = children(function)
            self._check_order(function, value.dataType())
            pair = self._catalyst.only_if(
                self._catalyst.expressions.IsNotNull(order), self._catalyst.struct([order, value])
            )
            return self._with_function(expression, function.withNewChildren(self._catalyst.sequence([value, pair])))
        # Distinct values are ordered by themselves.
        if name == "ListAgg" and not expression.isDistinct():
            self.rules.add(LISTED)
            order = [*items(function.orderExpressions()), self._catalyst.ascending(function.child())]
            made = function.copy(
                function.child(), function.delimiter(), self._catalyst.sequence(order),
                function.mutableAggBufferOffset(), function.inputAggBufferOffset(),
            )  # fmt: skip
            return self._with_function(expression, made)
        return expression

    def _check_order(self, function: Expression, values: Any) -> None:
        if not self._catalyst.is_orderable(values):
            raise unorderable(str(function.prettyName()), str(values.simpleString()))

    def _with_function(self, expression: Expression, function: Expression) -> Expression:
        return expression.withNewChildren(self._catalyst.sequence([function, *children(expression)[1:]]))

    def _window(self, node: Node) -> Node:
        """Puts the rows below a window in order, if the order of equal rows makes a difference to it."""
        if not any(is_open(unaliased(named)) for named in items(node.windowExpressions())):
            return node
        self.rules.add(WINDOWS)
        partition = [self._catalyst.normalized(key) for key in items(node.partitionSpec())]
        order = completed(self._catalyst, items(node.orderSpec()), items(node.child().output()))
        below = in_settled_order(self._catalyst, node.child(), partition, order, tasks=2)
        return node.withNewChildren(self._catalyst.sequence([below]))


def _divides(left: Expression, right: Expression) -> bool:
    """Whether a column is compared with an expression over the columns of an outer query."""
    if kind(left) != "AttributeReference":
        left, right = right, left
    return kind(left) == "AttributeReference" and kind(right) != "OuterReference" and "outer(" in str(right.toString())

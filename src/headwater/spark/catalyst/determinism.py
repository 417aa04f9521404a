"""A view is a function of the log: what would depend on chance or the clock is refused, and open orders are settled.

Spark leaves open which of several equal rows comes first, and in which order a list is collected. Here rows that are
equal by the stated order are ordered by all their columns, and collected lists come in ascending order. A settled plan
gives one of the answers that Spark may give: it is what a pipeline keeps up to date, and what decides a verification
where the SQL itself does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Any

from headwater.spark.catalyst.expressions import AggregateCall, Expression, conjuncts, expressions, unaliased
from headwater.spark.catalyst.java import Java, Node, items, kind
from headwater.spark.catalyst.nodes import first_of_each, in_settled_order
from headwater.spark.catalyst.reading import equal_keys
from headwater.spark.catalyst.session import Catalyst
from headwater.spark.catalyst.settling import completed, is_open
from headwater.spark.vocabulary import Kind, Place, check, hashed_map, unorderable

TIES = "ties in ORDER BY ... LIMIT are decided by all columns"
WINDOWS = "rows that a window's order leaves equal are ordered by all columns"
COLLECTED = "collected values are in ascending order"
SETS = "the values of a collected set are in ascending order"
BY = "of equal orders, max_by takes the greatest value and min_by the least"
LISTED = "listagg orders equal rows by the value"
VERSIONS = "of several rows with the moment that an as-of join finds, the first one by all columns counts"
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
    found = check(str(plan.java.toJSON()), sql)
    if found.names & _HASHES:
        _Hashes(catalyst).plan(plan.java)
    aggregates = any(word.kind is Kind.SETTLED and word.place is Place.AGGREGATE for word in found.expressions)
    subqueries = bool(found.names & _SUBQUERIES)
    if (
        not aggregates
        and not found.nodes & {"Sort", "Window", "AsOfJoin"}
        and not (subqueries and found.nodes & {*_LIMITS})
    ):
        return Settled(plan, ())
    settlement = _Settlement(catalyst, aggregates=aggregates, subqueries=subqueries)
    made = Node(settlement.plan(plan.java))
    if "Sort" in found.nodes and found.nodes & {"GlobalLimit", "Offset"}:
        settlement.rules.add(TIES)
    return Settled(made, tuple(sorted(settlement.rules)))


def with_sorted_sets(catalyst: Catalyst, plan: Node) -> Node:
    """The analyzed plan with collected sets in ascending order, and as it is in all else.

    Spark gives the values of a set by their hash: documented as open, and yet the same in every run.
    """
    return Node(_SortedSets(catalyst).plan(plan.java))


class _Rewriting:
    """Looks at all aggregate functions of a plan, in its subqueries, too."""

    def __init__(self, catalyst: Catalyst) -> None:
        self._catalyst = catalyst
        self._depth = 0
        """In how many subqueries the plan stands that is looked at."""

    def plan(self, node: Java) -> Java:
        below = [self.plan(child) for child in items(node.children())]
        if below:
            node = node.withNewChildren(self._catalyst.sequence(below))
        return self._node(kind(node), node)

    def _node(self, name: str, node: Java) -> Java:
        return self._with_expressions(node, in_window=name == "Window") if name in _WITH_EXPRESSIONS else node

    def _with_expressions(self, node: Java, *, in_window: bool) -> Java:
        """The node with its expressions looked at, and changed where that is needed."""
        changed = False
        parts: list[Any] = []
        for number in range(node.productArity()):
            part = node.productElement(number)
            new = self._part(part, in_window=in_window)
            changed = changed or new is not part
            parts.append(new)
        return node.makeCopy(self._catalyst.array(parts)) if changed else node

    def _part(self, part: Java, *, in_window: bool) -> Java:
        if self._is_expression(part):
            return self._rewritten(part, in_window=in_window)
        if not hasattr(part, "getClass"):
            return part
        if self._catalyst.is_sequence(part):
            found = items(part)
            if found and all(map(self._is_expression, found)):
                made = [self._rewritten(one, in_window=in_window) for one in found]
                return part if all(a is b for a, b in zip(found, made, strict=True)) else self._catalyst.sequence(made)
        if self._catalyst.is_option(part) and part.isDefined():
            value = part.get()
            if self._is_expression(value):
                return self._catalyst.some(self._rewritten(value, in_window=in_window))
        return part

    def _is_expression(self, value: Java) -> bool:
        return hasattr(value, "getClass") and self._catalyst.is_expression(value)

    def _rewritten(self, expression: Java, *, in_window: bool) -> Java:
        return self._expression(Expression(expression), in_window=in_window).java

    def _expression(self, expression: Expression, *, in_window: bool) -> Expression:
        if self._catalyst.is_subquery(expression):
            self._depth += 1
            expression = Expression(expression.java.withNewPlan(self.plan(expression.java.plan())))
            self._depth -= 1
        is_window = in_window or expression.kind == "WindowExpression"
        made = [self._expression(child, in_window=is_window) for child in expression.children]
        if any(one is not other for one, other in zip(expression.children, made, strict=True)):
            expression = self._catalyst.with_children(expression, made)
        call = expression.call
        return expression if call is None or in_window else self._aggregate(call)

    def _aggregate(self, call: AggregateCall) -> Expression:
        """What stands for an aggregate function."""
        return call.expression


class _Hashes(_Rewriting):
    """Refuses hashes of maps; changes nothing."""

    def _expression(self, expression: Expression, *, in_window: bool) -> Expression:
        if expression.kind in _HASHES:
            for child in expression.children:
                if "map<" in str(child.java.dataType().catalogString()):
                    raise hashed_map(expression.function_name)
        return super()._expression(expression, in_window=in_window)


class _SortedSets(_Rewriting):
    def _aggregate(self, call: AggregateCall) -> Expression:
        return self._catalyst.ascending_list(call.expression) if call.function.kind == "CollectSet" else call.expression


class _Settlement(_Rewriting):
    def __init__(self, catalyst: Catalyst, *, aggregates: bool, subqueries: bool) -> None:
        super().__init__(catalyst)
        self._aggregates, self._subqueries = aggregates, subqueries
        self.rules: set[str] = set()

    def _node(self, name: str, node: Java) -> Java:
        if self._depth and name in _LIMITS:
            return self._limit(node)
        if self._aggregates or self._subqueries:
            node = super()._node(name, node)
        if name == "Sort":
            order = completed(self._catalyst, expressions(node.order()), expressions(node.child().output()))
            everywhere = getattr(node, "global")()
            return self._catalyst.plans.Sort(
                self._catalyst.sequence(order), everywhere, node.child(), self._catalyst.none
            )
        if name == "AsOfJoin":
            return self._as_of_join(node)
        return self._window(node) if name == "Window" else node

    def _limit(self, node: Java) -> Java:
        """A limit in a subquery, below the projection of sorted rows: there Spark does not lose their order."""
        project = self._compared(node.child())
        node = node.withNewChildren(self._catalyst.sequence([project]))
        if kind(project) != "Project" or kind(project.child()) not in ("Sort", *_LIMITS):
            return node
        self.rules.add(CORRELATED)
        limited = node.withNewChildren(self._catalyst.sequence([project.child()]))
        return project.withNewChildren(self._catalyst.sequence([limited]))

    def _compared(self, node: Java) -> Java:
        """A plan below a limit, whose columns are compared with outer expressions as expressions, too.

        Spark 4.3 takes `CAST(outer AS bigint) = column` for a condition that does not divide the rows, and then applies
        the limit once instead of for each outer row. It gets the comparison of two expressions right.
        """
        below = [self._compared(child) for child in items(node.children())]
        if below:
            node = node.withNewChildren(self._catalyst.sequence(below))
        if kind(node) != "Filter":
            return node
        condition = Expression(node.condition())
        if "outer(" not in condition.text:
            return node
        return self._catalyst.plans.Filter(self._as_expressions(condition).java, node.child())

    def _as_expressions(self, condition: Expression) -> Expression:
        sides = condition.children
        if condition.kind == "And":
            made = [self._as_expressions(side) for side in sides]
        elif condition.kind in ("EqualTo", "EqualNullSafe") and _divides(*sides):
            self.rules.add(FOR_EACH_ROW)
            made = [self._catalyst.first_not_null([side]) if side.is_attribute else side for side in sides]
        else:
            return condition
        return self._catalyst.with_children(condition, made)

    def _aggregate(self, call: AggregateCall) -> Expression:
        """An aggregate function whose result does not depend on the order of rows."""
        function, java = call.function, call.function.java
        name = function.kind
        if name in ("CollectList", "CollectSet"):
            self._check_order(function, java.dataType().elementType())
            self.rules.add(SETS if name == "CollectSet" else COLLECTED)
            return self._catalyst.ascending_list(call.expression)
        if name == "Mode":
            self._check_order(function, java.dataType())
        if name in ("MaxBy", "MinBy"):
            self.rules.add(BY)
            value, order = function.children
            self._check_order(function, value.java.dataType())
            pair = self._catalyst.only_if(self._catalyst.is_not_null(order), self._catalyst.struct([order, value]))
            return self._with_function(call, self._catalyst.with_children(function, [value, pair]))
        # Distinct values are ordered by themselves.
        if name == "ListAgg" and not call.is_distinct:
            self.rules.add(LISTED)
            order_by = [*expressions(java.orderExpressions()), self._catalyst.ascending(function.child)]
            made = java.copy(
                java.child(), java.delimiter(), self._catalyst.sequence(order_by), java.mutableAggBufferOffset(),
                java.inputAggBufferOffset(),
            )  # fmt: skip
            return self._with_function(call, Expression(made))
        return call.expression

    def _check_order(self, function: Expression, values: Java) -> None:
        if not self._catalyst.is_orderable_type(values):
            raise unorderable(function.function_name, str(values.simpleString()))

    def _with_function(self, call: AggregateCall, function: Expression) -> Expression:
        return self._catalyst.with_children(call.expression, [function, *call.expression.children[1:]])

    def _window(self, node: Java) -> Java:
        """Puts the rows below a window in order, if the order of equal rows makes a difference to it."""
        columns = [unaliased(named) for named in expressions(node.windowExpressions())]
        if not any(map(is_open, columns)):
            return node
        self.rules.add(WINDOWS)
        partition = [self._catalyst.normalized(key) for key in expressions(node.partitionSpec())]
        order = completed(self._catalyst, expressions(node.orderSpec()), expressions(node.child().output()))
        below = in_settled_order(self._catalyst, Node(node.child()), partition, order, tasks=2)
        return node.withNewChildren(self._catalyst.sequence([below]))

    def _as_of_join(self, node: Java) -> Java:
        """Leaves one right row of each key and moment, out of those that count."""
        self.rules.add(VERSIONS)
        right, catalyst = node.right(), self._catalyst
        mine = {column.identity for column in expressions(right.output())}
        _, key, conditions = equal_keys(catalyst, node)
        if any(condition.references <= mine for condition in conditions):
            kept = [one for one in conjuncts(Expression(node.condition().get())) if not one.references <= mine]
            for condition in conditions:
                if condition.references <= mine:
                    right = catalyst.plans.Filter(condition.java, right)
            parts = [node.productElement(number) for number in range(node.productArity())]
            parts[3] = catalyst.some(reduce(catalyst.both, kept).java) if kept else catalyst.none
            node = node.makeCopy(catalyst.array(parts))
        moments = [side for side in Expression(node.asOfCondition()).children if side.references <= mine]
        first = first_of_each(catalyst, Node(right), [*key, *moments[-1:]])
        return node.withNewChildren(catalyst.sequence([node.left(), first.java]))


def _divides(left: Expression, right: Expression) -> bool:
    """Whether a column is compared with an expression over the columns of an outer query."""
    if not left.is_attribute:
        left, right = right, left
    return left.is_attribute and right.kind != "OuterReference" and "outer(" in right.text

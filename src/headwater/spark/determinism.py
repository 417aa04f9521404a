"""A view is a function of the log: what would depend on chance, time or the order of rows is refused or given an order.

Spark leaves open which of several equal rows comes first, and in which order a list is collected. Here rows that are
equal by the stated order are ordered by all their columns, and collected lists come in ascending order. The plan that
results is both what a pipeline keeps up to date and what verification runs, so both mean the same.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from headwater.errors import UnsupportedQuery
from headwater.spark.catalyst import Catalyst, Expression, Node, children, identity, items, kind

_TIME = "Use a column with a time, or append clock ticks to a topic."
_CHANCE = "Compute it where the record is made, and append it as a column."
_REFUSED = {
    "CurrentTimestamp": ("current_timestamp()", _TIME),
    "CurrentTimestampLike": ("current_timestamp()", _TIME),
    "Now": ("now()", _TIME),
    "CurrentDate": ("current_date()", _TIME),
    "CurrentTime": ("current_time()", _TIME),
    "LocalTimestamp": ("localtimestamp()", _TIME),
    "UnixTimestamp": ("unix_timestamp()", _TIME),
    "Rand": ("rand()", _CHANCE),
    "Randn": ("randn()", _CHANCE),
    "Uuid": ("uuid()", _CHANCE),
    "Shuffle": ("shuffle()", _CHANCE),
    "RandStr": ("randstr()", _CHANCE),
    "Uniform": ("uniform()", _CHANCE),
    "MonotonicallyIncreasingID": ("monotonically_increasing_id()", "Use the columns of the record."),
    "SparkPartitionID": ("spark_partition_id()", "Use the columns of the record."),
    "CurrentUser": ("current_user()", _CHANCE),
    "CallMethodViaReflection": ("reflect()", "Register a function with app.function."),
}
_FIRST = {
    "First": ("first", "Say which row is meant: min_by(value, order), or first_value(...) OVER (... ORDER BY ...)."),
    "Last": ("last", "Say which row is meant: max_by(value, order), or last_value(...) OVER (... ORDER BY ...)."),
    "AnyValue": ("any_value", "Say which value is meant: min(value) or max(value)."),
}
# Functions that are looked for; most plans have none of them, and need no look at every expression.
_SUSPECT = re.compile(
    r"\b(current_\w+|now|localtimestamp|rand\w*|uuid|shuffle|uniform|monotonically_increasing_id|spark_partition_id"
    r"|first|last|any_value|collect_list|collect_set|array_agg|max_by|min_by|listagg|unix_timestamp)\(",
    re.IGNORECASE,
)

_SUBQUERY = re.compile(r"\b(subquery|exists|list)#")


def determined(catalyst: Catalyst, plan: Node) -> Node:
    """The analyzed plan of a view with every order settled. Raises `UnsupportedQuery`."""
    text = str(plan.toString())
    suspect = _SUSPECT.search(text) is not None or not plan.deterministic()
    return _Determination(catalyst, suspect=suspect).plan(plan)


class _Determination:
    def __init__(self, catalyst: Catalyst, *, suspect: bool) -> None:
        self._catalyst, self._suspect = catalyst, suspect

    def plan(self, node: Node) -> Node:
        below = [self.plan(child) for child in children(node)]
        if below:
            node = node.withNewChildren(self._catalyst.sequence(below))
        name = kind(node)
        if name == "Sample":
            raise UnsupportedQuery("TABLESAMPLE", hint="Filter by a hash: WHERE pmod(xxhash64(id), 100) < 10.")
        if name in ("Aggregate", "Project", "Filter", "Join", "Window", "Generate"):
            node = self._with_expressions(node, in_window=name == "Window")
        if name == "Sort":
            order = self._extended(items(node.order()), items(node.child().output()))
            return self._catalyst.plans.Sort(order, True, node.child(), self._catalyst.none)
        return self._window(node) if name == "Window" else node

    def _with_expressions(self, node: Node, *, in_window: bool) -> Node:
        """The node with its expressions looked at, and changed where that is needed."""
        if not self._suspect and not _SUBQUERY.search(str(node.simpleString(10_000))):
            return node
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
        name = kind(expression)
        if name in _REFUSED:
            construct, hint = _REFUSED[name]
            raise UnsupportedQuery(construct, "its value is not a function of the log", hint=hint)
        if kind(expression) != "AttributeReference" and not children(expression) and not expression.deterministic():
            construct = f"{expression.prettyName()}()"
            raise UnsupportedQuery(construct, "its value is not a function of the log", hint=_CHANCE)
        if self._catalyst.is_subquery(expression):
            expression = expression.withNewPlan(self.plan(expression.plan()))
        below = children(expression)
        made = [self._expression(child, in_window=in_window or name == "WindowExpression") for child in below]
        if any(one is not other for one, other in zip(below, made, strict=True)):
            expression = expression.withNewChildren(self._catalyst.sequence(made))
        if name != "AggregateExpression" or in_window:
            return expression
        return self._aggregate(expression)

    def _aggregate(self, expression: Expression) -> Expression:
        """An aggregate function whose result does not depend on the order of rows."""
        function = expression.aggregateFunction()
        name = kind(function)
        if name in _FIRST:
            construct, hint = _FIRST[name]
            raise UnsupportedQuery(f"{construct}() without an order", hint=hint)
        if name in ("CollectList", "CollectSet") and self._catalyst.is_orderable(function.dataType().elementType()):
            return self._catalyst.expressions.SortArray(expression)
        if name in ("MaxBy", "MinBy"):
            value, order = children(function)
            if self._catalyst.is_orderable(value.dataType()):
                pair = self._catalyst.only_if(
                    self._catalyst.expressions.IsNotNull(order),
                    self._catalyst.struct([order, value]),
                )
                made = function.withNewChildren(self._catalyst.sequence([value, pair]))
                return expression.withNewChildren(self._catalyst.sequence([made, *children(expression)[1:]]))
        return expression

    def _extended(self, order: Sequence[Expression], columns: Sequence[Expression]) -> Any:
        """The stated order, and after it all columns."""
        stated = {identity(one.child()) for one in order if kind(one.child()) == "AttributeReference"}
        ascending = self._catalyst.module("org.apache.spark.sql.catalyst.expressions.Ascending")
        extra = [
            self._catalyst.expressions.SortOrder(column, ascending, ascending.defaultNullOrdering(), self._catalyst.nil)
            for column in columns
            if identity(column) not in stated and self._catalyst.is_orderable(column.dataType())
        ]
        return self._catalyst.sequence([*order, *extra])

    def _window(self, node: Node) -> Node:
        """Rows that are equal by the order of a frame of rows are ordered by all columns.

        A frame by range takes equal rows together, and is left as it is.
        """
        if not items(node.orderSpec()):
            return node
        by_rows: list[Expression] = []
        by_range: list[Expression] = []
        for named in items(node.windowExpressions()):
            frame = named.child().windowSpec().frameSpecification()
            (by_rows if kind(frame.frameType()) == "RowFrame" else by_range).append(named)
        below = node.child()
        if by_range:
            below = self._windowed(by_range, node, node.orderSpec(), below)
        if not by_rows:
            return below
        order = self._extended(items(node.orderSpec()), items(node.child().output()))
        return self._windowed([self._reordered(named, order) for named in by_rows], node, order, below)

    def _windowed(self, named: Sequence[Expression], node: Node, order: Any, below: Node) -> Node:
        expressions = self._catalyst.sequence(named)
        return self._catalyst.plans.Window(expressions, node.partitionSpec(), order, below, self._catalyst.none)

    def _reordered(self, named: Expression, order: Any) -> Expression:
        window = named.child()
        spec = window.windowSpec()
        expressions = self._catalyst.expressions
        made = expressions.WindowSpecDefinition(spec.partitionSpec(), order, spec.frameSpecification())
        return self._catalyst.alias(expressions.WindowExpression(window.windowFunction(), made), named)

"""The general operator: nodes of Spark's own, run over all rows of the groups that a batch touches."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from headwater.spark.catalyst import Catalyst, Expression, Node, Substitution, data_type, items, kind, unaliased
from headwater.spark.flow import Branch, Native, Relation
from headwater.spark.operators import Input, Operators, port_schema
from headwater.views.rows import Rows


class Natives:
    """Adds general operators to a flow."""

    def __init__(self, operators: Operators) -> None:
        self._operators = operators

    def aggregate(self, node: Node, child: Relation, named: Sequence[Expression]) -> Relation:
        """An Aggregate node with these results."""
        grouping = items(node.groupingExpressions())
        catalyst = self._operators.catalyst

        def build(below: Node, tag: Expression, now: Substitution) -> Node:
            below, now = catalyst.marked(below, [key for key in grouping if is_session(key)], now)
            keys = [now(expression) for expression in grouping]
            results = [catalyst.alias(now(unaliased(expression)), expression) for expression in named]
            return catalyst.plans.Aggregate(
                catalyst.sequence([*keys, tag]), catalyst.sequence([*results, tag]), below, catalyst.none
            )

        empty = None
        if not grouping:
            nothing = catalyst.plans.LocalRelation(node.child().output(), catalyst.nil, False, catalyst.none)
            empty = catalyst.collect(catalyst.frame(node.withNewChildren(catalyst.sequence([nothing]))))
        # A new row may join two sessions into one, so the rows of all sessions stay together.
        keys = [catalyst.normalized(expression) for expression in grouping if not is_session(expression)]
        output = [name.toAttribute() for name in named]
        return self._add("aggregate by group", child, keys, build, output, empty, named)

    def window(self, node: Node, child: Relation) -> Relation:
        """A Window node."""
        partition, order = items(node.partitionSpec()), items(node.orderSpec())
        named = items(node.windowExpressions())
        catalyst = self._operators.catalyst

        def build(below: Node, tag: Expression, now: Substitution) -> Node:
            spec = catalyst.sequence([*(now(expression) for expression in partition), tag])
            tagged = [catalyst.alias(_tagged(catalyst, now(one.child()), tag), one) for one in named]
            sorting = catalyst.sequence([now(expression) for expression in order])
            window = catalyst.plans.Window(catalyst.sequence(tagged), spec, sorting, below, catalyst.none)
            results = [catalyst.alias(now(attribute), attribute.newInstance()) for attribute in child.output]
            results += [one.toAttribute() for one in tagged]
            return catalyst.plans.Project(catalyst.sequence([*results, tag]), window)

        keys = [catalyst.normalized(expression) for expression in partition]
        output = [*child.output, *(expression.toAttribute() for expression in named)]
        return self._add("window by group", child, keys, build, output, None, named)

    def _add(
        self,
        title: str,
        child: Relation,
        keys: Sequence[Expression],
        build: Callable[[Node, Expression, Substitution], Node],
        outputs: Sequence[Expression],
        empty: pa.Table | None,
        functions: Sequence[Expression],
    ) -> Relation:
        columns = [*child.output, *keys]
        schema = port_schema("c", columns)
        kernel = Rows(schema, tuple(schema.names[len(child.output) :]))
        types = [data_type(attribute) for attribute in outputs]
        native = Native(child.output, build, outputs, types, empty, self._operators.flow.number(), functions)
        detail = ", ".join(str(key.sql()) for key in keys) or "everything"
        row_types = [data_type(column) for column in columns]
        operator = self._operators.add(title, detail, kernel, {"rows": Input(child, columns)}, row_types, native=native)
        return Relation((Branch(operator.number, outputs),), outputs)


def is_session(key: Expression) -> bool:
    """Whether a key of a group is a session_window(...): Spark joins overlapping ones when it aggregates."""
    return kind(key) == "AttributeReference" and bool(key.metadata().contains("spark.sessionWindow"))


def _tagged(catalyst: Catalyst, window: Expression, tag: Expression) -> Expression:
    """A window expression that is partitioned by the tag, too."""
    spec = window.windowSpec()
    tagged = catalyst.expressions.WindowSpecDefinition(
        catalyst.sequence([*items(spec.partitionSpec()), tag]), spec.orderSpec(), spec.frameSpecification()
    )
    return catalyst.expressions.WindowExpression(window.windowFunction(), tagged)

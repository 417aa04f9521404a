"""The general operator: nodes of Spark's own, run over all rows of the groups that a batch touches.

It is a pair of operators. The first keeps the rows of each group and hands those of touched groups to the node; the
second keeps what the node made of each group, so that it can be taken back to the bit when the group changes.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from headwater.spark.builder import FlowBuilder, Input, port_schema
from headwater.spark.catalyst import (
    Catalyst,
    Expression,
    Node,
    Substitution,
    data_type,
    identity,
    items,
    kind,
    unaliased,
)
from headwater.spark.flow import Branch, Build, Native, Relation
from headwater.spark.settling import in_settled_order
from headwater.views.replace import Replace
from headwater.views.rows import Rows


class Natives:
    """Adds general operators to a flow."""

    def __init__(self, builder: FlowBuilder) -> None:
        self._builder = builder

    def aggregate(
        self, node: Node, child: Relation, grouping: Sequence[Expression], named: Sequence[Expression]
    ) -> Relation:
        """An Aggregate node with these keys and results."""
        catalyst = self._builder.catalyst
        # A new row may join two sessions into one, so the rows of all sessions stay together.
        keys = [expression for expression in grouping if not is_session(expression)]
        shown = [catalyst.named(key, f"key{number}") for number, key in enumerate(keys)]

        def build(below: Node, now: Substitution, tasks: int) -> Node:  # noqa: ARG001
            below, now = catalyst.marked(below, [key for key in grouping if is_session(key)], now)
            results = [catalyst.alias(now(unaliased(expression)), expression) for expression in (*named, *shown)]
            # Without any key, Spark would give a result for no rows, too.
            groups = [now(key) for key in grouping] or [catalyst.whole(0)]
            return catalyst.plans.Aggregate(catalyst.sequence(groups), catalyst.sequence(results), below, catalyst.none)

        empty = None
        if not grouping:
            nothing = catalyst.plans.LocalRelation(node.child().output(), catalyst.nil, False, catalyst.none)
            empty = catalyst.collect(catalyst.frame(node.withNewChildren(catalyst.sequence([nothing]))))
        output = [expression.toAttribute() for expression in named]
        key_output = [expression.toAttribute() for expression in shown]
        native = self._native(child.output, build, [*output, *key_output], named)
        return self._add("aggregate by group", child, keys, native, output, key_output, empty)

    def window(self, node: Node, child: Relation, order: Sequence[Expression]) -> Relation:
        """A Window node, whose rows are put in this order within each partition."""
        partition = [self._builder.catalyst.normalized(key) for key in items(node.partitionSpec())]
        stated = items(node.orderSpec())
        named = items(node.windowExpressions())
        catalyst = self._builder.catalyst
        known = {identity(attribute) for attribute in child.output}
        # What only decides between equal rows need not be among the columns that are used later.
        extra = {
            identity(attribute): attribute
            for expression in order
            for attribute in items(expression.references().toSeq())
            if identity(attribute) not in known
        }

        def build(below: Node, now: Substitution, tasks: int) -> Node:
            keys = [now(key) for key in partition]
            below = in_settled_order(catalyst, below, keys, [now(one) for one in order], tasks)
            computed = [_computed(catalyst, one, now) for one in named]
            window = catalyst.plans.Window(
                catalyst.sequence(computed),
                catalyst.sequence(keys),
                catalyst.sequence([now(expression) for expression in stated]),
                below,
                catalyst.none,
            )
            results = [catalyst.alias(now(attribute), attribute.newInstance()) for attribute in child.output]
            results += [one.toAttribute() for one in computed]
            return catalyst.plans.Project(catalyst.sequence(results), window)

        output = [*child.output, *(expression.toAttribute() for expression in named)]
        native = self._native([*child.output, *extra.values()], build, output, named)
        return self._add("window by group", child, partition, native, output, partition, None)

    def _native(
        self, inputs: Sequence[Expression], build: Build, outputs: Sequence[Expression], named: Sequence[Expression]
    ) -> Native:
        return Native(inputs, build, outputs, self._builder.number(), self._builder.number(), named)

    def _add(
        self,
        title: str,
        child: Relation,
        keys: Sequence[Expression],
        native: Native,
        output: Sequence[Expression],
        result_keys: Sequence[Expression],
        empty: pa.Table | None,
    ) -> Relation:
        """The two operators. `keys` are those of rows, `result_keys` the same ones as the node's results have them."""
        builder, catalyst = self._builder, self._builder.catalyst
        keys, result_keys = ([catalyst.normalized(key) for key in given] for given in (keys, result_keys))
        detail = ", ".join(str(key.sql()) for key in keys) or "everything"
        columns = [*native.inputs, *keys]
        schema = port_schema("c", columns)
        key_types = [data_type(key) for key in keys]
        kernel = Rows(schema, tuple(schema.names[len(native.inputs) :]))
        rows = builder.add(title, detail, kernel, {"rows": Input(child, columns)}, key_types, native=native)
        group = [catalyst.named(key, f"group{number}").toAttribute() for number, key in enumerate(keys)]
        groups = Relation((Branch(rows.number, group),), group)
        given = Relation((Branch(native.results, native.outputs),), native.outputs)
        columns = [*output, *result_keys]
        schema = port_schema("c", columns)
        replace = Replace(schema, tuple(schema.names[len(output) :]), empty)
        operator = builder.add(
            "results",
            detail,
            replace,
            {"groups": Input(groups, group), "results": Input(given, columns)},
            [data_type(column) for column in columns],
        )
        return Relation((Branch(operator.number, [*output, *(None for _ in result_keys)]),), output)


def is_session(key: Expression) -> bool:
    """Whether a key of a group is a session_window(...): Spark joins overlapping ones when it aggregates."""
    return kind(key) == "AttributeReference" and bool(key.metadata().contains("spark.sessionWindow"))


def _computed(catalyst: Catalyst, named: Expression, now: Substitution) -> Expression:
    """A column of a Window node; Spark may also put one there that is taken as it is."""
    return catalyst.alias(now(unaliased(named)), named.toAttribute().newInstance())

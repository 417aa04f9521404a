"""The general operator: nodes of Spark's own, run over all rows of the groups that a batch touches.

It is a pair of operators. The first keeps the rows of each group and hands those of touched groups to the node; the
second keeps what the node made of each group, so that it can be taken back to the bit when the group changes.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from headwater.spark.builder import FlowBuilder, Input, port_schema
from headwater.spark.catalyst import Expression, Node, Substitution, plans
from headwater.spark.catalyst.nodes import aggregate_over, in_settled_order, result_of_nothing, window_over
from headwater.spark.flow import Branch, Build, Native, Relation
from headwater.views.replace import Replace
from headwater.views.rows import Rows


class Natives:
    """Adds general operators to a flow."""

    def __init__(self, builder: FlowBuilder) -> None:
        self._builder = builder

    def aggregate(
        self, plan: plans.Aggregate, child: Relation, grouping: Sequence[Expression], named: Sequence[Expression]
    ) -> Relation:
        """An Aggregate node with these keys and results."""
        catalyst = self._builder.catalyst
        # A new row may join two sessions into one, so the rows of all sessions stay together.
        keys = [expression for expression in grouping if not expression.is_session]
        shown = [catalyst.named(key, f"key{number}") for number, key in enumerate(keys)]

        def build(below: Node, now: Substitution, tasks: int) -> Node:  # noqa: ARG001
            return aggregate_over(catalyst, below, grouping, [*named, *shown], now)

        empty = None if grouping else result_of_nothing(catalyst, plan)
        output = [expression.attribute for expression in named]
        key_output = [expression.attribute for expression in shown]
        native = self._native(child.output, build, [*output, *key_output], named)
        return self._add("aggregate by group", child, keys, native, output, key_output, empty)

    def window(self, plan: plans.Window, child: Relation, order: Sequence[Expression]) -> Relation:
        """A Window node, whose rows are put in this order within each partition."""
        catalyst = self._builder.catalyst
        columns, stated = plan.columns, plan.order
        partition = [catalyst.normalized(key) for key in plan.partition]
        known = {attribute.identity for attribute in child.output}
        # What only decides between equal rows need not be among the columns that are used later.
        extra = {
            attribute.identity: attribute
            for expression in order
            for attribute in expression.referenced
            if attribute.identity not in known
        }

        def build(below: Node, now: Substitution, tasks: int) -> Node:
            keys = [now(key) for key in partition]
            below = in_settled_order(catalyst, below, keys, [now(one) for one in order], tasks)
            return window_over(catalyst, below, columns, keys, stated, child.output, now)

        output = [*child.output, *(column.attribute for column in columns)]
        native = self._native([*child.output, *extra.values()], build, output, columns)
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
        detail = ", ".join(key.sql for key in keys) or "everything"
        columns = [*native.inputs, *keys]
        schema = port_schema("c", columns)
        key_types = [key.type for key in keys]
        kernel = Rows(schema, tuple(schema.names[len(native.inputs) :]))
        rows = builder.add(title, detail, kernel, {"rows": Input(child, columns)}, key_types, native=native)
        group = [catalyst.named(key, f"group{number}").attribute for number, key in enumerate(keys)]
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
            [column.type for column in columns],
        )
        return Relation((Branch(operator.number, [*output, *(None for _ in result_keys)]),), output)

"""Nodes of Spark's that are made here: what the general operator runs, and rows divided and put in order."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812

from headwater.spark.catalyst import plans
from headwater.spark.catalyst.expressions import Expression, expressions, unaliased
from headwater.spark.catalyst.java import Node
from headwater.spark.catalyst.session import Catalyst, Substitution

NUMBER = "_number_of_key_and_moment"


def aggregate_over(
    catalyst: Catalyst, below: Node, keys: Sequence[Expression], results: Sequence[Expression], now: Substitution
) -> Node:
    """An Aggregate node over a plan; `now` puts the plan's columns in the place of attributes."""
    below, now = _with_sessions(catalyst, below, [key for key in keys if key.is_session], now)
    made = [catalyst.alias(now(unaliased(expression)), expression) for expression in results]
    # Without any key, Spark would give a result for no rows, too.
    groups = [now(key) for key in keys] or [catalyst.whole(0)]
    return Node(catalyst.plans.Aggregate(catalyst.sequence(groups), catalyst.sequence(made), below.java, catalyst.none))


def result_of_nothing(catalyst: Catalyst, aggregate: plans.Aggregate) -> pa.Table:
    """What an aggregate gives for no rows."""
    node = aggregate.node.java
    nothing = catalyst.plans.LocalRelation(node.child().output(), catalyst.nil, False, catalyst.none)
    return catalyst.collect(catalyst.frame(Node(node.withNewChildren(catalyst.sequence([nothing])))))


def window_over(
    catalyst: Catalyst,
    below: Node,
    columns: Sequence[Expression],
    keys: Sequence[Expression],
    order: Sequence[Expression],
    shown: Sequence[Expression],
    now: Substitution,
) -> Node:
    """A Window node with these columns over a plan, and beside them those of the plan that are `shown`."""
    computed = [_computed(catalyst, column, now) for column in columns]
    node = catalyst.plans.Window(
        catalyst.sequence(computed),
        catalyst.sequence(keys),
        catalyst.sequence([now(expression) for expression in order]),
        below.java,
        catalyst.none,
    )
    results = [catalyst.alias(now(attribute), attribute.new_instance()) for attribute in shown]
    results += [column.attribute for column in computed]
    return Node(catalyst.plans.Project(catalyst.sequence(results), node))


def in_settled_order(
    catalyst: Catalyst, below: Node, partition: Sequence[Expression], order: Sequence[Expression], tasks: int
) -> Node:
    """The rows of a plan divided by a window's partitions, and in this order within each."""
    divided = below.java
    if tasks > 1 and partition:
        divided = catalyst.plans.RepartitionByExpression(
            catalyst.sequence(partition), divided, catalyst.none, catalyst.none
        )
    elif tasks > 1:
        divided = catalyst.plans.Repartition(1, True, divided)
    keys = [catalyst.ascending(key) for key in partition]
    return Node(catalyst.plans.Sort(catalyst.sequence([*keys, *order]), False, divided, catalyst.none))


def first_of_each(catalyst: Catalyst, below: Node, key: Sequence[Expression]) -> Node:
    """Of the rows of a plan with equal keys the first one by all columns."""
    columns = catalyst.output(below)
    partition = [catalyst.column(catalyst.normalized(one)) for one in key]
    order = [catalyst.column(catalyst.comparable(column)).asc() for column in columns]
    number = F.row_number().over(Window.partitionBy(*partition).orderBy(*order))
    shown = [catalyst.column(column) for column in columns]
    rows = catalyst.frame(below).select(*shown, number.alias(NUMBER))
    return catalyst.analyzed(rows.where(F.col(NUMBER) == 1).select(*shown))


def has_one_row(window: plans.Window) -> bool:
    """Whether the rows below a window are one at the most, whatever is read."""
    most = window.node.java.child().maxRows()
    return bool(most.isDefined()) and int(most.get()) <= 1


def _computed(catalyst: Catalyst, named: Expression, now: Substitution) -> Expression:
    """A column of a Window node; Spark may also put one there that is taken as it is."""
    return catalyst.alias(now(unaliased(named)), named.attribute.new_instance())


def _with_sessions(
    catalyst: Catalyst, below: Node, attributes: Sequence[Expression], now: Substitution
) -> tuple[Node, Substitution]:
    """A plan in which the values of these attributes carry their metadata, and the substitution that finds them."""
    if not attributes:
        return below, now
    values = {}
    named = expressions(below.java.output())
    for attribute in attributes:
        named.append(catalyst.annotated(now(attribute), attribute.new_instance(), attribute))
        values[attribute.identity] = (attribute, named[-1].attribute)
    marking = catalyst.substitution(values)
    marked = Node(catalyst.plans.Project(catalyst.sequence(named), below.java))
    return marked, lambda expression: now(marking(expression))

"""Settling: where SQL leaves the order of rows open, they are put in one order, and everything else is left as it is.

Spark computes a window over the rows of a partition in the order in which they lie there. Where the stated order does
not tell two rows apart, their order is an accident, and Spark's answer with it. So the rows are sorted below the window
by the stated order and then by all columns. The window itself is not touched: what ties mean to it (a rank, a frame by
range) they still mean, and the answer is one that Spark alone may give, too.
"""

from __future__ import annotations

from collections.abc import Sequence

from headwater.spark.catalyst import Catalyst, Expression, Node, identity, items, kind
from headwater.spark.vocabulary import Kind, classify

CONSTANT_KEYS_RULE = "org.apache.spark.sql.catalyst.optimizer.EliminateWindowPartitions"
"""Drops constant keys of a window but not those by which its rows were divided, so that they are divided again and lose
their settled order. A session that runs settled plans excludes it."""
_LOOKED_THROUGH = frozenset({"Project", "SubqueryAlias", "RepartitionByExpression", "Repartition"})
_FIRST_ROWS = frozenset({"Filter", "Window"})


def in_settled_order(
    catalyst: Catalyst, below: Node, partition: Sequence[Expression], order: Sequence[Expression], tasks: int
) -> Node:
    """The rows of a plan divided by a window's partitions, and in this order within each."""
    if tasks > 1 and partition:
        keys = catalyst.sequence(partition)
        below = catalyst.plans.RepartitionByExpression(keys, below, catalyst.none, catalyst.none)
    elif tasks > 1:
        below = catalyst.plans.Repartition(1, True, below)
    keys = [catalyst.ascending(key) for key in partition]
    return catalyst.plans.Sort(catalyst.sequence([*keys, *order]), False, below, catalyst.none)


def completed(catalyst: Catalyst, order: Sequence[Expression], columns: Sequence[Expression]) -> list[Expression]:
    """The stated order, and after it all columns, so that rows are equal by it only if they are the same."""
    stated = {identity(one.child()) for one in order if kind(one.child()) == "AttributeReference"}
    extra = [catalyst.ascending(catalyst.comparable(column)) for column in columns if identity(column) not in stated]
    return [*order, *extra]


def order_below(node: Node, *, of_first_rows: bool = False) -> list[Expression]:
    """The order that the rows of a plan come in, if it says so; what it names may be hidden by projections above.

    `of_first_rows`: also where only the first rows of each group are left of them.
    """
    through = _LOOKED_THROUGH | _FIRST_ROWS if of_first_rows else _LOOKED_THROUGH
    while kind(node) in through:
        node = node.child()
    return items(node.order()) if kind(node) == "Sort" else []


def has_one_row(node: Node) -> bool:
    """Whether a plan gives one row at the most, whatever it reads."""
    most = node.maxRows()
    return bool(most.isDefined()) and int(most.get()) <= 1


def is_open(window: Expression) -> bool:
    """Whether the result of a window function depends on the order of rows that its own order leaves equal."""
    if kind(window) != "WindowExpression":
        return False
    function = window.windowFunction()
    # Functions that are no aggregates and do not depend on the order are about peers, whatever their frame is.
    aggregates = kind(function) == "AggregateExpression"
    if aggregates:
        function = function.aggregateFunction()
    if classify(str(function.getClass().getName())) is not Kind.DETERMINISTIC:
        return True
    frame = window.windowSpec().frameSpecification()
    bounds: Sequence[str] = (kind(frame.lower()), kind(frame.upper()))
    return (
        aggregates and kind(frame.frameType()) == "RowFrame" and bounds != ("UnboundedPreceding", "UnboundedFollowing")
    )

"""Settling: where SQL leaves the order of rows open, they are put in one order, and everything else is left as it is.

Spark computes a window over the rows of a partition in the order in which they lie there. Where the stated order does
not tell two rows apart, their order is an accident, and Spark's answer with it. So the rows are sorted below the window
by the stated order and then by all columns. The window itself is not touched: what ties mean to it (a rank, a frame by
range) they still mean, and the answer is one that Spark alone may give, too.
"""

from __future__ import annotations

from collections.abc import Sequence

from headwater.spark.catalyst.expressions import Expression
from headwater.spark.catalyst.java import kind
from headwater.spark.catalyst.plans import Filter, Plan, Project, Renamed, Repartition, Sort, Window
from headwater.spark.catalyst.session import Catalyst
from headwater.spark.vocabulary import Kind, classify

CONSTANT_KEYS_RULE = "org.apache.spark.sql.catalyst.optimizer.EliminateWindowPartitions"
"""Drops constant keys of a window but not those by which its rows were divided, so that they are divided again and lose
their settled order. A session that runs settled plans excludes it."""


def completed(catalyst: Catalyst, order: Sequence[Expression], columns: Sequence[Expression]) -> list[Expression]:
    """The stated order, and after it all columns, so that rows are equal by it only if they are the same."""
    stated = {one.child.identity for one in order if one.child.is_attribute}
    extra = [catalyst.ascending(catalyst.comparable(column)) for column in columns if column.identity not in stated]
    return [*order, *extra]


def order_below(plan: Plan, *, of_first_rows: bool = False) -> Sequence[Expression]:
    """The order that the rows of a plan come in, if it says so; what it names may be hidden by projections above.

    `of_first_rows`: also where only the first rows of each group are left of them.
    """
    while isinstance(plan, Project | Renamed | Repartition) or (of_first_rows and isinstance(plan, Filter | Window)):
        plan = plan.child
    return plan.order if isinstance(plan, Sort) else []


def is_open(window: Expression) -> bool:
    """Whether the result of a window function depends on the order of rows that its own order leaves equal."""
    function = window.window_function
    if function is None:
        return False
    # Functions that are no aggregates and do not depend on the order are about peers, whatever their frame is.
    call = function.call
    if call is not None:
        function = call.function
    if classify(str(function.java.getClass().getName())) is not Kind.DETERMINISTIC:
        return True
    frame = window.java.windowSpec().frameSpecification()
    bounds: Sequence[str] = (kind(frame.lower()), kind(frame.upper()))
    return (
        call is not None
        and kind(frame.frameType()) == "RowFrame"
        and bounds != ("UnboundedPreceding", "UnboundedFollowing")
    )

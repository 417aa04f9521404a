"""Disturbing: rows are put in another order wherever SQL says nothing about it, to see which answers depend on it.

It is not enough to shuffle the rows of topics. A window sorts its rows, so that all that is computed above it gets them
in one order, whatever order they came in: an answer that the SQL leaves open would look as if there were only one.
"""

from __future__ import annotations

from collections.abc import Mapping

from headwater.spark.catalyst.expressions import expressions
from headwater.spark.catalyst.java import Java, Node, items, kind
from headwater.spark.catalyst.nodes import in_settled_order
from headwater.spark.catalyst.session import Catalyst
from headwater.spark.catalyst.settling import CONSTANT_KEYS_RULE

_DISTURBED = frozenset({"Aggregate", "Sort", "Window"})
_RULES = (
    # It removes a sort below another one, and the order that its ties would have come in.
    "org.apache.spark.sql.catalyst.optimizer.EliminateSorts",
    # It puts a window below another one, and leaves behind what lies below it.
    "org.apache.spark.sql.catalyst.optimizer.TransposeWindow",
    # It drops constant keys of a window, so that its rows are divided again, above their order.
    CONSTANT_KEYS_RULE,
)
DISTURBING_SETTINGS: Mapping[str, str] = {
    "spark.sql.optimizer.excludedRules": ",".join(_RULES),
    "spark.sql.legacy.allowHashOnMapType": "true",
}
"""Settings that a session needs for it: the optimizer would put everything in order again."""


def disturbed(catalyst: Catalyst, plan: Node, seed: int) -> Node:
    """The analyzed plan with rows in an order of no meaning below every operator that may depend on it."""
    return Node(_disturbed(catalyst, plan.java, seed))


def _disturbed(catalyst: Catalyst, node: Java, seed: int) -> Java:
    below = [_disturbed(catalyst, child, seed) for child in items(node.children())]
    if not below:
        return node
    node = node.withNewChildren(catalyst.sequence(below))
    if kind(node) == "AsOfJoin":
        # Several right rows may have the same moment.
        left, right = below
        order = catalyst.ascending(catalyst.hashed(expressions(right.output()), seed))
        return node.withNewChildren(
            catalyst.sequence([left, in_settled_order(catalyst, Node(right), [], [order], tasks=2).java])
        )
    columns = expressions(below[0].output())
    if kind(node) not in _DISTURBED or not columns:
        return node
    order = catalyst.ascending(catalyst.hashed(columns, seed))
    # A sort directly below an exchange is removed, so rows are divided as the operator needs them before the sort.
    keys = [catalyst.normalized(key) for key in expressions(node.partitionSpec())] if kind(node) == "Window" else []
    tasks = 1 if kind(node) == "Aggregate" else 2
    ordered = in_settled_order(catalyst, Node(below[0]), keys, [order], tasks)
    return node.withNewChildren(catalyst.sequence([ordered]))

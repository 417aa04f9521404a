"""The relations that a query names: which ones it reads, and topics whose names have a dot."""

from __future__ import annotations

from collections.abc import Iterator

from headwater.spark.catalyst.expressions import Expression, expressions
from headwater.spark.catalyst.java import Java, Node, items, kind
from headwater.spark.catalyst.session import Catalyst


def is_statement(catalyst: Catalyst, plan: Node) -> bool:
    """Whether a parsed plan has a command in it, or a statement such as INSERT, and is no query."""
    return _is_statement(catalyst, plan.java)


def with_dotted_names(catalyst: Catalyst, sql: str) -> str:
    """The query with topics such as `shop.orders` as one name each, which Spark would take for a table in a schema.

    Without an alias the relation is called by the last part, so that `orders.id` names its column.
    """
    if "." not in sql:
        return sql
    found: set[tuple[int, int, str, bool]] = set()
    for node, name, aliased in _relations(catalyst, catalyst.parse(sql).java):
        origin = node.origin()
        if "." in name and origin.startIndex().isDefined() and catalyst.has_relation(name):
            # A subquery is found by more than one way.
            found.add((int(origin.startIndex().get()), int(origin.stopIndex().get()), name, aliased))
    for first, last, name, aliased in sorted(found, reverse=True):
        alias = "" if aliased else f" AS `{name.rpartition('.')[2]}`"
        sql = f"{sql[:first]}`{name}`{alias}{sql[last + 1 :]}"
    return sql


def _is_statement(catalyst: Catalyst, node: Java) -> bool:
    return catalyst.is_statement(node) or any(_is_statement(catalyst, child) for child in items(node.children()))


def _relations(catalyst: Catalyst, node: Java, *, aliased: bool = False) -> Iterator[tuple[Java, str, bool]]:
    """The relations of a parsed plan, what they are called, and whether they have an alias."""
    if kind(node) == "UnresolvedRelation":
        yield node, ".".join(str(part) for part in items(node.multipartIdentifier())), aliased
    for child in (*items(node.children()), *items(node.innerChildren())):
        if catalyst.is_plan(child):
            yield from _relations(catalyst, child, aliased=kind(node) == "SubqueryAlias")
    for expression in expressions(node.expressions()):
        yield from _inside(catalyst, expression)


def _inside(catalyst: Catalyst, expression: Expression) -> Iterator[tuple[Java, str, bool]]:
    if catalyst.is_subquery(expression):
        yield from _relations(catalyst, expression.java.plan())
    for child in expression.children:
        yield from _inside(catalyst, child)

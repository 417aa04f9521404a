"""Which view is planned first: views may be defined in any order, each after those it reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pyspark.errors import PySparkException

from headwater.errors import InvalidQuery
from headwater.spark.catalyst import Catalyst, Node, items, kind
from headwater.spark.failures import query_failure


def in_order(catalyst: Catalyst, views: Mapping[str, str], topics: Mapping[str, object]) -> list[str]:
    """The names of views so that each comes after those it reads. Raises `InvalidQuery`."""
    reads = {name: names_read(catalyst, name, sql) & set(views) for name, sql in views.items()}
    for name in views:
        if name in topics:
            raise InvalidQuery(name, "A topic has this name already.")
    ordered: list[str] = []
    while len(ordered) < len(views):
        ready = [name for name in views if name not in ordered and reads[name] <= set(ordered)]
        if not ready:
            stuck = [name for name in views if name not in ordered]
            through = ", ".join(sorted(reads[stuck[0]] - {stuck[0]} - set(ordered)))
            raise InvalidQuery(stuck[0], f"It reads itself, through {through}." if through else "It reads itself.")
        ordered += ready
    return ordered


def names_read(catalyst: Catalyst, view: str, sql: str) -> set[str]:
    """The names that a query reads from. Raises `InvalidQuery`."""
    try:
        plan = catalyst.parse(sql)
    except PySparkException as error:
        raise query_failure(view, sql, error) from error
    if _is_statement(catalyst, plan):
        # Spark would carry it out as soon as it is analyzed.
        raise InvalidQuery(view, "It is a statement that does something, not a query. Write a SELECT.")
    return set(_relations(catalyst, plan))


def _is_statement(catalyst: Catalyst, node: Node) -> bool:
    return catalyst.is_statement(node) or any(_is_statement(catalyst, child) for child in items(node.children()))


def _relations(catalyst: Catalyst, node: Node) -> Iterator[str]:
    if kind(node) == "UnresolvedRelation":
        yield ".".join(items(node.multipartIdentifier()))
    for inner in (*items(node.children()), *items(node.innerChildren())):
        if catalyst.is_plan(inner):
            yield from _relations(catalyst, inner)
    for expression in items(node.expressions()):
        yield from _in_expression(catalyst, expression)


def _in_expression(catalyst: Catalyst, expression: object) -> Iterator[str]:
    if catalyst.is_subquery(expression):
        yield from _relations(catalyst, expression.plan())  # type: ignore[attr-defined]
    for child in items(expression.children()):  # type: ignore[attr-defined]
        yield from _in_expression(catalyst, child)

"""Which view is planned first: views may be defined in any order, each after those it reads.

SQL does not tell upper from lower case, so neither do names here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from headwater.errors import InvalidQuery, UnsupportedQuery
from headwater.spark.catalyst import Catalyst
from headwater.spark.catalyst.history import Reference, references
from headwater.spark.catalyst.relations import is_statement
from headwater.spark.failures import in_view, query_failure, spark_fails


def in_order(views: Mapping[str, Collection[str]], topics: Sequence[str]) -> list[str]:
    """The names of views so that each comes after those it reads. Raises `InvalidQuery`.

    `views` has the names that each of them reads from.
    """
    _check_names(views, topics)
    folded = {name.lower(): name for name in views}
    ambiguous = [name for name, count in Counter(topic.lower() for topic in topics).items() if count > 1]
    reads: dict[str, set[str]] = {}
    for name, named in views.items():
        read = {one.lower() for one in named}
        for topic in ambiguous:
            if topic in read:
                alike = ", ".join(repr(one) for one in topics if one.lower() == topic)
                raise InvalidQuery(name, f"SQL cannot tell the topics {alike} apart: rename one of them.")
        reads[name] = {folded[one] for one in read if one in folded}
    ordered: list[str] = []
    while len(ordered) < len(views):
        ready = [name for name in views if name not in ordered and reads[name] <= set(ordered)]
        if not ready:
            stuck = [name for name in views if name not in ordered]
            through = ", ".join(sorted(reads[stuck[0]] - {stuck[0]} - set(ordered)))
            raise InvalidQuery(stuck[0], f"It reads itself, through {through}." if through else "It reads itself.")
        ordered += ready
    return ordered


def references_of(catalyst: Catalyst, view: str, sql: str) -> set[Reference]:
    """What a query reads from. Raises `InvalidQuery` and `UnsupportedQuery`."""
    try:
        plan = catalyst.parse(sql)
    except PySparkException as error:
        raise query_failure(view, sql, error) from error
    except Py4JJavaError as error:
        raise spark_fails(view, error) from error
    if is_statement(catalyst, plan):
        # Spark would carry it out as soon as it is analyzed.
        raise InvalidQuery(view, "It is not a query. Write a SELECT.")
    try:
        return references(catalyst, plan)
    except UnsupportedQuery as error:
        raise in_view(view, error) from error


def _check_names(views: Collection[str], topics: Sequence[str]) -> None:
    known = {topic.lower(): ("topic", topic) for topic in topics}
    for name in views:
        if name.lower() in known:
            what, other = known[name.lower()]
            case = "" if name == other else ": SQL does not tell upper from lower case"
            raise InvalidQuery(name, f"It has the same name as {what} {other!r}{case}.")
        known[name.lower()] = ("view", name)

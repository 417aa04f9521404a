"""Correlated subqueries and LATERAL: a few rows for each row, ordered or not, with windows and groups inside."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product

_PAGES: Mapping[str, tuple[str, str]] = {
    "limit": ("LIMIT 1", "n <= 1"),
    "page": ("LIMIT 1 OFFSET 1", "n = 2"),
    "offset": ("OFFSET 1", "n > 1"),
    "two": ("LIMIT 2", "n <= 2"),
}
"""Which rows of those that belong to a row, in SQL, and by their number."""


def correlated() -> Iterator[tuple[str, str]]:
    """A few rows for each row, and subqueries of other kinds that read columns of the row outside."""
    for (order, by), (page, (rows, _)) in product({"selected": "ORDER BY i", "none": ""}.items(), _PAGES.items()):
        yield from _places(order, page, f"SELECT i FROM u WHERE u.k = t.k {by} {rows}")
    yield from {
        "count": "SELECT id, (SELECT count(*) FROM u WHERE u.k = t.k) AS v FROM t",
        "sum": "SELECT id, (SELECT sum(d8) FROM u WHERE u.k = t.k AND u.i > 0) AS v FROM t",
        "max_non_equi": "SELECT id, (SELECT max(i) FROM u WHERE u.i < t.i) AS v FROM t",
        "two": "SELECT id, (SELECT min(i) FROM u WHERE u.k = t.k) AS a, (SELECT max(i) FROM r WHERE r.g = t.g) AS z "
        "FROM t",
        "filter": "SELECT id FROM t WHERE i > (SELECT avg(i) FROM u WHERE u.k = t.k)",
        "own": "SELECT id FROM t a WHERE i = (SELECT max(i) FROM t z WHERE z.g = a.g)",
        "lateral_aggregate": "SELECT t.id, q.n, q.v FROM t, LATERAL (SELECT count(*) AS n, sum(i) AS v FROM u WHERE "
        "u.k = t.k) q",
        "lateral_rows": "SELECT t.id, q.id AS other FROM t, LATERAL (SELECT id FROM u WHERE u.k = t.k AND u.i > t.i) q",
        "lateral_union": "SELECT t.id, q.v FROM t, LATERAL (SELECT t.i AS v UNION ALL SELECT t.o) q",
        "lateral_explode": "SELECT t.id, q.v FROM t, LATERAL explode(array(t.i, t.o)) q(v)",
        "lateral_twice": "SELECT t.id, q.v, w.z FROM t, LATERAL (SELECT t.i + 1 AS v) q, LATERAL (SELECT q.v * 2 AS "
        "z) w",
        "left_lateral_on": "SELECT t.id, q.v FROM t LEFT JOIN LATERAL (SELECT max(i) AS v FROM u WHERE u.k = t.k) q "
        "ON q.v > 0",
        "top_each": "SELECT t.id, q.* FROM t, LATERAL (SELECT o, id AS other FROM u WHERE u.k = t.k ORDER BY o, id "
        "LIMIT 2) q",
        "window": "SELECT id, (SELECT max(v) FROM (SELECT k, row_number() OVER (ORDER BY id) AS v FROM u) q WHERE "
        "q.k = t.k) "
        "AS w FROM t",
        "window_inside": "SELECT t.id, q.v FROM t, LATERAL (SELECT row_number() OVER (ORDER BY u.id) AS v FROM u "
        "WHERE u.k = t.k) q",
        "window_sum_inside": "SELECT t.id, q.v FROM t, LATERAL (SELECT u.id, sum(u.i) OVER (PARTITION BY u.g ORDER "
        "BY u.id) "
        "AS v FROM u WHERE u.k = t.k) q",
        "window_scalar": "SELECT id, (SELECT max(v) FROM (SELECT sum(i) OVER (ORDER BY id) AS v FROM u WHERE u.k = "
        "t.k)) AS w "
        "FROM t",
        "window_exists": "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM (SELECT k, rank() OVER (ORDER BY o) AS v "
        "FROM u) q "
        "WHERE q.k = t.k AND q.v = 1)",
        "group_inside": "SELECT t.id, q.n FROM t, LATERAL (SELECT g, count(*) AS n FROM u WHERE u.k = t.k GROUP BY "
        "g) q",
        "distinct_inside": "SELECT t.id, q.g FROM t, LATERAL (SELECT DISTINCT g FROM u WHERE u.k = t.k) q",
        "nested": "SELECT id, (SELECT count(*) FROM u WHERE u.k = t.k AND EXISTS (SELECT 1 FROM r WHERE r.g = u.g)) "
        "AS v FROM t",
        "nested_limit": "SELECT id, (SELECT max(i) FROM (SELECT i FROM u WHERE u.k = t.k ORDER BY id LIMIT 2)) AS v "
        "FROM t",
    }.items()


def ordered_by_unselected() -> Iterator[tuple[str, str, str]]:
    """A few rows for each row by columns that are not selected, which Spark drops; the reference numbers the rows."""
    for order, (page, (rows, numbers)) in product(("y DESC, id", "i, id", "ts, id DESC"), _PAGES.items()):
        inner = f"SELECT i FROM u WHERE u.k = t.k ORDER BY {order} {rows}"
        numbered = f"SELECT i, k, row_number() OVER (PARTITION BY k ORDER BY {order}) AS n FROM u"
        reference = f"SELECT i FROM ({numbered}) z WHERE z.k = t.k AND {numbers}"
        name = f"by_{order}"
        for made, other in zip(_places(name, page, inner), _places(name, page, reference), strict=True):
            # A subquery of one row is one by its LIMIT; Spark does not see that in the reference.
            asked = other[1].replace("(SELECT i", "(SELECT max(i)", 1) if made[0].startswith("scalar") else other[1]
            yield made[0], made[1], asked


def _places(order: str, page: str, inner: str) -> Iterator[tuple[str, str]]:
    if page in ("limit", "page"):
        yield f"scalar {order} {page}", f"SELECT id, ({inner}) AS v FROM t"
    yield f"lateral {order} {page}", f"SELECT t.id, q.i FROM t, LATERAL ({inner}) q"
    yield f"left_lateral {order} {page}", f"SELECT t.id, q.i FROM t LEFT JOIN LATERAL ({inner}) q"
    yield f"exists {order} {page}", f"SELECT id FROM t WHERE EXISTS ({inner})"
    yield f"in {order} {page}", f"SELECT id FROM t WHERE i IN ({inner})"

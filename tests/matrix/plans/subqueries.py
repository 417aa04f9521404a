"""Subqueries: a scalar one wherever an expression may stand, and EXISTS, IN and NOT IN with NULLs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product


def subqueries() -> Iterator[tuple[str, str]]:
    """A scalar subquery in every place where an expression may stand."""
    values = {
        "count": "(SELECT count(*) FROM u)",
        "max": "(SELECT max(i) FROM u)",
        "top": "(SELECT i FROM u ORDER BY o, id LIMIT 1)",
        "stddev": "(SELECT round(stddev(i), 3) FROM u)",
    }
    places = {
        "select": "SELECT id, {} AS v FROM t",
        "twice": "SELECT id, {} + coalesce({}, 0) AS v FROM t",
        "where": "SELECT id FROM t WHERE i < {}",
        "group_key": "SELECT g, {} AS n, count(i) AS v FROM t GROUP BY ALL",
        "group_key_only": "SELECT {} AS n, count(i) AS v FROM t GROUP BY 1",
        "group_expression": "SELECT i + {} AS n, count(*) AS v FROM t GROUP BY 1",
        "join_key": "SELECT t.id, r.id AS other FROM t JOIN r ON t.i + {} = r.i + {}",
        "join_condition": "SELECT t.id, r.id AS other FROM t LEFT JOIN r ON t.k = r.k AND t.i < {}",
        "in": "SELECT id FROM t WHERE i + {} IN (SELECT i + 1 FROM r)",
        "in_list": "SELECT id FROM t WHERE i IN (1, {})",
        "case": "SELECT id, CASE WHEN i > {} THEN 'more' ELSE 'less' END AS v FROM t",
        "having": "SELECT g, count(*) AS n FROM t GROUP BY g HAVING count(*) < {}",
        "argument": "SELECT g, sum(i + {}) AS v FROM t GROUP BY g",
        "argument_distinct": "SELECT g, count(DISTINCT i + {}) AS v FROM t GROUP BY g",
        "argument_native": "SELECT g, stddev(i + {}) AS v FROM t GROUP BY g",
        "beside_aggregate": "SELECT g, sum(i) + {} AS v FROM t GROUP BY g",
        "filter_clause": "SELECT g, count(*) FILTER (WHERE i < {}) AS v FROM t GROUP BY g",
        "order": "SELECT id FROM t ORDER BY abs(i - {}), id LIMIT 3",
        "window_argument": "SELECT id, sum(i + {}) OVER (PARTITION BY g) AS v FROM t",
        "window_partition": "SELECT id, count(*) OVER (PARTITION BY i + {}) AS v FROM t",
        "window_order": "SELECT id, rank() OVER (PARTITION BY g ORDER BY abs(o - {})) AS v FROM t",
        "function": "SELECT id, coalesce(i, {}, 0) AS v FROM t",
        "distinct": "SELECT DISTINCT i + {} AS v FROM t",
        "union": "SELECT i + {} AS v FROM t UNION SELECT i FROM u",
        "explode": "SELECT id, v FROM t LATERAL VIEW explode(array(i, {})) AS v",
        "alone": "SELECT {} AS v",
        "alone_where": "SELECT 1 AS v WHERE {} > 2",
        "struct": "SELECT id, struct(i, {}) AS v FROM t",
    }
    for (value, query), (place, template) in product(values.items(), places.items()):
        if value in ("count", "max") or place in ("select", "where", "group_key", "argument", "having"):
            yield f"{place}_{value}", template.format(*[query] * template.count("{}"))
    yield from {
        "not_one_group": "SELECT id, (SELECT g FROM u GROUP BY g HAVING count(*) > 99) AS v FROM t",
        "same_table": "SELECT g, (SELECT count(*) FROM t) AS n, count(i) AS v FROM t GROUP BY ALL",
        "same_table_share": "SELECT g, sum(i) / (SELECT sum(i) FROM t WHERE i > 0) AS v FROM t GROUP BY g",
        "nested": "SELECT id FROM t WHERE i >= (SELECT min(i) FROM u WHERE i >= (SELECT avg(i) FROM r))",
        "empty": "SELECT id, (SELECT i FROM u WHERE id < 0) AS v FROM t",
        "struct_value": "SELECT id, (SELECT struct(max(i), min(s)) FROM u) AS v FROM t",
        "array_value": "SELECT id, (SELECT collect_set(i) FROM u) AS v FROM t",
        "in_cte": "WITH m AS (SELECT max(i) AS v FROM u) SELECT id FROM t WHERE i = (SELECT v FROM m)",
        "cross_join_instead": "SELECT t.id, m.v FROM t CROSS JOIN (SELECT max(i) AS v FROM u) m",
    }.items()


def predicates() -> Iterator[tuple[str, str]]:
    """EXISTS, IN and NOT IN, with NULLs on both sides, in every place."""
    tests = {
        "exists": "EXISTS (SELECT 1 FROM u WHERE u.k = t.k)",
        "not_exists": "NOT EXISTS (SELECT 1 FROM u WHERE u.k = t.k)",
        "exists_plain": "EXISTS (SELECT 1 FROM u WHERE i > 2)",
        "exists_non_equi": "EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND u.i > t.i)",
        "in": "t.k IN (SELECT k FROM u)",
        "not_in": "t.k NOT IN (SELECT k FROM u)",
        "not_in_without_null": "t.k NOT IN (SELECT k FROM u WHERE k IS NOT NULL)",
        "in_correlated": "t.i IN (SELECT i FROM u WHERE u.g = t.g)",
        "not_in_correlated": "t.i NOT IN (SELECT i FROM u WHERE u.g = t.g)",
        "in_two": "(t.k, t.o) IN (SELECT k, o FROM u)",
        "not_in_two": "(t.k, t.o) NOT IN (SELECT k, o FROM u)",
        "in_aggregate": "t.i IN (SELECT max(i) FROM u GROUP BY g)",
        "in_limit": "t.i IN (SELECT i FROM u ORDER BY id LIMIT 3)",
        "in_double": "t.x IN (SELECT x FROM u)",
        "not_in_double": "t.x NOT IN (SELECT x FROM u)",
        "in_string": "t.s IN (SELECT s FROM r)",
        "in_stream_null": "t.g NOT IN (SELECT g FROM r WHERE id < 0)",
    }
    for name, test in tests.items():
        yield name, f"SELECT id FROM t WHERE {test}"
        yield f"{name}_or", f"SELECT id FROM t WHERE {test} OR t.i = 1"
        yield f"{name}_not", f"SELECT id FROM t WHERE NOT ({test})"
        yield f"{name}_value", f"SELECT id, {test} AS v FROM t"
    yield from {
        "exists_group": "SELECT g, count(*) AS n FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.k) GROUP BY g",
        "in_having": "SELECT k, count(*) AS n FROM t GROUP BY k HAVING k IN (SELECT k FROM u)",
        "in_case": "SELECT id, CASE WHEN k IN (SELECT k FROM u) THEN 1 ELSE 0 END AS v FROM t",
        "in_argument": "SELECT g, sum(CASE WHEN k IN (SELECT k FROM u) THEN 1 ELSE 0 END) AS v FROM t GROUP BY g",
        "exists_on": "SELECT t.id, r.id AS other FROM t LEFT JOIN r ON t.k = r.k AND EXISTS (SELECT 1 FROM u WHERE "
        "u.k = t.k)",
        "any": "SELECT id FROM t WHERE i IN (SELECT o FROM u) AND i NOT IN (SELECT o FROM r WHERE o IS NOT NULL)",
        "in_own": "SELECT id FROM t WHERE o IN (SELECT k FROM t)",
    }.items()

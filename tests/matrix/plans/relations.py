"""Set operations, and relations that are constants: VALUES, range() and single rows."""

from __future__ import annotations

from collections.abc import Iterator

from tests.matrix.kinds import SET_OPERATIONS


def sets() -> Iterator[tuple[str, str]]:
    for operation in SET_OPERATIONS:
        for name, (left, right) in {
            "streams": ("SELECT g, k FROM r", "SELECT g, k FROM t"),
            "all_columns": ("SELECT * FROM t", "SELECT * FROM r"),
            "own": ("SELECT g, o FROM t", "SELECT g, o FROM t WHERE i > 0"),
            "mixed_types": ("SELECT i FROM t", "SELECT d12 FROM u"),
            "number_and_text": ("SELECT CAST(i AS string) AS v FROM t", "SELECT s FROM u"),
            "constants": ("SELECT k FROM t", "VALUES (1), (2), (2), (NULL)"),
            "arrays": ("SELECT array(i, k) AS v FROM t", "SELECT array(i, k) AS v FROM u"),
            "structs": ("SELECT struct(k, o) AS v FROM t", "SELECT struct(k, o) AS v FROM u"),
            "groups": ("SELECT g, count(*) AS n FROM t GROUP BY g", "SELECT g, count(*) AS n FROM u GROUP BY g"),
        }.items():
            yield f"{name} {operation}", f"{left} {operation} {right}"
        yield f"three {operation}", f"SELECT k FROM t {operation} SELECT k FROM u {operation} SELECT k FROM r"
        yield f"counted {operation}", f"SELECT count(*) AS n FROM (SELECT k, o FROM t {operation} SELECT k, o FROM u)"
        yield f"in_parts {operation}", f"(SELECT k FROM t UNION ALL SELECT o FROM t) {operation} SELECT k FROM u"
    yield "by_name", "SELECT id, g FROM t UNION ALL BY NAME SELECT g, id FROM u"
    yield "by_name_missing", "SELECT id, g FROM t UNION BY NAME (SELECT id FROM u) "
    yield "by_name_allow", "SELECT id, g FROM t UNION ALL BY NAME SELECT id, s FROM u"
    yield "same_twice", "SELECT id, g FROM t UNION ALL SELECT id, g FROM t"


def constants() -> Iterator[tuple[str, str]]:
    yield from {
        "count_values": "SELECT count(*) AS n FROM VALUES (1), (2), (3)",
        "count_range": "SELECT count(*) AS n FROM range(5)",
        "values": "SELECT * FROM VALUES (1, 'a'), (2, NULL) AS q(v, w)",
        "range": "SELECT id * 2 AS v FROM range(5)",
        "sum_range": "SELECT sum(id) AS v FROM range(10)",
        "one_row": "SELECT 1 AS v, 'a' AS w",
        "no_row": "SELECT 1 AS v WHERE false",
        "cross_values_unused": "SELECT t.id FROM t CROSS JOIN VALUES (1), (2)",
        "cross_values": "SELECT t.id, q.v FROM t CROSS JOIN VALUES (1), (2) AS q(v)",
        "cross_range_unused": "SELECT t.id, t.g FROM t CROSS JOIN range(3)",
        "cross_range": "SELECT t.id, q.id AS v FROM t CROSS JOIN range(3) q",
        "cross_one_row": "SELECT t.id, q.v FROM t CROSS JOIN (SELECT 7 AS v) q",
        "count_cross": "SELECT count(*) AS n FROM t CROSS JOIN VALUES (1), (2)",
        "group_cross": "SELECT t.g, count(*) AS n FROM t CROSS JOIN range(3) GROUP BY t.g",
        "join_values": "SELECT t.id, q.w FROM t JOIN VALUES (1, 'one'), (2, 'two'), (NULL, 'none') AS q(v, w) ON "
        "t.k = q.v",
        "left_join_values": "SELECT t.id, q.w FROM t LEFT JOIN VALUES (1, 'one'), (1, 'uno') AS q(v, w) ON t.k = q.v",
        "right_join_values": "SELECT t.id, q.v FROM t RIGHT JOIN VALUES (1), (9) AS q(v) ON t.k = q.v",
        "full_join_values": "SELECT t.id, q.v FROM t FULL JOIN VALUES (1), (9) AS q(v) ON t.k = q.v",
        "anti_values": "SELECT q.v FROM VALUES (1), (2), (9) AS q(v) LEFT ANTI JOIN t ON t.k = q.v",
        "exists_values": "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM VALUES (1), (2) AS q(v) WHERE q.v = t.k)",
        "in_values": "SELECT id FROM t WHERE k IN (SELECT v FROM VALUES (1), (NULL) AS q(v))",
        "not_in_values": "SELECT id FROM t WHERE k NOT IN (SELECT v FROM VALUES (1), (2) AS q(v))",
        "union_values": "SELECT k FROM t UNION ALL VALUES (1), (2)",
        "scalar_count_values": "SELECT id, (SELECT count(*) FROM VALUES (1), (2), (3)) AS n FROM t",
        "scalar_count_range": "SELECT id FROM t WHERE i < (SELECT count(*) FROM range(3))",
        "lateral_values": "SELECT t.id, q.v FROM t, LATERAL (SELECT t.i + v AS v FROM VALUES (1), (2) AS w(v)) q",
        "lateral_values_unused": "SELECT t.id, q.v FROM t, LATERAL (SELECT t.i AS v FROM VALUES (1), (2) AS w(v)) q",
        "limit_values": "SELECT v FROM VALUES (3), (1), (2) AS q(v) ORDER BY v LIMIT 2",
        "offset_range": "SELECT id FROM range(6) ORDER BY id OFFSET 4",
        "group_values": "SELECT w, count(*) AS n FROM VALUES (1, 'a'), (2, 'a'), (3, NULL) AS q(v, w) GROUP BY w",
        "exists_range": "SELECT id FROM t WHERE EXISTS (SELECT * FROM range(2))",
        "join_range_unused": "SELECT count(*) AS n FROM t JOIN range(4) q ON t.i = q.id",
        "window_values": "SELECT v, row_number() OVER (ORDER BY v) AS n FROM VALUES (3), (1) AS q(v)",
        "values_with_expressions": "SELECT t.id, q.v FROM t JOIN VALUES (1 + 1, upper('a')) AS q(v, w) ON t.k = q.v",
        "constant_group": "SELECT 1 AS one, count(*) AS n FROM t GROUP BY 1",
        "constant_false_group": "SELECT count(*) AS n, sum(i) AS v FROM t WHERE false",
        "constant_false": "SELECT id FROM t WHERE 1 = 2",
        "constant_union_false": "SELECT id FROM t WHERE false UNION ALL SELECT id FROM u",
        "having_without_group": "SELECT sum(i) AS v FROM t HAVING count(*) > 3",
        "exists_constant": "SELECT id FROM t WHERE EXISTS (SELECT 1)",
        "recursive": "WITH RECURSIVE q(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM q WHERE n < 4) SELECT t.id, q.n "
        "FROM t JOIN q ON t.k = q.n",
    }.items()

"""Every shape of a plan: limits inside of limits, subqueries in every place, joins of every kind, and so on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product

from tests.matrix.cases import Case, case_name
from tests.matrix.kinds import SET_OPERATIONS

_PAGES: Mapping[str, str] = {"limit": "LIMIT 5", "offset": "OFFSET 2", "page": "LIMIT 6 OFFSET 1", "few": "LIMIT 2"}


def shape_cases() -> Iterator[Case]:
    """All cases; what Spark does not accept is dropped later."""
    for group, cases in {
        "limit": _limits(),
        "correlated": _correlated(),
        "subquery": _subqueries(),
        "predicate": _predicates(),
        "join": _joins(),
        "set": _sets(),
        "constant": _constants(),
        "grouping": _groupings(),
        "generator": _generators(),
        "mixed": _mixed(),
        "pivot": _pivots(),
    }.items():
        for name, sql in cases:
            yield Case(case_name("shape", group, name), sql)


def _limits() -> Iterator[tuple[str, str]]:
    for (inner, below), (outer, above) in product(_PAGES.items(), repeat=2):
        for order in ("", "ORDER BY o DESC, id"):
            sql = f"SELECT id FROM (SELECT id, o FROM t ORDER BY o, id {below}) {order} {above}"
            yield f"{outer}_over_{inner}{'_ordered' if order else ''}", sql
    for first, second, third in product(("LIMIT 7", "OFFSET 1"), ("LIMIT 5", "OFFSET 2"), ("LIMIT 3", "OFFSET 1")):
        inner = f"SELECT id, v FROM (SELECT id, i AS v FROM t ORDER BY id {first}) {second}"
        yield f"three {first} {second} {third}", f"SELECT id, v FROM ({inner}) {third}"
    page = "SELECT id, g, k, o, i FROM t ORDER BY o, id LIMIT 5"
    for name, sql in {
        "filtered": f"SELECT id FROM ({page}) WHERE o > 1",
        "counted": f"SELECT count(*) AS n, sum(i) AS v FROM ({page})",
        "grouped": f"SELECT g, count(*) AS n FROM ({page}) GROUP BY g",
        "joined": f"SELECT p.id, u.id AS other FROM ({page}) p JOIN u ON u.k = p.k",
        "left_joined": f"SELECT u.id, p.id AS other FROM u LEFT JOIN ({page}) p ON u.k = p.k",
        "united": "(SELECT id FROM t ORDER BY id LIMIT 2) UNION ALL (SELECT id FROM u ORDER BY id DESC LIMIT 3)",
        "page_of_union": "SELECT * FROM (SELECT id, o FROM t UNION ALL SELECT id, o FROM u) ORDER BY o, id LIMIT 4",
        "page_of_groups": "SELECT g, count(*) AS n FROM t GROUP BY g ORDER BY n DESC, g LIMIT 2",
        "page_of_distinct": "SELECT DISTINCT k, o FROM t ORDER BY k, o LIMIT 3 OFFSET 1",
        "with_ties": "SELECT id, o FROM t ORDER BY o LIMIT 3",
        "with_ties_one_column": "SELECT o FROM t ORDER BY o LIMIT 3",
        "none": "SELECT id FROM t ORDER BY id LIMIT 0",
        "all": "SELECT id FROM t ORDER BY id LIMIT ALL",
        "without_order": "SELECT id FROM t LIMIT 3",
        "offset_without_order": "SELECT id FROM t OFFSET 3",
        "nulls_last": "SELECT id, o FROM t ORDER BY o NULLS LAST, id LIMIT 6",
        "by_expression": "SELECT id FROM t ORDER BY i % 2, -o, id LIMIT 5",
        "by_unselected": "SELECT s FROM t ORDER BY o, id DESC LIMIT 5",
        "by_aggregate": "SELECT g FROM t GROUP BY g ORDER BY count(*) DESC, g LIMIT 2",
        "by_nan": "SELECT id, x FROM t ORDER BY x DESC, id LIMIT 5",
        "computed": "SELECT id + 1 AS v FROM (SELECT id FROM t ORDER BY id LIMIT 5) OFFSET 2",
        "window_over_page": f"SELECT id, row_number() OVER (ORDER BY id) AS v FROM ({page})",
        "page_over_window": "SELECT id, rank() OVER (ORDER BY o) AS v FROM t ORDER BY v, id LIMIT 4",
        "stream": "SELECT id, g FROM r ORDER BY id, g, k LIMIT 4",
        "page_in_cte": f"WITH p AS ({page}) SELECT a.id, z.id AS other FROM p a JOIN p z ON a.o = z.o",
        "offset_then_filter": "SELECT id FROM (SELECT id, i FROM t ORDER BY id OFFSET 3) WHERE i > 0",
        "limit_over_group": "SELECT * FROM (SELECT k, sum(i) AS v FROM t GROUP BY k ORDER BY k LIMIT 2) ORDER BY v OFFSET 1",
    }.items():
        yield name, sql


def _correlated() -> Iterator[tuple[str, str]]:
    """A few rows for each row: with the ordering column selected and not, ordered and not."""
    orders = {"selected": ("i", "ORDER BY i, id"), "unselected": ("i", "ORDER BY y DESC, id"), "none": ("i", "")}
    pages = {"limit": "LIMIT 1", "page": "LIMIT 1 OFFSET 1", "offset": "OFFSET 1", "two": "LIMIT 2"}
    for (order, (value, by)), (page, rows) in product(orders.items(), pages.items()):
        inner = f"SELECT {value} FROM u WHERE u.k = t.k {by} {rows}"
        if rows.startswith("LIMIT 1"):
            yield f"scalar {order} {page}", f"SELECT id, ({inner}) AS v FROM t"
        yield f"lateral {order} {page}", f"SELECT t.id, q.{value} FROM t, LATERAL ({inner}) q"
        yield f"left_lateral {order} {page}", f"SELECT t.id, q.{value} FROM t LEFT JOIN LATERAL ({inner}) q"
        yield f"exists {order} {page}", f"SELECT id FROM t WHERE EXISTS ({inner})"
        yield f"in {order} {page}", f"SELECT id FROM t WHERE i IN ({inner})"
    for name, sql in {
        "count": "SELECT id, (SELECT count(*) FROM u WHERE u.k = t.k) AS v FROM t",
        "sum": "SELECT id, (SELECT sum(d8) FROM u WHERE u.k = t.k AND u.i > 0) AS v FROM t",
        "max_non_equi": "SELECT id, (SELECT max(i) FROM u WHERE u.i < t.i) AS v FROM t",
        "two": "SELECT id, (SELECT min(i) FROM u WHERE u.k = t.k) AS a, (SELECT max(i) FROM r WHERE r.g = t.g) AS z FROM t",
        "filter": "SELECT id FROM t WHERE i > (SELECT avg(i) FROM u WHERE u.k = t.k)",
        "own": "SELECT id FROM t a WHERE i = (SELECT max(i) FROM t z WHERE z.g = a.g)",
        "lateral_aggregate": "SELECT t.id, q.n, q.v FROM t, LATERAL (SELECT count(*) AS n, sum(i) AS v FROM u WHERE u.k = t.k) q",
        "lateral_rows": "SELECT t.id, q.id AS other FROM t, LATERAL (SELECT id FROM u WHERE u.k = t.k AND u.i > t.i) q",
        "lateral_union": "SELECT t.id, q.v FROM t, LATERAL (SELECT t.i AS v UNION ALL SELECT t.o) q",
        "lateral_explode": "SELECT t.id, q.v FROM t, LATERAL explode(array(t.i, t.o)) q(v)",
        "lateral_twice": "SELECT t.id, q.v, w.z FROM t, LATERAL (SELECT t.i + 1 AS v) q, LATERAL (SELECT q.v * 2 AS z) w",
        "left_lateral_on": "SELECT t.id, q.v FROM t LEFT JOIN LATERAL (SELECT max(i) AS v FROM u WHERE u.k = t.k) q ON q.v > 0",
        "top_each": "SELECT t.id, q.id AS other FROM t, LATERAL (SELECT id FROM u WHERE u.k = t.k ORDER BY o, id LIMIT 2) q",
        "top_each_by_time": "SELECT id, (SELECT s FROM u WHERE u.k = t.k ORDER BY ts DESC, id LIMIT 1) AS v FROM t",
        "window": "SELECT id, (SELECT max(v) FROM (SELECT k, row_number() OVER (ORDER BY id) AS v FROM u) q WHERE q.k = t.k) "
        "AS w FROM t",
        "window_inside": "SELECT t.id, q.v FROM t, LATERAL (SELECT row_number() OVER (ORDER BY u.id) AS v FROM u "
        "WHERE u.k = t.k) q",
        "window_sum_inside": "SELECT t.id, q.v FROM t, LATERAL (SELECT u.id, sum(u.i) OVER (PARTITION BY u.g ORDER BY u.id) "
        "AS v FROM u WHERE u.k = t.k) q",
        "window_scalar": "SELECT id, (SELECT max(v) FROM (SELECT sum(i) OVER (ORDER BY id) AS v FROM u WHERE u.k = t.k)) AS w "
        "FROM t",
        "window_exists": "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM (SELECT k, rank() OVER (ORDER BY o) AS v FROM u) q "
        "WHERE q.k = t.k AND q.v = 1)",
        "group_inside": "SELECT t.id, q.n FROM t, LATERAL (SELECT g, count(*) AS n FROM u WHERE u.k = t.k GROUP BY g) q",
        "distinct_inside": "SELECT t.id, q.g FROM t, LATERAL (SELECT DISTINCT g FROM u WHERE u.k = t.k) q",
        "nested": "SELECT id, (SELECT count(*) FROM u WHERE u.k = t.k AND EXISTS (SELECT 1 FROM r WHERE r.g = u.g)) AS v FROM t",
        "nested_limit": "SELECT id, (SELECT max(i) FROM (SELECT i FROM u WHERE u.k = t.k ORDER BY id LIMIT 2)) AS v FROM t",
    }.items():
        yield name, sql


def _subqueries() -> Iterator[tuple[str, str]]:
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
    for name, sql in {
        "not_one_group": "SELECT id, (SELECT g FROM u GROUP BY g HAVING count(*) > 99) AS v FROM t",
        "same_table": "SELECT g, (SELECT count(*) FROM t) AS n, count(i) AS v FROM t GROUP BY ALL",
        "same_table_share": "SELECT g, sum(i) / (SELECT sum(i) FROM t WHERE i > 0) AS v FROM t GROUP BY g",
        "nested": "SELECT id FROM t WHERE i >= (SELECT min(i) FROM u WHERE i >= (SELECT avg(i) FROM r))",
        "empty": "SELECT id, (SELECT i FROM u WHERE id < 0) AS v FROM t",
        "struct_value": "SELECT id, (SELECT struct(max(i), min(s)) FROM u) AS v FROM t",
        "array_value": "SELECT id, (SELECT collect_set(i) FROM u) AS v FROM t",
        "in_cte": "WITH m AS (SELECT max(i) AS v FROM u) SELECT id FROM t WHERE i = (SELECT v FROM m)",
        "cross_join_instead": "SELECT t.id, m.v FROM t CROSS JOIN (SELECT max(i) AS v FROM u) m",
    }.items():
        yield name, sql


def _predicates() -> Iterator[tuple[str, str]]:
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
    for name, sql in {
        "exists_group": "SELECT g, count(*) AS n FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.k) GROUP BY g",
        "in_having": "SELECT k, count(*) AS n FROM t GROUP BY k HAVING k IN (SELECT k FROM u)",
        "in_case": "SELECT id, CASE WHEN k IN (SELECT k FROM u) THEN 1 ELSE 0 END AS v FROM t",
        "in_argument": "SELECT g, sum(CASE WHEN k IN (SELECT k FROM u) THEN 1 ELSE 0 END) AS v FROM t GROUP BY g",
        "exists_on": "SELECT t.id, r.id AS other FROM t LEFT JOIN r ON t.k = r.k AND EXISTS (SELECT 1 FROM u WHERE u.k = t.k)",
        "any": "SELECT id FROM t WHERE i IN (SELECT o FROM u) AND i NOT IN (SELECT o FROM r WHERE o IS NOT NULL)",
        "in_own": "SELECT id FROM t WHERE o IN (SELECT k FROM t)",
    }.items():
        yield name, sql


def _joins() -> Iterator[tuple[str, str]]:
    kinds = ("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN")
    conditions = {
        "equi": "a.k = z.k",
        "two_keys": "a.k = z.k AND a.o = z.o",
        "null_safe": "a.k <=> z.k AND a.o = z.o",
        "non_equi": "a.i < z.o",
        "mixed": "a.k = z.k AND a.i < z.i",
        "one_side": "a.k = z.k AND a.b",
        "other_side": "a.k = z.k AND z.i > 1",
        "either": "a.k = z.k OR a.o = z.i",
        "expression": "a.i + 1 = z.o * 2",
        "types": "a.d8 = z.d12",
        "number_and_text": "a.i = z.s",
        "true": "true",
        "null": "a.k = z.k AND NULL",
        "between": "a.o BETWEEN z.k AND z.i",
    }
    for kind, (name, condition) in product(kinds, conditions.items()):
        columns = "a.id, a.g" if "SEMI" in kind or "ANTI" in kind else "a.id, z.id AS other, z.s"
        yield f"{kind} {name}", f"SELECT {columns} FROM t a {kind} u z ON {condition}"
    for kind in kinds:
        semi = "SEMI" in kind or "ANTI" in kind
        others = "" if semi else ", z.id AS other"
        yield f"{kind} using", f"SELECT k, a.id{others} FROM t a {kind} u z USING (k)"
        yield f"{kind} self", f"SELECT a.id{others} FROM t a {kind} t z ON a.o = z.k"
        yield f"{kind} stream", f"SELECT a.id, a.g{others} FROM r a {kind} t z ON a.k = z.k AND a.o = z.o"
        if not semi:
            natural = kind.replace("JOIN", "").strip()
            yield f"natural {kind}", (
                f"SELECT * FROM (SELECT k, o, i FROM t) NATURAL {natural} JOIN (SELECT k, o, id AS other FROM u)"
            )
            yield f"{kind} using_two", f"SELECT * FROM (SELECT k, o, id FROM t) {kind} (SELECT k, o, s FROM u) USING (k, o)"
            yield f"{kind} grouped", (
                f"SELECT a.g, count(*) AS n, sum(z.i) AS v FROM t a {kind} u z ON a.k = z.k GROUP BY a.g"
            )
            yield f"{kind} of_groups", (
                f"SELECT a.g, a.n, z.v FROM (SELECT g, count(*) AS n FROM t GROUP BY g) a "
                f"{kind} (SELECT g, sum(i) AS v FROM u GROUP BY g) z ON a.g = z.g"
            )
            yield f"{kind} then_null", f"SELECT a.id, z.id AS other FROM t a {kind} u z ON a.k = z.k WHERE z.i IS NULL"
    for name, sql in {
        "cross": "SELECT a.id, z.id AS other FROM t a CROSS JOIN u z",
        "comma": "SELECT a.id, z.id AS other FROM t a, u z WHERE a.k = z.k",
        "three": "SELECT a.id, z.id AS other, r.g FROM t a JOIN u z ON a.k = z.k JOIN r ON r.o = z.o AND r.id = a.id",
        "three_outer": "SELECT a.id, z.id AS other, r.g FROM t a LEFT JOIN u z ON a.k = z.k LEFT JOIN r ON r.id = z.id AND r.k = 2",
        "full_twice": "SELECT coalesce(a.g, z.g, q.g) AS g, a.n, z.m, q.w FROM (SELECT g, count(*) AS n FROM t GROUP BY g) a "
        "FULL JOIN (SELECT g, count(*) AS m FROM u GROUP BY g) z ON a.g = z.g "
        "FULL JOIN (SELECT g, max(i) AS w FROM r GROUP BY g) q ON q.g = coalesce(a.g, z.g)",
        "same_rows_twice": "SELECT a.id, a.g, z.g AS h FROM r a JOIN r z ON a.id = z.id AND a.k = z.k",
        "with_constant_key": "SELECT a.id, z.id AS other FROM t a JOIN u z ON a.k = 2 AND z.k = 2 AND a.o = z.o",
        "where_on_outer": "SELECT a.id, z.id AS other FROM t a LEFT JOIN u z ON a.k = z.k WHERE z.k IS NULL OR z.i > 1",
    }.items():
        yield name, sql


def _sets() -> Iterator[tuple[str, str]]:
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


def _constants() -> Iterator[tuple[str, str]]:
    for name, sql in {
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
        "join_values": "SELECT t.id, q.w FROM t JOIN VALUES (1, 'one'), (2, 'two'), (NULL, 'none') AS q(v, w) ON t.k = q.v",
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
        "recursive": "WITH RECURSIVE q(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM q WHERE n < 4) SELECT t.id, q.n FROM t JOIN q ON t.k = q.n",
    }.items():
        yield name, sql


def _groupings() -> Iterator[tuple[str, str]]:
    sets = {
        "cube": "CUBE (g, k)",
        "rollup": "ROLLUP (g, k)",
        "sets": "GROUPING SETS ((g, k), (g), (k), ())",
        "sets_twice": "GROUPING SETS ((g), (g), ())",
        "mixed": "g, ROLLUP (k, o)",
    }
    values = {
        "count": "count(*) AS v",
        "sums": "sum(i) AS v, avg(d8) AS w, sum(x) AS z",
        "distinct": "count(DISTINCT o) AS v",
        "native": "stddev(y) AS v, collect_list(i) AS w",
        "extremes": "min(s) AS v, max(dt) AS w",
        "grouping": "grouping(g) AS a, grouping_id() AS b, count(*) AS v",
        "filter": "count(*) FILTER (WHERE b) AS v",
    }
    for (kind, by), (name, value) in product(sets.items(), values.items()):
        yield f"{kind}_{name}", f"SELECT g, k, {value} FROM t GROUP BY {by}"
    for name, sql in {
        "all": "SELECT g, k, sum(i) AS v FROM t GROUP BY ALL",
        "expression": "SELECT i % 2 AS even, count(*) AS n FROM t GROUP BY i % 2",
        "having": "SELECT g, sum(i) AS v FROM t GROUP BY g HAVING sum(i) > 2 OR count(*) = 1",
        "having_unselected": "SELECT g FROM t GROUP BY g HAVING max(d12) > 1",
        "having_cube": "SELECT g, k, count(*) AS n FROM t GROUP BY CUBE (g, k) HAVING grouping_id() = 1",
        "of_groups": "SELECT n, count(*) AS m FROM (SELECT g, count(*) AS n FROM t GROUP BY g) GROUP BY n",
        "many": "SELECT g, count(*) AS a, count(i) AS b, sum(i) AS c, avg(i) AS d, min(i) AS e, max(i) AS f, "
        "count(DISTINCT i) AS h, sum(DISTINCT i) AS j, stddev(i) AS l, collect_list(i) AS m FROM t GROUP BY g",
        "several_distinct": "SELECT g, count(DISTINCT i) AS a, count(DISTINCT s) AS b, sum(DISTINCT d8) AS c FROM t GROUP BY g",
        "distinct_average_double": "SELECT g, avg(DISTINCT y) AS v FROM t GROUP BY g",
        "distinct_sum_double": "SELECT g, sum(DISTINCT x) AS v FROM t GROUP BY g",
        "over_aggregate": "SELECT g, sum(i) AS v, rank() OVER (ORDER BY sum(i) DESC) AS w FROM t GROUP BY g",
        "over_aggregate_sum": "SELECT g, k, sum(i) AS v, sum(sum(i)) OVER (PARTITION BY g) AS w FROM t GROUP BY g, k",
        "aggregate_over_window": "SELECT g, max(v) AS m FROM (SELECT g, row_number() OVER (PARTITION BY g ORDER BY id) AS v "
        "FROM t) GROUP BY g",
        "aggregate_over_rank": "SELECT v, count(*) AS n FROM (SELECT rank() OVER (PARTITION BY g ORDER BY o) AS v FROM t) "
        "GROUP BY v",
        "qualify_aggregate": "SELECT g, count(*) AS n FROM t GROUP BY g QUALIFY rank() OVER (ORDER BY count(*) DESC) = 1",
        "window_key": "SELECT window(ts, '1 hour').start AS a, count(*) AS n FROM t GROUP BY 1",
        "sliding_key": "SELECT window(ts, '1 hour', '20 minutes').end AS a, sum(i) AS n FROM t GROUP BY 1",
        "session_key": "SELECT g, session_window(ts, '1 hour').end AS a, count(*) AS n FROM t GROUP BY 1, 2",
        "no_rows_global": "SELECT count(*) AS n, sum(i) AS v, max(s) AS w, collect_list(i) AS z FROM t WHERE id < 0",
        "no_rows_native": "SELECT stddev(i) AS v, listagg(s) WITHIN GROUP (ORDER BY s) AS w FROM t WHERE id < 0",
    }.items():
        yield name, sql


def _generators() -> Iterator[tuple[str, str]]:
    generators = {
        "explode": ("explode(if(b, array(i, o), array()))", "v"),
        "explode_map": ("explode(if(b, map('q', i, 'w', o), NULL))", "q, v"),
        "posexplode": ("posexplode(array(i, o, k))", "p, v"),
        "inline": ("inline(if(b, array(struct(i, s), struct(o, g)), NULL))", "v, w"),
        "stack": ("stack(2, i, s, o, g)", "v, w"),
        "json_tuple": ("json_tuple(to_json(struct(i, s)), 'i', 's')", "v, w"),
    }
    for name, (call, columns) in generators.items():
        for outer in ("", "OUTER "):
            sql = f"SELECT id, {columns} FROM t LATERAL VIEW {outer}{call} q AS {columns}"
            yield f"{name} {outer}", sql
        last = columns.rpartition(" ")[2]
        yield f"{name}_grouped", f"SELECT {last}, count(*) AS n FROM t LATERAL VIEW {call} q AS {columns} GROUP BY {last}"
        yield f"{name}_joined", (
            f"SELECT z.id, u.id AS other FROM (SELECT id, k FROM t LATERAL VIEW {call} q AS {columns}) z "
            "JOIN u ON u.k = z.k AND u.id = z.id"
        )
        yield f"{name}_limit", (
            f"SELECT id, {last} FROM t LATERAL VIEW {call} q AS {columns} ORDER BY id, {columns} LIMIT 4"
        )
    yield "select_explode", "SELECT id, explode(array(i, o)) AS v FROM t"
    yield "select_posexplode_outer", "SELECT id, posexplode_outer(if(b, array(i), NULL)) FROM t"
    yield "twice", "SELECT id, v, w FROM t LATERAL VIEW explode(array(i, o)) a AS v LATERAL VIEW explode(array(s, g)) z AS w"
    yield "of_collected", "SELECT g, explode(v) AS v FROM (SELECT g, collect_set(k) AS v FROM t GROUP BY g)"
    yield "unused", "SELECT id FROM t LATERAL VIEW explode(array(1, 2)) q AS v"
    yield "count_unused", "SELECT count(*) AS n FROM t LATERAL VIEW explode(sequence(1, 3)) q AS v"


def _pivots() -> Iterator[tuple[str, str]]:
    for name, value in {
        "sum": "sum(i)",
        "count": "count(*)",
        "two": "sum(i) AS a, max(s) AS z",
        "native": "stddev(y)",
        "list": "collect_list(i)",
        "decimal": "avg(d8)",
    }.items():
        yield name, f"SELECT * FROM (SELECT g, k, i, s, y, d8 FROM t) PIVOT ({value} FOR k IN (1, 2, 3 AS three))"
        yield f"{name}_two_columns", (
            f"SELECT * FROM (SELECT g, k, o, i, s, y, d8 FROM t) PIVOT ({value} FOR (k, o) IN ((1, 1) AS p, (2, 3) AS q))"
        )
    unpivots = {
        "plain": "SELECT * FROM (SELECT id, i, o FROM t) UNPIVOT (v FOR name IN (i, o))",
        "with_nulls": "SELECT * FROM (SELECT id, i, o FROM t) UNPIVOT INCLUDE NULLS (v FOR name IN (i, o))",
        "several": "SELECT * FROM (SELECT id, i, o, s, g FROM t) UNPIVOT ((v, w) FOR name IN ((i, s) AS a, (o, g) AS z))",
        "types": "SELECT * FROM (SELECT id, d8, x FROM t) UNPIVOT (v FOR name IN (d8, x))",
        "grouped": "SELECT name, sum(v) AS n FROM (SELECT id, i, o FROM t) UNPIVOT (v FOR name IN (i, o)) GROUP BY name",
    }
    for name, sql in unpivots.items():
        yield f"un_{name}", sql


def _mixed() -> Iterator[tuple[str, str]]:
    for name, sql in {
        "cte_twice": "WITH q AS (SELECT g, count(*) AS n FROM t GROUP BY g) SELECT a.g, a.n, z.n AS m FROM q a JOIN q z ON a.n = z.n",
        "cte_nested": "WITH a AS (SELECT id, k FROM t WHERE i > 0), z AS (SELECT k, count(*) AS n FROM a GROUP BY k) "
        "SELECT a.id, z.n FROM a JOIN z ON a.k = z.k",
        "cte_stddev_twice": "WITH q AS (SELECT g, stddev(y) AS v FROM t GROUP BY g) SELECT a.g, a.v - z.v AS d FROM q a "
        "JOIN q z ON a.g = z.g",
        "filter_over_stddev": "SELECT g FROM (SELECT g, stddev(y) AS v FROM t GROUP BY g) WHERE v > 100",
        "group_over_stddev": "SELECT round(v, 1) AS w, count(*) AS n FROM (SELECT g, stddev(i) AS v FROM t GROUP BY g) GROUP BY 1",
        "join_over_window": "SELECT a.id, u.id AS other FROM (SELECT id, rank() OVER (PARTITION BY g ORDER BY o) AS v FROM t) a "
        "JOIN u ON u.k = a.v",
        "limit_over_stddev": "SELECT g, stddev(y) AS v FROM t GROUP BY g ORDER BY v DESC, g LIMIT 2",
        "window_over_stddev": "SELECT g, v, rank() OVER (ORDER BY v) AS w FROM (SELECT g, stddev(y) AS v FROM t GROUP BY g)",
        "sum_over_average": "SELECT sum(v) AS w FROM (SELECT g, avg(y) AS v FROM t GROUP BY g)",
        "max_over_average": "SELECT max(v) AS w, min(v) AS z FROM (SELECT g, avg(x) AS v FROM t GROUP BY g)",
        "distinct_over_join": "SELECT DISTINCT a.g, z.o FROM t a JOIN u z ON a.k = z.k",
        "distinct_on_all": "SELECT DISTINCT * FROM r",
        "alias_reference": "SELECT id, i + 1 AS a, a * 2 AS z FROM t",
        "star_except": "SELECT * EXCEPT (bn, x, y) FROM t",
        "order_whole": "SELECT id, s FROM t ORDER BY s DESC",
        "sort_by": "SELECT id, s FROM t SORT BY s",
        "distribute_by": "SELECT id, s FROM t DISTRIBUTE BY g",
        "hint": "SELECT /*+ BROADCAST(u) */ t.id, u.id AS other FROM t JOIN u ON t.k = u.k",
        "sample": "SELECT id FROM t TABLESAMPLE (50 PERCENT)",
        "union_then_group": "SELECT g, count(*) AS n, sum(i) AS v FROM (SELECT g, i FROM t UNION ALL SELECT g, i FROM r) GROUP BY g",
        "union_then_window": "SELECT g, i, rank() OVER (PARTITION BY g ORDER BY i) AS v FROM "
        "(SELECT g, i FROM t UNION ALL SELECT g, i FROM u)",
        "left_join_then_group": "SELECT t.id, count(u.id) AS n, stddev(u.y) AS v FROM t LEFT JOIN u ON t.k = u.k GROUP BY t.id",
        "map_key": "SELECT map('q', k) AS m, count(*) AS n FROM t GROUP BY 1",
        "nested_map_key": "SELECT struct(map('q', k) AS m) AS v, count(*) AS n FROM t GROUP BY 1",
        "array_of_maps": "SELECT id, array(map('q', i), map('w', NULL)) AS v FROM t",
        "variant": "SELECT id, parse_json(to_json(struct(i, s))) AS v FROM t",
        "variant_path": "SELECT id, parse_json(to_json(struct(i, s))):i::int AS v FROM t",
        "variant_key": "SELECT parse_json(to_json(struct(k))) AS v, count(*) AS n FROM t GROUP BY 1",
        "interval": "SELECT id, ts - TIMESTAMP'2024-01-01' AS v FROM t",
        "interval_sum": "SELECT g, sum(ts - TIMESTAMP'2024-01-01') AS v FROM t GROUP BY g",
        "interval_average": "SELECT g, avg(ts - TIMESTAMP'2024-01-01') AS v FROM t GROUP BY g",
        "interval_months": "SELECT g, max(make_ym_interval(o, i)) AS v FROM t GROUP BY g",
        "time": "SELECT id, CAST(tn AS time) AS v FROM t",
        "time_group": "SELECT CAST(tn AS time) AS v, count(*) AS n FROM t GROUP BY 1",
        "null_column": "SELECT id, NULL AS v FROM t",
        "null_group": "SELECT NULL AS v, count(*) AS n FROM t GROUP BY 1",
        "collated_group": "SELECT s COLLATE UTF8_LCASE AS v, count(*) AS n FROM t GROUP BY 1",
        "collated_join": "SELECT a.id, z.id AS other FROM t a JOIN u z ON a.s COLLATE UTF8_LCASE = z.s",
        "collated_max": "SELECT g, max(s COLLATE UNICODE_CI) AS v FROM t GROUP BY g",
        "collated_distinct": "SELECT count(DISTINCT s COLLATE UTF8_LCASE) AS v FROM t",
        "collated_order": "SELECT id FROM t ORDER BY s COLLATE UTF8_LCASE, id LIMIT 4",
        "char_type": "SELECT id, CAST(s AS char(3)) AS v FROM t",
        "now_literal": "SELECT id, timestamp 'now' AS v FROM t",
        "today_literal": "SELECT id FROM t WHERE dt < date 'today'",
        "pipe": "FROM t |> WHERE i > 0 |> AGGREGATE count(*) AS n GROUP BY g",
        "pipe_limit": "FROM t |> SELECT id, o |> ORDER BY o, id |> LIMIT 4 |> SELECT id",
    }.items():
        yield name, sql

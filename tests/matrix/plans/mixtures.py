"""What belongs to no other family: operators above one another, rare types, hints, pipes."""

from __future__ import annotations

from collections.abc import Iterator


def mixtures() -> Iterator[tuple[str, str]]:
    yield from {
        "cte_twice": "WITH q AS (SELECT g, count(*) AS n FROM t GROUP BY g) SELECT a.g, a.n, z.n AS m FROM q a JOIN "
        "q z ON a.n = z.n",
        "cte_nested": "WITH a AS (SELECT id, k FROM t WHERE i > 0), z AS (SELECT k, count(*) AS n FROM a GROUP BY k) "
        "SELECT a.id, z.n FROM a JOIN z ON a.k = z.k",
        "cte_stddev_twice": "WITH q AS (SELECT g, stddev(y) AS v FROM t GROUP BY g) SELECT a.g, a.v - z.v AS d FROM "
        "q a "
        "JOIN q z ON a.g = z.g",
        "filter_over_stddev": "SELECT g FROM (SELECT g, stddev(y) AS v FROM t GROUP BY g) WHERE v > 100",
        "group_over_stddev": "SELECT round(v, 1) AS w, count(*) AS n FROM (SELECT g, stddev(i) AS v FROM t GROUP BY "
        "g) GROUP BY 1",
        "join_over_window": "SELECT a.id, u.id AS other FROM (SELECT id, rank() OVER (PARTITION BY g ORDER BY o) AS "
        "v FROM t) a "
        "JOIN u ON u.k = a.v",
        "limit_over_stddev": "SELECT g, stddev(y) AS v FROM t GROUP BY g ORDER BY v DESC, g LIMIT 2",
        "window_over_stddev": "SELECT g, v, rank() OVER (ORDER BY v) AS w FROM (SELECT g, stddev(y) AS v FROM t "
        "GROUP BY g)",
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
        "union_then_group": "SELECT g, count(*) AS n, sum(i) AS v FROM (SELECT g, i FROM t UNION ALL SELECT g, i "
        "FROM r) GROUP BY g",
        "union_then_window": "SELECT g, i, rank() OVER (PARTITION BY g ORDER BY i) AS v FROM "
        "(SELECT g, i FROM t UNION ALL SELECT g, i FROM u)",
        "left_join_then_group": "SELECT t.id, count(u.id) AS n, stddev(u.y) AS v FROM t LEFT JOIN u ON t.k = u.k "
        "GROUP BY t.id",
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
    }.items()

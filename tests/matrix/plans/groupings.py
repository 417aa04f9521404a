"""Groups: GROUPING SETS, HAVING, windows over aggregates and the other way round."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product


def groupings() -> Iterator[tuple[str, str]]:
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
    yield from {
        "all": "SELECT g, k, sum(i) AS v FROM t GROUP BY ALL",
        "expression": "SELECT i % 2 AS even, count(*) AS n FROM t GROUP BY i % 2",
        "having": "SELECT g, sum(i) AS v FROM t GROUP BY g HAVING sum(i) > 2 OR count(*) = 1",
        "having_unselected": "SELECT g FROM t GROUP BY g HAVING max(d12) > 1",
        "having_cube": "SELECT g, k, count(*) AS n FROM t GROUP BY CUBE (g, k) HAVING grouping_id() = 1",
        "of_groups": "SELECT n, count(*) AS m FROM (SELECT g, count(*) AS n FROM t GROUP BY g) GROUP BY n",
        "many": "SELECT g, count(*) AS a, count(i) AS b, sum(i) AS c, avg(i) AS d, min(i) AS e, max(i) AS f, "
        "count(DISTINCT i) AS h, sum(DISTINCT i) AS j, stddev(i) AS l, collect_list(i) AS m FROM t GROUP BY g",
        "several_distinct": "SELECT g, count(DISTINCT i) AS a, count(DISTINCT s) AS b, sum(DISTINCT d8) AS c FROM t "
        "GROUP BY g",
        "distinct_average_double": "SELECT g, avg(DISTINCT y) AS v FROM t GROUP BY g",
        "distinct_sum_double": "SELECT g, sum(DISTINCT x) AS v FROM t GROUP BY g",
        "over_aggregate": "SELECT g, sum(i) AS v, rank() OVER (ORDER BY sum(i) DESC) AS w FROM t GROUP BY g",
        "over_aggregate_sum": "SELECT g, k, sum(i) AS v, sum(sum(i)) OVER (PARTITION BY g) AS w FROM t GROUP BY g, k",
        "aggregate_over_window": "SELECT g, max(v) AS m FROM (SELECT g, row_number() OVER (PARTITION BY g ORDER BY "
        "id) AS v "
        "FROM t) GROUP BY g",
        "aggregate_over_rank": "SELECT v, count(*) AS n FROM (SELECT rank() OVER (PARTITION BY g ORDER BY o) AS v "
        "FROM t) "
        "GROUP BY v",
        "qualify_aggregate": "SELECT g, count(*) AS n FROM t GROUP BY g QUALIFY rank() OVER (ORDER BY count(*) "
        "DESC) = 1",
        "window_key": "SELECT window(ts, '1 hour').start AS a, count(*) AS n FROM t GROUP BY 1",
        "sliding_key": "SELECT window(ts, '1 hour', '20 minutes').end AS a, sum(i) AS n FROM t GROUP BY 1",
        "session_key": "SELECT g, session_window(ts, '1 hour').end AS a, count(*) AS n FROM t GROUP BY 1, 2",
        "no_rows_global": "SELECT count(*) AS n, sum(i) AS v, max(s) AS w, collect_list(i) AS z FROM t WHERE id < 0",
        "no_rows_native": "SELECT stddev(i) AS v, listagg(s) WITHIN GROUP (ORDER BY s) AS w FROM t WHERE id < 0",
    }.items()

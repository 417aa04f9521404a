"""Generators and pivots: one row becomes several, or several become one."""

from __future__ import annotations

from collections.abc import Iterator


def generators() -> Iterator[tuple[str, str]]:
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
        yield (
            f"{name}_grouped",
            f"SELECT {last}, count(*) AS n FROM t LATERAL VIEW {call} q AS {columns} GROUP BY {last}",
        )
        yield (
            f"{name}_joined",
            (
                f"SELECT z.id, u.id AS other FROM (SELECT id, k FROM t LATERAL VIEW {call} q AS {columns}) z "
                "JOIN u ON u.k = z.k AND u.id = z.id"
            ),
        )
        yield (
            f"{name}_limit",
            (f"SELECT id, {last} FROM t LATERAL VIEW {call} q AS {columns} ORDER BY id, {columns} LIMIT 4"),
        )
    yield "select_explode", "SELECT id, explode(array(i, o)) AS v FROM t"
    yield "select_posexplode_outer", "SELECT id, posexplode_outer(if(b, array(i), NULL)) FROM t"
    yield (
        "twice",
        "SELECT id, v, w FROM t LATERAL VIEW explode(array(i, o)) a AS v LATERAL VIEW explode(array(s, g)) z AS w",
    )
    yield "of_collected", "SELECT g, explode(v) AS v FROM (SELECT g, collect_set(k) AS v FROM t GROUP BY g)"
    yield "unused", "SELECT id FROM t LATERAL VIEW explode(array(1, 2)) q AS v"
    yield "count_unused", "SELECT count(*) AS n FROM t LATERAL VIEW explode(sequence(1, 3)) q AS v"


def pivots() -> Iterator[tuple[str, str]]:
    for name, value in {
        "sum": "sum(i)",
        "count": "count(*)",
        "two": "sum(i) AS a, max(s) AS z",
        "native": "stddev(y)",
        "list": "collect_list(i)",
        "decimal": "avg(d8)",
    }.items():
        yield name, f"SELECT * FROM (SELECT g, k, i, s, y, d8 FROM t) PIVOT ({value} FOR k IN (1, 2, 3 AS three))"
        yield (
            f"{name}_two_columns",
            (
                f"SELECT * FROM (SELECT g, k, o, i, s, y, d8 FROM t) PIVOT ({value} FOR (k, o) IN ((1, 1) AS p, (2, "
                f"3) AS q))"
            ),
        )
    unpivots = {
        "plain": "SELECT * FROM (SELECT id, i, o FROM t) UNPIVOT (v FOR name IN (i, o))",
        "with_nulls": "SELECT * FROM (SELECT id, i, o FROM t) UNPIVOT INCLUDE NULLS (v FOR name IN (i, o))",
        "several": "SELECT * FROM (SELECT id, i, o, s, g FROM t) UNPIVOT ((v, w) FOR name IN ((i, s) AS a, (o, g) "
        "AS z))",
        "types": "SELECT * FROM (SELECT id, d8, x FROM t) UNPIVOT (v FOR name IN (d8, x))",
        "grouped": "SELECT name, sum(v) AS n FROM (SELECT id, i, o FROM t) UNPIVOT (v FOR name IN (i, o)) GROUP BY "
        "name",
    }
    for name, sql in unpivots.items():
        yield f"un_{name}", sql

"""Joins of every kind, on every kind of condition."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product


def joins() -> Iterator[tuple[str, str]]:
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
        "number_and_text": "a.s = CAST(z.i AS string)",
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
            yield (
                f"natural {kind}",
                (f"SELECT * FROM (SELECT k, o, i FROM t) NATURAL {natural} JOIN (SELECT k, o, id AS other FROM u)"),
            )
            yield (
                f"{kind} using_two",
                f"SELECT * FROM (SELECT k, o, id FROM t) {kind} (SELECT k, o, s FROM u) USING (k, o)",
            )
            yield (
                f"{kind} grouped",
                (f"SELECT a.g, count(*) AS n, sum(z.i) AS v FROM t a {kind} u z ON a.k = z.k GROUP BY a.g"),
            )
            yield (
                f"{kind} of_groups",
                (
                    f"SELECT a.g, a.n, z.v FROM (SELECT g, count(*) AS n FROM t GROUP BY g) a "
                    f"{kind} (SELECT g, sum(i) AS v FROM u GROUP BY g) z ON a.g = z.g"
                ),
            )
            yield f"{kind} then_null", f"SELECT a.id, z.id AS other FROM t a {kind} u z ON a.k = z.k WHERE z.i IS NULL"
    yield from {
        "cross": "SELECT a.id, z.id AS other FROM t a CROSS JOIN u z",
        "comma": "SELECT a.id, z.id AS other FROM t a, u z WHERE a.k = z.k",
        "three": "SELECT a.id, z.id AS other, r.g FROM t a JOIN u z ON a.k = z.k JOIN r ON r.o = z.o AND r.id = a.id",
        "three_outer": "SELECT a.id, z.id AS other, r.g FROM t a LEFT JOIN u z ON a.k = z.k LEFT JOIN r ON r.id = "
        "z.id AND r.k = 2",
        "full_twice": "SELECT coalesce(a.g, z.g, q.g) AS g, a.n, z.m, q.w FROM (SELECT g, count(*) AS n FROM t "
        "GROUP BY g) a "
        "FULL JOIN (SELECT g, count(*) AS m FROM u GROUP BY g) z ON a.g = z.g "
        "FULL JOIN (SELECT g, max(i) AS w FROM r GROUP BY g) q ON q.g = coalesce(a.g, z.g)",
        "same_rows_twice": "SELECT a.id, a.g, z.g AS h FROM r a JOIN r z ON a.id = z.id AND a.k = z.k",
        "with_constant_key": "SELECT a.id, z.id AS other FROM t a JOIN u z ON a.k = 2 AND z.k = 2 AND a.o = z.o",
        "where_on_outer": "SELECT a.id, z.id AS other FROM t a LEFT JOIN u z ON a.k = z.k WHERE z.k IS NULL OR z.i > 1",
    }.items()

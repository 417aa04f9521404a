"""LIMIT and OFFSET: inside of one another in every order, and below and above everything else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product

_PAGES: Mapping[str, str] = {"limit": "LIMIT 5", "offset": "OFFSET 2", "page": "LIMIT 6 OFFSET 1", "few": "LIMIT 2"}


def limits() -> Iterator[tuple[str, str]]:
    for (inner, below), (outer, above) in product(_PAGES.items(), repeat=2):
        for order in ("", "ORDER BY o DESC, id"):
            sql = f"SELECT id FROM (SELECT id, o FROM t ORDER BY o, id {below}) {order} {above}"
            yield f"{outer}_over_{inner}{'_ordered' if order else ''}", sql
    for first, second, third in product(("LIMIT 7", "OFFSET 1"), ("LIMIT 5", "OFFSET 2"), ("LIMIT 3", "OFFSET 1")):
        inner = f"SELECT id, v FROM (SELECT id, i AS v FROM t ORDER BY id {first}) {second}"
        yield f"three {first} {second} {third}", f"SELECT id, v FROM ({inner}) {third}"
    page = "SELECT id, g, k, o, i FROM t ORDER BY o, id LIMIT 5"
    yield from {
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
        "limit_over_group": "SELECT * FROM (SELECT k, sum(i) AS v FROM t GROUP BY k ORDER BY k LIMIT 2) ORDER BY v "
        "OFFSET 1",
    }.items()

"""Every type in every place: as a column, a key of groups, joins and tables, an argument, and inside of others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tests.matrix.cases import Case, case_name
from tests.matrix.worlds import COLUMNS, KEY_TYPES, NESTED

_PLACES: Mapping[str, str] = {
    "column": "SELECT id, {c} FROM {t}",
    "group": "SELECT {c}, count(*) AS n, max(id) AS m FROM {t} GROUP BY {c}",
    "distinct": "SELECT DISTINCT {c} FROM {t}",
    "join": "SELECT a.id, z.id AS other, a.{c} FROM {t} a JOIN {u} z ON a.{c} = z.{c}",
    "values": "SELECT g, count({c}) AS n, min({c}) AS a, max({c}) AS z FROM {t} GROUP BY g",
    "collected": "SELECT g, collect_list({c}) AS v FROM {t} GROUP BY g",
    "unique": "SELECT g, count(DISTINCT {c}) AS n FROM {t} GROUP BY g",
    "ordered": "SELECT id, {c} FROM {t} ORDER BY {c} DESC, id LIMIT 4",
}
_MORE_PLACES: Mapping[str, str] = {
    "full_join": "SELECT a.id, z.id AS other, z.{c} FROM {t} a FULL JOIN {u} z ON a.{c} = z.{c} AND a.o = z.o",
    "null_safe_join": "SELECT a.id, z.id AS other FROM {t} a JOIN {u} z ON a.{c} <=> z.{c} AND a.k = z.k",
    "in": "SELECT id FROM {t} WHERE {c} IN (SELECT {c} FROM {u})",
    "not_in": "SELECT id FROM {t} WHERE {c} NOT IN (SELECT {c} FROM {u} WHERE {c} IS NOT NULL)",
    "set": "SELECT g, collect_set({c}) AS v FROM {t} GROUP BY g",
    "partition": "SELECT id, count(*) OVER (PARTITION BY {c}) AS n, row_number() OVER (PARTITION BY {c} ORDER BY "
    "id) AS v "
    "FROM {t}",
    "window_order": "SELECT id, rank() OVER (PARTITION BY g ORDER BY {c}) AS v FROM {t}",
    "array_group": "SELECT array({c}, NULL) AS v, count(*) AS n FROM {t} GROUP BY 1",
    "struct_group": "SELECT named_struct('q', {c}) AS v, count(*) AS n FROM {t} GROUP BY 1",
    "map_group": "SELECT map('q', {c}) AS v, count(*) AS n FROM {t} GROUP BY 1",
    "struct_max": "SELECT g, max(named_struct('q', {c}, 'w', id)) AS v FROM {t} GROUP BY g",
    "latest": "SELECT g, max_by({c}, id) AS v FROM {t} GROUP BY g",
    "cube": "SELECT g, {c}, count(*) AS n FROM {t} GROUP BY CUBE (g, {c})",
}
_NESTED_PLACES = ("group", "join", "values", "collected")
_INSIDE: Mapping[str, str] = {
    "a": "SELECT id, v FROM n LATERAL VIEW OUTER explode({c}) AS v",
    "s": "SELECT {c}.v AS v, count(*) AS n FROM n GROUP BY 1",
    "m": "SELECT id, q, v FROM n LATERAL VIEW OUTER explode({c}) AS q, v",
}
_KEY_PLACES: Mapping[str, str] = {
    "table": "SELECT * FROM k_{c}",
    "table_group": "SELECT g, count({c}) AS n, min({c}) AS a, max({c}) AS z FROM k_{c} GROUP BY g",
    "table_join": "SELECT a.{c}, z.i FROM k_{c} a LEFT JOIN k_{c} z ON a.{c} = z.{c} AND z.i > 0",
}
SET_OPERATIONS = ("UNION", "UNION ALL", "INTERSECT", "INTERSECT ALL", "EXCEPT", "EXCEPT ALL")


def type_cases() -> Iterator[Case]:
    """All cases; what Spark does not accept is dropped later."""
    for column in COLUMNS:
        for place, template in {**_PLACES, **_MORE_PLACES}.items():
            yield Case(case_name("type", column, place), template.format(c=column, t="t", u="u"))
        for operation in SET_OPERATIONS:
            sql = f"SELECT {column} FROM t {operation} SELECT {column} FROM u"
            yield Case(case_name("type", column, operation), sql)
    for column in NESTED:
        for place in _NESTED_PLACES:
            sql = _PLACES[place].format(c=column, t="n", u="p")
            yield Case(case_name("type", column, place), sql, "nested")
        yield Case(case_name("type", column, "inside"), _INSIDE[column[0]].format(c=column), "nested")
        sql = f"SELECT id, {column} FROM n EXCEPT ALL SELECT id, {column} FROM p"
        yield Case(case_name("type", column, "except all"), sql, "nested")
    for column in KEY_TYPES:
        for place, template in _KEY_PLACES.items():
            yield Case(case_name("type", column, place), template.format(c=column), "keys")

"""`AT POSITION` in a query, and names with dots: what DuckDB is given instead."""

from __future__ import annotations

import pytest

from headwater.engine.at_position import AtPosition, rewritten
from headwater.errors import InvalidQuery
from headwater.model.position import Position


def at(alias: str, name: str, position: str) -> AtPosition:
    return AtPosition(alias, name, Position.parse(position))


@pytest.mark.parametrize(
    ("sql", "expected", "stand_ins"),
    [
        ("SELECT * FROM v", "SELECT * FROM v", []),
        ("FROM v AT POSITION '42'", 'FROM _0 AS "v"', [at("_0", "v", "42")]),
        ("FROM v at position '42' WHERE x", 'FROM _0 AS "v" WHERE x', [at("_0", "v", "42")]),
        ("FROM v AT POSITION '42' AS w", "FROM _0 AS w", [at("_0", "v", "42")]),
        ("FROM v AT POSITION '42' w, v", "FROM _0 w, v", [at("_0", "v", "42")]),
        ("(FROM v AT POSITION '4') EXCEPT FROM v", '(FROM _0 AS "v" ) EXCEPT FROM v', [at("_0", "v", "4")]),
        (
            "FROM v AT POSITION '1' JOIN \"my view\" AT POSITION '2' m ON true",
            'FROM _0 AS "v" JOIN _1 m ON true',
            [at("_0", "v", "1"), at("_1", "my view", "2")],
        ),
        ("FROM shop.orders AT POSITION '7'", 'FROM _0 AS "orders"', [at("_0", "shop.orders", "7")]),
        ("FROM shop . orders", 'FROM "shop.orders" AS "orders"', []),
        ("FROM a JOIN shop.orders o ON o.id = shop.orders", 'FROM a JOIN "shop.orders" o ON o.id = shop.orders', []),
        ("FROM other.orders", "FROM other.orders", []),
        ("SELECT 'FROM v AT POSITION ''1''' AS s", "SELECT 'FROM v AT POSITION ''1''' AS s", []),
        ("SELECT $$v AT POSITION '1'$$, $t$ $$ $t$", "SELECT $$v AT POSITION '1'$$, $t$ $$ $t$", []),
        ("-- v AT POSITION '1'\nFROM v", "-- v AT POSITION '1'\nFROM v", []),
        ("/* v /* AT */ POSITION '1' */ FROM v", "/* v /* AT */ POSITION '1' */ FROM v", []),
        (
            "SELECT position('a' IN 'b'), at AT TIME ZONE 'UTC'",
            "SELECT position('a' IN 'b'), at AT TIME ZONE 'UTC'",
            [],
        ),
    ],
)
def test_names_stand_in_for_views_at_positions(sql: str, expected: str, stand_ins: list[AtPosition]) -> None:
    made, found = rewritten(sql, {"shop.orders"})
    assert (" ".join(made.split()), found) == (" ".join(expected.split()), stand_ins)


def test_places_stay_where_they_were() -> None:
    sql = "SELECT x,\n y FROM v AT\n POSITION '42' WHERE\n wrong"
    made, _ = rewritten(sql)
    assert made.splitlines()[3] == " wrong"
    assert made.splitlines()[2].index("WHERE") == sql.splitlines()[2].index("WHERE")
    assert made.count("\n") == sql.count("\n")
    one, _ = rewritten("FROM v AT POSITION '42' w WHERE wrong")
    assert one.index("wrong") == len("FROM v AT POSITION '42' w WHERE ")


@pytest.mark.parametrize("sql", ["FROM v AT POSITION 42", "FROM v AT POSITION", "FROM v AT POSITION 'soon'"])
def test_what_is_no_position_is_said(sql: str) -> None:
    with pytest.raises(InvalidQuery, match="position"):
        rewritten(sql)

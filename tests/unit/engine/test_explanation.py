"""Operators as a tree per view, and all levels as a picture."""

from __future__ import annotations

import json

from headwater.engine.explanation import Explanation, Input, Operator, Origin
from headwater.engine.manifest import Size


def operator(number: int, level: int, label: str, *inputs: Input, **more: object) -> Operator:
    given = {"linear": (), "recomputed": (), "view": None, "state": None, **more}
    return Operator(number, level, label, inputs, **given)  # type: ignore[arg-type]


def rows(producer: int, *steps: str, port: str = "rows") -> Input:
    return Input(port, producer, steps, ())


TABLE = operator(2, 1, "table orders by id", rows(1, port="records"), state=Size(1, 1200, 1))
JOIN = operator(3, 2, "inner join on a = b", rows(2, "where a > 1", port="left"), rows(2, port="right"))
SUMS = operator(4, 3, "aggregate by a", rows(3), linear=["sum(x)", "count(*)"], recomputed=["max(x)"])
FIRST = operator(5, 4, "publish sums", rows(4, "computes x + 1 AS y"), view="sums")
OTHER = operator(6, 2, "publish plain", rows(2), view="plain")
ALL = Explanation(
    {"sums": 5, "plain": 6},
    {1: Origin(1, "topic orders")},
    {one.number: one for one in (TABLE, JOIN, SUMS, FIRST, OTHER)},
)


def test_a_tree() -> None:
    assert ALL.tree("sums") == [
        "└─ [5] publish sums  (level 4)",
        "   └─ computes x + 1 AS y",
        "      └─ [4] aggregate by a  (level 3)",
        "         │  linear: sum(x), count(*)",
        "         │  recomputed per group: max(x)",
        "         └─ [3] inner join on a = b  (level 2)",
        "            ├─ left: where a > 1",
        "            │  └─ [2] table orders by id  (level 1, 1 row, 1,200 bytes)",
        "            │     └─ [1] topic orders",
        "            └─ right: [2] table orders by id (as above)",
    ]


def test_a_picture_of_the_levels() -> None:
    assert ALL.picture() == [
        "log       [1] topic orders",
        "          │",
        "          ▼",
        "level 1   [2] table orders by id  ◀ 1",
        "          │",
        "          ▼",
        "level 2   [3] inner join on a = b  ◀ 2",
        "          [6] publish plain  ◀ 2",
        "          │",
        "          ▼",
        "level 3   [4] aggregate by a  ◀ 3",
        "          │",
        "          ▼",
        "level 4   [5] publish sums  ◀ 4",
    ]


def test_one_view_needs_only_its_own_operators() -> None:
    plain = ALL.of("plain")
    assert (list(plain.views), list(plain.operators), list(plain.origins)) == (["plain"], [2, 6], [1])
    assert [[one.number for one in level] for level in plain.levels] == [[2], [6]]


def test_as_json_and_as_text() -> None:
    found = json.loads(json.dumps(ALL.to_json()))
    assert found["operators"][0]["state"] == {"rows": 1, "bytes": 1200, "runs": 1}
    assert found["operators"][1]["inputs"][0]["steps"] == ["where a > 1"]
    assert str(ALL).splitlines()[0] == "sums"
    assert str(ALL).endswith("\n".join(ALL.picture()))

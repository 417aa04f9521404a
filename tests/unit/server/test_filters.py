"""Conditions and orders of rows mean what they say, for every type, and a wrong one is explained."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from headwater.errors import Refused
from headwater.server.filters import matching, ordered, parse_condition, typed

TABLE = pa.table(
    {
        "id": pa.array([1, 2, 3, None], pa.int64()),
        "name": ["a:b", "null", "3", None],
        "amount": pa.array([Decimal("1.50"), Decimal("2.00"), None, Decimal("-1.00")], pa.decimal128(12, 2)),
        "at": pa.array([datetime(2026, 1, day, tzinfo=UTC) for day in (1, 2, 3, 4)], pa.timestamp("us", "UTC")),
        "day": pa.array([date(2026, 1, 1)] * 4),
        "ok": [True, False, None, True],
        "rate": [0.5, float("nan"), None, 2.0],
        "tags": [["x"], [], None, ["y"]],
    }
)


def ids(*conditions: str, order: str | None = None) -> list[int | None]:
    found: list[int | None] = ordered(matching(TABLE, [parse_condition(one) for one in conditions]), order)[
        "id"
    ].to_pylist()
    return found


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("id:eq:2", [2]),
        ("id:ne:2", [1, 3]),
        ("id:ge:2", [2, 3]),
        ("id:null", [None]),
        ("name:eq:a:b", [1]),
        ("name:eq:null", [2]),
        ("name:eq:3", [3]),
        ("name:contains:ul", [2]),
        ("name:notnull", [1, 2, 3]),
        ("amount:gt:1.5", [2]),
        ("amount:eq:1.50", [1]),
        ("at:le:2026-01-02T00:00:00Z", [1, 2]),
        ("day:eq:2026-01-01", [1, 2, 3, None]),
        ("ok:eq:true", [1, None]),
        ("rate:lt:1", [1]),
        ("tags:null", [3]),
    ],
)
def test_a_condition(condition: str, expected: list[int | None]) -> None:
    assert ids(condition) == expected


def test_all_conditions_have_to_hold() -> None:
    assert ids("id:ge:2", "ok:eq:false") == [2]
    assert ids() == [1, 2, 3, None]


def test_rows_are_ordered_and_those_without_a_value_come_last() -> None:
    assert ids(order="-id") == [3, 2, 1, None]
    assert ids(order="amount") == [None, 1, 2, 3]
    assert ids(order="day,-at") == [None, 3, 2, 1]


@pytest.mark.parametrize(
    "condition", ["id", "id:", "id:eq", "id:is:1", "id:null:1", "nope:eq:1", "id:eq:x", "id:eq:1.5", "tags:eq:x",
                  "id:contains:1", "at:gt:yesterday", "amount:eq:1.555", "ok:eq:1"],
)  # fmt: skip
def test_a_wrong_condition(condition: str) -> None:
    with pytest.raises(Refused) as refused:
        ids(condition)
    assert refused.value.status == 400


@pytest.mark.parametrize("order", ["nope", "tags", "id,", "--id"])
def test_a_wrong_order(order: str) -> None:
    with pytest.raises(Refused):
        ids(order=order)


def test_a_text_is_a_value_of_its_column() -> None:
    assert typed("7", pa.field("a", pa.int64())).to_pylist() == [7]
    assert typed("7", pa.field("a", pa.string())).to_pylist() == ["7"]
    assert typed('"', pa.field('"', pa.string())).to_pylist() == ['"']
    assert typed("AAE=", pa.field("a", pa.binary())).to_pylist() == [b"\x00\x01"]

"""Case files are read as they are meant, and rows are written so that different rows look different."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from tests.sql.casefile import TICKS, Change, Refusal, TopicLine, View, parse
from tests.sql.rendering import table_cells, table_lines, unordered

TEXT = """\
# A comment.
topic orders (id bigint, amount decimal(8,2)) key id
topic members (club string, person string) key club, person partitions 2
topic clicks (url string)

step Two commits
orders + {"id": 1, "amount": "2.50"}
commit
orders - {"id": 1}
tick 2026-01-01 12:00:00
clicks + {"url": "/"}

view total
SELECT sum(amount) AS total
-- A comment of SQL.
FROM orders
=>
| total |
| a\\|b  |
"""


def test_topics() -> None:
    assert parse("file", TEXT).topics == [
        TopicLine("orders", "id bigint, amount decimal(8,2)", ("id",), 1),
        TopicLine("members", "club string, person string", ("club", "person"), 2),
        TopicLine("clicks", "url string", None, 1),
    ]


def test_steps() -> None:
    (step,) = parse("file", TEXT).steps
    assert step.title == "Two commits"
    assert step.commits == [
        [Change("orders", False, {"id": 1, "amount": "2.50"})],
        [Change("orders", True, {"id": 1})],
        [Change(TICKS, False, {"at": datetime(2026, 1, 1, 12, tzinfo=UTC)})],
        [Change("clicks", False, {"url": "/"})],
    ]


def test_views() -> None:
    sql = "SELECT sum(amount) AS total\n-- A comment of SQL.\nFROM orders"
    assert parse("file", TEXT).views == [View("total", sql, [["total"], ["a\\|b"]])]


def test_remarks() -> None:
    text = "view a (open: ties)\nSELECT 1\n=>\n| x |\nview b (duckdb: it (often) differs)\nSELECT 2\n=>\n| x |\n"
    views = [View("a", "SELECT 1", [["x"]], open="ties"), View("b", "SELECT 2", [["x"]], duckdb="it (often) differs")]
    assert parse("file", text).views == views


def test_a_table_is_sorted() -> None:
    assert View("a", "SELECT 1", [["x"], ["2"], ["1"]]).table == [["x"], ["1"], ["2"]]


def test_refusals() -> None:
    text = "view a\nSELECT 1\nview b\nSELECT 2\nrefused InvalidQuery\nIt is wrong.\nhint: Do it right.\n"
    file = parse("file", text)
    assert file.views == []
    assert file.refusals == [
        Refusal([View("a", "SELECT 1"), View("b", "SELECT 2")], "InvalidQuery", "It is wrong.", "Do it right.")
    ]


@pytest.mark.parametrize(
    "text",
    [
        "topics a (x int)",
        "topic a x int",
        "step One\na * {}",
        "step One\na + [1]",
        "select 1",
        "view a b\nSELECT 1",
        "view a (closed: yes)\nSELECT 1",
        "view a (open)\nSELECT 1",
    ],
)
def test_a_line_that_is_none(text: str) -> None:
    with pytest.raises(ValueError, match="not"):
        parse("file", text)


@pytest.mark.parametrize(
    ("value", "kind", "written"),
    [
        (None, pa.string(), "NULL"),
        ("NULL", pa.string(), "'NULL'"),
        ("a b", pa.string(), "a b"),
        ("a ", pa.string(), "'a '"),
        ("", pa.string(), "''"),
        ("a|b", pa.string(), "'a\\|b'"),
        (True, pa.bool_(), "true"),
        ("true", pa.string(), "'true'"),
        (1, pa.int64(), "1"),
        (1.0, pa.float64(), "1.0"),
        (-0.0, pa.float64(), "-0.0"),
        (float("nan"), pa.float64(), "nan"),
        (float("-inf"), pa.float64(), "-inf"),
        (Decimal("1.50"), pa.decimal128(5, 2), "1.50"),
        (Decimal("1E-7"), pa.decimal128(9, 7), "0.0000001"),
        (date(2026, 1, 2), pa.date32(), "2026-01-02"),
        (datetime(2026, 1, 2, 3, tzinfo=UTC), pa.timestamp("us", "UTC"), "2026-01-02 03:00:00"),
        ([1, None], pa.list_(pa.int32()), "[1, NULL]"),
        ({"a": 1, "b": "x"}, pa.struct([("a", pa.int32()), ("b", pa.string())]), "{a: 1, b: x}"),
        ([("a", 1)], pa.map_(pa.string(), pa.int32()), "{a -> 1}"),
        (b"\x01", pa.binary(), "x'01'"),
    ],
)
def test_values(value: object, kind: pa.DataType, written: str) -> None:
    assert table_cells(pa.table({"c": pa.array([value], kind)})) == [["c"], [written]]


@pytest.mark.parametrize(
    ("written", "same"), [("[b, a]", "[a, b]"), ("[]", "[]"), ("b, a", "b, a"), ("[NULL, 1, NULL]", "[1, NULL, NULL]")]
)
def test_the_order_of_a_list_is_left_out(written: str, same: str) -> None:
    assert unordered(written) == same


def test_tables_are_aligned() -> None:
    table = pa.table({"id": [2, 1], "name": ["x", "long"]})
    assert table_lines(table_cells(table)) == ["| id | name |", "| 1  | long |", "| 2  | x    |"]

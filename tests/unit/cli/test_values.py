"""Records as text lose nothing, whatever their types."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from headwater.cli.values import RecordText, readable
from headwater.log.embedded.log import EmbeddedLog
from headwater.model.ddl import parse_ddl
from headwater.model.encoding import encoder


@pytest.mark.parametrize(
    ("ddl", "value", "encoded"),
    [
        ("bigint", 2**63 - 1, 2**63 - 1),
        ("boolean", True, True),
        ("decimal(38,2)", Decimal("12345678901234567890.10"), "12345678901234567890.10"),
        ("double", 0.1, 0.1),
        ("double", float("nan"), "NaN"),
        ("double", float("inf"), "Infinity"),
        ("float", float("-inf"), "-Infinity"),
        ("date", date(2026, 1, 31), "2026-01-31"),
        ("timestamp", datetime(2026, 1, 31, 12, 0, 0, 1, tzinfo=UTC), "2026-01-31T12:00:00.000001Z"),
        ("timestamp_ntz", datetime(2026, 1, 31, 12), "2026-01-31T12:00:00"),  # noqa: DTZ001
        ("binary", b"\x00\xff", "AP8="),
        ("array<decimal(3,1)>", [Decimal("1.5"), None], ["1.5", None]),
        ("map<string,binary>", [("a", b"b")], {"a": "Yg=="}),
        ("map<string,int>", [], {}),
        ("map<int,date>", [(1, date(2026, 1, 31))], [[1, "2026-01-31"]]),
        ("struct<a: date, b: int>", {"a": date(2026, 1, 31), "b": None}, {"a": "2026-01-31", "b": None}),
    ],
)
def test_a_value_is_encoded_by_its_type(ddl: str, value: object, encoded: object) -> None:
    found = encoder(parse_ddl(f"x {ddl}").field("x").type)(value)
    assert found == encoded
    assert json.loads(json.dumps(found, allow_nan=False)) == encoded


@pytest.mark.parametrize(
    ("value", "text"),
    [("plain", "plain"), ("", '""'), ("two words", '"two words"'), ("a=b", '"a=b"'), (None, "null"), ([1, 2], "[1,2]")],
)
def test_text_for_people_is_quoted_where_it_has_to_be(value: object, text: str) -> None:
    assert readable(value) == text


@pytest.mark.parametrize("value", ["\x1b[2J", "\u009b2J", "\r"])
def test_text_for_people_can_not_change_the_terminal(value: str) -> None:
    assert readable(value).isprintable()


@pytest.fixture
def log(tmp_path: Path) -> EmbeddedLog:
    return EmbeddedLog(tmp_path / "log", upkeep=False)


def test_a_key_of_several_columns_is_an_array(log: EmbeddedLog) -> None:
    with log:
        text = RecordText(log.create("t", "a int, b date, c string", key=["a", "b"]))
        log.append("t", [{"a": 1, "b": "2026-01-31", "c": "x"}])
        log.delete("t", [{"a": 1, "b": "2026-01-31"}])
        records = list(log.read("t"))
    assert [text.to_json(record)["key"] for record in records] == [[1, "2026-01-31"]] * 2
    assert text.to_row(records[1]) == {"a": 1, "b": "2026-01-31", "_deleted": True}
    assert text.to_line(records[1]) == "a=1  b=2026-01-31  (deleted)"


def test_a_record_without_a_key_has_none(log: EmbeddedLog) -> None:
    with log:
        text = RecordText(log.create("t", "raw binary"))
        log.append("t", [{"raw": b"text"}, {"raw": b"\xff"}])
        records = list(log.read("t"))
    assert [text.to_json(record)["key"] for record in records] == [None, None]
    assert [text.to_line(record) for record in records] == ["raw=text", 'raw="/w=="']


def test_a_record_of_a_newer_schema_is_noticed(log: EmbeddedLog) -> None:
    with log:
        old = RecordText(log.create("t", "a int"))
        new = RecordText(log.alter("t", schema="a int, b int"))
        log.append("t", [{"a": 1, "b": 2}])
        (record,) = log.read("t")
    assert not old.fits(record)
    assert new.fits(record)

"""Debezium's envelope, read and written."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pytest

import headwater as hw
from headwater.cdc.debezium import from_debezium, to_debezium
from headwater.errors import UsageError
from headwater.model.ddl import parse_ddl

SCHEMA = parse_ddl(
    "id bigint, amount decimal(10,2), at timestamp, local timestamp_ntz, day date, raw binary, doc string"
)
ROW = {
    "id": 1,
    "amount": Decimal("12.50"),
    "at": datetime(2024, 1, 2, 3, 4, 5, 6, tzinfo=UTC),
    "local": datetime.fromisoformat("2024-01-02T03:04:05.000006"),
    "day": date(2024, 2, 29),
    "raw": b"\x00\xff",
    "doc": '{"a": 1}',
}


def plain(event: str, key: tuple[str, ...] = ("id",)) -> list[dict[str, object]]:
    return [{n: v for n, v in row.items() if n != "_headers"} for row in from_debezium(event, SCHEMA, key)]


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    with hw.open(tmp_path / "log") as log:
        log.create("shop.t", SCHEMA, key="id")
        log.append("shop.t", [ROW])
        log.delete("shop.t", [{"id": 1}])
        written = list(to_debezium(log.read("shop.t"), SCHEMA, ("id",), source="shop"))
        log.create("copy", SCHEMA, key="id")
        for event in written:
            log.append("copy", list(from_debezium(event, SCHEMA, ("id",))))
        assert [record.value for record in log.read("copy")] == [ROW, None]
    assert [json.loads(event)["op"] for event in written] == ["u", "d"]
    assert plain(written[0]) == [ROW]
    assert plain(written[1]) == [{"id": 1, "_deleted": True}]


def test_an_event_with_a_schema() -> None:
    fields = [
        {"field": "id", "type": "int64"},
        {
            "field": "amount",
            "type": "bytes",
            "name": "org.apache.kafka.connect.data.Decimal",
            "parameters": {"scale": "2"},
        },
        {"field": "at", "type": "string", "name": "io.debezium.time.ZonedTimestamp"},
        {"field": "local", "type": "int64", "name": "io.debezium.time.Timestamp"},
        {"field": "day", "type": "int32", "name": "io.debezium.time.Date"},
    ]
    event = {
        "schema": {"fields": [{"field": "before", "fields": fields}, {"field": "after", "fields": fields}]},
        "payload": {
            "before": None,
            "after": {
                "id": 1,
                "amount": "BOI=",
                "at": "2024-01-02T03:04:05.000006Z",
                "local": 1704164645000,
                "day": 19782,
            },
            "op": "c",
            "source": {"connector": "mysql", "file": "binlog.1", "pos": 7},
        },
    }
    [row] = from_debezium(json.dumps(event), SCHEMA, ("id",))
    assert row["amount"] == Decimal("12.50")
    assert row["at"] == ROW["at"]
    assert row["local"] == datetime.fromisoformat("2024-01-02T03:04:05")
    assert row["day"] == ROW["day"]
    assert row["_headers"] == {"op": "c", "connector": "mysql", "file": "binlog.1", "pos": "7"}


def test_a_row_that_moves_to_another_key() -> None:
    event = json.dumps({"before": {"id": 1}, "after": {"id": 2}, "op": "u"})
    first, second = plain(event)
    assert first == {"id": 1, "_deleted": True}
    assert second["id"] == 2
    assert len(plain(json.dumps({"before": {"id": 2}, "after": {"id": 2}, "op": "u"}))) == 1


@pytest.mark.parametrize("line", ["null", '{"op": "t"}'])
def test_what_says_nothing_about_a_row(line: str) -> None:
    assert plain(line) == []


@pytest.mark.parametrize("line", ["{", '{"id": 1}', "[]"])
def test_what_is_no_event(line: str) -> None:
    with pytest.raises(UsageError):
        plain(line)

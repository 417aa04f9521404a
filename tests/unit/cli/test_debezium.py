"""Debezium's change events into a topic, and out of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from headwater.log.embedded.log import EmbeddedLog
from tests.unit.cli.conftest import Run


def events(path: Path, *given: dict[str, Any] | None) -> Path:
    path.write_text("".join(json.dumps(event) + "\n" for event in given))
    return path


def event(op: str, before: dict[str, Any] | None = None, after: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"op": op, "before": before, "after": after, "source": {"connector": "mysql", "table": "orders"}, "ts_ms": 1}


def amounts(log: EmbeddedLog, topic: str = "orders") -> dict[Any, str]:
    return {row["id"]: str(row["amount"]) for row in log.table(topic).to_pylist()}


def test_events_become_records(headwater: Run, directory: Path, log: EmbeddedLog, tmp_path: Path) -> None:
    file = events(
        tmp_path / "events.jsonl",
        event("r", after={"id": 1, "amount": "1.50", "at": "2026-01-01T00:00:00Z"}),
        event("c", after={"id": 2, "amount": 2}),
        event("u", before={"id": 2}, after={"id": 3, "amount": "3.00"}),
        {"schema": {"fields": []}, "payload": event("d", before={"id": 1})},
        None,
    )
    ran = headwater("log", "append", directory, "orders", file, "--format", "debezium", "--resume", "load")
    assert ran.code == 0, ran.err
    assert amounts(log) == {3: "3.00"}
    again = headwater("log", "append", directory, "orders", file, "--format", "debezium", "--resume", "load")
    assert "nothing to append" in again.err
    assert next(iter(log.read("orders"))).headers["connector"] == "mysql"


def test_a_table_that_was_emptied(headwater: Run, directory: Path, log: EmbeddedLog, tmp_path: Path) -> None:
    log.append("orders", [{"id": 7, "amount": "1"}])
    file = events(
        tmp_path / "events.jsonl", event("c", after={"id": 1}), event("t"), event("c", after={"id": 2, "amount": "2"})
    )
    assert headwater("log", "append", directory, "orders", file, "--format", "debezium").code == 0
    assert amounts(log) == {2: "2.00"}


def test_out_and_in_again(headwater: Run, directory: Path, log: EmbeddedLog, tmp_path: Path) -> None:
    log.append("orders", [{"id": n, "amount": f"{n}.25", "at": "2026-01-01T10:00:00.5Z"} for n in range(5)])
    log.delete("orders", [{"id": 3}])
    log.create("copy", log.topic("orders").schema, key="id")
    out = headwater("log", "read", directory, "orders", "--debezium")
    assert [each["op"] for each in out.objects()] == ["u"] * 5 + ["d"]
    (tmp_path / "events.jsonl").write_text(out.out)
    ran = headwater("log", "append", directory, "copy", tmp_path / "events.jsonl", "--format", "debezium")
    assert ran.code == 0, ran.err
    assert sorted(map(str, log.table("copy").to_pylist())) == sorted(map(str, log.table("orders").to_pylist()))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"op": "c", "after": {"id": "seven"}}', "Line 2 does not fit topic 'orders': field 'id'"),
        ('{"op": "c", "after": {"id": 7, "at": "never"}}', "Line 2 does not fit topic 'orders': field 'at'"),
        ('{"id": 7}', "Line 2: This is not a Debezium change event"),
        ("{", "Line 2: This is not JSON"),
    ],
)
def test_a_line_that_is_wrong_is_named(
    headwater: Run, directory: Path, log: EmbeddedLog, tmp_path: Path, line: str, said: str
) -> None:
    file = tmp_path / "events.jsonl"
    file.write_text('{"op": "c", "after": {"id": 1}}\n' + line + "\n")
    ran = headwater("log", "append", directory, "orders", file, "--format", "debezium")
    assert ran.code != 0
    assert said in ran.err
    assert log.table("orders").num_rows == 0


def test_ways_to_print_exclude_each_other(headwater: Run, directory: Path, log: EmbeddedLog) -> None:
    assert log.topics()
    assert "Use one of them" in headwater("log", "read", directory, "orders", "--debezium", "--json").err

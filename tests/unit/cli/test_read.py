"""Reading from the command line: any range, for people, for scripts, and as input for another append."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headwater.log.embedded.log import EmbeddedLog
from tests.unit.cli.conftest import Run


@pytest.fixture
def filled(log: EmbeddedLog) -> EmbeddedLog:
    """Three commits: two to `orders`, partition 0, and one to `payments`."""
    log.create("payments", "id bigint, note string", key="id")
    with log.commit(headers={"by": "me"}) as commit:
        commit.append("orders", [{"id": 1, "amount": "9.50", "at": "2026-01-01T10:00:00Z"}], partition=0)
    log.append("payments", [{"id": 7, "note": "two words"}])
    log.append("orders", [{"id": 2}, {"id": 3}], partition=0)
    return log


def numbers(out: str) -> list[int]:
    return [json.loads(line)["value"]["id"] for line in out.splitlines()]


@pytest.mark.usefixtures("filled")
def test_lines_for_people(headwater: Run, directory: Path) -> None:
    ran = headwater("log", "read", directory, "orders", "payments")
    assert (ran.code, ran.err) == (0, "")
    heading, *rows = ran.out.splitlines()
    assert heading.split() == ["position", "received", "topic", "partition", "offset", "record"]
    assert [(row.split()[0], *row.split()[2:5]) for row in rows] == [
        ("1", "orders", "0", "0"),
        ("2", "payments", "0", "0"),
        ("3", "orders", "0", "1"),
        ("3", "orders", "0", "2"),
    ]
    assert rows[0].endswith("id=1  amount=9.50  at=2026-01-01T10:00:00Z  {by=me}")
    assert rows[1].endswith('id=7  note="two words"')
    assert "topic" not in headwater("log", "read", directory, "orders").out.splitlines()[0]


@pytest.mark.usefixtures("filled")
def test_json_has_everything(headwater: Run, directory: Path) -> None:
    first, *_ = headwater("log", "read", directory, "orders", "--json").objects()
    assert first.pop("at").endswith("Z")
    assert first == {
        "topic": "orders",
        "partition": 0,
        "offset": 0,
        "position": "1",
        "key": 1,
        "value": {"id": 1, "amount": "9.50", "at": "2026-01-01T10:00:00Z"},
        "headers": {"by": "me"},
    }


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize(
    ("options", "found"),
    [
        ((), [1, 2, 3]),
        (("--from", "1"), [2, 3]),
        (("--from", "latest"), []),
        (("--from", "position:1"), [2, 3]),
        (("--to", "position:2"), [1]),
        (("--from", "1", "--to", "2"), [2]),
        (("--from", "10m"), [1, 2, 3]),
        (("--to", "10m"), []),
        (("--from", "2026-01-01"), [1, 2, 3]),
        (("--limit", "2"), [1, 2]),
        (("-n", "0"), []),
        (("--partition", "0", "--from", "2"), [3]),
        (("--partition", "1"), []),
        (("--follow", "--to", "position:3"), [1, 2, 3]),
        (("-f", "-n", "1"), [1]),
    ],
)
def test_ranges(headwater: Run, directory: Path, options: tuple[str, ...], found: list[int]) -> None:
    ran = headwater("log", "read", directory, "orders", "--json", *options)
    assert (ran.code, ran.err) == (0, "")
    assert numbers(ran.out) == found


def test_one_partition_is_read_where_another_has_lost_the_offset(
    headwater: Run, directory: Path, log: EmbeddedLog
) -> None:
    log.alter("orders", retention_age="1000d")
    log.append("orders", [{"id": 1}], partition=0)
    log.seal("orders")
    log.set_max_bytes(1)
    log.upkeep()
    log.set_max_bytes(None)
    log.append("orders", [{"id": 2}], partition=1)
    gone = headwater("log", "read", directory, "orders", "--from", "0")
    assert gone.code == 2
    assert "hint: Read from the earliest record that is kept: --from earliest." in gone.err
    ran = headwater("log", "read", directory, "orders", "--from", "0", "--partition", "1", "--json")
    assert (ran.code, numbers(ran.out)) == (0, [2])


def test_rows_are_what_append_takes(headwater: Run, directory: Path, log: EmbeddedLog, tmp_path: Path) -> None:
    with log.commit(headers={"by": "me"}) as commit:
        commit.append("orders", [{"id": 1, "amount": "9.50", "at": "2026-01-01T10:00:00Z"}])
    log.append("orders", [{"id": 2}, {"id": 3}])
    log.delete("orders", [{"id": 2}])
    log.create("copy", "id bigint, amount decimal(12,2), at timestamp", key="id", partitions=3)
    (tmp_path / "rows.jsonl").write_text(headwater("log", "read", directory, "orders", "--rows").out)
    assert headwater("log", "append", directory, "copy", tmp_path / "rows.jsonl").code == 0
    tables = [log.table(name).sort_by("id").to_pylist() for name in ("orders", "copy")]
    assert tables[0] == tables[1]
    assert [row["id"] for row in tables[1]] == [1, 3]
    headers = {record.key: record.headers for record in log.read("copy")}
    assert headers[1] == {"by": "me"}


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("orders", "--from", "soon"), "'soon' is not a place to begin."),
        (("orders", "--to", "latest"), "'latest' is not a place to end."),
        (("orders", "--rows", "--json"), "--rows, --json and --debezium cannot be combined."),
        (("orders", "payments", "--partition", "0"), "--partition works with one topic only."),
        (("orders", "--partition", "2"), "has partitions 0 to 1, not 2"),
        (("nope",), "There is no topic 'nope'."),
    ],
)
@pytest.mark.usefixtures("filled")
def test_a_wrong_read_is_refused(headwater: Run, directory: Path, arguments: tuple[str, ...], complaint: str) -> None:
    ran = headwater("log", "read", directory, *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert complaint in ran.err

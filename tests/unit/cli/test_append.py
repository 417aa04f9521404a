"""Appending from files: whole batches, named lines, how far it got, and continuing without a duplicate."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headwater.cli import inputs, log_append
from headwater.errors import DiskFull
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.embedded.writer import Writer
from tests.unit.cli.conftest import Ran, Run


def ids(log: EmbeddedLog, topic: str = "orders") -> list[object]:
    return sorted(record.value["id"] for record in log.read(topic) if record.value is not None)  # type: ignore[type-var]


def lines(path: Path, *rows: object) -> Path:
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "BATCH_RECORDS_MAX", 2)


def test_json_lines_are_appended(headwater: Run, directory: Path, log: EmbeddedLog, tmp_path: Path) -> None:
    file = lines(tmp_path / "a.jsonl", {"id": 1, "amount": "9.50"}, "", {"id": 2})
    ran = headwater("log", "append", directory, "orders", file)
    assert (ran.code, ran.out, ran.err) == (0, "", "Appended 2 records to orders: position 1.\n")
    assert ids(log) == [1, 2]


def test_parquet_is_appended(headwater: Run, directory: Path, log: EmbeddedLog, tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1, 2, 3]}), tmp_path / "a.parquet")
    ran = headwater("log", "append", directory, "orders", tmp_path / "a.parquet", "--json")
    assert ran.objects() == [{"topic": "orders", "records": 3, "dead_letters": 0, "skipped": 0, "position": "1"}]
    assert ids(log) == [1, 2, 3]


def test_a_row_of_parquet_that_does_not_fit_is_named(
    headwater: Run, directory: Path, log: EmbeddedLog, tmp_path: Path
) -> None:
    pq.write_table(pa.table({"id": [1, None]}), tmp_path / "a.parquet")
    ran = headwater("log", "append", directory, "orders", tmp_path / "a.parquet")
    assert ran.code == 1
    assert "error: Row 2 does not fit topic 'orders': field 'id': expected bigint" in ran.err


@pytest.mark.usefixtures("small_batches")
def test_lines_that_do_not_fit_are_named_and_it_goes_on_behind_the_last_batch(
    headwater: Run, directory: Path, log: EmbeddedLog, tmp_path: Path
) -> None:
    file = lines(tmp_path / "a.jsonl", {"id": 1}, "", {"id": 2}, {"id": "x"}, "nonsense", {"id": 5})
    ran = headwater("log", "append", directory, "orders", file)
    assert (ran.code, ran.out) == (1, "")
    first, second, how_far, hint = ran.err.splitlines()
    assert first.startswith("error: Line 4 does not fit topic 'orders': field 'id': expected bigint")
    assert second.startswith("error: Line 5 does not fit topic 'orders': expected a JSON object, got nonsense (")
    assert how_far == "Appended 2 records, up to position 1; nothing after them."
    assert hint == "hint: Continue with --skip-records 2."
    assert ids(log) == [1, 2]
    lines(file, {"id": 1}, "", {"id": 2}, {"id": 3}, {"id": 4}, {"id": 5})
    assert headwater("log", "append", directory, "orders", file, "--skip-records", 2).code == 0
    assert ids(log) == [1, 2, 3, 4, 5]


def test_only_the_first_lines_that_do_not_fit_are_shown(
    headwater: Run, directory: Path, log: EmbeddedLog, tmp_path: Path
) -> None:
    ran = headwater("log", "append", directory, "orders", lines(tmp_path / "a.jsonl", *["nonsense"] * 1500))
    assert ran.err.count("error: ") == log_append.REJECTED_SHOWN_MAX
    assert "(1,490 more of this batch do not fit either.)" in ran.err
    assert "Nothing was appended." in ran.err


def test_records_that_do_not_fit_go_to_the_dead_letters(
    headwater: Run, directory: Path, log: EmbeddedLog, tmp_path: Path
) -> None:
    log.alter("orders", dead_letter="dead")
    ran = headwater("log", "append", directory, "orders", lines(tmp_path / "a.jsonl", {"id": 1}, {"id": "x"}))
    assert ran.code == 0
    assert "Appended 1 record to orders: position 1." in ran.err
    assert "warning: 1 record did not fit and went to dead." in ran.err
    assert f"hint: `headwater log read {directory} dead` shows why." in ran.err
    assert len(list(log.read("dead"))) == 1


def test_tombstones_delete_keys(headwater: Run, directory: Path, log: EmbeddedLog, tmp_path: Path) -> None:
    log.append("orders", [{"id": 1}, {"id": 2}])
    ran = headwater("log", "append", directory, "orders", lines(tmp_path / "a.jsonl", {"id": 1}), "--delete")
    assert (ran.code, ran.err) == (0, "Appended 1 tombstone to orders: position 2.\n")
    assert log.table("orders")["id"].to_pylist() == [2]


def test_headers_and_partition(headwater: Run, directory: Path, log: EmbeddedLog, tmp_path: Path) -> None:
    file = lines(tmp_path / "a.jsonl", {"id": 1}, {"id": 2}, {"id": 3})
    given = ("--header", "by=me", "--header", "note=a=b", "--partition", 1)
    assert headwater("log", "append", directory, "orders", file, *given).code == 0
    records = list(log.read("orders"))
    assert {record.partition for record in records} == {1}
    assert [record.headers for record in records] == [{"by": "me", "note": "a=b"}] * 3


@pytest.mark.usefixtures("small_batches")
def test_resume_goes_on_where_it_ended_and_appends_nothing_twice(
    headwater: Run, directory: Path, log: EmbeddedLog, tmp_path: Path
) -> None:
    file = lines(tmp_path / "a.jsonl", {"id": 1}, {"id": 2}, {"id": "x"})
    command = ("log", "append", directory, "orders", file, "--resume", "load")
    broken = headwater(*command)
    assert broken.code == 1
    assert "hint: The same command continues where this one ended." in broken.err
    lines(file, {"id": 1}, {"id": 2}, {"id": 3})
    assert headwater(*command).err == "Appended 1 record to orders: position 2.\n"
    assert headwater(*command).err == "There was nothing to append after the first 3.\n"
    lines(file, {"id": 1}, {"id": 2}, {"id": 3}, {"id": 4})
    assert headwater(*command).code == 0
    assert ids(log) == [1, 2, 3, 4]


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_resume_refuses_another_input(
    headwater: Run, directory: Path, log: EmbeddedLog, tmp_path: Path, ending: str
) -> None:
    file = tmp_path / f"a.{ending}"

    def resume(*numbers: int, name: str = "load") -> Ran:
        if ending == "jsonl":
            lines(file, *[{"id": number} for number in numbers])
        else:
            pq.write_table(pa.table({"id": numbers}), file, row_group_size=2)
        return headwater("log", "append", directory, "orders", file, "--resume", name)

    assert resume(1, 2, 3).code == 0
    shorter, other, longer = resume(1, 2), resume(1, 7, 3), resume(4, 5, 6, 7)
    assert [shorter.code, other.code, longer.code] == [2, 2, 2]
    assert "error: The input has 2 records, and 3 were read before under this --resume name." in shorter.err
    for refused in (other, longer):
        assert "error: The input does not begin with the 3 records that were read" in refused.err
        assert "hint: Use another --resume name for another input.\nNothing was appended.\n" in refused.err
        assert "continues where" not in refused.err
    assert ids(log) == [1, 2, 3]
    assert resume(1, 2, 3, 4).err == "Appended 1 record to orders: position 2.\n"
    assert resume(5, name="next").code == 0
    assert ids(log) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_resume_knows_the_input_whatever_the_batches_were(
    headwater: Run, directory: Path, log: EmbeddedLog, tmp_path: Path, ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / f"a.{ending}"
    for end, size in ((5, 2), (205, 3), (300, 1000)):
        monkeypatch.setattr(inputs, "BATCH_RECORDS_MAX", size)
        if ending == "jsonl":
            lines(file, *[{"id": number} for number in range(end)])
        else:
            pq.write_table(pa.table({"id": range(end)}), file)
        assert headwater("log", "append", directory, "orders", file, "--resume", "load").code == 0
    assert ids(log) == list(range(300))


def test_resume_refuses_a_bookmark_of_something_else(
    headwater: Run, directory: Path, log: EmbeddedLog, tmp_path: Path
) -> None:
    with log.commit() as commit:
        commit.bookmark("append.orders.load", 1)
    ran = headwater("log", "append", directory, "orders", lines(tmp_path / "a.jsonl", {"id": 1}), "--resume", "load")
    assert ran.code == 2
    assert "hint: Use another name." in ran.err
    assert ids(log) == []


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ('{"id": 1, "at": tru}', 'expected a JSON object, got {"id": 1, "at": tru} (character 17: Expecting value).'),
        ("[1]", "expected a JSON object, got [1]."),
        ("\x1b[31m", "expected a JSON object, got \\x1b[31m (character 1: Expecting value)."),
        ("[" * 300, "expected a JSON object, got " + "[" * 77 + "... (character 301: Expecting value)."),
        ('{"id": "x"}', "got 'x', a string."),
        ('{"id": true}', "got true, a boolean."),
        ('{"id": 1, "b": []}', "got an unknown field with [], an array."),
    ],
)
def test_a_line_that_does_not_fit_is_shown_as_it_is_written(
    headwater: Run, directory: Path, log: EmbeddedLog, tmp_path: Path, line: str, complaint: str
) -> None:
    ran = headwater("log", "append", directory, "orders", lines(tmp_path / "a.jsonl", {"id": 1}, line))
    assert ran.code == 1
    assert ran.err.startswith("error: Line 2 does not fit topic 'orders': ")
    assert ran.err.splitlines()[0].endswith(complaint)


def test_two_that_resume_the_same_do_not_append_twice(
    headwater: Run, directory: Path, log: EmbeddedLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = lines(tmp_path / "a.jsonl", {"id": 1})
    command = ("log", "append", directory, "orders", file, "--resume", "load")
    # The other one comes between reading the bookmark and the commit.
    read = EmbeddedLog.bookmark

    def overtaken(self: EmbeddedLog, name: str) -> object:
        found = read(self, name)
        with log.commit() as commit:
            commit.append("orders", [{"id": 1}])
            commit.bookmark(name, 1)
        return found

    monkeypatch.setattr(EmbeddedLog, "bookmark", overtaken)
    ran = headwater(*command)
    assert ran.code == 2
    assert "Another process appends with the same --resume name." in ran.err
    assert ids(log) == [1]


@pytest.mark.usefixtures("small_batches")
def test_a_full_disk_tells_how_far_it_got(
    headwater: Run, directory: Path, log: EmbeddedLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit, calls = Writer.commit, []

    def full_at_the_second(self: Writer, request: Any) -> object:
        calls.append(request)
        if len(calls) == 2:
            raise DiskFull("data")
        return commit(self, request)

    monkeypatch.setattr(Writer, "commit", full_at_the_second)
    ran = headwater("log", "append", directory, "orders", lines(tmp_path / "a.jsonl", *[{"id": n} for n in range(6)]))
    assert ran.code == 1
    error, _, how_far, go_on = ran.err.splitlines()
    assert how_far == "Appended 2 records, up to position 1; nothing after them."
    assert go_on == "hint: Continue with --skip-records 2."
    assert error == "error: No space is left on the disk that holds data."
    assert ids(log) == [0, 1]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--delete", "--partition", "0"), "A tombstone goes to its key's partition."),
        (("--resume", "a", "--skip-records", "1"), "--resume already knows what to skip."),
        (("--resume", "a/b"), "is not a valid bookmark name"),
        (("--header", "x"), "'x' is not a header."),
        (("--partition", "7"), "has partitions 0 to 1, not 7"),
        (("--format", "csv"), "Invalid value for '--format'"),
    ],
)
def test_options_that_make_no_sense_are_refused(
    headwater: Run, directory: Path, log: EmbeddedLog, tmp_path: Path, options: tuple[str, ...], complaint: str
) -> None:
    ran = headwater("log", "append", directory, "orders", lines(tmp_path / "a.jsonl", {"id": 1}), *options)
    assert ran.code == 2
    assert complaint in ran.err
    assert ids(log) == []


def test_a_file_that_is_missing_is_a_wrong_command(headwater: Run, directory: Path, log: EmbeddedLog) -> None:
    ran = headwater("log", "append", directory, "orders", "none.jsonl")
    assert (ran.code, ran.err.splitlines()[0]) == (2, "error: There is no file none.jsonl.")

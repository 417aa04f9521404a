"""Sealing, compaction, upkeep, checks and repairs from the command line."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from headwater.log.embedded.log import EmbeddedLog
from tests.unit.cli.conftest import Run


def flip_a_bit(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


@pytest.fixture
def damaged(log: EmbeddedLog) -> EmbeddedLog:
    """Three commits of one record each in partition 0; the middle one is damaged."""
    for number in range(3):
        log.append("orders", [{"id": number}], partition=0)
    (segment,) = log.segments("orders")
    flip_a_bit(log.directory / segment.file, segment.bytes // 2)
    return log


def test_seal_prints_the_files(headwater: Run, directory: Path, log: EmbeddedLog) -> None:
    log.append("orders", [{"id": 1}], partition=0)
    log.append("orders", [{"id": 2}], partition=1)
    ran = headwater("log", "seal", directory, "orders")
    assert (ran.code, ran.err) == (0, "Sealed 2 segments; topic orders has 2 Parquet files.\n")
    assert [pq.read_table(line)["id"].to_pylist() for line in ran.out.splitlines()] == [[1], [2]]
    again = headwater("log", "seal", directory, "orders", "--json")
    assert again.err == "Sealed 0 segments; topic orders has 2 Parquet files.\n"
    assert [each["records"] for each in again.objects()] == [1, 1]
    assert all(Path(each["file"]).is_file() for each in again.objects())


def test_compact_removes_what_was_replaced(headwater: Run, directory: Path, log: EmbeddedLog) -> None:
    log.create("customers", "id int, name string", key="id", cleanup="compact")
    log.append("customers", [{"id": 1, "name": "Ada"}, {"id": 1, "name": "Ada L"}])
    unsealed = headwater("log", "compact", directory, "customers")
    assert "Compacted customers: removed 0 records." in unsealed.err
    assert "hint: 2 records not sealed yet" in unsealed.err
    log.seal("customers")
    ran = headwater("log", "compact", directory, "customers")
    assert (ran.code, ran.err) == (0, "Compacted customers: removed 1 record.\n")
    assert headwater("log", "compact", directory, "customers", "--json").objects() == [
        {"topic": "customers", "removed": 0, "unsealed": 0}
    ]


def test_compact_is_for_topics_that_want_it(headwater: Run, directory: Path, log: EmbeddedLog) -> None:
    assert headwater("log", "compact", directory, "orders").code == 2


def test_retain_says_what_it_did(headwater: Run, directory: Path, log: EmbeddedLog) -> None:
    log.alter("orders", retention_age="1000d")
    log.append("orders", [{"id": number} for number in range(5)], partition=0)
    log.seal("orders")
    capped = headwater("log", "retain", directory, "--bytes-max", "1B", "--yes")
    assert capped.code == 0
    assert capped.err == (
        "From now on the log keeps at most 1 B, until --bytes-max changes it or lifts it (none).\n"
        "Sealed 0 segments, deleted 1 segment with 5 records, removed 0 records by compaction, swept 0 files.\n"
    )
    log.append("orders", [{"id": 6}], partition=0)
    log.seal("orders")
    lifted = headwater("log", "retain", directory, "--bytes-max", "none", "--json")
    assert lifted.err == "The log no longer has a size limit.\n"
    assert lifted.objects()[0]["bytes_max"] is None
    assert lifted.objects()[0]["deleted_segments"] == 0
    assert len(list(log.read("orders"))) == 1


@pytest.mark.parametrize(("answer", "left"), [("n\n", 5), ("", 5), ("y\n", 0)])
def test_retain_asks_before_a_new_limit_costs_records(
    headwater: Run, directory: Path, log: EmbeddedLog, answer: str, left: int
) -> None:
    log.alter("orders", retention_age="1000d")
    log.append("orders", [{"id": number} for number in range(5)], partition=0)
    log.seal("orders")
    ran = headwater("log", "retain", directory, "--bytes-max", "1B", answer=answer)
    assert "the oldest, about 5 records, go now. Delete them for good?" in ran.err
    assert ran.code == (1 if left else 0)
    assert len(list(log.read("orders"))) == left
    assert log.bytes_max == (None if left else 1)


def test_retain_does_not_ask_if_nothing_goes_and_says_what_stays(
    headwater: Run, directory: Path, log: EmbeddedLog
) -> None:
    log.create("customers", "id int", key="id", cleanup="compact")
    log.append("customers", [{"id": 1}])
    log.seal("customers")
    log.append("orders", [{"id": 1}], partition=0)
    ran = headwater("log", "retain", directory, "--bytes-max", "1B")
    assert ran.code == 0
    assert "Not deleted are active segments" in ran.err
    assert len(list(log.read(["orders", "customers"]))) == 2
    (report,) = headwater("log", "retain", directory, "--json").objects()
    assert report["bytes"] > report["bytes_max"] == 1


def test_check_of_a_log_that_is_well(headwater: Run, directory: Path, log: EmbeddedLog) -> None:
    log.append("orders", [{"id": 1}])
    ran = headwater("log", "check", directory)
    assert (ran.code, ran.out, ran.err) == (0, "", "Checked 1 segment: no damage found.\n")


def test_check_names_the_damage(headwater: Run, directory: Path, damaged: EmbeddedLog) -> None:
    ran = headwater("log", "check", directory)
    assert ran.code == 4
    heading, row = ran.out.splitlines()
    assert heading.split() == ["topic", "partition", "offsets", "records", "segment", "reason"]
    assert row.split()[:4] == ["orders", "0", "1", "1"]
    assert "warning: The log is damaged: at most 1 record cannot be read back." in ran.err
    assert f"hint: `headwater log repair {directory}` shows what can be saved." in ran.err
    (finding,) = headwater("log", "check", directory, "--json").objects()
    assert (finding["topic"], finding["first"], finding["last"]) == ("orders", 1, 1)


@pytest.mark.usefixtures("damaged")
def test_reading_what_is_damaged_is_the_same_exit_code(headwater: Run, directory: Path) -> None:
    ran = headwater("log", "read", directory, "orders")
    assert ran.code == 4
    assert "error: Segment topics/orders/0/" in ran.err


@pytest.mark.parametrize(
    ("options", "answer", "code"), [((), None, 4), (("--apply",), "n\n", 1), (("--apply",), "", 1)]
)
@pytest.mark.usefixtures("damaged")
def test_repair_changes_nothing_unless_told_to(
    headwater: Run, directory: Path, options: tuple[str, ...], answer: str | None, code: int
) -> None:
    ran = headwater("log", "repair", directory, *options, answer=answer)
    assert ran.code == code
    assert "A repair saves 2 records of the damaged segments and loses at most 1 record." in ran.err
    assert headwater("log", "check", directory).code == 4
    assert not (directory / "damaged").exists()


@pytest.mark.parametrize(("options", "answer"), [(("--apply", "--yes"), None), (("--apply",), "y\n")])
def test_repair_saves_what_can_be_read(
    headwater: Run, directory: Path, damaged: EmbeddedLog, options: tuple[str, ...], answer: str | None
) -> None:
    ran = headwater("log", "repair", directory, *options, answer=answer)
    assert ran.code == 0
    assert f"Repaired. The damaged files are in {directory / 'damaged'}." in ran.err
    assert headwater("log", "check", directory).code == 0
    assert [record.offset for record in damaged.read("orders")] == [0, 2]
    lost = headwater("log", "describe", directory, "orders").out.split("lost offsets")[1].splitlines()[1]
    assert lost.split()[:3] == ["0", "1", "1"]


@pytest.mark.usefixtures("log")
def test_there_may_be_nothing_to_repair(headwater: Run, directory: Path) -> None:
    ran = headwater("log", "repair", directory, "--apply", "--yes")
    assert (ran.code, ran.out, ran.err) == (0, "", "There is nothing to repair.\n")

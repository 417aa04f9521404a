"""Archives from the command line: topics get one, and everything says where their segments are."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from headwater.log.embedded.log import EmbeddedLog
from tests.unit.cli.conftest import Run


@pytest.fixture
def archived(headwater: Run, directory: Path, log: EmbeddedLog, tmp_path: Path) -> Path:
    """Five records of a topic, two of them in the archive only and the others here."""
    archive = tmp_path / "archive"
    options = ("--archive", archive, "--retention-bytes", "1B", "--segment-age-max", "7d")
    ran = headwater("log", "create", directory, "clicks", "id int", *options)
    assert (ran.code, ran.out) == (0, "")
    log.append("clicks", [{"id": 1}, {"id": 2}])
    log.seal("clicks")
    return archive


def test_retain_moves_and_says_so(headwater: Run, directory: Path, log: EmbeddedLog, archived: Path) -> None:
    ran = headwater("log", "retain", directory)
    assert ran.code == 0
    assert ran.err.splitlines()[1] == (
        "Archived 1 segment, removed 1 local file of archived ones, removed 0 replaced objects from archives."
    )
    again = headwater("log", "retain", directory, "--json").objects()[0]
    assert (again["archived_segments"], again["bytes"]) == (0, 0)


def test_describe_and_topics_say_where_segments_are(
    headwater: Run, directory: Path, log: EmbeddedLog, archived: Path
) -> None:
    log.upkeep()
    shown = headwater("log", "describe", directory, "clicks")
    assert archived.as_uri() in shown.out
    assert "1 archived" in shown.out
    described = headwater("log", "describe", directory, "clicks", "--json").objects()[0]
    assert described["archive"] == archived.as_uri()
    (segment,) = described["segments"]
    assert segment["local"] is False
    assert segment["archived"].startswith(archived.as_uri())
    assert "forever, 1 B of it local" in headwater("log", "topics", directory).out


def test_seal_prints_files_in_the_archive(headwater: Run, directory: Path, log: EmbeddedLog, archived: Path) -> None:
    log.upkeep()
    (line,) = headwater("log", "seal", directory, "clicks").out.splitlines()
    assert Path(line).is_relative_to(archived)
    assert pq.read_table(line)["id"].to_pylist() == [1, 2]


def test_an_archive_that_is_gone_is_told_with_a_hint(
    headwater: Run, directory: Path, log: EmbeddedLog, archived: Path, tmp_path: Path
) -> None:
    log.upkeep()
    archived.rename(tmp_path / "away")
    for command in ("read", "check", "repair"):
        topic = ["clicks"] if command == "read" else []
        ran = headwater("log", command, directory, *topic)
        assert ran.code == 1, command
        assert ran.err.splitlines()[-2].startswith(f"error: The archive {archived.as_uri()} cannot be used: ")
        assert ran.err.splitlines()[-1].startswith("hint: Check that its disk is mounted")


def test_repair_replaces_a_damaged_copy(headwater: Run, directory: Path, log: EmbeddedLog, archived: Path) -> None:
    log.alter("clicks", retention_bytes=None)
    log.upkeep()
    (segment,) = log.segments("clicks")
    (log.directory / segment.file).write_bytes(b"not Parquet")
    checked = headwater("log", "check", directory)
    assert checked.code == 4
    assert "the local copy" in checked.out
    assert "copies are damaged of which another is sound" in checked.err
    assert headwater("log", "repair", directory).code == 4
    applied = headwater("log", "repair", directory, "--apply")
    assert applied.code == 0
    assert "A repair replaces a damaged copy of 1 segment with the intact one." in applied.err
    assert headwater("log", "check", directory).code == 0


def test_alter_gives_and_takes_an_archive(headwater: Run, directory: Path, log: EmbeddedLog, tmp_path: Path) -> None:
    assert headwater("log", "alter", directory, "orders", "--archive", tmp_path / "a").code == 0
    assert log.topic("orders").settings.archive == (tmp_path / "a").as_uri()
    assert headwater("log", "alter", directory, "orders", "--archive", "none").code == 0
    assert log.topic("orders").settings.archive is None
    refused = headwater("log", "alter", directory, "orders", "--archive", "s3://bucket/x?token=1")
    assert refused.code == 2
    assert "no option 'token'" in refused.err

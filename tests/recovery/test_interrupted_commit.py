"""A writer that dies inside SQLite's COMMIT leaves a commit that others do not see, but that a later opening finds."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.log.embedded.log import EmbeddedLog
from headwater.system.sqlite import Connection
from headwater.system.storage import Storage
from headwater.testing.storage import PowerCut


class DyingStorage(Storage):
    """Dies after the first write, before anything is committed."""

    def sync(self, fd: int, path: Path) -> None:
        raise PowerCut


class LeakingStorage(Storage):
    """Copies everything but the catalog's shared memory elsewhere at the end of COMMIT."""

    def __init__(self, source: Path, destination: Path) -> None:
        self._source, self._destination = source, destination

    def commit(self, connection: Connection) -> None:
        super().commit(connection)
        for path in self._source.rglob("*"):
            name = path.relative_to(self._source)
            if path.is_file() and name.name != "catalog.db-shm":
                copy = self._destination / name
                copy.parent.mkdir(parents=True, exist_ok=True)
                copy.touch()
                # In place: other processes have these very files open.
                with copy.open("r+b") as file:
                    file.write(path.read_bytes())


def half_commit(directory: Path, scratch: Path, note: str) -> None:
    """Leaves the directory as a writer does that dies after its COMMIT wrote the catalog's log, and before it told the
    other processes so: all bytes are there, but the catalog's shared memory does not know of them."""
    with EmbeddedLog(copied(directory, scratch), upkeep=False, storage=LeakingStorage(scratch, directory)) as log:
        log.append("orders", [{"id": 2, "note": note}])


def copied(directory: Path, to: Path) -> Path:
    shutil.copytree(directory, to, ignore=shutil.ignore_patterns("*-shm"))
    return to


def notes(log: EmbeddedLog) -> list[object]:
    return [record.value["note"] for record in log.read("orders") if record.value is not None]


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EmbeddedLog]:
    """A log that is open all the time, so that its catalog is never re-read."""
    with EmbeddedLog(tmp_path / "log", upkeep=False) as log:
        log.create("orders", "id bigint, note string")
        yield log


def check_reopened(log: EmbeddedLog, to: Path, *allowed: list[object]) -> None:
    """All processes are gone, and one comes back."""
    with EmbeddedLog(copied(log.directory, to), upkeep=False) as reopened:
        assert list(reopened.check()) == []
        found = notes(reopened)
        assert found in allowed
        reopened.append("orders", [{"id": 4, "note": "new"}])
        assert notes(reopened) == [*found, "new"]
        assert list(reopened.check()) == []


def test_a_half_commit_is_invisible_until_the_catalog_is_read_anew(log: EmbeddedLog, tmp_path: Path) -> None:
    log.append("orders", [{"id": 1, "note": "acknowledged"}])
    half_commit(log.directory, tmp_path / "scratch", "half")
    assert notes(log) == ["acknowledged"]
    check_reopened(log, tmp_path / "reopened", ["acknowledged", "half"])


def test_a_half_commit_is_not_found_once_its_bytes_were_written_over(log: EmbeddedLog, tmp_path: Path) -> None:
    log.append("orders", [{"id": 1, "note": "acknowledged"}])
    half_commit(log.directory, tmp_path / "scratch", "half")
    dying = EmbeddedLog(log.directory, upkeep=False, storage=DyingStorage())
    with pytest.raises(PowerCut):
        dying.append("orders", [{"id": 3, "note": "of the second one that dies"}])
    check_reopened(log, tmp_path / "reopened", ["acknowledged"], ["acknowledged", "half"])
    dying.close()


def test_a_half_commit_is_not_found_once_its_file_was_swept(log: EmbeddedLog, tmp_path: Path) -> None:
    half_commit(log.directory, tmp_path / "scratch", "half")
    log.upkeep()
    check_reopened(log, tmp_path / "reopened", [], ["half"])


def test_a_log_goes_on_after_a_half_commit(log: EmbeddedLog, tmp_path: Path) -> None:
    log.append("orders", [{"id": 1, "note": "acknowledged"}])
    half_commit(log.directory, tmp_path / "scratch", "half")
    log.append("orders", [{"id": 3, "note": "next"}])
    assert notes(log) == ["acknowledged", "next"]
    check_reopened(log, tmp_path / "reopened", ["acknowledged", "next"])

"""Operations that fail: nothing acknowledged is lost, the error says what to do, and the log continues.

`tools/torture_log.py --failures` lets every operation fail in every way; here it is a seeded part of them.
"""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from headwater.errors import DiskFull, Indeterminate, StorageFailed
from headwater.log.embedded.log import EmbeddedLog
from headwater.testing.disk import seeded
from headwater.testing.failures import WAYS, fail_everywhere
from headwater.testing.storage import FailingStorage, Failure, Operation

FULL = Failure(error=errno.ENOSPC)
BROKEN = Failure(error=errno.EIO)


def test_an_operation_that_fails_loses_nothing(memory_path: Path) -> None:
    def choose(at: int, failure: Failure) -> bool:
        return seeded(f"{at} {WAYS.index(failure)}").random() < 0.05

    figures = fail_everywhere(memory_path, choose=choose)
    assert [problem for _, _, problem in figures.broken] == []
    assert figures.failures > 30
    assert figures.refused > 10


def test_all_four_ways_are_among_them() -> None:
    assert {(way.happened, way.reported) for way in WAYS} == {(a, b) for a in (True, False) for b in (True, False)}


def opened(
    directory: Path, failure: Failure, only: Operation, *, times: int = 1000
) -> tuple[EmbeddedLog, FailingStorage]:
    """A log with one record, whose storage fails from now on."""
    with EmbeddedLog(directory, upkeep=False) as log:
        log.create("orders", "id bigint")
        log.append("orders", [{"id": 0}])
    storage = FailingStorage(failure, at=0, times=times, only=only)
    return EmbeddedLog(directory, upkeep=False, storage=storage), storage


def ids(log: EmbeddedLog) -> list[object]:
    return [record.value["id"] for record in log.read("orders") if record.value is not None]


@pytest.mark.parametrize("only", ["write", "sync", "commit"])
def test_a_full_disk_refuses_and_goes_on_when_there_is_room(tmp_path: Path, only: Operation) -> None:
    log, storage = opened(tmp_path / "log", FULL, only)
    with log:
        for number in (1, 2):
            with pytest.raises(DiskFull) as raised:
                log.append("orders", [{"id": number}])
            assert str(tmp_path / "log") in raised.value.path
            assert "continues" in raised.value.hint
            assert ids(log) == [0]
        storage.heal()
        log.append("orders", [{"id": 3}])
        assert ids(log) == [0, 3]
        assert list(log.check()) == []


def test_a_disk_that_can_not_sync_is_told(tmp_path: Path) -> None:
    log, _ = opened(tmp_path / "log", BROKEN, "sync", times=1)
    with log:
        with pytest.raises(StorageFailed, match="Input/output error"):
            log.append("orders", [{"id": 1}])
        assert ids(log) == [0]
        log.append("orders", [{"id": 2}])
        assert ids(log) == [0, 2]
        assert list(log.check()) == []


@pytest.mark.parametrize(("happened", "found"), [(True, [0, 1]), (False, [0])])
def test_a_commit_that_may_have_happened_is_told_as_that(tmp_path: Path, happened: bool, found: list[int]) -> None:
    log, _ = opened(tmp_path / "log", Failure(happened=happened, error=errno.EIO), "commit", times=1)
    with log:
        with pytest.raises(Indeterminate, match="catalog"):
            log.append("orders", [{"id": 1}])
        assert ids(log) == found
        log.append("orders", [{"id": 2}])
        assert ids(log) == [*found, 2]
        assert list(log.check()) == []


def test_one_of_several_files_can_not_be_synced(tmp_path: Path) -> None:
    log, storage = opened(tmp_path / "log", BROKEN, "sync", times=1)
    with log:
        log.create("payments", "id bigint", partitions=4)
        commit = log.commit()
        commit.append("orders", [{"id": 1}])
        for partition in range(4):
            commit.append("payments", [{"id": partition}], partition=partition)
        with pytest.raises(StorageFailed), commit:
            """The commit happens at the block's end."""
        assert len(storage.failed) == 1
        assert ids(log) == [0]
        assert list(log.read("payments")) == []


def test_a_file_that_can_not_be_removed_now_is_swept_later(tmp_path: Path) -> None:
    log, storage = opened(tmp_path / "log", BROKEN, "remove")
    with log:
        log.seal("orders")
        log.create("brief", "id bigint")
        log.append("brief", [{"id": 1}])
        log.drop("brief")
        assert len(list(tmp_path.glob("log/topics/*/*/*"))) == 3
        storage.heal()
        assert log.upkeep().swept_files == 2
        assert ids(log) == [0]

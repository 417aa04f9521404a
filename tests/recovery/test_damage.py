"""Damaged files: no wrong record ever, the damage is named, and a repair loses what it says and nothing else.

`tools/torture_log.py --damage` damages every byte; here it is a seeded part of them.
"""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

import pytest

from headwater.errors import Corrupt, LogReplaced
from headwater.log.embedded import sealed
from headwater.log.embedded.log import EmbeddedLog
from headwater.system.storage import Storage
from headwater.testing.damage import Damage, build_log, damage_everywhere, every_damage, segment_files
from headwater.testing.disk import seeded


def test_damage_is_refused_found_and_repaired(memory_path: Path) -> None:
    def choose(directory: Path) -> list[Damage]:
        damages = every_damage(directory, seed=1)
        rare = [damage for damage in damages if damage.kind in ("lengthen", "remove")]
        return rare + seeded(1).sample(damages, 80)

    figures = damage_everywhere(memory_path, choose)
    assert [f"{damage}: {problem}" for damage, problem in figures.broken] == []
    assert figures.damages >= 80
    assert figures.refused > 80
    assert figures.harmless > 0, "bytes behind the end of frames do no harm"
    assert figures.saved > 0
    assert figures.lost > 0


def test_the_damaged_log_holds_frames_and_parquet(memory_path: Path) -> None:
    build_log(memory_path / "log")
    endings = [Path(file).suffix for file in segment_files(memory_path / "log")]
    assert endings.count(".log") == 3
    assert endings.count(".parquet") >= 2


def test_every_damage_is_one_that_can_be_named(memory_path: Path) -> None:
    build_log(memory_path / "log")
    damages = every_damage(memory_path / "log", seed=1)
    assert len(set(damages)) == len(damages)
    assert [Damage.parse(str(damage)) for damage in damages] == damages


@pytest.fixture
def damaged(tmp_path: Path) -> EmbeddedLog:
    """A log whose first record, of three, is damaged in the active segment."""
    log = EmbeddedLog(tmp_path / "log", upkeep=False)
    log.create("orders", "id bigint")
    for number in range(3):
        log.append("orders", [{"id": number}])
    Damage(0, "flip", 70, 3).apply(log.directory)
    return log


def ids(log: EmbeddedLog) -> list[object]:
    return [record.value["id"] for record in log.read("orders") if record.value is not None]


def test_an_error_names_segment_and_offsets(damaged: EmbeddedLog) -> None:
    with damaged, pytest.raises(Corrupt) as raised:
        ids(damaged)
    assert raised.value.segment == segment_files(damaged.directory)[0]
    assert (raised.value.first, raised.value.last) == (0, 0)
    assert "check" in raised.value.hint


def test_what_lies_behind_a_damaged_row_group_can_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealed, "ROW_GROUP_ROWS", 1)
    with EmbeddedLog(tmp_path / "log", upkeep=False) as log:
        log.create("orders", "id bigint")
        log.append("orders", [{"id": number} for number in range(3)])
        log.seal("orders")
        Damage(0, "flip", 30, 3).apply(log.directory)
        with pytest.raises(Corrupt) as raised:
            ids(log)
        assert (raised.value.first, raised.value.last) == (0, 0)
        assert [int(record.offset) for record in log.read("orders", start=1)] == [1, 2]
        assert [(found.first, found.last) for found in log.check()] == [(0, 0)]


def test_what_was_appended_after_the_plan_is_not_lost(damaged: EmbeddedLog) -> None:
    with damaged as log:
        plan = log.repair()
        log.append("orders", [{"id": 3}])
        plan.apply()
        assert ids(log) == [1, 2, 3]
        log.append("orders", [{"id": 4}])
        assert ids(log) == [1, 2, 3, 4]
        assert list(log.check()) == []


def test_damage_that_came_after_the_plan_waits_for_a_new_one(damaged: EmbeddedLog) -> None:
    with damaged as log:
        plan = log.repair()
        log.append("orders", [{"id": 3}])
        (path,) = [log.directory / file for file in segment_files(log.directory)]
        content = bytearray(path.read_bytes())
        content[-4] ^= 1
        path.write_bytes(content)
        plan.apply()
        assert [(found.first, found.last) for found in log.check()] == [(0, 0), (3, 3)], "nothing was given up unseen"
        log.repair().apply()
        assert ids(log) == [1, 2]


def test_a_damaged_file_is_kept_aside(damaged: EmbeddedLog) -> None:
    with damaged as log:
        before = (log.directory / segment_files(log.directory)[0]).read_bytes()
        log.repair().apply()
        assert [path.read_bytes() for path in (log.directory / "damaged").iterdir()] == [before]


def test_upkeep_does_not_sweep_what_a_repair_is_writing(damaged: EmbeddedLog) -> None:
    class Slow(Storage):
        """While a repair has written its file and not yet named it, another process does its upkeep."""

        def sync(self, fd: int, path: Path) -> None:
            super().sync(fd, path)
            sweeper.start()
            # It waits for the repair to end; without that it is done within this time, and has swept the file.
            sweeper.join(timeout=0.5)

    with damaged as log, EmbeddedLog(log.directory, upkeep=False) as other:
        sweeper = threading.Thread(target=other.upkeep)
        with EmbeddedLog(log.directory, upkeep=False, storage=Slow()) as repairing:
            repairing.repair().apply()
        sweeper.join()
        assert ids(log) == [1, 2]
        assert list(log.check()) == []


def test_records_of_an_older_schema_are_saved(tmp_path: Path) -> None:
    with EmbeddedLog(tmp_path / "log", upkeep=False) as log:
        log.create("orders", "id bigint, note string")
        log.append("orders", [{"id": 0, "note": "old"}])
        log.seal("orders")
        log.alter("orders", schema="id bigint, note string, paid boolean")
        Damage(0, "lengthen", 10).apply(log.directory)
        assert [loss.records for loss in log.repair().losses] == [0], "nothing is lost, and the file is not as it was"
        log.repair().apply()
        assert [record.value for record in log.read("orders")] == [{"id": 0, "note": "old", "paid": None}]


def test_check_passes_over_what_others_seal_meanwhile(tmp_path: Path) -> None:
    with EmbeddedLog(tmp_path / "log", upkeep=False) as log:
        log.create("orders", "id bigint", partitions=3)
        log.create("other", "id bigint")
        for partition in range(3):
            log.append("orders", [{"id": partition}], partition=partition)
        done: list[int] = []

        def interfere(count: int, _: int) -> None:
            done.append(count)
            if count == 0:
                log.seal("orders")
                log.drop("other")
                log.create("third", "id bigint")

        assert list(log.check(interfere)) == []
        assert done[-1] == 3
        plan = log.repair(lambda count, _: log.drop("orders") if count == 1 else None)
        assert plan.losses == []


def test_a_log_that_was_deleted_and_made_again_is_not_damaged(memory_path: Path) -> None:
    directory = memory_path / "log"
    with EmbeddedLog(directory) as old:
        old.create("t", "id bigint")
        old.append("t", [{"id": 1}])
        shutil.rmtree(directory)
        with EmbeddedLog(directory) as new:
            new.create("t", "id bigint")
            new.append("t", [{"id": 2}])
            with pytest.raises(LogReplaced):
                list(old.read("t", start="earliest"))
            with pytest.raises(LogReplaced):
                old.append("t", [{"id": 3}])
            assert [record.value for record in new.read("t", start="earliest")] == [{"id": 2}]
        shutil.rmtree(directory)
        with pytest.raises(LogReplaced):
            old.append("t", [{"id": 4}])

"""A power cut at any operation of a log's life: what was acknowledged is there, and the log continues.

`tools/torture_log.py --power-cuts` cuts at every operation; here it is a seeded part of them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.log.embedded.log import EmbeddedLog
from headwater.log.embedded.position import commit_of
from headwater.testing.disk import EVERYTHING, NOTHING_UNSYNCED
from headwater.testing.powercut import count_operations, cut_everywhere, sample
from headwater.testing.script import Script
from headwater.testing.storage import Moment, Operation, PowerCut, PowerCutStorage

SIDES = ("before", "inside", "after")


def test_a_cut_loses_nothing_acknowledged(memory_path: Path) -> None:
    result = cut_everywhere(memory_path, seeds=(NOTHING_UNSYNCED, EVERYTHING, 2), choose=sample(seed=1, part=0.012))
    assert [str(broken) for broken in result.broken] == []
    assert result.images >= 30
    assert result.acknowledged > 40


def test_every_kind_of_operation_is_cut_on_every_side(memory_path: Path) -> None:
    seen: set[tuple[str, str]] = set()

    def choose(moment: Moment) -> bool:
        seen.add((moment.operation, moment.side))
        return False

    cut_everywhere(memory_path, seeds=(), choose=choose)
    operations = {"make_directory", "open", "write", "sync", "close", "sync_directory", "truncate", "remove", "commit"}
    assert {operation for operation, _ in seen} == operations
    assert {side for operation, side in seen if operation == "commit"} == set(SIDES)


def test_the_script_is_the_same_every_time(memory_path: Path) -> None:
    def moments(folder: Path) -> list[tuple[str, str]]:
        found: list[tuple[str, str]] = []
        folder.mkdir()
        cut_everywhere(
            folder, seeds=(), choose=lambda moment: bool(found.append((str(moment), moment.operation)))  # type: ignore[func-returns-value]
        )  # fmt: skip
        return found

    assert moments(memory_path / "first") == moments(memory_path / "second")


@pytest.mark.parametrize("forgotten", ["sync", "sync_directory"])
def test_a_log_that_did_not_sync_would_be_found_out(memory_path: Path, forgotten: Operation) -> None:
    class Forgetful(PowerCutStorage):
        """A disk on which one kind of operation has no effect: as if the log had left it out."""

        def _note(self, operation: Operation, path: Path, name: str, removed: bytes | None) -> None:
            if operation != forgotten:
                super()._note(operation, path, name, removed)

    result = cut_everywhere(
        memory_path,
        seeds=(NOTHING_UNSYNCED,),
        choose=lambda moment: moment.operation == "commit" and moment.number % 40 == 0,
        storage_type=Forgetful,
    )
    assert result.broken


def test_a_script_that_is_really_cut_ends_there(memory_path: Path) -> None:
    number = count_operations(memory_path) // 2
    storage = PowerCutStorage(memory_path / "log", cut=f"{number}:after")
    script = Script(memory_path / "log", storage)
    with pytest.raises(PowerCut):
        script.run()
    assert len(storage.moments) == number + 1
    assert storage.image(memory_path / "image", seed=2)
    with EmbeddedLog(memory_path / "image", upkeep=False) as log:
        assert commit_of(log.position()) - script.expected.position in (0, 1)
        assert list(log.check()) == []

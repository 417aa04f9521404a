"""A rehearsal runs the newest records through a program, and leaves nothing behind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from headwater.engine.batch import Batch, StageNote
from headwater.engine.definition import Definition
from headwater.engine.rehearsal import ROWS, rehearse
from headwater.errors import UsageError, WorkerLost
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.opening import open_log


class Program:
    """Views that never change, of two topics."""

    fingerprint = "one"
    topics = ("events", "orders")
    tasks = 1
    time_sources: Sequence[str] = ()
    definition = Definition()

    def __init__(self, on_run: Callable[[Batch], None] = lambda _: None) -> None:
        self.batches: list[Batch] = []
        self._on_run = on_run

    def run(self, batch: Batch) -> list[StageNote]:
        self._on_run(batch)
        self.batches.append(batch)
        return []


def records(batch: Batch) -> dict[str, int]:
    return {one.topic: one.end - one.first for one in batch.ranges}


@pytest.fixture
def log(tmp_path: Path) -> EmbeddedLog:
    made = EmbeddedLog(tmp_path / "log")
    made.create("orders", "id bigint, note string NOT NULL", key="id", partitions=2)
    made.create("events", "what string")
    made.append("orders", [{"id": number, "note": "new"} for number in range(3 * ROWS)])
    made.delete("orders", [{"id": 1}])
    return made


def test_the_newest_records_are_added_and_deleted(log: EmbeddedLog) -> None:
    program, before = Program(), log.position()
    rehearse(log, program)
    assert [batch.first for batch in program.batches] == [True, False, False, False]
    added, deleted, again = (records(batch)["orders"] for batch in program.batches[1:])
    assert ROWS - 1 <= added <= ROWS
    assert (deleted, again) == (added // 2, added)
    assert log.position() == before
    with pytest.raises(UsageError, match="no log"):
        open_log(program.batches[0].log[0], create=False)
    log.close()


def test_a_topic_without_a_key_gets_more(log: EmbeddedLog) -> None:
    log.append("events", [{"what": "a"}, {"what": "b"}])
    program = Program()
    rehearse(log, program)
    assert [records(batch).get("events") for batch in program.batches[1:]] == [2, 1, 2]
    log.close()


def test_a_lost_process_is_told(log: EmbeddedLog) -> None:
    def lose(_: Batch) -> None:
        raise WorkerLost("gone")

    with pytest.raises(WorkerLost):
        rehearse(log, Program(lose))
    log.close()

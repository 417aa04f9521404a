"""The contract of a capture's target: every test runs for the log and for a staging area."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import headwater as hw
from headwater.cdc.postgres.lsn import Lsn
from headwater.connectors.capture.target import LogTarget, Rows, StagingTarget, Target, place_in
from headwater.errors import CaptureOvertaken, HeadwaterError
from headwater.log.commit import Commit
from headwater.log.port import Log

START, TABLE, TOPIC = Lsn(10), 7, "t"


class Rider:
    """A bookmark that moves with every commit, to one more."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self.count = 0
        self.conflicts: list[str] = []

    def moves(self, commit: Commit) -> None:
        commit.bookmark("rider", self.count + 1, expect=self.count or None)

    def committed(self) -> None:
        self.count += 1

    def conflicted(self, bookmark: str) -> None:
        self.conflicts.append(bookmark)
        value: Any = self._log.bookmark("rider")
        self.count = value


def reject(error: HeadwaterError, _place: Lsn) -> None:
    raise error


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with hw.open(tmp_path / "log") as log:
        log.create(TOPIC, "n int", key="n")
        yield log


@pytest.fixture(params=["log", "staging"])
def target(request: pytest.FixtureRequest, log: Log, tmp_path: Path) -> Iterator[Target[Lsn]]:
    if request.param == "log":
        yield LogTarget(log, "s", "s.capture", START, [], reject)
        return
    staging = StagingTarget(tmp_path / "staged", START, [Lsn(20), Lsn(30)], lambda *_: iter(()))
    yield staging
    staging.close()


def rows(*numbers: int) -> pa.Table:
    return pa.table({"n": pa.array(numbers, pa.int32())})


def taken(target: Target[Lsn], log: Log) -> list[int]:
    """What the target has, wherever that is."""
    staged = [table["n"].to_pylist() for table in target.uncommitted(TABLE, TOPIC)]
    return [*log.scan(TOPIC)["n"].to_pylist(), *(number for part in reversed(staged) for number in part)]


def test_transactions_are_taken_in_their_order(target: Target[Lsn], log: Log) -> None:
    assert target.place == START
    target.commit(lambda to: to.append(TOPIC, rows(1, 2)), Lsn(15))
    assert target.place == Lsn(15)
    target.commit(lambda to: to.append_each(TOPIC, rows(3, 4), np.array([0, 1]), commits=2), Lsn(20))
    target.commit(lambda to: to.append(TOPIC, rows(5)), Lsn(25))
    assert (target.place, taken(target, log)) == (Lsn(25), [1, 2, 3, 4, 5])


def test_a_transaction_that_cannot_be_filled_in_is_not_taken(target: Target[Lsn], log: Log) -> None:
    def fail(to: Rows) -> None:
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        target.commit(fail, Lsn(15))
    assert (target.place, taken(target, log)) == (START, [])


def test_a_commit_without_rows_moves_on(target: Target[Lsn], log: Log) -> None:
    target.commit(lambda _: None, Lsn(20))
    assert (target.place, taken(target, log)) == (Lsn(20), [])


def test_the_bookmark_moves_with_the_rows(log: Log) -> None:
    target = LogTarget(log, "s", "s.capture", START, [], reject)
    target.commit(lambda to: to.append(TOPIC, rows(1)), Lsn(15))
    assert place_in(log.bookmark("s.capture")) == str(Lsn(15))
    other = LogTarget(log, "s", "s.capture", Lsn(15), [], reject)
    other.commit(lambda to: to.append(TOPIC, rows(2)), Lsn(16))
    with pytest.raises(CaptureOvertaken):
        target.commit(lambda to: to.append(TOPIC, rows(2)), Lsn(16))
    assert taken(target, log) == [1, 2]


def test_riders_move_once_with_what_is_committed_after_a_conflict(log: Log) -> None:
    rider = Rider(log)
    target = LogTarget(log, "s", "s.capture", START, [rider], reject)
    target.commit(lambda to: to.append(TOPIC, rows(1)), Lsn(15))
    with log.commit() as commit:
        commit.bookmark("rider", 5)
    target.commit(lambda to: to.append(TOPIC, rows(2)), Lsn(16))
    assert (rider.conflicts, rider.count, log.bookmark("rider")) == (["rider"], 6, 6)
    assert taken(target, log) == [1, 2]


def test_rows_that_do_not_fit_are_left_out_once_they_were_rejected(log: Log) -> None:
    stopped: list[str] = []
    target = LogTarget(log, "s", "s.capture", START, [], lambda error, _: stopped.append(error.message))

    def fill(to: Rows) -> None:
        if not stopped:
            to.append(TOPIC, pa.table({"n": ["no number"]}))
        to.append(TOPIC, rows(1))

    target.commit(fill, Lsn(15))
    assert len(stopped) == 1
    assert taken(target, log) == [1]


def test_what_was_read_at_a_place_comes_behind_the_changes_up_to_it(log: Log, tmp_path: Path) -> None:
    read = {Lsn(20): [rows(100)], Lsn(30): [rows(200)]}
    target = StagingTarget(tmp_path / "staged", START, list(read), lambda table, place: iter(read[place]))
    target.commit(lambda to: to.append(TOPIC, rows(1)), Lsn(20))
    target.commit(lambda to: to.append(TOPIC, rows(2)), Lsn(21))
    assert taken(target, log) == [1, 100, 2], "the place at which the other rows were read is not reached"
    assert {place: [each for _, each in staging.tables()] for place, staging in target.stagings.items()} == {
        Lsn(20): [rows(1)],
        Lsn(30): [rows(2)],
    }
    target.close()

"""Many commits of one source, written with one sync."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from headwater.errors import Conflict
from headwater.log.embedded.position import commit_of, commit_position
from headwater.log.port import Log
from tests.contract.implementation import Implementation


def rows(count: int) -> pa.Table:
    return pa.table({"id": pa.array(range(count), pa.int64()), "name": [f"n{n}" for n in range(count)]})


def commits_of(log: Log, topic: str) -> dict[int, list[int]]:
    """The ids of each commit, in the order of the log."""
    found: dict[int, list[int]] = {}
    for record in log.read(topic):
        assert record.value is not None
        found.setdefault(commit_of(record.position), []).append(record.value["id"])  # type: ignore[arg-type]
    return found


def test_each_transaction_is_a_commit_of_its_own(log: Log) -> None:
    log.create("a", "id bigint, name string", key="id")
    log.create("b", "id bigint, name string")
    before = commit_of(log.position())
    with log.commit() as commit:
        commit.append_each("a", rows(5), np.array([0, 0, 2, 2, 3]), commits=5)
        commit.append_each("b", rows(2), np.array([1, 3]), commits=5)
        commit.bookmark("source", 5, expect=None)
    assert commit_of(commit.position) == commit_of(log.position()) == before + 5
    assert commits_of(log, "a") == {before + 1: [0, 1], before + 3: [2, 3], before + 4: [4]}
    assert commits_of(log, "b") == {before + 2: [0], before + 4: [1]}
    assert log.bookmark("source") == 5
    assert log.scan("a", end=commit.position)["id"].to_pylist() == [0, 1, 2, 3, 4]


def test_a_conflict_leaves_nothing(log: Log) -> None:
    log.create("a", "id bigint, name string", key="id")
    with pytest.raises(Conflict), log.commit() as commit:  # noqa: PT012 (what is done before counts)
        commit.append_each("a", rows(3), np.array([0, 1, 2]), commits=3)
        commit.bookmark("source", 3, expect=2)
    assert log.scan("a").num_rows == 0


def test_records_of_many_partitions_keep_their_commits(log: Log) -> None:
    log.create("a", "id bigint, name string", key="id", partitions=3)
    before = commit_of(log.position())
    with log.commit() as commit:
        commit.append_each("a", rows(3000), np.arange(3000) // 1000, commits=3)
    found = commits_of(log, "a")
    assert {number: sorted(ids) for number, ids in found.items()} == {
        before + 1 + n: list(range(n * 1000, n * 1000 + 1000)) for n in range(3)
    }


def test_more_commits_than_one_write_takes(log: Log) -> None:
    log.create("a", "id bigint, name string", key="id")
    with log.commit() as commit:
        commit.append_each("a", rows(3000), np.arange(3000), commits=3000)
    assert log.table("a").num_rows == 3000
    assert len(commits_of(log, "a")) == 3000


@pytest.mark.parametrize("settled", [False, True])
def test_reading_begins_and_ends_between_any_two_of_the_commits(
    log: Log,
    implementation: Implementation,
    settled: bool,
) -> None:
    log.create("a", "id bigint, name string", key="id", partitions=2)
    log.append("a", rows(1))
    before = commit_of(log.position())
    with log.commit() as commit:
        commit.append_each("a", rows(4000), np.arange(4000) // 2, commits=2000)
    if settled:
        implementation.settle(log, "a")
    for at in (0, 1, 2, 999, 1000, 1998, 1999, 2000):
        position = commit_position(before + at)
        assert log.scan("a", end=position).num_rows == 1 + 2 * at
        beyond = log.scan("a", start=position, end=commit.position)
        assert sorted(beyond["id"].to_pylist()) == list(range(2 * at, 4000))
    table = log.table("a", at=commit_position(before + 10))
    assert sorted(table["id"].to_pylist()) == list(range(20))


def test_records_without_a_number_belong_to_the_last_commit(log: Log) -> None:
    log.create("a", "id bigint, name string", key="id")
    log.create("history", "id bigint, name string")
    before = commit_of(log.position())
    with log.commit() as commit:
        commit.append_each("a", rows(3), np.array([0, 1, 1]), commits=2)
        commit.append("history", rows(2))
    assert commits_of(log, "a") == {before + 1: [0], before + 2: [1, 2]}
    assert commits_of(log, "history") == {before + 2: [0, 1]}


def test_records_that_do_not_fit_become_dead_letters_of_their_commits(log: Log) -> None:
    log.create("a", "id bigint NOT NULL", key="id", dead_letter="a-dead")
    given = pa.table({"id": pa.array([1, None, 3], pa.int64())})
    before = commit_of(log.position())
    with log.commit() as commit:
        commit.append_each("a", given, np.array([0, 1, 2]), commits=3)
    assert [one.index for one in commit.rejected] == [1]
    assert commits_of(log, "a") == {before + 1: [1], before + 3: [3]}
    assert [commit_of(record.position) for record in log.read("a-dead")] == [before + 2]

"""Isolation: records that have to go for a commit not to fail, and no others, however the commit's parts fail."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.engine.batch import Batch, StageNote
from headwater.engine.definition import Definition
from headwater.engine.isolation import NAMED_MAX, Isolated, isolate
from headwater.errors import ViewFailed
from headwater.log.embedded.log import EmbeddedLog
from headwater.model.position import Position


class Divisions:
    """A view that divides by the newest `h` of every id less the newest `v`, as a join of two tables would."""

    topics: Sequence[str] = ("t", "u")
    definition = Definition()
    fingerprint = ""
    tasks = 1
    time_sources: Sequence[str] = ()

    def __init__(self, log: EmbeddedLog) -> None:
        self._log, self.runs = log, 0

    def run(self, batch: Batch) -> list[StageNote]:
        self.runs += 1
        gone = {
            (topic, partition, offset)
            for topic, partition, first, last in batch.excluded
            for offset in range(first, last + 1)
        }
        newest: dict[str, dict[int, int]] = {"t": {}, "u": {}}
        for record in self._log.read(self.topics, end=Position.parse(batch.end)):
            if (record.topic, int(record.partition), int(record.offset)) not in gone:
                value: Any = record.value
                newest[record.topic][value["id"]] = value["n"]
        for number, h in newest["t"].items():
            if number in newest["u"] and h == newest["u"][number]:
                raise ViewFailed("ratio", f"Division by zero for {number}.")
        return []


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EmbeddedLog]:
    with opened(tmp_path) as log:
        yield log


def opened(directory: Path) -> EmbeddedLog:
    log = EmbeddedLog(directory / "log")
    for topic in Divisions.topics:
        log.create(topic, "id bigint, n bigint", key="id")
    return log


def commit(log: EmbeddedLog, *records: tuple[str, int, int]) -> None:
    with log.commit() as made:
        for topic, number, n in records:
            made.append(topic, [{"id": number, "n": n}])


def isolated(log: EmbeddedLog, program: Divisions, *, start: int = 0, is_set_aside: bool = True) -> Isolated:
    batch = Batch(2, ("", ""), str(start), str(log.position()), first=False, tasks=1, blobs="", runs={})
    with pytest.raises(ViewFailed) as caught:
        program.run(batch)
    return isolate(log, program, batch, caught.value, lambda _: is_set_aside)


def places(found: Isolated) -> set[tuple[str, int]]:
    return {(suspect.topic, suspect.offset) for suspect in found.records}


def test_the_first_commit_that_fails_is_found_before_its_records(log: EmbeddedLog) -> None:
    commit(log, ("t", 1, 5), ("u", 1, 4))
    commit(log, ("t", 2, 5))
    commit(log, ("u", 2, 5))
    commit(log, ("u", 3, 5))
    found = isolated(log, Divisions(log))
    assert (str(found.good), str(found.commit), found.records) == ("2", "3", ())
    found = isolated(log, Divisions(log), start=2)
    assert places(found) == {("u", 1)}


def test_a_record_that_another_of_its_commit_makes_good_stays(log: EmbeddedLog) -> None:
    commit(log, ("t", 1, 5), ("u", 1, 4), ("t", 2, 5))
    # Without the new u of 1, its new t would fail; the u of 2 fails in any case. The halves part the first two.
    commit(log, ("t", 1, 4), ("t", 9, 1), ("u", 1, 3), ("u", 2, 5))
    found = isolated(log, Divisions(log), start=1)
    assert places(found) == {("u", 2)}


def test_a_record_that_is_replaced_in_its_commit_stays(log: EmbeddedLog) -> None:
    commit(log, ("t", 1, 5), ("t", 2, 5))
    commit(log, ("u", 1, 5), ("u", 9, 1), ("u", 1, 4), ("u", 2, 5))
    assert places(isolated(log, Divisions(log), start=1)) == {("u", 3)}


def test_what_is_only_reported_is_not_looked_for_without_end(log: EmbeddedLog) -> None:
    count = 4 * NAMED_MAX
    commit(log, *(("t", number, 5) for number in range(count)))
    commit(log, *(("u", number, 5) for number in range(count)))
    program = Divisions(log)
    assert len(isolated(log, program, start=1, is_set_aside=False).records) == NAMED_MAX
    assert len(isolated(log, program, start=1).records) == count


def test_a_failure_that_is_no_record_s_fault_is_raised(log: EmbeddedLog) -> None:
    class Broken(Divisions):
        def run(self, batch: Batch) -> list[StageNote]:
            raise ViewFailed("ratio", "It never works.")

    commit(log, ("t", 1, 5))
    with pytest.raises(ViewFailed, match="It never works"):
        isolated(log, Broken(log))


records = st.tuples(st.sampled_from(Divisions.topics), st.integers(1, 3), st.integers(1, 3))


@settings(max_examples=150, deadline=None)
@given(st.lists(records, max_size=6), st.lists(records, min_size=1, max_size=7))
def test_all_that_goes_has_to_go(before: list[tuple[str, int, int]], last: list[tuple[str, int, int]]) -> None:
    with tempfile.TemporaryDirectory() as directory, opened(Path(directory)) as log:
        for record in before:
            commit(log, record)
        program = Divisions(log)
        start = str(log.position())
        commit(log, *last)
        batch = Batch(2, ("", ""), start, str(log.position()), first=False, tasks=1, blobs="", runs={})
        if fails(program, batch, ()) is None or fails(program, batch, (), end=start):
            return
        failure = fails(program, batch, ())
        assert failure is not None
        found = isolate(log, program, batch, failure, lambda _: True).records
        gone = [suspect.place for suspect in found]
        assert fails(program, batch, gone) is None
        for fewer in combinations(gone, len(gone) - 1):
            assert fails(program, batch, fewer) is not None


def fails(
    program: Divisions, batch: Batch, gone: Sequence[tuple[str, int, int]], *, end: str | None = None
) -> ViewFailed | None:
    excluded = [(topic, partition, offset, offset) for topic, partition, offset in gone]
    try:
        program.run(replace(batch, excluded=excluded, end=end or batch.end))
    except ViewFailed as failure:
        return failure
    return None

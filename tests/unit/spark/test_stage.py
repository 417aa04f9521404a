"""When a stage lets its operators act: on changes, on time, and for the first time; otherwise it does nothing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from headwater.engine import runs as engine_runs
from headwater.engine.batch import Batch, StageNote
from headwater.engine.opening import open_blobs
from headwater.engine.runs import Run, RunWriter, load
from headwater.spark import stage as stages
from headwater.spark.slots import PACKED, Slots
from headwater.spark.stage import Level, Stage, StageOperator
from headwater.views.due_order import due_hashes, microseconds
from headwater.views.frontier import NO_TIME, Frontier
from headwater.views.kernel import Kernel
from headwater.views.rows import Rows
from headwater.views.temporal_filter import Bound, TemporalFilter
from headwater.views.zset import HASH, WEIGHT
from tests.unit.views.expiring import Expiring

SCHEMA = pa.schema([("k", pa.string()), ("until", pa.timestamp("us", tz="UTC"))])
ON_DISK = pa.schema([(HASH, pa.int64()), *SCHEMA, (WEIGHT, pa.int64())])
NOON, ONE, TWO = (datetime(2026, 1, 1, hour, tzinfo=UTC) for hour in (12, 13, 14))
LEFT, RIGHT = -5, 5
"""Hashes that different tasks own if there are two."""


class Task:
    """What Spark tells a task."""

    def __init__(self, batch: Batch, number: int) -> None:
        self._batch, self._number = batch, number

    def get(self) -> Task:
        return self

    def getLocalProperty(self, name: str) -> str:  # noqa: N802
        assert name == stages.BATCH
        return json.dumps(self._batch.to_json())

    def partitionId(self) -> int:  # noqa: N802
        return self._number


def ran(kernel: Kernel, batch: Batch, monkeypatch: pytest.MonkeyPatch, task: int = 0) -> StageNote:
    """The note of a stage that has this operator alone and gets no rows."""
    monkeypatch.setattr(stages, "TaskContext", Task(batch, task))
    operator = StageOperator(1, "1", kernel, dict.fromkeys(kernel.ports, ()), None, False, None, (), False)
    stage = Stage((), (Level(1, (operator,)),), {}, {}, {}, Slots().arrow)
    (note,) = [row for given in stage([]) for row in given.to_pylist()]
    made: dict[str, Any] = json.loads(note[PACKED])
    return StageNote.from_json(made)


def held(directory: Path, *rows: tuple[int, str, datetime]) -> Sequence[Run]:
    """A run with rows of the state."""
    columns = [*zip(*rows, strict=True), [1] * len(rows)]
    writer = RunWriter(open_blobs(directory), name="0-1", low=-(2**63), high=2**63 - 1)
    run = writer.add("1/rows", pa.table(columns, schema=ON_DISK))
    writer.close()
    assert run is not None
    return [run]


def batch_of(directory: Path, runs: Sequence[Run], before: Frontier, now: Frontier, tasks: int = 1) -> Batch:
    return Batch(
        2, ("", ""), "0", "1", first=False, tasks=tasks, blobs=str(directory), runs={"1/rows": runs}, frontier=now,
        frontier_before=before,
    )  # fmt: skip


def expired(note: StageNote, directory: Path) -> list[str]:
    """The keys of the rows that a step has taken out of the state."""
    found = load(open_blobs(directory), note.added, ON_DISK).to_pylist()
    assert all(row[WEIGHT] == -1 for row in found)
    return [row["k"] for row in found]


def test_an_empty_batch_in_which_no_time_has_passed_costs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = held(tmp_path, (LEFT, "a", NOON))
    at_two = Frontier({"clock": TWO})
    files = set(tmp_path.iterdir())
    monkeypatch.setattr(Expiring, "step", None)
    note = ran(Expiring(SCHEMA, ("k",)), batch_of(tmp_path, runs, at_two, at_two), monkeypatch)
    assert (note.operators, note.added) == ({}, [])
    assert set(tmp_path.iterdir()) == files


def test_the_time_of_another_source_costs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = held(tmp_path, (LEFT, "a", NOON))
    moved = batch_of(tmp_path, runs, NO_TIME, Frontier({"orders": TWO}))
    monkeypatch.setattr(Expiring, "step", None)
    assert ran(Expiring(SCHEMA, ("k",)), moved, monkeypatch).operators == {}


def test_a_kernel_without_a_clock_does_not_see_time_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    moved = batch_of(tmp_path, held(tmp_path, (LEFT, "a", NOON)), NO_TIME, Frontier({"clock": TWO}))
    assert ran(Rows(SCHEMA, ("k",)), moved, monkeypatch).operators == {}


def test_time_makes_an_operator_act_without_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = held(tmp_path, (LEFT, "a", NOON), (LEFT, "b", TWO), (RIGHT, "c", ONE))
    moved = batch_of(tmp_path, runs, NO_TIME, Frontier({"clock": ONE}))
    note = ran(Expiring(SCHEMA, ("k",)), moved, monkeypatch)
    assert note.operators == {1: (0, 2)}
    assert sorted(expired(note, tmp_path)) == ["a", "c"]


def test_a_task_lets_its_own_rows_expire(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = held(tmp_path, (LEFT, "a", NOON), (RIGHT, "c", ONE))
    moved = batch_of(tmp_path, runs, NO_TIME, Frontier({"clock": ONE}), tasks=2)
    notes = [ran(Expiring(SCHEMA, ("k",)), moved, monkeypatch, task) for task in range(2)]
    assert [expired(note, tmp_path) for note in notes] == [["a"], ["c"]]


TEMPORAL = TemporalFilter(SCHEMA, tuple(SCHEMA.names), "clock", (Bound("until"),), ())


def waiting(directory: Path, count: int) -> Sequence[Run]:
    """A run with rows that appear from noon on, one a second, in the buckets of all tasks."""
    moments = [NOON + timedelta(seconds=number) for number in range(count)]
    hashes = np.random.default_rng(1).integers(-(2**63), 2**63 - 1, count)
    due = np.array([microseconds(moment) for moment in moments])
    columns = [due_hashes(hashes, due), [str(number) for number in range(count)], moments, due, [1] * count]
    schema = pa.schema([*ON_DISK][:-1]).append(pa.field("_due", pa.int64())).append(ON_DISK.field(WEIGHT))
    writer = RunWriter(open_blobs(directory), name="0-1")
    run = writer.add("1/pending", pa.table(columns, schema=schema))
    writer.close()
    assert run is not None
    return [run]


@pytest.mark.parametrize("tasks", [1, 3])
def test_what_is_due_is_found_without_reading_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tasks: int
) -> None:
    runs, touched = waiting(tmp_path, 50_000), 0

    def taken(table: pa.Table, places: Any) -> pa.Table:
        nonlocal touched
        touched += len(places)
        return table.take(pa.array(places))

    monkeypatch.setattr(engine_runs, "rows_at", taken)
    before, now = (Frontier({"clock": NOON + timedelta(seconds=seconds)}) for seconds in (999.5, 1009.5))
    moved = replace(batch_of(tmp_path, (), before, now, tasks=tasks), runs={"1/pending": runs})
    notes = [ran(TEMPORAL, moved, monkeypatch, task) for task in range(tasks)]
    assert sum(note.operators[1][1] for note in notes) == 10
    # Writing the run that takes them out sorts it, too.
    assert touched <= 4 * 10

"""Jobs that several processes ask for, and none forgets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater.cdc.postgres.relations import Column, Relation
from headwater.connectors.capture.lifecycle import Event, State, stored_as
from headwater.connectors.postgres.address import Address
from headwater.connectors.postgres.incremental import Incremental
from headwater.connectors.postgres.jobs import keys_job, new_job
from headwater.connectors.postgres.options import CaptureOptions
from headwater.connectors.postgres.tables import Tables
from headwater.log.port import Log

OPTIONS = CaptureOptions("s", Address({}), tables=["*"])


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with hw.open(tmp_path) as log:
        yield log


def begun(log: Log, *jobs: Any) -> tuple[Tables, Incremental]:
    """A source with one table, number 7, and jobs that wait."""
    log.create("s._schema", "lsn string, relation string, topic string, event string, detail string")
    tables = Tables(log, OPTIONS)
    tables.add(Relation(7, "public", "t", "d", (Column("id", "int4"),)), ("id",))
    tables.incomplete.clear()
    with log.commit() as commit:
        commit.bookmark(OPTIONS.names.snapshot, stored_as(State.STREAMING, [job.to_json() for job in jobs]))
    return tables, Incremental(log, OPTIONS, tables)


def commit(log: Log, incremental: Incremental) -> None:
    while True:
        with log.commit(on_conflict="return") as commit:
            incremental.moves(commit)
        if commit.conflict is None:
            break
        incremental.conflicted(OPTIONS.names.snapshot)
    incremental.committed()


def jobs_of(log: Log) -> list[dict[str, Any]]:
    return OPTIONS.life(log).jobs


def ask(log: Log, job: Any) -> None:
    OPTIONS.life(log).ask([job.to_json()])


def test_a_job_for_some_rows_does_not_stand_for_one_for_all(log: Log) -> None:
    tables, incremental = begun(log, new_job(7, where="id < 3"), keys_job(7, [["1"]]), new_job(7))
    tables.read_again(7)
    commit(log, incremental)
    assert len(jobs_of(log)) == 3, "the last one reads the whole table, and has not begun"
    tables.read_again(7, purge=True)
    commit(log, incremental)
    assert [job["purge"] for job in jobs_of(log)] == [False, False, False, True]
    tables.read_again(7, purge=True)
    commit(log, incremental)
    assert len(jobs_of(log)) == 4


def test_what_others_ask_for_meanwhile_stays(log: Log) -> None:
    first, second, other = new_job(7, where="id < 3"), new_job(7, where="id < 4"), new_job(7, where="id < 5")
    tables, incremental = begun(log, first, second)
    tables.read_again(7)
    incremental._next = stored_as(State.STREAMING, [second.to_json()])  # the first one is done
    ask(log, other)
    commit(log, incremental)
    found = jobs_of(log)
    assert [job["where"] for job in found] == ["id < 4", "id < 5", None]


def test_a_drop_meanwhile_is_not_undone(log: Log) -> None:
    job = new_job(7, where="id < 3")
    _, incremental = begun(log, job)
    incremental._next = stored_as(State.STREAMING)
    OPTIONS.life(log).move(Event.DROP)
    commit(log, incremental)
    assert OPTIONS.life(log).stored == stored_as(State.DROPPED)

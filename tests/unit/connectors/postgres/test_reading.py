"""The thread that reads chunks, with a database that is made up."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

import pyarrow as pa
import pytest

from headwater.cdc.postgres.relations import Column, Relation
from headwater.connectors.capture.handover import Handover
from headwater.connectors.postgres import reading
from headwater.connectors.postgres.address import Address
from headwater.connectors.postgres.copying import Blocks
from headwater.connectors.postgres.jobs import Job, new_job
from headwater.connectors.postgres.options import CaptureOptions
from headwater.connectors.postgres.reading import Begun, Chunk, ChunkReader, Report, Task, Work
from headwater.connectors.postgres.tables import Table
from headwater.errors import QueryFailed

LAYOUT: dict[str, list[Any]] = {"7": [[1], [["id", 23, -1]]]}
TABLE = Table(Relation(7, "public", "t", "d", (Column("id", "int4"),)), "s.t", ("id",))


class Database:
    """A server in which nobody else runs, and that fails to read as often as it is told."""

    def __init__(self, failures: int) -> None:
        self._failures = failures
        self.marks = 0

    def execute(self, query: str, *_: object) -> Database:
        self.marks += "emit_message" in query
        self._answer: object = "5:5:" if "pg_current_snapshot()::text" in query else 5
        return self

    def fetchall(self) -> list[tuple[object]]:
        return [(self._answer,)]

    def rows(self, *_: object) -> Iterator[pa.Table]:
        if self._failures:
            self._failures -= 1
            raise QueryFailed("postgresql://", "canceling statement due to lock timeout")
        yield pa.table({"id": pa.array([1], pa.int32())})


@pytest.fixture(autouse=True)
def layout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "layout_of", lambda *_: LAYOUT)
    monkeypatch.setattr(reading, "parts_of", lambda *_: [Blocks("t", 0, 9)])


def read(reader: ChunkReader, job: Job, database: Database) -> None:
    reader._read(Task(job, TABLE), "ONLY t", cast("Any", database), cast("Any", database))


def reading_with(reports: list[Report]) -> tuple[ChunkReader, Handover[Work, Report]]:
    """A reader, to which every chunk is settled as soon as it is reported."""

    class Settling(Handover[Work, Report]):
        def report(self, report: Report) -> None:
            reports.append(report)
            if isinstance(report, Chunk):
                self.give(Work((), report.token))

    handover = Settling(Work((), ""))
    return ChunkReader(CaptureOptions("s", Address({}), tables=["*"]), handover), handover


def test_a_mark_is_written_behind_a_chunk_that_was_reported() -> None:
    reports: list[Report] = []
    reader, _ = reading_with(reports)
    database = Database(failures=0)
    read(reader, new_job(7), database)
    assert [type(report) for report in reports] == [Begun, Chunk]
    assert database.marks == 1


def test_a_purge_that_was_interrupted_begins_again_also_if_its_first_read_fails() -> None:
    reports: list[Report] = []
    reader, _ = reading_with(reports)
    interrupted = replace(new_job(7, purge=True), blocks=(Blocks("t", 5, 9),), layout=LAYOUT)
    database = Database(failures=1)
    with pytest.raises(QueryFailed):
        read(reader, interrupted, database)
    read(reader, interrupted, database)
    read(reader, interrupted, database)
    chunks = [report for report in reports if isinstance(report, Chunk)]
    assert [chunk.blocks and chunk.blocks.first for chunk in chunks] == [0, 5], "all blocks once, and then what is left"

"""The thread that reads chunks of tables while changes flow, and what it tells the thread that follows the stream."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from dataclasses import dataclass, replace

import pyarrow as pa

from headwater.cdc.postgres.visibility import Visibility
from headwater.connectors.capture.handover import Handover
from headwater.connectors.postgres.copying import Blocks, Copier
from headwater.connectors.postgres.inventory import Connection, table_of
from headwater.connectors.postgres.jobs import Job, keys_query
from headwater.connectors.postgres.options import CaptureOptions
from headwater.connectors.postgres.snapshot import chunk_query, layout_of, parts_of
from headwater.connectors.postgres.tables import Event, Table
from headwater.errors import QueryFailed

POLL_SECONDS = 0.2
POLL_SECONDS_MIN = 0.005
# So often a read is tried, with a rest in between, before it is the table that cannot be read.
READ_TRIES_MAX = 5


@dataclass(frozen=True, slots=True)
class Task:
    """A job, and its table as the stream knows it."""

    job: Job
    table: Table


@dataclass(frozen=True, slots=True)
class Work:
    """What there is to read, and the token of the last chunk that the log has, or that was turned down."""

    tasks: tuple[Task, ...]
    settled: str


@dataclass(frozen=True, slots=True)
class Begun:
    """From now on what passes of a job's table counts: the job is going to be read."""

    job: Job
    table: Table


@dataclass(frozen=True, slots=True)
class Seen:
    """Whatever is read from now on shows at least this."""

    visibility: Visibility


@dataclass(frozen=True, slots=True)
class Chunk:
    """Rows that were read, which a mark with the token will let in; and which transactions they are sure to show."""

    token: str
    job: Job
    table: Table
    blocks: Blocks | None
    seen: Visibility
    rows: pa.Table


@dataclass(frozen=True, slots=True)
class Outdated:
    """A table has other columns in the catalog than the stream knows."""

    oid: int


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A table cannot be read, however often it is tried."""

    oid: int
    reason: str


@dataclass(frozen=True, slots=True)
class Refused:
    """The database does not take the condition of a job."""

    job: str
    event: Event


@dataclass(frozen=True, slots=True)
class Ended:
    """Reading has ended with an error."""

    error: Exception


Report = Begun | Seen | Chunk | Outdated | Unreadable | Refused | Ended


class ChunkReader:
    """Reads what there is to read, in a thread and with connections of its own."""

    def __init__(self, options: CaptureOptions, handover: Handover[Work, Report]) -> None:
        self._options, self._handover = options, handover
        self._failures: Counter[str] = Counter()
        self._refused: set[str] = set()
        self._entered: set[str] = set()
        self._watched: str | None = None

    def run(self) -> None:
        """Reads until it is stopped. An error ends it, and is reported."""
        connection: Connection | None = None
        copier: Copier | None = None
        try:
            while (task := self._wait_for_task()) is not None:
                connection = connection or self._options.address.connect()
                found = table_of(connection, task.job.oid)
                if found is None or found.relation.columns != task.table.relation.columns:
                    # The stream tells of it with the next change; until then the stream's thread asks the catalog.
                    self._handover.report(Outdated(task.job.oid))
                    self._handover.rest(POLL_SECONDS)
                    continue
                copier = copier or Copier(self._options.address)
                try:
                    self._read(task, found.source, connection, copier)
                except QueryFailed as error:
                    self._fail(task, error)
        except Exception as error:  # noqa: BLE001 - the stream's thread raises it
            self._handover.report(Ended(error))
        finally:
            for each in (connection, copier):
                if each is not None:
                    each.close()

    def _wait_for_task(self) -> Task | None:
        work = self._handover.wait_for(lambda work: any(task.job.id not in self._refused for task in work.tasks))
        return None if work is None else next(task for task in work.tasks if task.job.id not in self._refused)

    def _fail(self, task: Task, error: QueryFailed) -> None:
        """The database refuses a chunk: for a moment, or whatever is tried."""
        job, table = task.job, task.table
        if job.where is not None:
            # It would fail again and again; the one that asked for it finds the reason in the history.
            self._refused.add(job.id)
            event = Event("", table.name, table.topic, "snapshot failed", error.message)
            self._handover.report(Refused(job.id, event))
            return
        self._failures[job.id] += 1
        if self._failures[job.id] >= READ_TRIES_MAX:
            # The stream's thread stops the table, and then the job goes.
            self._handover.report(Unreadable(job.oid, error.message))
        self._handover.rest(POLL_SECONDS * 2 ** min(self._failures[job.id], READ_TRIES_MAX))

    def _read(self, task: Task, source: str, connection: Connection, copier: Copier) -> None:
        job, table = task.job, task.table
        if job.purge and job.id not in self._entered:
            # What was read before the last stop is not known any more: all of it is read again.
            job = replace(job, blocks=None)
        if self._watched != job.id:
            # Before the database is asked who runs, so that nobody else's change passes unseen.
            self._handover.report(Begun(job, table))
            self._watched = job.id
            self._wait_for_others(connection)
        if job.keys:
            self._read_chunk(job, table, None, keys_query(job, table, source), connection, copier)
            return
        layout = layout_of(connection, [table])
        if job.blocks is None or job.layout != layout:
            # Not planned yet, or rewritten since: rows may lie in blocks that were read before they did.
            job = replace(job, blocks=tuple(parts_of(connection, table)), layout=layout)
        blocks = job.next_blocks()
        query = None if blocks is None else chunk_query(table, blocks, job.where)
        self._read_chunk(job, table, blocks, query, connection, copier)

    def _read_chunk(
        self, job: Job, table: Table, blocks: Blocks | None, query: str | None, connection: Connection, copier: Copier
    ) -> None:
        """Reads, puts a mark behind it, and returns when the stream has brought that.

        A chunk of a table that is rewritten while it is read does not count: the mark that would let it in is not
        written, and the job is planned again.
        """
        seen = _visibility(connection)
        parts = [] if query is None else list(copier.rows(table.relation, query))
        empty = table.relation.arrow.empty_table()
        rows = pa.concat_tables([empty, *parts], promote_options="default") if parts else empty
        if job.layout is not None and job.layout != layout_of(connection, [table]):
            return
        chunk = Chunk(uuid.uuid4().hex, job, table, blocks, seen, rows)
        self._handover.report(chunk)
        content = json.dumps({"token": chunk.token, "job": job.id})
        connection.execute("SELECT pg_logical_emit_message(true, %s, %s)", (self._options.names.watermark, content))
        if self._handover.wait_for(lambda work: work.settled == chunk.token) is not None:
            self._entered.add(job.id)

    def _wait_for_others(self, connection: Connection) -> None:
        """Returns when all transactions that run now have ended.

        Those that came by in the stream before anybody watched are then seen by the reader. And so are those that
        changed the table before it was published, whose changes the stream does not bring.
        """
        [(now,)] = connection.execute("SELECT pg_current_xact_id()::text::int8").fetchall()
        pause = POLL_SECONDS_MIN
        while not self._handover.is_stopped:
            [(oldest,)] = connection.execute("SELECT pg_snapshot_xmin(pg_current_snapshot())::text::int8").fetchall()
            if oldest >= now:
                return
            self._handover.report(Seen(_visibility(connection)))
            self._handover.rest(pause)
            pause = min(2 * pause, POLL_SECONDS)


def _visibility(connection: Connection) -> Visibility:
    """What a query sees from now on."""
    [(text,)] = connection.execute("SELECT pg_current_snapshot()::text").fetchall()
    return Visibility.parse(text)

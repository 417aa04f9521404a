"""Incremental snapshots: reads a table, or a part of it, while changes flow, and lets each row in where it is right.

Jobs wait in a bookmark, so that any process can ask for one and none is forgotten. A thread reads chunk after chunk,
and puts a mark into the WAL behind each; the stream brings the mark back, and with it the chunk enters the log.
"""

from __future__ import annotations

import json
import threading
import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from headwater.cdc.postgres.transactions import Transaction
from headwater.cdc.postgres.values import convert
from headwater.cdc.postgres.visibility import Visibility
from headwater.cdc.staging import Staging
from headwater.cdc.windows import Hashes, Ids, Passing, key_hashes
from headwater.connectors.postgres import snapshot
from headwater.connectors.postgres.applying import tombstones
from headwater.connectors.postgres.copying import Blocks, Copier, selected
from headwater.connectors.postgres.inventory import Connection, table_of
from headwater.connectors.postgres.naming import literal, quoted
from headwater.connectors.postgres.occurrences import live_keys
from headwater.connectors.postgres.options import CaptureOptions
from headwater.connectors.postgres.snapshot import chunk_query, completed, layout_of, parts_of
from headwater.connectors.postgres.tables import Event, Table, Tables, unfit_key
from headwater.errors import QueryFailed
from headwater.log.commit import Commit
from headwater.log.port import Log

POLL_SECONDS = 0.2
POLL_SECONDS_MIN = 0.005
# So often a read is tried, with a rest in between, before it is the table that cannot be read.
READ_TRIES_MAX = 5
# Keys that passed are put together when there are so many parts of them.
SEEN_PARTS_MAX = 1000
# How many keys one job names at most.
KEYS_MAX = 1000


@dataclass(frozen=True, slots=True)
class Job:
    """A table to read. `blocks` is what is left of it; None: all, not yet planned. `where` takes only some rows.

    With `purge`, rows of the log that are not in the table any more are deleted at the end. `keys`, as texts, are read
    by themselves, and deleted where the table does not have them.
    """

    id: str
    oid: int
    where: str | None = None
    purge: bool = False
    blocks: tuple[Blocks, ...] | None = None
    keys: tuple[tuple[str, ...], ...] = ()
    layout: dict[str, list[Any]] | None = None

    def to_json(self) -> dict[str, Any]:
        blocks = None if self.blocks is None else [[each.table, each.first, each.end] for each in self.blocks]
        return {
            "id": self.id,
            "oid": self.oid,
            "where": self.where,
            "purge": self.purge,
            "blocks": blocks,
            "keys": [list(key) for key in self.keys],
            "layout": self.layout,
        }

    @property
    def is_whole(self) -> bool:
        """Whether it reads all of its table, and nothing of it is in the log yet."""
        return self.where is None and not self.keys and self.blocks is None

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Job:
        blocks = None if value["blocks"] is None else tuple(Blocks(*each) for each in value["blocks"])
        keys = tuple(tuple(key) for key in value.get("keys", ()))
        return cls(value["id"], value["oid"], value["where"], value["purge"], blocks, keys, value.get("layout"))


def new_job(oid: int, *, where: str | None = None, purge: bool = False) -> Job:
    """A job for a whole table, or for the rows that a condition names."""
    return Job(uuid.uuid4().hex[:12], oid, where, purge)


def leaf_job(connection: Connection, table: Table, leaves: Sequence[int], layout: dict[str, list[Any]]) -> Job:
    """A job for some partitions of a table."""
    blocks = tuple(parts_of(connection, table, leaves))
    return Job(uuid.uuid4().hex[:12], table.relation.oid, blocks=blocks, layout=layout)


def keys_job(oid: int, keys: Sequence[Sequence[str]]) -> Job:
    """A job for some keys of a table."""
    return Job(uuid.uuid4().hex[:12], oid, keys=tuple(tuple(key) for key in keys))


@dataclass(slots=True)
class _Chunk:
    """What a mark lets in: which, and once it was read, its rows, and which transactions they are sure to show."""

    token: str
    job: Job
    table: Table
    blocks: Blocks | None
    seen: Visibility | None = None
    rows: pa.Table | None = None
    entered: bool = False


@dataclass(frozen=True, slots=True)
class _Watch:
    """What comes by of the table that a job reads, from before the job's first chunk on."""

    job: str
    oid: int
    passing: Passing


class Incremental:
    """The jobs of a source. The stream's thread calls it as an observer; one thread of its own reads."""

    def __init__(
        self,
        log: Log,
        options: CaptureOptions,
        tables: Tables,
    ) -> None:
        self._log, self._options, self._tables = log, options, tables
        self._state: dict[str, Any] = {}
        self.jobs: list[Job] = []
        self._failures: Counter[str] = Counter()
        self._next: dict[str, Any] | None = None
        self._chunk: _Chunk | None = None
        self._watch: _Watch | None = None
        self._reading: str | None = None
        self._seen: dict[str, list[Any]] = {}
        self._change = threading.Condition()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self.failure: Exception | None = None
        self.outdated: set[int] = set()
        self.unreadable: dict[int, str] = {}
        self.refresh()

    @property
    def whole(self) -> list[Job]:
        """The jobs of tables without a key: no row of the stream can be told from one that was read, so they are read
        as a whole, at one place of the WAL, while the stream waits."""
        return [job for job in self.jobs if self._is_read_whole(job)]

    def _is_read_whole(self, job: Job) -> bool:
        table = self._tables.by_oid.get(job.oid)
        return table is not None and table.stopped is None and not table.key

    def refresh(self) -> None:
        """Takes up jobs that others have asked for."""
        state: Any = self._log.bookmark(self._options.names.snapshot) or {}
        with self._change:
            self._take(state)
            self._change.notify_all()

    def _take(self, state: dict[str, Any]) -> None:
        if state != self._state:
            self._state, self.jobs = state, [Job.from_json(each) for each in state.get("jobs", [])]

    def start(self) -> None:
        """Begins to read."""
        self._stopped.clear()
        self.failure = None
        self._thread = threading.Thread(target=self._read_all, name="headwater-chunks", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ends reading; what is not done is done after the next start."""
        with self._change:
            self._stopped.set()
            self._change.notify_all()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self._chunk, self._watch, self._seen = None, None, {}

    def check(self) -> None:
        """Raises what has ended the reading."""
        if self.failure is not None:
            raise self.failure

    # What the stream's thread calls

    def rows(self, table: Table, rows: pa.Table, xids: Ids) -> None:
        if not table.key:
            return
        watch = self._watch
        if watch is not None and watch.oid == table.relation.oid:
            watch.passing.pass_by(rows, xids)
        for job in self.jobs:
            if job.purge and job.oid == table.relation.oid and job.id in self._seen:
                seen = self._seen[job.id]
                seen.append(key_hashes(rows, table.key))
                if len(seen) > SEEN_PARTS_MAX:
                    seen[:] = [np.unique(np.concatenate(seen))]

    def truncated(self, table: Table, xid: int) -> None:
        # Not only keys that the log has: the chunk may have others.
        watch = self._watch
        if watch is not None and watch.oid == table.relation.oid:
            watch.passing.empty(xid)

    def mark(self, content: bytes, staging: Staging, transaction: Transaction) -> bool:
        mark = json.loads(content)
        chunk = self._chunk
        # A mark of a capture that was killed: its chunk is read again.
        if chunk is None or mark["token"] != chunk.token:
            return False
        self._enter(chunk, staging, transaction)
        return True

    def moves(self, commit: Commit) -> None:
        """Adds to a commit what it changes about the jobs: a chunk that is done, tables that have to be read."""
        wanted = dict(self._next if self._next is not None else self._state)
        jobs = [Job.from_json(each) for each in wanted.get("jobs", [])] if self._tables.incomplete else []
        # Those that will read a whole table, and have not read a row of it yet; and whether they also delete.
        waiting = [job for job in jobs if job.is_whole and job.id != self._reading]
        covered = {(job.oid, purge) for job in waiting for purge in {False, job.purge}}
        fresh = [
            new_job(oid, purge=purge).to_json()
            for oid, purge in sorted(self._tables.incomplete.items())
            if self._tables.by_oid[oid].stopped is None and not self._is_outbox(oid) and (oid, purge) not in covered
        ]
        wanted["jobs"] = [*wanted.get("jobs", []), *fresh]
        if fresh or self._next is not None:
            self._next = wanted
            commit.bookmark(self._options.names.snapshot, wanted, expect=self._state or None)

    def _is_outbox(self, oid: int) -> bool:
        """Rows of an outbox are events: they do not come twice."""
        return self._options.is_outbox(self._tables.by_oid[oid].name)

    def committed(self) -> None:
        self._tables.incomplete.clear()
        if self._next is None:
            return
        with self._change:
            self._take(self._next)
            self._next = None
            chunk = self._chunk
            if chunk is not None and chunk.entered:
                self._chunk = None
            self._change.notify_all()

    def conflicted(self, _bookmark: str) -> None:
        """Somebody asked for a job in between: the state is read anew, and what is done is taken out of it again."""
        before = {each["id"] for each in self._state.get("jobs", [])}
        self.refresh()
        if self._next is not None:
            mine = {each["id"]: each for each in self._next["jobs"]}
            now = self._state.get("jobs", [])
            kept = [mine.get(each["id"], each) for each in now if each["id"] in mine or each["id"] not in before]
            self._next = {**self._state, "jobs": [*kept, *(mine[each] for each in mine if each not in before)]}

    def _enter(self, chunk: _Chunk, staging: Staging, transaction: Transaction) -> None:
        """Lets a chunk into the log, where its mark is."""
        assert self._watch is not None
        assert chunk.rows is not None
        assert chunk.seen is not None
        chunk.entered, passing = True, self._watch.passing
        headers = transaction.headers
        table, job = chunk.table, chunk.job
        reason = unfit_key(table, chunk.rows)
        if reason is not None:
            # The job goes with the table's capture; see `_read_jobs`.
            self._tables.stop(table, reason, transaction.end)
            self._next = dict(self._state)
            return
        rows = completed(passing.unaffected(chunk.rows, chunk.seen), headers)
        if job.purge:
            self._seen[job.id].append(key_hashes(chunk.rows, table.key))
        staging.append(table.topic, rows)
        if job.keys:
            absent = _without(_typed_keys(job, table), key_hashes(chunk.rows, table.key), table.key)
            staging.append(table.topic, tombstones(passing.unaffected(absent, chunk.seen), [headers]))
        left = _left(job.blocks or (), chunk.blocks)
        if not left and job.purge:
            staging.append(table.topic, tombstones(self._gone(table, job), [headers]))
        others = [each.to_json() for each in self.jobs if each.id != job.id]
        mine = [replace(job, blocks=left).to_json()] if left else []
        self._next = {**self._state, "jobs": [*mine, *others]}

    def _gone(self, table: Table, job: Job) -> pa.Table:
        """The keys that the log has, and that were neither read nor changed since the job began."""
        there = live_keys(self._log, table.topic, table.key)
        seen = np.concatenate([np.empty(0, np.uint64), *self._seen.pop(job.id)])
        return _without(there, seen, table.key)

    # What the reading thread does

    def _read_all(self) -> None:
        try:
            self._read_jobs()
        except Exception as error:  # noqa: BLE001 - the stream's thread looks at it
            self.failure = error

    def _read_jobs(self) -> None:
        connection: Connection | None = None
        copier: Copier | None = None
        try:
            while (job := self._wait_for_job()) is not None:
                table = self._tables.by_oid.get(job.oid)
                if table is None or table.stopped is not None:
                    self._drop_job(job)
                    self._stopped.wait(POLL_SECONDS_MIN)
                    continue
                connection = connection or self._options.address.connect()
                found = table_of(connection, job.oid)
                if found is None or found.relation.columns != table.relation.columns:
                    # The stream tells of it with the next change; until then the stream's thread asks the catalog.
                    self.outdated.add(job.oid)
                    self._stopped.wait(POLL_SECONDS)
                    continue
                copier = copier or Copier(self._options.address)
                try:
                    self._read_job(job, table, found.source, connection, copier)
                except QueryFailed as error:
                    self._fail(job, table, error)
        finally:
            for each in (connection, copier):
                if each is not None:
                    each.close()

    def _fail(self, job: Job, table: Table, error: QueryFailed) -> None:
        """The database refuses a chunk: for a moment, or whatever is tried."""
        with self._change:
            self._chunk = None
        if job.where is not None:
            # It would fail again and again; whoever asked for it finds the reason in the history.
            self._drop_job(job, Event("", table.name, table.topic, "snapshot failed", error.message))
            return
        self._failures[job.id] += 1
        if self._failures[job.id] >= READ_TRIES_MAX:
            # The stream's thread stops the table, and then the job goes.
            self.unreadable[job.oid] = error.message
        self._stopped.wait(POLL_SECONDS * 2 ** min(self._failures[job.id], READ_TRIES_MAX))

    def _read_job(self, job: Job, table: Table, source: str, connection: Connection, copier: Copier) -> None:
        if job.purge and job.id not in self._seen:
            # What was read before the last stop is not known any more: all of it is read again.
            self._seen[job.id] = []
            job = replace(job, blocks=None)
        if self._watch is None or self._watch.job != job.id:
            self._watch = _Watch(job.id, job.oid, Passing(table.key))
            self._wait_for_others(connection, self._watch.passing)
        if job.keys:
            query = _keys_query(job, table, source)
            self._read_chunk(_Chunk(uuid.uuid4().hex, job, table, None), query, connection, copier)
            return
        layout = layout_of(connection, [table])
        if job.blocks is None or job.layout != layout:
            # Not planned yet, or written anew since: rows may lie in blocks that were read before they did.
            job = replace(job, blocks=tuple(parts_of(connection, table)), layout=layout)
        blocks = _next(job.blocks or ())
        chosen = None if blocks is None else chunk_query(table, blocks, job.where)
        self._read_chunk(_Chunk(uuid.uuid4().hex, job, table, blocks), chosen, connection, copier)

    def _read_chunk(self, chunk: _Chunk, query: str | None, connection: Connection, copier: Copier) -> None:
        """Reads, puts a mark behind it, and returns when the stream has brought that.

        A chunk of a table that is written anew while it is read does not count: the mark that would let it in is not
        written, and the job is planned again.
        """
        with self._change:
            self._chunk = chunk
        chunk.seen = _visibility(connection)
        relation = chunk.table.relation
        parts = [] if query is None else list(copier.rows(relation, query))
        empty = relation.arrow.empty_table()
        chunk.rows = pa.concat_tables([empty, *parts], promote_options="default") if parts else empty
        if chunk.job.layout is not None and chunk.job.layout != layout_of(connection, [chunk.table]):
            with self._change:
                self._chunk = None
            return
        self._mark(connection, chunk)
        with self._change:
            self._change.wait_for(lambda: self._chunk is not chunk or self._stopped.is_set())

    def _wait_for_others(self, connection: Connection, passing: Passing) -> None:
        """Returns when all transactions that run now have ended.

        Those that came by in the stream before anybody watched are then seen by whoever reads. And so are those that
        changed the table before it was published, whose changes the stream does not bring.
        """
        [(now,)] = connection.execute("SELECT pg_current_xact_id()::text::int8").fetchall()
        pause = POLL_SECONDS_MIN
        while not self._stopped.is_set():
            [(oldest,)] = connection.execute("SELECT pg_snapshot_xmin(pg_current_snapshot())::text::int8").fetchall()
            if oldest >= now:
                return
            passing.visibility = _visibility(connection)
            self._stopped.wait(pause)
            pause = min(2 * pause, POLL_SECONDS)

    def _mark(self, connection: Connection, chunk: _Chunk) -> None:
        content = json.dumps({"token": chunk.token, "job": chunk.job.id})
        connection.execute("SELECT pg_logical_emit_message(true, %s, %s)", (self._options.names.watermark, content))

    def _wait_for_job(self) -> Job | None:
        with self._change:
            self._reading = None
            self._change.wait_for(lambda: self._stopped.is_set() or self._by_marks())
            if self._stopped.is_set():
                return None
            job = self._by_marks()[0]
            self._reading = job.id
            return job

    def _by_marks(self) -> list[Job]:
        at_once = {job.id for job in self.whole}
        return [job for job in self.jobs if job.id not in at_once]

    def _drop_job(self, job: Job, event: Event | None = None) -> None:
        """Takes away a job that cannot be done; the reason is kept.

        Not if somebody has changed what is known of the tables meanwhile: it may have been asked for just then.
        """
        with self._change, self._log.commit(on_conflict="return") as commit:
            self.without(job, commit)
            commit.bookmark(self._options.names.tables, self._tables.stored, expect=self._tables.stored)
            if event is not None:
                commit.append(self._options.names.history, [asdict(event)])
        self.refresh()

    def without(self, job: Job, commit: Commit) -> None:
        """Adds to a commit that a job is done."""
        left = [each for each in self._state["jobs"] if each["id"] != job.id]
        commit.bookmark(self._options.names.snapshot, {**self._state, "jobs": left}, expect=self._state)


def _visibility(connection: Connection) -> Visibility:
    """What a query sees from now on."""
    [(text,)] = connection.execute("SELECT pg_current_snapshot()::text").fetchall()
    return Visibility.parse(text)


def _without(keys: pa.Table, hashes: Hashes, key: Sequence[str]) -> pa.Table:
    """The keys that do not have one of some hashes."""
    return keys.filter(pa.array(~np.isin(key_hashes(keys, key), hashes)))


def _next(blocks: Sequence[Blocks]) -> Blocks | None:
    """The next chunk of what is left."""
    if not blocks:
        return None
    first = blocks[0]
    return replace(first, end=min(first.end, first.first + snapshot.CHUNK_BLOCKS))


def _left(blocks: Sequence[Blocks], done: Blocks | None) -> tuple[Blocks, ...]:
    """What is left when a chunk is done."""
    if done is None or not blocks:
        return ()
    rest = replace(blocks[0], first=done.end)
    return (*((rest,) if rest.first < rest.end else ()), *blocks[1:])


def _keys_query(job: Job, table: Table, source: str) -> str:
    """The rows of a job's keys. PostgreSQL takes a literal for whatever type its column has."""
    listed = ", ".join(quoted(name) for name in table.key)
    keys = ", ".join(f"({', '.join(literal(text) for text in key)})" for key in job.keys)
    return f"SELECT {selected(table.relation)} FROM {source} WHERE ({listed}) IN ({keys})"


def _typed_keys(job: Job, table: Table) -> pa.Table:
    types = {column.name: column.arrow for column in table.relation.columns}
    columns = [
        convert(pa.array([key[number] for key in job.keys], pa.string()), types[name])[0]
        for number, name in enumerate(table.key)
    ]
    return pa.table(columns, names=list(table.key))

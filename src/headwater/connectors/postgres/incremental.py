"""Incremental snapshots, as the stream sees them: which jobs there are, and which rows of a chunk enter at its mark.

Jobs wait in a bookmark, so that any process can ask for one and none is forgotten. Another thread reads chunk after
chunk (`reading`), and puts a mark into the WAL behind each; the stream brings the mark back, and with it the chunk
enters the log. What the two threads tell each other goes through a `Handover`.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Collection, Sequence
from dataclasses import asdict, replace
from typing import Any

import pyarrow as pa

from headwater.cdc.postgres.transactions import Transaction
from headwater.cdc.staging import Staging
from headwater.cdc.windows import Ids, key_hashes
from headwater.connectors.capture.handover import Handover
from headwater.connectors.capture.lifecycle import jobs_in
from headwater.connectors.capture.windows import Windows, without
from headwater.connectors.postgres.applying import tombstones
from headwater.connectors.postgres.jobs import Job, new_job, typed_keys
from headwater.connectors.postgres.occurrences import live_keys
from headwater.connectors.postgres.options import CaptureOptions
from headwater.connectors.postgres.reading import (
    Begun,
    Chunk,
    ChunkReader,
    Ended,
    Outdated,
    Refused,
    Report,
    Seen,
    Task,
    Unreadable,
    Work,
)
from headwater.connectors.postgres.snapshot import completed
from headwater.connectors.postgres.tables import Event, Table, Tables, unfit_key
from headwater.log.commit import Commit
from headwater.log.port import Log


class Incremental:
    """The jobs of a source, for the thread that follows the stream: an observer of what passes, a rider of commits."""

    def __init__(self, log: Log, options: CaptureOptions, tables: Tables) -> None:
        self._log, self._options, self._tables = log, options, tables
        self._state: dict[str, Any] = {}
        self._jobs: list[Job] = []
        self._next: dict[str, Any] | None = None
        self._windows = Windows()
        self._chunk: Chunk | None = None
        self._entered = False
        self._reading: str | None = None
        self._refused: dict[str, Event] = {}
        self._failure: Exception | None = None
        self._work = Work((), "")
        self._handover: Handover[Work, Report] = Handover(self._work)
        self._thread: threading.Thread | None = None
        self.outdated: set[int] = set()
        self.unreadable: dict[int, str] = {}
        self._load()

    @property
    def whole(self) -> list[Job]:
        """The jobs of tables without a key: no row of the stream can be told from one that was read, so they are read
        as a whole, at one place of the WAL, while the stream waits."""
        return [job for job in self._jobs if self._is_read_whole(job)]

    def start(self) -> None:
        """Begins to read."""
        self._handover = Handover(self._work)
        self._give("")
        reader = ChunkReader(self._options, self._handover)
        self._thread = threading.Thread(target=reader.run, name="headwater-chunks", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ends reading; what is not done is done after the next start."""
        self._handover.stop()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self._chunk, self._failure = None, None
        self._windows.close()

    def refresh(self) -> None:
        """Takes up jobs that others have asked for, and drops those that cannot be done."""
        self._load()
        self._receive()
        self._drop([job for job in self._jobs if self._is_in_vain(job)])
        # What is being read may have been taken away by another process; its chunk comes all the same.
        self._windows.keep({self._reading, *(job.id for job in self._jobs)})
        self._give(self._work.settled)

    def check(self) -> None:
        """Raises what has ended the reading."""
        self._receive()
        if self._failure is not None:
            raise self._failure

    # What passes

    def rows(self, table: Table, rows: pa.Table, ids: Ids) -> None:
        self._receive()
        if table.key:
            self._windows.rows(table.relation.oid, rows, ids)

    def truncated(self, table: Table, transaction: int) -> None:
        # Not only keys that the log has: the chunk may have others.
        self._receive()
        self._windows.emptied(table.relation.oid, transaction)

    def mark(self, content: bytes, staging: Staging, transaction: Transaction) -> bool:
        self._receive()
        # A mark of a capture that was killed: its chunk is read again.
        if self._chunk is None or json.loads(content)["token"] != self._chunk.token:
            return False
        self._enter(self._chunk, staging, transaction)
        return True

    # What moves with a commit

    def moves(self, commit: Commit) -> None:
        """Adds to a commit what it changes about the jobs: a chunk that is done, tables that have to be read."""
        self._receive()
        wanted = dict(self._next if self._next is not None else self._state)
        jobs = [Job.from_json(each) for each in jobs_in(wanted)] if self._tables.incomplete else []
        # Those that will read a whole table, and have not read a row of it yet; and whether they also delete.
        waiting = [job for job in jobs if job.is_whole and job.id != self._reading]
        covered = {(job.oid, purge) for job in waiting for purge in {False, job.purge}}
        fresh = [
            new_job(oid, purge=purge).to_json()
            for oid, purge in sorted(self._tables.incomplete.items())
            if self._tables.by_oid[oid].stopped is None and not self._is_outbox(oid) and (oid, purge) not in covered
        ]
        wanted["jobs"] = [*jobs_in(wanted), *fresh]
        if fresh or self._next is not None:
            self._next = wanted
            commit.bookmark(self._options.names.snapshot, wanted, expect=self._state or None)

    def committed(self) -> None:
        self._tables.incomplete.clear()
        if self._next is None:
            return
        self._take(self._next)
        self._next = None
        settled = self._work.settled
        if self._chunk is not None and self._entered:
            settled, self._chunk = self._chunk.token, None
        self._give(settled)

    def conflicted(self, _bookmark: str) -> None:
        """Somebody asked for a job in between: the state is read again, and what is done is taken out of it again."""
        before = {each["id"] for each in jobs_in(self._state)}
        self._load()
        if self._next is not None:
            mine = {each["id"]: each for each in self._next["jobs"]}
            now = jobs_in(self._state)
            kept = [mine.get(each["id"], each) for each in now if each["id"] in mine or each["id"] not in before]
            self._next = {**self._state, "jobs": [*kept, *(mine[each] for each in mine if each not in before)]}

    def without(self, done: Collection[str], commit: Commit) -> None:
        """Adds to a commit that jobs are done."""
        left = [each for each in jobs_in(self._state) if each["id"] not in done]
        commit.bookmark(self._options.names.snapshot, {**self._state, "jobs": left}, expect=self._state)

    # The jobs

    def _load(self) -> None:
        self._take(self._options.life(self._log).stored)

    def _take(self, state: dict[str, Any]) -> None:
        if state != self._state:
            self._state, self._jobs = state, [Job.from_json(each) for each in jobs_in(state)]

    def _give(self, settled: str) -> None:
        """Tells the reader what there is to do, if that is not what it knows."""
        tasks = tuple(
            Task(job, self._tables.by_oid[job.oid])
            for job in self._jobs
            if not self._is_read_whole(job) and not self._is_in_vain(job)
        )
        work = Work(tasks, settled)
        if work != self._work:
            self._work = work
            self._handover.give(work)

    def _is_read_whole(self, job: Job) -> bool:
        table = self._tables.by_oid.get(job.oid)
        return table is not None and table.stopped is None and not table.key

    def _is_in_vain(self, job: Job) -> bool:
        """Whether a job cannot be done: its table is not captured, or the database does not take its condition."""
        table = self._tables.by_oid.get(job.oid)
        return table is None or table.stopped is not None or job.id in self._refused

    def _is_outbox(self, oid: int) -> bool:
        """Rows of an outbox are events: they do not come twice."""
        return self._options.is_outbox(self._tables.by_oid[oid].name)

    def _drop(self, jobs: Sequence[Job]) -> None:
        """Takes away jobs that cannot be done; the reasons are kept.

        Not if somebody has changed what is known of the tables meanwhile: they may have been asked for just then. Nor
        while a chunk of the job is on its way.
        """
        dropped = {job.id for job in jobs if self._chunk is None or self._chunk.job.id != job.id}
        if not dropped:
            return
        stored, events = self._tables.stored, [self._refused[each] for each in sorted(dropped & self._refused.keys())]
        with self._log.commit(on_conflict="return") as commit:
            self.without(dropped, commit)
            commit.bookmark(self._options.names.tables, stored, expect=stored)
            if events:
                commit.append(self._options.names.history, [asdict(event) for event in events])
        self._load()

    # What the reader tells

    def _receive(self) -> None:
        for report in self._handover.take():
            match report:
                case Begun(job, table):
                    self._reading = job.id
                    self._windows.open(job.id, job.oid, table.key, purge=job.purge)
                case Seen(visibility):
                    self._windows.seen_by_all(visibility)
                case Chunk():
                    self._chunk, self._entered = report, False
                case Outdated(oid):
                    self.outdated.add(oid)
                case Unreadable(oid, reason):
                    self.unreadable[oid] = reason
                case Refused(job, event):
                    self._refused[job] = event
                case Ended(error):
                    self._failure = error

    def _enter(self, chunk: Chunk, staging: Staging, transaction: Transaction) -> None:
        """Lets a chunk into the log, where its mark is."""
        self._entered = True
        headers, table, job = transaction.headers, chunk.table, chunk.job
        reason = unfit_key(table, chunk.rows)
        if reason is not None:
            # The job goes with the table's capture; see `refresh`.
            self._tables.stop(table, reason, transaction.end)
            self._next = dict(self._state)
            return
        self._windows.read(job.id, chunk.rows)
        staging.append(table.topic, completed(self._windows.entering(job.id, chunk.rows, chunk.seen), headers))
        if job.keys:
            absent = without(typed_keys(job, table), key_hashes(chunk.rows, table.key), table.key)
            staging.append(table.topic, tombstones(self._windows.entering(job.id, absent, chunk.seen), [headers]))
        left = job.left_after(chunk.blocks)
        if not left and job.purge:
            gone = self._windows.gone(job.id, live_keys(self._log, table.topic, table.key))
            staging.append(table.topic, tombstones(gone, [headers]))
        others = [each.to_json() for each in self._jobs if each.id != job.id]
        mine = [replace(job, blocks=left).to_json()] if left else []
        self._next = {**self._state, "jobs": [*mine, *others]}

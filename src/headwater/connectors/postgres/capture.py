"""A capture at work: sets up, takes the first snapshot, follows the stream, and begins again when it was cut off."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import psycopg
import pyarrow as pa

from headwater.cdc.postgres.gathering import Gatherer
from headwater.cdc.postgres.lsn import Lsn
from headwater.cdc.postgres.relations import Relation
from headwater.cdc.postgres.transactions import LogicalMessage, Transaction
from headwater.cdc.staging import Staging
from headwater.connectors.postgres.applying import Applier, captured_to, position_of
from headwater.connectors.postgres.asking import ask
from headwater.connectors.postgres.at_once import read_at_once
from headwater.connectors.postgres.beginning import Beginning
from headwater.connectors.postgres.checks import check, publications
from headwater.connectors.postgres.copying import EMITTED, with_headers
from headwater.connectors.postgres.incremental import Incremental, Job, new_job
from headwater.connectors.postgres.inventory import Connection, chosen, table_of, tables_of
from headwater.connectors.postgres.naming import qualified
from headwater.connectors.postgres.options import CaptureOptions
from headwater.connectors.postgres.outbox import MESSAGE_PREFIX, Outbox
from headwater.connectors.postgres.replication import Replication
from headwater.connectors.postgres.setup import Say, create_slot, drop_slot, publish
from headwater.connectors.postgres.snapshot import Progress
from headwater.connectors.postgres.state import (
    CREATING,
    DROPPED,
    FIRST,
    STREAMING,
    change_state,
    is_paused,
    read_state,
)
from headwater.connectors.postgres.sweeping import Sweeper
from headwater.connectors.postgres.tables import DROPPED as DROPPED_TABLE
from headwater.connectors.postgres.tables import HISTORY_SCHEMA, Event, Table, Tables, TablesMoved
from headwater.connectors.postgres.unchanged import Key, Values
from headwater.connectors.postgres.watching import Watcher
from headwater.errors import (
    CaptureDropped,
    CaptureOvertaken,
    CaptureRefused,
    LogBusy,
    Missing,
    QueryFailed,
    SlotLost,
    SourceUnavailable,
    UnknownTopic,
    UsageError,
)
from headwater.log.port import Log
from headwater.system.heartbeat import Heart
from headwater.system.lock import FileLock

# How long a capture that was cut off waits before it tries again: at first, and at most.
RETRY_SECONDS = (0.2, 10.0)
# How often a capture with nothing to do looks around.
PATIENCE_SECONDS = 0.5

_DROP_TOPIC = "Drop its topic (`headwater log drop`): it is made and filled anew when the table is captured."


def _quiet(_: str) -> None:
    pass


class Capture:
    """One source. `run` until told to stop; everything it knows is in the log, so it can be killed at any time."""

    def __init__(
        self,
        log: Log,
        options: CaptureOptions,
        *,
        say: Say = _quiet,
        progress: Progress = lambda _table, _done, _total: None,
    ) -> None:
        self.log, self.options, self._say, self._progress = log, options.check(), say, progress
        self.tables = Tables(log, options)
        self._directory: Path = options.directory
        self._stop = threading.Event()
        self._beginning = Beginning(
            log, options, self.tables, say=say, progress=progress, stop=self._stop, ask=self._ask
        )
        self.applier: Applier | None = None
        self._connection: Connection | None = None
        self._version = 0
        self._streamed = False
        self._watcher = Watcher(log, options, self.tables, say)
        self._sweeper = Sweeper(options, self.tables, say)

    @property
    def title(self) -> str:
        return f"capture-{self.options.name}"

    def stop(self) -> None:
        """Lets `run` return soon."""
        self._stop.set()

    def run(self, until: Callable[[Capture], bool] = lambda _: False) -> None:
        """Captures until `stop` is called or `until` says so, after each batch. Raises what only a person can mend."""
        with self._alone(), self._beating():
            self._run(until)

    def _beating(self) -> AbstractContextManager[object]:
        """Lets every process see that this one captures; who was stopped before it began has nothing to say."""
        return nullcontext() if self._stop.is_set() else Heart(self._directory)

    def _run(self, until: Callable[[Capture], bool]) -> None:
        waits = RETRY_SECONDS[0]
        lost: SlotLost | None = None
        while not self._stop.is_set():
            if is_paused(self.log, self.options):
                self._stop.wait(PATIENCE_SECONDS)
                continue
            began = time.monotonic()
            try:
                if lost is not None:
                    self._repair(lost)
                    lost = None
                if self._session(until):
                    return
            except TablesMoved:
                continue
            except (SourceUnavailable, QueryFailed, LogBusy) as error:
                if self._stop.is_set():
                    return
                if time.monotonic() - began > RETRY_SECONDS[1]:
                    waits = RETRY_SECONDS[0]
                self._say(f"{error.message} Trying again in {waits:g} s.")
                self._stop.wait(waits)
                waits = min(waits * 2, RETRY_SECONDS[1])
            except SlotLost as error:
                lost = error
            except UnknownTopic as error:
                self._make_again(error)

    def is_ready(self) -> bool:
        """Whether the first snapshot is in the log."""
        return read_state(self.log, self.options).get("phase") == STREAMING

    def prepare(self) -> None:
        """Everything before the stream: checks, publications, slot, first snapshot. Does only what is not done."""
        with self._alone():
            self._prepare()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Waits until no other process captures the source into this log; it goes on when that one ends."""
        self._directory.mkdir(parents=True, exist_ok=True)
        lock = FileLock(self._directory / "capture.lock")
        said = False
        try:
            while not self._stop.is_set():
                with lock.try_hold() as held:
                    if held:
                        self._clean()
                        yield
                        return
                if not said:
                    said = True
                    self._say(f"Another process captures source {self.options.name!r}: waiting for its end.")
                self._stop.wait(PATIENCE_SECONDS)
            yield
        finally:
            lock.close()

    def _prepare(self) -> None:
        with self.options.address.connect() as connection:
            self._connection = connection
            try:
                self._beginning.prepare(connection)
            except psycopg.Error as error:
                raise self.options.address.failed(error) from error

    def request(self, name: str, *, where: str | None = None, purge: bool = False) -> Job:
        """Asks for an incremental snapshot of a table; whichever process captures will take it."""
        self.tables.load()
        table = self._known(name)
        if table.stopped is not None:
            remedy = f"`headwater capture resume` with {table.name} takes it up again, if the reason is gone."
            raise CaptureRefused(f"table {name!r}", [Missing(f"its capture: {table.stopped}", remedy)])
        if self.options.is_outbox(table.name):
            raise CaptureRefused(f"table {name!r}", [Missing("rows that may come twice", "An outbox has events.")])
        if table.append_only:
            raise CaptureRefused(f"table {name!r}", [Missing("a key by which its rows replace others", _DROP_TOPIC)])
        if where is not None:
            self._check_condition(table, where)
        job = new_job(table.relation.oid, where=where, purge=purge)
        change_state(self.log, self.options, lambda state: {**state, "jobs": [*state.get("jobs", []), job.to_json()]})
        return job

    def take_up(self, name: str) -> None:
        """Captures a table again that was stopped; it is read anew, by whichever process captures."""
        while True:
            self.tables.load()
            state = read_state(self.log, self.options)
            resumed = self._resumed(self._known(name))
            jobs = [*state.get("jobs", [])]
            if not self.options.is_outbox(resumed.name):
                jobs.append(new_job(resumed.relation.oid, purge=not resumed.append_only).to_json())
            with self.log.commit(on_conflict="return") as commit:
                self.tables.moves(commit)
                commit.bookmark(self.options.names.snapshot, {**state, "jobs": jobs}, expect=state or None)
            if commit.conflict is None:
                return

    def _resumed(self, table: Table) -> Table:
        if not self.tables.is_wanted(table):
            remedy = f'app.postgres(…, tables=[…, "{table.name}"])'
            raise CaptureRefused(f"table {table.name!r}", [Missing("its name among the tables of the source", remedy)])
        with self.options.address.connect() as connection:
            found = table_of(connection, table.relation.oid)
        if found is None:
            raise CaptureRefused(
                f"table {table.name!r}", [Missing("the table", "It was dropped, or belongs to others.")]
            )
        resumed = self.tables.resume(table, found)
        if resumed.stopped is not None:
            raise CaptureRefused(f"table {table.name!r}", [Missing(resumed.stopped, _DROP_TOPIC)])
        return resumed

    def _check_condition(self, table: Table, where: str) -> None:
        """Refuses a condition that the database does not understand: a job that fails would come again and again."""
        if not table.key:
            raise UsageError(
                f"Without a key, {table.name} can only be read as a whole.", hint="Leave the condition out."
            )
        name = qualified(table.relation.schema, table.relation.table)
        with self.options.address.connect() as connection:
            try:
                connection.execute(f"EXPLAIN SELECT 1 FROM {name} WHERE ({where})".encode())
            except psycopg.Error as error:
                raise UsageError(
                    f"The condition cannot be used: {error.diag.message_primary}.",
                    hint="It is what stands behind WHERE in a query of the table: id < 1000.",
                ) from None

    def _known(self, name: str) -> Table:
        table = self.tables.named(name)
        if table is None:
            known = ", ".join(each.name for each in self.tables.by_oid.values()) or "none yet"
            raise CaptureRefused(f"table {name!r}", [Missing("it is not captured", f"Captured are: {known}.")])
        return table

    def _session(self, until: Callable[[Capture], bool]) -> bool:
        """From connecting to being cut off; whether it ended because it should."""
        if self._streamed and read_state(self.log, self.options).get("phase") == DROPPED:
            raise CaptureDropped(self.options.name)
        self._prepare()
        if self._stop.is_set():
            return True
        self._streamed = True
        with self.options.address.connect() as connection:
            self._connection, self._version = connection, connection.info.server_version // 10_000
            try:
                return self._follow(until)
            except psycopg.Error as error:
                raise self.options.address.failed(error) from error
            finally:
                self._connection = None

    def _follow(self, until: Callable[[Capture], bool]) -> bool:
        self.tables.load()
        self._check_slot()
        incremental = Incremental(self.log, self.options, self.tables, self._message)
        applier = self.applier = Applier(
            self.log,
            self.options,
            self.tables,
            incremental,
            find_key=self._find_key,
            ask=self._ask,
            directory=self._directory / "staged",
        )
        gatherer = Gatherer(self._directory / "spool")
        assert self._connection is not None
        self._watcher.begin(self._connection, applier.lsn)
        applier.heartbeat()
        named = sorted(publications(self._connection, self.options))
        replication = Replication(self.options, applier.lsn, self._version, named)
        try:
            self._read_at_once(incremental, applier)
            incremental.start()
            return self._stream(replication, gatherer, applier, incremental, until)
        finally:
            incremental.stop()
            gatherer.close()
            replication.close()

    def _stream(
        self,
        replication: Replication,
        gatherer: Gatherer,
        applier: Applier,
        incremental: Incremental,
        until: Callable[[Capture], bool],
    ) -> bool:
        period = self.options.heartbeat.total_seconds()
        looked = beat = time.monotonic()
        while not self._stop.is_set():
            received = replication.receive(min(PATIENCE_SECONDS, period))
            for item in gatherer.feed(received.payloads):
                applier.apply(item)
            if received.reached and gatherer.is_idle:
                applier.reached(received.reached)
            if applier.lsn > replication.confirmed or received.reply_wanted:
                replication.confirm(applier.lsn)
            now = time.monotonic()
            if now - looked >= min(PATIENCE_SECONDS, period):
                looked = now
                if is_paused(self.log, self.options) or self._tables_moved():
                    replication.confirm(applier.lsn)
                    return False
                incremental.refresh()
                self._describe(incremental, applier)
                if incremental.failure is not None:
                    raise incremental.failure
            if now - beat >= period:
                beat = now
                assert self._connection is not None
                self._watcher.look(self._connection, applier.passed)
                applier.heartbeat()
                self._sweeper.sweep(self._connection, applier.lsn)
                self._read_at_once(incremental, applier)
                replication.confirm(applier.lsn, ask=True)
                if self._watcher.outgrown:
                    return False
            if until(self):
                replication.confirm(applier.lsn)
                return True
        replication.confirm(applier.lsn)
        return True

    def _clean(self) -> None:
        """Removes what a capture that was killed has left in files."""
        for folder in ("spool", "staged", "staged-alone", "staged-whole", "changes-*"):
            for file in self._directory.glob(f"{folder}/*"):
                file.unlink(missing_ok=True)

    # Beside the stream

    def _check_slot(self) -> None:
        """Raises `SlotLost` if the slot does not go on from where the log is."""
        assert self._connection is not None
        slot, captured = self.options.names.slot, captured_to(self.log, self.options)
        row = self._connection.execute(
            "SELECT confirmed_flush_lsn::text, wal_status FROM pg_replication_slots WHERE slot_name = %s", (slot,)
        ).fetchone()
        if row is None:
            raise SlotLost(slot, str(captured), "it is not there")
        confirmed, status = row
        if status == "lost":
            raise SlotLost(slot, str(captured), "PostgreSQL has removed WAL that it needs")
        if confirmed is not None and Lsn.parse(confirmed) > captured:
            raise SlotLost(slot, str(captured), f"somebody has moved it to {confirmed}")

    def _repair(self, lost: SlotLost) -> None:
        """A new slot, and every table read again while changes flow: rows that differ, or are gone, are set right."""
        names, state = self.options.names, read_state(self.log, self.options)
        if state.get("phase") == DROPPED:
            raise CaptureDropped(self.options.name)
        self._say(f"{lost.message} Every table is compared with a new one.")
        self.tables.load()
        before = self.log.bookmark(names.position)
        slot, published = self._new_slot()
        event = Event(str(slot), "", "", "slot lost", lost.message)
        outbox = Outbox(self.log, self.options)
        again = [each for each in self.tables.active() if not each.append_only and not outbox.is_outbox(each)]
        jobs = [new_job(table.relation.oid, purge=True).to_json() for table in again]
        for table in [each for each in self.tables.active() if each.append_only]:
            self.tables.stop(table, f"{lost.message} Without a key, what is missing cannot be told.", slot)
        with self.log.commit(on_conflict="return") as commit:
            commit.bookmark(names.position, position_of(slot), expect=before)
            # Somebody may have dropped the capture meanwhile, or asked for a snapshot: then all of it is done again.
            commit.bookmark(names.snapshot, {"phase": STREAMING, "jobs": jobs}, expect=state or None)
            commit.bookmark(names.publications, published)
            commit.append(names.history, [asdict(event)])
            self.tables.moves(commit)
        if (conflict := commit.conflict) is not None:
            if conflict.bookmark == names.position:
                raise CaptureOvertaken(self.options.name, lost.captured, str(conflict.actual))
            raise lost

    def _new_slot(self) -> tuple[Lsn, dict[str, int]]:
        """Makes the slot again, and what else the tables need: where it begins, and which publications there are."""
        with self.options.address.connect() as connection:
            try:
                self.tables.recognise({table.relation.oid: table for table in tables_of(connection)})
                wanted = [table.relation.oid for table in self.tables.active() if self.tables.is_wanted(table)]
                plan = check(connection, self.options, only=wanted)
                publish(connection, self.options, plan, self._say)
                if plan.has_slot:
                    drop_slot(connection, self.options)
                published = publications(connection, self.options)
            except psycopg.Error as error:
                raise self.options.address.failed(error) from error
        slot = create_slot(self.options, stop=self._stop, say=self._say)
        slot.connection.finish()
        return slot.start, published

    def _make_again(self, gone: UnknownTopic) -> None:
        """Somebody has dropped a topic: it is made again and, if it is that of a table, the table is read."""
        names, phase = self.options.names, read_state(self.log, self.options).get("phase")
        self._say(f"{gone.message} It is made again.")
        self.tables.load()
        table = next((each for each in self.tables.active() if each.topic == gone.name), None)
        if gone.name == names.history:
            self.log.create(names.history, HISTORY_SCHEMA, exist_ok=True)
        elif table is None:
            # A topic of events, which is made by the next of them.
            self._stop.wait(RETRY_SECONDS[0])
        elif phase == FIRST:
            change_state(self.log, self.options, lambda _: {"phase": CREATING, "jobs": []})
        else:
            if not self.options.is_outbox(table.name):
                # First, so that the topic is never there without what fills it.
                job = new_job(table.relation.oid).to_json()
                change_state(self.log, self.options, lambda state: {**state, "jobs": [*state.get("jobs", []), job]})
            self.tables.make_again(table)
            with self.log.commit(on_conflict="return") as commit:
                self.tables.moves(commit)

    def _read_at_once(self, incremental: Incremental, applier: Applier) -> None:
        """Reads tables without a key that are to be read; the stream is not past where they are read."""
        assert self._connection is not None
        for job in incremental.at_once:
            found = table_of(self._connection, job.oid)
            if found is None or found.relation.columns != self.tables.by_oid[job.oid].relation.columns:
                incremental.outdated.add(job.oid)
                continue
            read_at_once(self.log, self.options, self.tables, found, incremental, job)
            applier.forget(job.oid)

    def _tables_moved(self) -> bool:
        """Whether another process has changed what is known of the tables."""
        return bool(self.log.bookmark(self.options.names.tables) != self.tables.stored)

    def _describe(self, incremental: Incremental, applier: Applier) -> None:
        """Takes notice of columns that changed, in the catalog, of tables that have had no change of a row since.

        And of tables that cannot be read.
        """
        for oid, reason in list(incremental.unreadable.items()):
            if oid in self.tables.by_oid:
                self.tables.stop(self.tables.by_oid[oid], reason, applier.lsn)
            incremental.unreadable.pop(oid)
            applier.heartbeat()
        if not incremental.outdated:
            return
        assert self._connection is not None
        for oid in incremental.outdated & self.tables.by_oid.keys():
            found = table_of(self._connection, oid)
            if found is None:
                self.tables.stop(self.tables.by_oid[oid], DROPPED_TABLE, applier.lsn)
            else:
                identified = replace(found.relation, identified_by=found.key)
                self.tables.describe(identified, applier.lsn, self._find_key)
        incremental.outdated.clear()
        applier.heartbeat()

    def _find_key(self, relation: Relation) -> tuple[str, ...] | None:
        """The key of a table that the stream speaks of for the first time; None if it is not to be captured."""
        assert self._connection is not None
        found = chosen(tables_of(self._connection, relation.oid), self.options.patterns, self.options.schemas)
        return next((table.key for table in found), None)

    def _ask(self, table: Table, keys: Sequence[Key], columns: Sequence[str]) -> Mapping[Key, Values]:
        assert self._connection is not None
        return ask(self._connection, self.options.address, table, keys, columns)

    def _message(self, message: LogicalMessage, staging: Staging, transaction: Transaction) -> bool:
        """A message of a program: an event, if its prefix says of which topic."""
        topic = message.prefix.removeprefix(MESSAGE_PREFIX)
        if topic == message.prefix:
            return False
        content = message.content.decode(errors="replace")
        rows = pa.table({"key": pa.nulls(1, pa.string()), "payload": pa.array([content])})
        row = with_headers(rows, transaction.headers, operation=EMITTED)
        for part in Outbox(self.log, self.options).events(topic, row, np.zeros(1, np.int64)):
            staging.add(part.topic, part.rows)
        return True

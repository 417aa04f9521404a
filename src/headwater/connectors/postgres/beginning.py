"""How a source begins: publications, the slot, and the first snapshot, as one commit, however often it is interrupted.

    slot made, and everything read at S          ------ commit: the tables at S
    interrupted; the rest read at X, X later     S-chunks, changes (S, X], X-chunks ------ commit: the tables at X

A chunk that was read at X shows its rows as they are at X, so in the commit it comes behind the changes up to X; and a
row that has left an unread chunk after S has a change that says so. So the commit's last record of each key is the row
as it is at X. Nothing is in the log before that, and everything at once after it.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Sequence
from typing import Any, cast

import numpy as np
import pyarrow as pa

from headwater.cdc.postgres.gathering import Gatherer, Large, Small
from headwater.cdc.postgres.lsn import ZERO, Lsn
from headwater.cdc.postgres.transactions import LogicalMessage, Transaction
from headwater.cdc.staging import Staging
from headwater.cdc.windows import Ids
from headwater.connectors.postgres.applying import Applier, Fill, captured_to, position_of
from headwater.connectors.postgres.checks import Plan, check, publications
from headwater.connectors.postgres.incremental import new_job
from headwater.connectors.postgres.inventory import Connection, tables_of
from headwater.connectors.postgres.occurrences import Occurrences, keyed
from headwater.connectors.postgres.options import CaptureOptions
from headwater.connectors.postgres.outbox import Outbox
from headwater.connectors.postgres.replication import Replication
from headwater.connectors.postgres.setup import NewSlot, Say, create_slot, drop_slot, publish
from headwater.connectors.postgres.snapshot import Chunk, FirstSnapshot, Progress
from headwater.connectors.postgres.state import CREATING, FIRST, STREAMING, change_state, read_state
from headwater.connectors.postgres.tables import HISTORY_SCHEMA, Table, Tables, unfit_key
from headwater.connectors.postgres.unchanged import Ask
from headwater.errors import CaptureOvertaken, CaptureRefused, Missing
from headwater.log.commit import Commit
from headwater.log.port import Log

PATIENCE_SECONDS = 0.5


class Beginning:
    """Brings a source to where its stream can be followed. Does only what is not done yet."""

    def __init__(
        self,
        log: Log,
        options: CaptureOptions,
        tables: Tables,
        *,
        say: Say,
        progress: Progress,
        stop: threading.Event,
        ask: Ask,
    ) -> None:
        self._log, self._options, self._tables = log, options, tables
        self._say, self._progress, self._stop, self._ask = say, progress, stop, ask
        self._outbox = Outbox(log, options)
        self._snapshot = FirstSnapshot(options.directory / "snapshot", options)

    def prepare(self, connection: Connection) -> None:
        """Returns when the first snapshot is in the log, or when it shall stop."""
        phase = read_state(self._log, self._options).get("phase")
        if phase == STREAMING:
            # Killed between the commit and the end, it has left its files.
            self._snapshot.discard()
            return
        self._tables.load()
        if phase == FIRST:
            self._go_on(connection)
            return
        plan = check(connection, self._options)
        if plan.has_slot and phase != CREATING:
            raise CaptureRefused(str(self._options.address), [_foreign_slot(self._options.names.slot)])
        publish(connection, self._options, plan, self._say)
        if plan.has_slot:
            drop_slot(connection, self._options)
        self._begin(connection, plan)

    def _begin(self, connection: Connection, plan: Plan) -> None:
        """Makes the slot and reads everything as it is where the slot begins."""
        names = self._options.names
        change_state(self._log, self._options, lambda _: {"phase": CREATING, "jobs": []})
        self._say(f"Creating replication slot {names.slot}.")
        slot = create_slot(self._options, stop=self._stop, say=self._say)
        try:
            self._tables.by_oid = {}
            # The slot may have waited for long: tables may be others by now.
            there = {table.relation.oid: table for table in tables_of(connection)}
            for table in [there[each.relation.oid] for each in plan.tables if each.relation.oid in there]:
                self._tables.add(table.relation, table.key, slot.start, parts=table.parts, files=table.files)
            active = list(self._tables.active())
            chunks = self._snapshot.begin(slot.start, active, connection)
            self._log.create(names.history, HISTORY_SCHEMA, exist_ok=True)
            with self._log.commit(on_conflict="return") as commit:
                before = self._log.bookmark(names.position)
                commit.bookmark(names.position, position_of(slot.start), expect=before)
                commit.bookmark(names.snapshot, {"phase": FIRST, "jobs": []})
                commit.bookmark(names.publications, publications(connection, self._options))
                moved = self._tables.moves(commit)
            _check_alone(commit, self._options)
            self._tables.moved(moved)
            self._tables.incomplete.clear()
            if not self._read(chunks, slot):
                return
        finally:
            slot.connection.finish()
        if not self._is_as_planned(connection, active):
            self._begin_again(connection)
            return
        self._finish(chunks, slot.start, {})

    def _go_on(self, connection: Connection) -> None:
        """Reads what is missing at a later place, and what has changed up to there."""
        start, chunks = self._snapshot.chunks() if self._snapshot.exists else ("", [])
        position: Any = self._log.bookmark(self._options.names.position)
        active = list(self._tables.active())
        if position["lsn"] != start or not self._is_as_planned(connection, active):
            self._begin_again(connection)
            return
        if all(self._snapshot.read_at(chunk) is not None for chunk in chunks):
            self._catch_up(connection, chunks)
            return
        slot = create_slot(self._options, temporary=True, stop=self._stop, say=self._say)
        try:
            if not self._read(self._missing(chunks), slot):
                return
        finally:
            slot.connection.finish()
        if self._is_as_planned(connection, active):
            self._catch_up(connection, chunks)
        else:
            self._begin_again(connection)

    def _is_as_planned(self, connection: Connection, tables: Sequence[Table]) -> bool:
        """Whether tables still have the columns that are read, and lie in the blocks that were planned."""
        there = {table.relation.oid: table.relation.columns for table in tables_of(connection)}
        same = all(there.get(table.relation.oid) == table.relation.columns for table in tables)
        return same and self._snapshot.is_as_planned(connection, tables)

    def _missing(self, chunks: Sequence[Chunk]) -> list[Chunk]:
        """The chunks that were not read; of a table without a key all, as two readings cannot be put together."""
        unread = {chunk.oid for chunk in chunks if self._snapshot.read_at(chunk) is None}
        again = {oid for oid in unread if not self._tables.by_oid[oid].key}
        for chunk in chunks:
            if chunk.oid in again:
                self._snapshot.forget(chunk)
        return [chunk for chunk in chunks if self._snapshot.read_at(chunk) is None]

    def _read(self, chunks: Sequence[Chunk], slot: NewSlot) -> bool:
        self._say(f"Reading {len(chunks)} parts of tables as they are at {slot.start}.")
        by_oid = dict(self._tables.by_oid)
        return self._snapshot.read(by_oid, chunks, slot, self._progress, self._stop)

    def _catch_up(self, connection: Connection, chunks: Sequence[Chunk]) -> None:
        """Follows the stream from the slot's start to the last place at which a chunk was read, and commits it all."""
        places = {chunk.number: self._snapshot.read_at(chunk) or ZERO for chunk in chunks}
        end = max(places.values(), default=ZERO)
        for table in [each for each in self._tables.by_oid.values() if not each.key]:
            mine = [places[chunk.number] for chunk in chunks if chunk.oid == table.relation.oid]
            if mine:
                self._tables.read_at(table, max(mine))
        collector = Collector(
            self._log,
            self._options,
            self._tables,
            cast("Any", _Deaf()),
            find_key=lambda _: None,
            ask=self._ask,
            directory=self._options.directory / "staged-alone",
        )
        collector.collect_from(self._snapshot, chunks)
        try:
            if self._follow(connection, collector, end):
                self._finish(chunks, end, collector.stagings)
        finally:
            collector.close()

    def _follow(self, connection: Connection, collector: Collector, end: Lsn) -> bool:
        """Collects every transaction that ends at this place or before; whether it came so far."""
        if collector.lsn >= end:
            return True
        gatherer = Gatherer(self._options.directory / "spool")
        version = connection.info.server_version // 10_000
        named = sorted(publications(connection, self._options))
        replication = Replication(self._options, collector.lsn, version, named)
        try:
            while not self._stop.is_set():
                received = replication.receive(PATIENCE_SECONDS)
                for item in gatherer.feed(received.payloads):
                    collector.collect(item, end)
                if received.reached and gatherer.is_idle:
                    collector.reached(received.reached)
                if collector.passed >= end:
                    return True
                # Nothing is durable yet: the server has to keep what it has sent.
                replication.confirm(replication.confirmed, ask=not received.payloads)
        finally:
            gatherer.close()
            replication.close()
        return False

    def _finish(self, chunks: Sequence[Chunk], end: Lsn, changes: dict[int, Staging]) -> None:
        """The commit that holds every table as it is at one place."""
        names = self._options.names
        position = self._log.bookmark(names.position)
        places = {chunk.number: self._snapshot.read_at(chunk) or ZERO for chunk in chunks}
        occurrences: dict[int, Occurrences] = {}
        with self._snapshot.trimmed():
            self._stop_unfit(chunks, end)
        with self._snapshot.trimmed(), self._log.commit(on_conflict="return") as commit:
            for place in sorted({*places.values(), *changes}):
                # Changes up to a place come before what was read there.
                for topic, rows in changes[place].tables() if place in changes else ():
                    commit.append(topic, rows)
                for chunk in chunks:
                    if places[chunk.number] == place and self._tables.by_oid[chunk.oid].stopped is None:
                        counted = occurrences.setdefault(chunk.oid, Occurrences())
                        self._add(commit, self._tables.by_oid[chunk.oid], self._snapshot.staged(chunk), counted)
            reached = max(end, captured_to(self._log, self._options))
            commit.bookmark(names.position, position_of(reached), expect=position)
            commit.bookmark(names.snapshot, {"phase": STREAMING, "jobs": self._jobs()})
            moved = self._tables.moves(commit)
        _check_alone(commit, self._options)
        self._tables.moved(moved)
        self._tables.incomplete.clear()
        self._snapshot.discard()
        self._say(f"The first snapshot is in the log, as of {end}.")

    def _stop_unfit(self, chunks: Sequence[Chunk], lsn: Lsn) -> None:
        """Stops tables with a row that cannot be a record."""
        for chunk in chunks:
            table = self._tables.by_oid[chunk.oid]
            reason = unfit_key(table, self._snapshot.staged(chunk)) if table.stopped is None else None
            if reason is not None:
                self._tables.stop(table, reason, lsn)

    def _add(self, commit: Commit, table: Table, rows: pa.Table, occurrences: Occurrences) -> None:
        rows = keyed(rows, occurrences) if table.counted else rows
        for part in self._outbox.route(table, rows, np.zeros(rows.num_rows, np.int64)):
            commit.append(part.topic, part.rows)

    def _jobs(self) -> list[dict[str, Any]]:
        """Tables whose columns changed before the snapshot was whole, and topics that had rows before it."""
        changed = [new_job(oid, purge=purge) for oid, purge in sorted(self._tables.incomplete.items())]
        older = [
            new_job(table.relation.oid, purge=True)
            for table in self._tables.active()
            if not table.append_only and any(end for _, end in self._log.offsets(table.topic).values())
        ]
        active = {table.relation.oid for table in self._tables.active()}
        return [job.to_json() for job in [*changed, *older] if job.oid in active]

    def _begin_again(self, connection: Connection) -> None:
        """Reads everything anew: the files are gone, or a table was written anew meanwhile. The log has nothing yet."""
        self._say("Tables were changed while they were read: reading begins again.")
        change_state(self._log, self._options, lambda _: {"phase": CREATING, "jobs": []})
        self._tables.by_oid = {}
        self.prepare(connection)


class Collector(Applier):
    """Applies transactions to files instead of the log, by the place at which chunks were read next after them."""

    stagings: dict[int, Staging]

    def collect_from(self, snapshot: FirstSnapshot, chunks: Sequence[Chunk]) -> None:
        """Names what the transactions build upon."""
        self._files, self._chunks = snapshot, chunks
        self.stagings = {}
        self._places = np.unique([snapshot.read_at(chunk) or 0 for chunk in chunks])

    def collect(self, item: Small | Large, end: Lsn) -> None:
        """As `apply`, for transactions that end at this place or before."""
        if isinstance(item, Large):
            if item.transaction.end <= end:
                self.apply(item)
            else:
                item.close()
                self.passed = max(self.passed, item.transaction.end)
            return
        count = sum(each.end <= end for each in item.transactions)
        inside = item.owner < count
        # Each place has changes of its own, so transactions before and after one are taken apart.
        for bounds in itertools.pairwise(sorted({0, count, *self._cuts(item.transactions[:count])})):
            mine = inside & (item.owner >= bounds[0]) & (item.owner < bounds[1])
            part = Small(
                item.stretch.take(mine), item.owner[mine] - bounds[0], item.transactions[bounds[0] : bounds[1]]
            )
            self.apply(part)
        self.passed = max(self.passed, item.transactions[-1].end)

    def commit(self, fill: Fill, lsn: Lsn, last: Transaction | None = None) -> None:
        place = int(self._places[np.searchsorted(self._places, lsn)])
        staging = self.stagings.get(place)
        if staging is None:
            staging = self.stagings[place] = Staging(self._options.directory / f"changes-{place:x}")
        fill(cast("Commit", _Collecting(staging)))
        self.lsn = lsn

    def uncommitted(self, table: Table) -> Iterator[pa.Table]:
        for place in sorted({*self.stagings, *self._places.tolist()}, reverse=True):
            for chunk in self._chunks:
                if chunk.oid == table.relation.oid and self._files.read_at(chunk) == place and place <= self.lsn:
                    yield self._files.staged(chunk)
            if place in self.stagings:
                yield from self.stagings[place].seen(table.topic)

    def close(self) -> None:
        for staging in self.stagings.values():
            staging.close()

    def _cuts(self, transactions: Sequence[Transaction]) -> list[int]:
        ends = np.array([each.end for each in transactions])
        return np.searchsorted(ends, self._places, side="right").tolist() if len(ends) else []


class _Collecting:
    """Takes the rows of a commit, and nothing else."""

    def __init__(self, staging: Staging) -> None:
        self._staging = staging

    def append(self, topic: str, rows: pa.Table) -> None:
        self._staging.add(topic, rows)

    def append_each(self, topic: str, rows: pa.Table, _numbers: object, *, commits: int) -> None:
        self._staging.add(topic, rows)


class _Deaf:
    """Nobody wants to know what passes."""

    def rows(self, _table: Table, _rows: pa.Table, _xids: Ids) -> None:
        pass

    def truncated(self, _table: Table, _xid: int) -> None:
        pass

    def message(self, _message: LogicalMessage, _staging: Staging, _transaction: Transaction) -> bool:
        return False


def _foreign_slot(slot: str) -> Missing:
    return Missing(
        f"the name of replication slot {slot!r} for this log, which knows nothing of it",
        f"Give the source another name, or: SELECT pg_drop_replication_slot('{slot}');",
    )


def _check_alone(commit: Commit, options: CaptureOptions) -> None:
    if (conflict := commit.conflict) is not None:
        raise CaptureOvertaken(options.name, str(conflict.expected), str(conflict.actual))

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
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from headwater.cdc.postgres.gathering import Gatherer, Large, Small
from headwater.cdc.postgres.lsn import ZERO, Lsn
from headwater.cdc.staging import Staging
from headwater.connectors.capture.lifecycle import Event, Life, State
from headwater.connectors.capture.target import StagingTarget, place_in, position_of
from headwater.connectors.postgres.applying import Applier, NullObserver, captured_to
from headwater.connectors.postgres.checks import Plan, check, publications
from headwater.connectors.postgres.inventory import Connection, tables_of
from headwater.connectors.postgres.jobs import new_job
from headwater.connectors.postgres.occurrences import Occurrences, keyed
from headwater.connectors.postgres.options import CaptureOptions
from headwater.connectors.postgres.outbox import Outbox
from headwater.connectors.postgres.replication import IDLE_SECONDS
from headwater.connectors.postgres.session import Session
from headwater.connectors.postgres.setup import NewSlot, Say, create_slot, drop_slot, publish
from headwater.connectors.postgres.snapshot import Chunk, FirstSnapshot, Progress
from headwater.connectors.postgres.tables import HISTORY_SCHEMA, Table, Tables, TablesMoved, unfit_key
from headwater.errors import CaptureOvertaken, CaptureRefused, Missing
from headwater.log.commit import Commit
from headwater.log.port import Log


class Bootstrap:
    """Brings a source to where its stream can be followed. Each step does only what is not done yet."""

    def __init__(
        self,
        log: Log,
        options: CaptureOptions,
        tables: Tables,
        life: Life,
        *,
        say: Say,
        progress: Progress,
        stop: threading.Event,
    ) -> None:
        self._log, self._options, self._tables, self._life = log, options, tables, life
        self._say, self._progress, self._stop = say, progress, stop
        self._outbox = Outbox(log, options)
        self._snapshot = FirstSnapshot(options.directory / "snapshot", options)

    def discard(self) -> None:
        """Removes the files of a snapshot that is in the log: who is killed behind the commit leaves them."""
        self._snapshot.discard()

    def create(self, session: Session) -> None:
        """Makes publications and slot, and reads everything as it is where the slot begins."""
        self._tables.load()
        plan = check(session.connection, self._options)
        if plan.has_slot and self._life.uninterrupted is not State.CREATING:
            raise CaptureRefused(str(self._options.address), [_foreign_slot(self._options.names.slot)])
        publish(session.connection, self._options, plan, self._say)
        if plan.has_slot:
            drop_slot(session.connection, self._options)
        self._life.move(Event.BEGIN)
        stored = self._life.stored
        self._say(f"Creating replication slot {self._options.names.slot}.")
        slot = create_slot(self._options, stop=self._stop, say=self._say)
        try:
            chunks = self._plan(session.connection, plan, slot.start, stored)
            active = list(self._tables.active())
            if not self._read(chunks, slot):
                return
        finally:
            slot.connection.finish()
        if self._is_as_planned(session.connection, active):
            self._finish(chunks, slot.start, {})
        else:
            self._restart()

    def proceed(self, session: Session) -> None:
        """Reads what is missing at a later place, and what has changed up to there."""
        self._tables.load()
        start, chunks = self._snapshot.chunks() if self._snapshot.exists else ("", [])
        active = list(self._tables.active())
        planned = place_in(self._log.bookmark(self._options.names.position)) == start
        if not planned or not self._is_as_planned(session.connection, active):
            self._restart()
            return
        if all(self._snapshot.read_at(chunk) is not None for chunk in chunks):
            self._catch_up(session, chunks)
            return
        slot = create_slot(self._options, temporary=True, stop=self._stop, say=self._say)
        try:
            if not self._read(self._missing(chunks), slot):
                return
        finally:
            slot.connection.finish()
        if self._is_as_planned(session.connection, active):
            self._catch_up(session, chunks)
        else:
            self._restart()

    def _plan(self, connection: Connection, plan: Plan, start: Lsn, stored: Mapping[str, Any]) -> list[Chunk]:
        """Notes which tables there are, and what is to be read of them."""
        names = self._options.names
        self._tables.by_oid = {}
        # The slot may have waited for long: tables may be others by now.
        there = {table.relation.oid: table for table in tables_of(connection)}
        for table in [there[each.relation.oid] for each in plan.tables if each.relation.oid in there]:
            self._tables.add(table.relation, table.key, start, parts=table.parts, files=table.files)
        chunks = self._snapshot.begin(start, list(self._tables.active()), connection)
        self._log.create(names.history, HISTORY_SCHEMA, exist_ok=True)
        with self._log.commit(on_conflict="return") as commit:
            before = self._log.bookmark(names.position)
            commit.bookmark(names.position, position_of(start), expect=before)
            self._life.add_to(commit, stored, Event.SLOT_CREATED)
            commit.bookmark(names.publications, publications(connection, self._options))
            self._tables.moves(commit)
        self._committed(commit)
        return chunks

    def _committed(self, commit: Commit) -> None:
        """Takes notice of a commit. Raises `CaptureOvertaken`, or `TablesMoved` if another process moved the state."""
        if (conflict := commit.conflict) is not None:
            if conflict.bookmark == self._options.names.position:
                raise CaptureOvertaken(self._options.name, str(conflict.expected), str(conflict.actual))
            raise TablesMoved
        self._life.moved()
        self._tables.committed()
        self._tables.incomplete.clear()

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

    def _catch_up(self, session: Session, chunks: Sequence[Chunk]) -> None:
        """Follows the stream from the slot's start to the last place at which a chunk was read, and commits it all."""
        places = {chunk.number: self._snapshot.read_at(chunk) or ZERO for chunk in chunks}
        end = max(places.values(), default=ZERO)
        for table in [each for each in self._tables.by_oid.values() if not each.key]:
            mine = [places[chunk.number] for chunk in chunks if chunk.oid == table.relation.oid]
            if mine:
                self._tables.read_at(table, max(mine))

        def read(oid: int, place: Lsn) -> Iterator[pa.Table]:
            mine = (chunk for chunk in chunks if chunk.oid == oid and places[chunk.number] == place)
            return (self._snapshot.staged(chunk) for chunk in mine)

        captured = captured_to(self._log, self._options)
        target = StagingTarget(self._options.directory, captured, list(places.values()), read)
        applier = Applier(
            self._log,
            self._options,
            self._tables,
            target,
            NullObserver(),
            find_key=lambda _: None,
            fetch_rows=session.fetch_rows,
            directory=self._options.directory / "staged-alone",
        )
        try:
            if self._follow(session, applier, sorted(set(places.values()))):
                self._finish(chunks, end, target.stagings)
        finally:
            target.close()

    def _follow(self, session: Session, applier: Applier, places: Sequence[Lsn]) -> bool:
        """Applies every transaction that ends at the last of these places or before; whether it came so far."""
        end = max(places, default=ZERO)
        if applier.lsn >= end:
            return True
        gatherer = Gatherer(self._options.directory / "spool")
        try:
            with session.stream(applier.lsn) as replication:
                while not self._stop.is_set():
                    received = replication.receive(IDLE_SECONDS)
                    for item in gatherer.feed(received.payloads):
                        for part in _parts(item, places):
                            applier.apply(part)
                        last = item.transaction if isinstance(item, Large) else item.transactions[-1]
                        applier.reached(last.end)
                    if received.reached and gatherer.is_idle:
                        applier.reached(received.reached)
                    if applier.passed >= end:
                        return True
                    # Nothing is durable yet: the server has to keep what it has sent.
                    replication.confirm(replication.confirmed, ask=not received.payloads)
        finally:
            gatherer.close()
        return False

    def _finish(self, chunks: Sequence[Chunk], end: Lsn, changes: Mapping[Lsn, Staging]) -> None:
        """The commit that holds every table as it is at one place."""
        names = self._options.names
        position, stored = self._log.bookmark(names.position), self._life.stored
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
            self._life.add_to(commit, stored, Event.SNAPSHOT_COMMITTED, self._jobs())
            self._tables.moves(commit)
        self._committed(commit)
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

    def _restart(self) -> None:
        """Everything has to be read again: the files are gone, or a table was rewritten. The log has nothing yet."""
        self._say("Tables were changed while they were read: reading starts over.")
        self._life.move(Event.RESTART)


def _parts(item: Small | Large, places: Sequence[Lsn]) -> Iterator[Small | Large]:
    """What ends at the last of some places or before; transactions before and after each place are taken apart."""
    if isinstance(item, Large):
        if item.transaction.end <= places[-1]:
            yield item
        else:
            item.close()
        return
    ends = [each.end for each in item.transactions]
    count = sum(end <= places[-1] for end in ends)
    cuts = np.searchsorted(np.array(ends[:count]), np.array(places), side="right").tolist()
    for first, last in itertools.pairwise(sorted({0, count, *cuts})):
        mine = (item.owner >= first) & (item.owner < last)
        yield Small(item.stretch.take(mine), item.owner[mine] - first, item.transactions[first:last])


def _foreign_slot(slot: str) -> Missing:
    return Missing(
        f"the name of replication slot {slot!r} for this log, which knows nothing of it",
        f"Give the source another name, or: SELECT pg_drop_replication_slot('{slot}');",
    )

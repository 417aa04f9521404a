"""The stream of a capture, followed: transactions are applied, tables are read meanwhile, the catalog is looked at."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from threading import Event as Flag

from headwater.cdc.postgres.gathering import Gatherer
from headwater.connectors.capture.lifecycle import Life
from headwater.connectors.capture.target import LogTarget
from headwater.connectors.postgres.applying import Applier, captured_to
from headwater.connectors.postgres.incremental import Incremental
from headwater.connectors.postgres.options import CaptureOptions
from headwater.connectors.postgres.outbox import Sweeper
from headwater.connectors.postgres.replication import IDLE_SECONDS, Replication
from headwater.connectors.postgres.session import Session
from headwater.connectors.postgres.tables import DROPPED, Tables
from headwater.connectors.postgres.watching import Watcher
from headwater.connectors.postgres.whole import read_whole
from headwater.log.port import Log


class Stream:
    """Follows the stream within one session, from where the log is. It is thrown away when the session ends."""

    def __init__(
        self,
        log: Log,
        options: CaptureOptions,
        tables: Tables,
        life: Life,
        session: Session,
        *,
        watcher: Watcher,
        sweeper: Sweeper,
        stop: Flag,
    ) -> None:
        self._log, self._options, self._tables, self._life = log, options, tables, life
        self._session, self._watcher, self._sweeper, self._stop = session, watcher, sweeper, stop
        tables.load()
        captured = captured_to(log, options)
        session.check_slot(captured)
        self._incremental = Incremental(log, options, tables)
        riders = (tables, self._incremental)
        target = LogTarget(log, options.name, options.names.position, captured, riders, tables.reject)
        self.applier = Applier(
            log,
            options,
            tables,
            target,
            self._incremental,
            find_key=session.find_key,
            fetch_rows=session.fetch_rows,
            directory=options.directory / "staged",
        )
        self._gatherer = Gatherer(options.directory / "spool")

    def follow(self, until: Callable[[], bool]) -> bool:
        """Follows until the capture shall end; False if it has to begin another session."""
        self._watcher.begin(self._session.connection, self.applier.lsn)
        self.applier.heartbeat()
        with self._session.stream(self.applier.lsn) as replication:
            try:
                self._read_whole_tables()
                self._incremental.start()
                ended = self._follow(replication, until)
            finally:
                self._incremental.stop()
                self._gatherer.close()
            replication.confirm(self.applier.lsn)
            return ended

    def _follow(self, replication: Replication, until: Callable[[], bool]) -> bool:
        period = self._options.heartbeat.total_seconds()
        looked = beat = time.monotonic()
        while not self._stop.is_set():
            self._receive(replication, min(IDLE_SECONDS, period))
            now = time.monotonic()
            if now - looked >= min(IDLE_SECONDS, period):
                looked = now
                if self._life.is_paused or self._tables_moved():
                    return False
                self._look()
            if now - beat >= period:
                beat = now
                self._beat(replication)
                if self._watcher.outgrown:
                    return False
            if until():
                return True
        return True

    def _receive(self, replication: Replication, idle_timeout: float) -> None:
        received = replication.receive(idle_timeout)
        for item in self._gatherer.feed(received.payloads):
            self.applier.apply(item)
        if received.reached and self._gatherer.is_idle:
            self.applier.reached(received.reached)
        if self.applier.lsn > replication.confirmed or received.reply_wanted:
            replication.confirm(self.applier.lsn)

    def _look(self) -> None:
        """What is asked of the capture, and what the reading of chunks has found."""
        self._incremental.refresh()
        self._describe()
        self._incremental.check()

    def _beat(self, replication: Replication) -> None:
        """What the stream does not tell, the catalog does; and the database need not keep what is in the log."""
        self._watcher.look(self._session.connection, self.applier.passed)
        self.applier.heartbeat()
        self._sweeper.sweep(self._session.connection, self.applier.lsn)
        self._read_whole_tables()
        replication.confirm(self.applier.lsn, ask=True)

    def _tables_moved(self) -> bool:
        """Whether another process has changed what is known of the tables."""
        return bool(self._log.bookmark(self._options.names.tables) != self._tables.stored)

    def _read_whole_tables(self) -> None:
        """Reads tables without a key that are to be read; the stream is not past where they are read."""
        for job in self._incremental.whole:
            found = self._session.table(job.oid)
            if found is None or found.relation.columns != self._tables.by_oid[job.oid].relation.columns:
                self._incremental.outdated.add(job.oid)
                continue
            read_whole(self._log, self._options, self._tables, found, self._incremental, job)
            self.applier.forget(job.oid)

    def _describe(self) -> None:
        """Takes notice of columns that changed, in the catalog, of tables that have had no change of a row since.

        And of tables that cannot be read.
        """
        lsn = self.applier.lsn
        for oid, reason in list(self._incremental.unreadable.items()):
            if oid in self._tables.by_oid:
                self._tables.stop(self._tables.by_oid[oid], reason, lsn)
            self._incremental.unreadable.pop(oid)
            self.applier.heartbeat()
        if not self._incremental.outdated:
            return
        for oid in self._incremental.outdated & self._tables.by_oid.keys():
            found = self._session.table(oid)
            if found is None:
                self._tables.stop(self._tables.by_oid[oid], DROPPED, lsn)
            else:
                identified = replace(found.relation, identified_by=found.key)
                self._tables.describe(identified, lsn, self._session.find_key)
        self._incremental.outdated.clear()
        self.applier.heartbeat()

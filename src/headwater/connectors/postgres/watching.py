"""Looks at the database's catalog now and then, for what the stream does not tell.

Tables that match by now, tables that were dropped, tables that somebody has taken out of the publication, partitions
that came or went with their rows.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence

from headwater.cdc.lsn import format_lsn, parse_lsn
from headwater.connectors.postgres.checks import check, published, published_oids
from headwater.connectors.postgres.incremental import Job, leaf_job, new_job
from headwater.connectors.postgres.inventory import Connection, SourceTable, chosen, tables_of
from headwater.connectors.postgres.options import CaptureOptions
from headwater.connectors.postgres.setup import Say, add_tables, publish
from headwater.connectors.postgres.snapshot import layout_of
from headwater.connectors.postgres.state import change_state
from headwater.connectors.postgres.status import status_of
from headwater.connectors.postgres.tables import DROPPED, Table, Tables
from headwater.errors import CaptureRefused, SlotLost
from headwater.log.port import Log

_FIGURES = re.compile(r"[\d,]+")
# For so many times as long as a look takes, there is none.
REST = 10


class Watcher:
    """What one capture has noticed, so that it is said once."""

    def __init__(self, log: Log, options: CaptureOptions, tables: Tables, say: Say) -> None:
        self._log, self._options, self._tables, self._say = log, options, tables, say
        self._alarms: set[str] = set()
        self._gone: dict[int, int] = {}
        self._refused = ""
        self._rests_until = 0.0

    def look(self, connection: Connection, lsn: int) -> None:
        """Takes notice of everything; the next commit makes it last. Says what `status` would raise an alarm about.

        The stream has come to `lsn`. A table that is gone counts until the stream is where it was noticed.
        A catalog of many tables takes its time to look at: then it is looked at less often.
        """
        began = time.monotonic()
        if began < self._rests_until:
            return
        self._look(connection, lsn)
        self._alarm(connection)
        now = time.monotonic()
        self._rests_until = now + REST * (now - began)

    def _look(self, connection: Connection, lsn: int) -> None:
        there = {each.relation.oid: each for each in tables_of(connection)}
        for table in list(self._tables.active()):
            found = there.get(table.relation.oid)
            if found is None:
                self._drop(connection, table, lsn)
            elif found.parts != table.parts:
                self._partitions(connection, table, found)
        self._find(connection, list(there.values()))
        self._publish_again(connection, there, lsn)

    def _alarm(self, connection: Connection) -> None:
        # Figures in an alarm change all the time, and it stays the same.
        found = {_FIGURES.sub("", text): text for text in status_of(self._log, self._options, connection).alarms}
        for alarm in sorted(found.keys() - self._alarms):
            self._say(f"alarm: source {self._options.name}: {found[alarm]}")
        self._alarms = set(found)

    def _drop(self, connection: Connection, table: Table, lsn: int) -> None:
        [(now,)] = connection.execute("SELECT pg_current_wal_insert_lsn()::text").fetchall()
        if lsn >= self._gone.setdefault(table.relation.oid, parse_lsn(str(now))):
            self._tables.stop(table, DROPPED, lsn)
            self._say(f"Table {table.name} was dropped.")

    def _find(self, connection: Connection, tables: Sequence[SourceTable]) -> None:
        """Publishes and adds tables that match by now; the next commit makes jobs of them."""
        wanted = chosen(tables, self._options.patterns, self._options.schemas)
        waiting = {self._tables.by_oid[oid].topic for oid in self._gone if oid in self._tables.by_oid}
        waiting &= {table.topic for table in self._tables.active()}
        fresh = [
            table
            for table in wanted
            if table.relation.oid not in self._tables.by_oid
            and self._options.names.topic(table.relation.schema, table.relation.table) not in waiting
        ]
        if not fresh:
            return
        try:
            publish(connection, self._options, check(connection, self._options), self._say)
        except CaptureRefused as error:
            if error.message != self._refused:
                self._refused = error.message
                self._say(error.message)
            return
        for table in fresh:
            self._tables.add(table.relation, table.key, parts=table.parts)
            self._say(f"Found table {table.name}.")

    def _publish_again(self, connection: Connection, there: dict[int, SourceTable], lsn: int) -> None:
        """Changes of a table that is not published are missing: it is published, and read again."""
        known, names = published_oids(connection, self._options), self._options.names
        there_are = published(connection, self._options).keys()
        for table in self._tables.active():
            publication = names.append_only if table.append_only else names.publication
            if publication not in there_are:
                # What was changed meanwhile was not published, and newer servers do not even say so.
                raise SlotLost(names.slot, format_lsn(lsn), f"publication {publication!r} was dropped")
        for table in [each for each in self._tables.active() if each.relation.oid in there.keys() - known]:
            reason = "Somebody has taken it out of the publication, and changes are missing."
            self._say(f"{table.name}: {reason}")
            found = there[table.relation.oid]
            if table.append_only or not found.owned:
                self._tables.stop(table, reason, lsn)
                continue
            add_tables(connection, self._options.names.publication, [found])
            self._tables.note(table, lsn, "published again", reason)
            self._tables.read_again(table.relation.oid, purge=True)

    def _partitions(self, connection: Connection, table: Table, found: SourceTable) -> None:
        """Partitions may have come or gone with their rows, of which the stream says nothing."""
        self._tables.set_parts(table, found.parts)
        fresh, gone = set(found.parts) - set(table.parts), set(table.parts) - set(found.parts)
        kept = "; rows that came or went with them are not noticed, without a key" if table.append_only else ""
        self._tables.note(table, 0, "partitions", f"{len(fresh)} came, {len(gone)} went{kept}")
        jobs: list[Job] = []
        if (gone and not table.append_only) or table.counted:
            jobs = [new_job(table.relation.oid, purge=True)]
        elif not table.append_only:
            jobs = [leaf_job(connection, table, sorted(fresh), layout_of(connection, [table]))]
        asked = [job.to_json() for job in jobs]
        change_state(self._log, self._options, lambda state: {**state, "jobs": [*state.get("jobs", []), *asked]})

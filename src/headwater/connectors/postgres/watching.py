"""Looks at the database's catalog now and then, for what the stream does not tell.

Tables that match by now, tables that were dropped, or that the source does not name any more, tables that somebody has
taken out of the publication, partitions that came or went with their rows or were emptied, topics that are gone.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from typing import Any

from headwater.cdc.postgres.lsn import ZERO, Lsn
from headwater.connectors.postgres.checks import (
    check_more,
    check_names,
    is_pattern,
    may_alter,
    publications,
    published_oids,
)
from headwater.connectors.postgres.inventory import Connection, SourceTable, chosen, tables_of
from headwater.connectors.postgres.jobs import Job, leaf_job, new_job
from headwater.connectors.postgres.options import CaptureOptions
from headwater.connectors.postgres.setup import Say, add_tables, publish, remove_table
from headwater.connectors.postgres.snapshot import layout_of
from headwater.connectors.postgres.status import status_of
from headwater.connectors.postgres.tables import DROPPED, REMOVED, Table, Tables
from headwater.errors import CaptureRefused, SlotLost, UnknownTopic
from headwater.log.port import Log

_FIGURES = re.compile(r"[\d,]+")
# For this many times as long as a look takes, there is none.
REST = 10


class Watcher:
    """What one capture has noticed, so that it is said once."""

    def __init__(self, log: Log, options: CaptureOptions, tables: Tables, say: Say) -> None:
        self._log, self._options, self._tables, self._say = log, options, tables, say
        self._alarms: set[str] = set()
        self._gone: dict[int, int] = {}
        self._refused: dict[str, str] = {}
        self._rests_until = 0.0
        self._begun = False
        self._named: set[str] = set()
        self.outgrown = False
        """Whether there is a publication that was not there when the stream began, which does not name it."""

    def begin(self, connection: Connection, lsn: Lsn) -> None:
        """Before the stream is followed: tables that the source does not name any more are captured no more.

        The first time, a table that it names and that cannot be captured is an error. Raises `CaptureRefused`, and
        `SlotLost` if a publication is gone.
        """
        there = {each.relation.oid: each for each in tables_of(connection)}
        if not self._begun:
            self._check_named(connection, list(there.values()))
        self._begun = True
        self._remove(connection, there, lsn)
        there_are = self._check_publications(connection, lsn)
        self._named, self.outgrown = set(there_are), False
        if self._log.bookmark(self._options.names.publications) != there_are:
            with self._log.commit() as commit:
                commit.bookmark(self._options.names.publications, there_are)

    def look(self, connection: Connection, lsn: Lsn) -> None:
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

    def _look(self, connection: Connection, lsn: Lsn) -> None:
        there = {each.relation.oid: each for each in tables_of(connection)}
        topics = {each.name for each in self._log.topics()}
        for table in list(self._tables.active()):
            if table.topic not in topics:
                raise UnknownTopic(table.topic)
            found = there.get(table.relation.oid)
            if found is None:
                self._drop(connection, table, lsn)
            elif (found.parts, found.files) != (table.parts, table.files):
                self._partitions(connection, table, found)
        self._check_publications(connection, lsn)
        self._find(connection, list(there.values()))
        self._publish_again(connection, there, lsn)
        self.outgrown = bool(publications(connection, self._options).keys() - self._named)

    def _remove(self, connection: Connection, there: Mapping[int, SourceTable], lsn: Lsn) -> None:
        for table in [each for each in self._tables.active() if not self._tables.is_wanted(each)]:
            found = there.get(table.relation.oid)
            if found is not None:
                remove_table(connection, self._publication(table), found)
            self._tables.stop(table, REMOVED, lsn)
            self._say(f"{table.name} is no longer captured: {REMOVED} Its topic {table.topic} stays.")

    def _check_named(self, connection: Connection, tables: Sequence[SourceTable]) -> None:
        """Raises `CaptureRefused` for tables that were added to the source by their names."""
        captured = self._tables.by_oid.values()
        names = [name for each in captured for name in ((each.relation.schema, each.relation.table), each.found_as)]
        check_names(self._options, tables, names)
        named = [pattern for pattern in self._options.patterns if not is_pattern(pattern)]
        fresh = [table for table in chosen(tables, named, ()) if self._is_fresh(table)]
        _, lacking = check_more(connection, self._options, fresh)
        if lacking:
            raise CaptureRefused(str(self._options.address), [lack for each in lacking.values() for lack in each])

    def _is_fresh(self, table: SourceTable) -> bool:
        known = self._tables.by_oid.get(table.relation.oid)
        return known is None or known.stopped == REMOVED

    def _publication(self, table: Table) -> str:
        names = self._options.names
        return names.append_only if table.append_only else names.publication

    def _alarm(self, connection: Connection) -> None:
        # Figures in an alarm change all the time, and it stays the same.
        found = {_FIGURES.sub("", text): text for text in status_of(self._log, self._options, connection).alarms}
        for alarm in sorted(found.keys() - self._alarms):
            self._say(f"alarm: source {self._options.name}: {found[alarm]}")
        self._alarms = set(found)

    def _drop(self, connection: Connection, table: Table, lsn: Lsn) -> None:
        [(now,)] = connection.execute("SELECT pg_current_wal_insert_lsn()::text").fetchall()
        if lsn >= self._gone.setdefault(table.relation.oid, Lsn.parse(str(now))):
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
            if self._is_fresh(table)
            and self._options.names.topic(table.relation.schema, table.relation.table) not in waiting
        ]
        if not fresh:
            return
        plan, lacking = check_more(connection, self._options, fresh)
        for name, missing in lacking.items():
            reason = CaptureRefused(f"table {name}", missing).message
            if self._refused.get(name) != reason:
                self._refused[name] = reason
                self._say(reason)
        if plan.tables:
            publish(connection, self._options, plan, self._say)
        for table in plan.tables:
            self._add(table)

    def _add(self, table: SourceTable) -> None:
        known = self._tables.by_oid.get(table.relation.oid)
        if known is None:
            self._tables.add(table.relation, table.key, parts=table.parts, files=table.files)
            self._say(f"Found table {table.name}.")
            return
        resumed = self._tables.resume(known, table)
        if resumed.stopped is None:
            self._tables.read_again(table.relation.oid, purge=not resumed.append_only)
        self._say(f"Table {table.name} is named again.")

    def _check_publications(self, connection: Connection, lsn: Lsn) -> dict[str, int]:
        """The publications that are there. Raises `SlotLost` if one that is needed is not, or was not for a while.

        What was changed meanwhile was not published, and newer servers do not even say so.
        """
        there, slot = publications(connection, self._options), self._options.names.slot
        before: Any = self._log.bookmark(self._options.names.publications) or {}
        for publication in sorted({self._publication(table) for table in self._tables.active()}):
            if publication not in there:
                raise SlotLost(slot, str(lsn), f"publication {publication!r} was dropped")
            if before.get(publication, there[publication]) != there[publication]:
                raise SlotLost(slot, str(lsn), f"publication {publication!r} was dropped and recreated")
        return there

    def _publish_again(self, connection: Connection, there: Mapping[int, SourceTable], lsn: Lsn) -> None:
        """Changes of a table that is not published are missing: it is published, and read again."""
        missing = there.keys() - published_oids(connection, self._options)
        for table in [each for each in self._tables.active() if each.relation.oid in missing]:
            reason = "Somebody has taken it out of the publication, and changes are missing."
            self._say(f"{table.name}: {reason}")
            found = there[table.relation.oid]
            if table.append_only or not found.owned or not may_alter(connection, self._publication(table)):
                self._tables.stop(table, reason, lsn)
                continue
            add_tables(connection, self._options.names.publication, [found])
            self._tables.note(table, lsn, "published again", reason)
            self._tables.read_again(table.relation.oid, purge=True)

    def _partitions(self, connection: Connection, table: Table, found: SourceTable) -> None:
        """Partitions may have come or gone with their rows, or been emptied, of which the stream says nothing.

        A partition that was rewritten for another reason has the same rows, but that cannot be seen from here.
        """
        before, now = (dict(zip(each.parts, each.files, strict=True)) for each in (table, found))
        self._tables.set_parts(table, found.parts, found.files)
        fresh, gone = now.keys() - before.keys(), before.keys() - now.keys()
        rewritten = [part for part in now.keys() & before.keys() if now[part] != before[part]]
        kept = "; rows that came or went with them are not noticed, without a key" if table.append_only else ""
        detail = f"{len(fresh)} came, {len(gone)} went, {len(rewritten)} rewritten{kept}"
        self._tables.note(table, ZERO, "partitions", detail)
        jobs: list[Job] = []
        if ((gone or rewritten) and not table.append_only) or table.counted:
            jobs = [new_job(table.relation.oid, purge=True)]
        elif not table.append_only:
            jobs = [leaf_job(connection, table, sorted(fresh), layout_of(connection, [table]))]
        asked = [job.to_json() for job in jobs]
        self._options.life(self._log).ask(asked)

"""The connections of a capture to its database: opened, used for questions and for the stream, and closed here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Self

import psycopg
from psycopg import sql

from headwater.cdc.postgres.lsn import Lsn
from headwater.cdc.postgres.relations import Relation
from headwater.connectors.postgres.checks import publications
from headwater.connectors.postgres.copying import Copier, selected
from headwater.connectors.postgres.inventory import Connection, SourceTable, chosen, table_of, tables_of
from headwater.connectors.postgres.naming import quoted
from headwater.connectors.postgres.options import CaptureOptions
from headwater.connectors.postgres.replication import Replication
from headwater.connectors.postgres.tables import Table
from headwater.connectors.postgres.unchanged import Key, Values, values_of
from headwater.errors import SlotLost

# How many rows one query names at most.
KEYS_MAX = 1000


class Session:
    """One visit to the database. Others borrow it, from one thread; an error of the server ends it."""

    def __init__(self, options: CaptureOptions, connection: Connection) -> None:
        self._options = options
        self.connection = connection

    @classmethod
    @contextmanager
    def open(cls, options: CaptureOptions) -> Iterator[Self]:
        """Connects, and closes at the end. Raises `SourceUnavailable`, also for what the block gets from the server."""
        with options.address.connect() as connection:
            try:
                yield cls(options, connection)
            except psycopg.Error as error:
                raise options.address.failed(error) from error

    @contextmanager
    def stream(self, start: Lsn) -> Iterator[Replication]:
        """The stream of changes from a place on, until the block ends. Raises `SlotLost` and `SourceUnavailable`."""
        version = self.connection.info.server_version // 10_000
        named = sorted(publications(self.connection, self._options))
        replication = Replication(self._options, start, version, named)
        try:
            yield replication
        finally:
            replication.close()

    def check_slot(self, captured: Lsn) -> None:
        """Raises `SlotLost` if the slot does not continue from where the log is."""
        slot = self._options.names.slot
        row = self.connection.execute(
            "SELECT confirmed_flush_lsn::text, wal_status FROM pg_replication_slots WHERE slot_name = %s", (slot,)
        ).fetchone()
        if row is None:
            raise SlotLost(slot, str(captured), "it is not there")
        confirmed, status = row
        if status == "lost":
            raise SlotLost(slot, str(captured), "PostgreSQL has removed WAL that it needs")
        if confirmed is not None and Lsn.parse(confirmed) > captured:
            raise SlotLost(slot, str(captured), f"it was moved to {confirmed}")

    def table(self, oid: int) -> SourceTable | None:
        """A table as it is in the catalog now; None if it is not there any more."""
        return table_of(self.connection, oid)

    def find_key(self, relation: Relation) -> tuple[str, ...] | None:
        """The key of a table that the stream speaks of for the first time; None if it is not to be captured."""
        found = chosen(tables_of(self.connection, relation.oid), self._options.patterns, self._options.schemas)
        return next((table.key for table in found), None)

    def fetch_rows(self, table: Table, keys: Sequence[Key], columns: Sequence[str]) -> Mapping[Key, Values]:
        """Values of rows, which neither the stream nor the log has, as they are in the database now.

        The stream may be far behind: a table that was dropped since has no values, nor has a column that was dropped,
        renamed or given another type. What comes of that, the stream will tell.
        """
        found = self.table(table.relation.oid)
        there = set(found.relation.columns) if found is not None else set()
        known = {column.name: column for column in table.relation.columns}
        asked = [name for name in columns if known[name] in there]
        if found is None or not asked or any(known[name] not in there for name in table.key):
            return {}
        part = replace(table.relation, columns=tuple(known[name] for name in dict.fromkeys([*table.key, *asked])))
        listed = ", ".join(quoted(name) for name in table.key)
        values: dict[Key, Values] = {}
        copier = Copier(self._options.address)
        try:
            for first in range(0, len(keys), KEYS_MAX):
                rows = _rows(keys[first : first + KEYS_MAX]).as_string(self.connection)
                query = f"SELECT {selected(part)} FROM {found.source} WHERE ({listed}) IN ({rows})"
                for batch in copier.rows(part, query):
                    for row in batch.to_pylist():
                        values[tuple(row[name] for name in table.key)] = values_of(row, asked)
        finally:
            copier.close()
        return values


def _rows(keys: Sequence[Key]) -> sql.Composed:
    """Keys as rows in SQL."""
    return sql.SQL(", ").join(sql.SQL("({})").format(sql.SQL(", ").join(map(sql.Literal, key))) for key in keys)

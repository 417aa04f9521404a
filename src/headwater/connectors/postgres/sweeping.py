"""Deletes rows of an outbox that are in the log, if that was asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg

from headwater.cdc.postgres.lsn import Lsn
from headwater.connectors.postgres.inventory import Connection
from headwater.connectors.postgres.naming import literal, qualified, quoted
from headwater.connectors.postgres.options import CaptureOptions
from headwater.connectors.postgres.setup import Say
from headwater.connectors.postgres.tables import Table, Tables

# How many rows of an outbox are deleted at a time.
SWEEP_ROWS_MAX = 10_000


class Sweeper:
    """Knows which rows wait until the log is past where they were seen."""

    def __init__(self, options: CaptureOptions, tables: Tables, say: Say) -> None:
        self._options, self._tables, self._say = options, tables, say
        self._seen: tuple[int, Sequence[tuple[Any, ...]]] | None = None
        self._refused = ""

    def sweep(self, connection: Connection, lsn: Lsn) -> None:
        """Deletes rows that were there when the database was behind `lsn`, up to which the log has everything."""
        if not self._options.outbox or not self._options.outbox_delete:
            return
        table = self._tables.named(self._options.outbox)
        if table is None or table.stopped is not None or not table.key:
            return
        if self._seen is not None and lsn >= self._seen[0]:
            self._delete(connection, table, self._seen[1])
            self._seen = None
        if self._seen is None:
            listed = ", ".join(f"{quoted(name)}::text" for name in table.key)
            name = qualified(table.relation.schema, table.relation.table)
            # The place is asked for after the rows: whatever is seen was committed before it.
            rows = connection.execute(f"SELECT {listed} FROM {name} LIMIT {SWEEP_ROWS_MAX}".encode()).fetchall()
            [(place,)] = connection.execute("SELECT pg_current_wal_insert_lsn()::text").fetchall()
            self._seen = (Lsn.parse(str(place)), rows) if rows else None

    def _delete(self, connection: Connection, table: Table, keys: Sequence[tuple[Any, ...]]) -> None:
        listed = ", ".join(quoted(name) for name in table.key)
        values = ", ".join(f"({', '.join(literal(str(text)) for text in key)})" for key in keys)
        name = qualified(table.relation.schema, table.relation.table)
        try:
            connection.execute(f"DELETE FROM {name} WHERE ({listed}) IN ({values})".encode())
        except psycopg.errors.InsufficientPrivilege as error:
            # Events are captured all the same.
            reason = f"Rows of the outbox are not deleted: {error.diag.message_primary}."
            if reason != self._refused:
                self._refused = reason
                self._say(reason)

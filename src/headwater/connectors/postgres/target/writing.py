"""Writing one delivery into a table, within a transaction: by COPY into a staging table, and from there at once."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from contextlib import suppress

import psycopg
import pyarrow as pa

from headwater.connectors.postgres.naming import quoted
from headwater.connectors.postgres.target.columns import COPY_FORMAT, csv_of
from headwater.connectors.postgres.target.table import Table
from headwater.engine.sinks.target import Assignment, Delivery
from headwater.errors import TargetFailed

CHUNK_ROWS = 50_000
"""Rows that are made into CSV, or merged, at once."""
_STAGING = ("staged", "gone", "kept")
# Types without an equality of their own are compared as text.
_INCOMPARABLE = ("json", "xml", "point", "polygon")
# What the values of a row can be refused for: data, constraints, and what a trigger raises.
_OF_ROWS = (psycopg.DataError, psycopg.IntegrityError, psycopg.errors.RaiseException)

Connection = psycopg.Connection[tuple[object, ...]]


class Writer:
    """Writes into a table within a transaction. Rows that the server refuses are found, and reported as refused."""

    def __init__(self, connection: Connection, table: Table, assignment: Assignment) -> None:
        self._connection, self._table, self._assignment = connection, table, assignment
        self._key = list(assignment.key)
        # Several tables may be written in one transaction.
        suffix = f"{zlib.crc32(table.sql.encode()):08x}"
        self._staged, self._gone, self._kept = (f"pg_temp.headwater_{what}_{suffix}" for what in _STAGING)
        self._types: dict[str, str] = {}

    def change(self, delivery: Delivery) -> None:
        """Brings net changes."""
        self._prepare()
        if delivery.upserts.num_rows:
            self._put_or_refuse(delivery.upserts)
        if delivery.deletes.num_rows:
            self._delete(delivery.deletes)

    def replace(self, delivery: Delivery, *, adopted: bool, ours: bool) -> bool:
        """Makes the table hold the content, and nothing else; whether the table was created.

        Rows that are the same stay untouched. Unless the table is `adopted`, rows in it are somebody else's.
        """
        connection, table, rows = self._connection, self._table, delivery.upserts
        # Their columns were those of the table before.
        connection.execute(f"DROP TABLE IF EXISTS {self._staged}, {self._gone}".encode())
        created = not table.exists(connection)
        if created:
            table.create(connection, rows.schema)
        elif ours:
            table.follow(connection, rows.schema, self._key)
        else:
            table.check(connection, rows.schema, self._key)
        empty = created or table.is_empty(connection)
        if not empty and not adopted:
            raise TargetFailed(
                f"Table {table.shown} has rows that no sink wrote; empty it, or allow replace=True", "refused"
            )
        if empty and self._load(rows, created=created):
            return created
        if created:
            table.add_key(connection, self._key)
        self._merge(rows)
        return created

    def _load(self, rows: pa.Table, *, created: bool) -> bool:
        """Copies everything into the empty table; False, with nothing done, if the server refuses any of it."""
        try:
            with self._connection.transaction():
                self._copy(self._table.sql, rows, told=True)
                if created:
                    self._table.add_key(self._connection, self._key)
        except _OF_ROWS:
            return False
        return True

    def _merge(self, rows: pa.Table) -> None:
        """Puts all rows, and deletes what is not among them."""
        self._prepare()
        key = ", ".join(map(quoted, self._key))
        self._connection.execute(
            f"CREATE TEMP TABLE {self._kept} ON COMMIT DROP AS SELECT {key} FROM {self._table.sql} LIMIT 0".encode()
        )
        for first in range(0, rows.num_rows, CHUNK_ROWS):
            chunk = rows.slice(first, CHUNK_ROWS)
            taken = self._put_or_refuse(chunk)
            self._copy(self._kept, taken.select(self._key))
            self._assignment.progress(first + chunk.num_rows, rows.num_rows)
        self._connection.execute(f"ANALYZE {self._kept}".encode())
        self._connection.execute(
            f"DELETE FROM {self._table.sql} t "
            f"WHERE NOT EXISTS (SELECT FROM {self._kept} k WHERE {_equal('t', 'k', self._key)})".encode()
        )

    def _prepare(self) -> None:
        """The staging tables, with the types of the table: what they do not take, the table would not take either."""
        self._types = self._table.columns(self._connection)
        # A constraint that is only checked at the end could not be put down to a row.
        self._connection.execute("SET CONSTRAINTS ALL IMMEDIATE")

    def _put_or_refuse(self, rows: pa.Table) -> pa.Table:
        """Puts rows; those that the server refuses are reported, and nothing is kept of their keys. The other rows."""
        try:
            with self._connection.transaction():
                self._put(rows)
        except _OF_ROWS as error:
            if rows.num_rows == 1:
                self._assignment.refuse(rows, [_words(error)])
                with suppress(psycopg.DataError), self._connection.transaction():
                    # A key that the table cannot hold is not in it.
                    self._delete(rows.select(self._key))
                return rows.slice(0, 0)
        else:
            return rows
        half = rows.num_rows // 2
        return pa.concat_tables([self._put_or_refuse(rows.slice(0, half)), self._put_or_refuse(rows.slice(half))])

    def _put(self, rows: pa.Table) -> None:
        names = rows.column_names
        self._stage(self._staged, rows)
        listed = ", ".join(map(quoted, names))
        others = [name for name in names if name not in self._key]
        changed = ", ".join(f"{quoted(name)} = excluded.{quoted(name)}" for name in others)
        differs = " OR ".join(
            f"{self._compared('t', name)} IS DISTINCT FROM {self._compared('excluded', name)}" for name in others
        )
        action = f"DO UPDATE SET {changed} WHERE {differs}" if others else "DO NOTHING"
        self._connection.execute(
            f"INSERT INTO {self._table.sql} AS t ({listed}) SELECT {listed} FROM {self._staged} "
            f"ON CONFLICT ({', '.join(map(quoted, self._key))}) {action}".encode()
        )

    def _delete(self, keys: pa.Table) -> None:
        self._stage(self._gone, keys)
        self._connection.execute(
            f"DELETE FROM {self._table.sql} t USING {self._gone} g WHERE {_equal('t', 'g', self._key)}".encode()
        )

    def _stage(self, name: str, rows: pa.Table) -> None:
        listed = ", ".join(map(quoted, rows.column_names))
        self._connection.execute(
            f"CREATE TEMP TABLE IF NOT EXISTS {name} ON COMMIT DELETE ROWS AS "
            f"SELECT {listed} FROM {self._table.sql} LIMIT 0".encode()
        )
        self._connection.execute(f"DELETE FROM {name}".encode())
        self._copy(name, rows)

    def _copy(self, into: str, rows: pa.Table, *, told: bool = False) -> None:
        listed = ", ".join(map(quoted, rows.column_names))
        with (
            self._connection.cursor() as cursor,
            cursor.copy(f"COPY {into} ({listed}) FROM STDIN {COPY_FORMAT}".encode()) as copy,
        ):
            for first in range(0, rows.num_rows, CHUNK_ROWS):
                chunk = rows.slice(first, CHUNK_ROWS)
                copy.write(csv_of(chunk))
                if told:
                    self._assignment.progress(first + chunk.num_rows, rows.num_rows)

    def _compared(self, table: str, column: str) -> str:
        cast = "::text" if self._types.get(column) in _INCOMPARABLE else ""
        return f"{table}.{quoted(column)}{cast}"


def _equal(one: str, other: str, key: Sequence[str]) -> str:
    return " AND ".join(f"{one}.{quoted(name)} = {other}.{quoted(name)}" for name in key)


def _words(error: psycopg.Error) -> str:
    """What the server says of a row, without the statement."""
    said = error.diag.message_primary or str(error)
    return f"{said}. {error.diag.message_detail}" if error.diag.message_detail else said

"""The table of a target: created from the view's columns, or checked, and changed when the view's columns change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import psycopg
import pyarrow as pa

from headwater.connectors.postgres.naming import quoted
from headwater.connectors.postgres.target.columns import holds, sql_type
from headwater.errors import TargetFailed

Connection = psycopg.Connection[tuple[object, ...]]
_COLUMNS = """
SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute
WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped ORDER BY attnum
"""
_UNIQUE = """
SELECT 1 FROM pg_index WHERE indrelid = to_regclass(%(table)s) AND indisunique AND indisvalid AND indpred IS NULL
AND indexprs IS NULL AND indimmediate AND indnkeyatts = %(count)s AND (
    SELECT array_agg(attname::text ORDER BY attname::text) FROM pg_attribute
    WHERE attrelid = indrelid AND attnum = ANY ((indkey::int2[])[0:indnkeyatts - 1])
) = %(key)s
"""


@dataclass(frozen=True, slots=True)
class Table:
    """A table by its name, and its schema if one was given; otherwise it is where the session looks."""

    schema: str
    name: str

    @property
    def shown(self) -> str:
        return f"{self.schema}.{self.name}" if self.schema else self.name

    @property
    def sql(self) -> str:
        return self.beside(self.name)

    def beside(self, name: str) -> str:
        """Another table of the same schema, in SQL."""
        return f"{quoted(self.schema)}.{quoted(name)}" if self.schema else quoted(name)

    def column(self, name: str) -> str:
        return quoted(name)

    def exists(self, connection: Connection) -> bool:
        return connection.execute("SELECT to_regclass(%s)", (self.sql,)).fetchone() != (None,)

    def is_empty(self, connection: Connection) -> bool:
        found = connection.execute(f"SELECT EXISTS (SELECT FROM {self.sql})".encode()).fetchone()
        return found == (False,)

    def columns(self, connection: Connection) -> dict[str, str]:
        """The types of its columns, by name."""
        return {str(name): str(kind) for name, kind in connection.execute(_COLUMNS, (self.sql,))}

    def create(self, connection: Connection, schema: pa.Schema) -> None:
        """Creates it, without any index: rows that come first are loaded several times as fast."""
        listed = ", ".join(f"{quoted(field.name)} {sql_type(field.type)}" for field in schema)
        connection.execute(f"CREATE TABLE {self.sql} ({listed})".encode())

    def add_key(self, connection: Connection, key: Sequence[str]) -> None:
        listed = ", ".join(map(quoted, key))
        connection.execute(f"ALTER TABLE {self.sql} ADD PRIMARY KEY ({listed})".encode())

    def check(self, connection: Connection, schema: pa.Schema, key: Sequence[str]) -> None:
        """Raises `TargetFailed` unless it can hold a view by its key."""
        there = self.columns(connection)
        for field in schema:
            if field.name not in there:
                raise TargetFailed(f"Table {self.shown} has no column {field.name!r}", "refused")
            if not holds(there[field.name], field.type):
                wanted = sql_type(field.type)
                raise TargetFailed(
                    f"Column {field.name!r} of table {self.shown} is {there[field.name]}, and should be {wanted}",
                    "refused",
                )
        asked = {"table": self.sql, "count": len(key), "key": sorted(key)}
        if connection.execute(_UNIQUE, asked).fetchone() is None:
            raise TargetFailed(f"Table {self.shown} has no unique index on ({', '.join(key)})", "refused")

    def follow(self, connection: Connection, schema: pa.Schema, key: Sequence[str]) -> None:
        """Gives a table that a sink has created the columns that the view has now; its rows come after that."""
        there, wanted = self.columns(connection), {field.name: sql_type(field.type) for field in schema}
        gone = [name for name in there if wanted.get(name) != there[name]]
        new = [name for name in wanted if there.get(name) != wanted[name]]
        steps = [f"DROP COLUMN {quoted(name)}" for name in gone]
        steps += [f"ADD COLUMN {quoted(name)} {wanted[name]}" for name in new]
        if steps:
            if set(gone) & set(key) or set(new) & set(key):
                connection.execute(f"TRUNCATE {self.sql}".encode())
            connection.execute(f"ALTER TABLE {self.sql} {', '.join(steps)}".encode())
        asked = {"table": self.sql, "count": len(key), "key": sorted(key)}
        if connection.execute(_UNIQUE, asked).fetchone() is None:
            connection.execute(f"TRUNCATE {self.sql}".encode())
            connection.execute(
                f"ALTER TABLE {self.sql} DROP CONSTRAINT IF EXISTS {quoted(f'{self.name}_pkey')}".encode()
            )
            self.add_key(connection, key)

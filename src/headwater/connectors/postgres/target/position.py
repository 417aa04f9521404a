"""The position in the database: a small table beside the target's, which also says which process may write."""

from __future__ import annotations

import psycopg

from headwater.connectors.postgres.target.table import Table
from headwater.engine.sinks.port import PositionChanged
from headwater.errors import TargetFailed

NAME = "headwater_sinks"
_CREATE = """
CREATE TABLE IF NOT EXISTS {positions} (
    table_name text PRIMARY KEY,
    sink text NOT NULL,
    epoch bigint NOT NULL,
    stamp text,
    created oid,
    moved_at timestamptz NOT NULL DEFAULT now(),
    relation oid,
    beside oid
)
"""
_ALTER = "ALTER TABLE {positions} ADD COLUMN IF NOT EXISTS relation oid, ADD COLUMN IF NOT EXISTS beside oid"
"""For a table that an earlier version made."""
_IS_OLD = """
SELECT 1 FROM pg_attribute WHERE attrelid = to_regclass(%s) HAVING count(*) FILTER (WHERE attname = 'beside') = 0
"""
_TAKE_OVER = """
INSERT INTO {positions} AS held (table_name, sink, epoch) VALUES (%(table)s, %(sink)s, 1)
ON CONFLICT (table_name) DO UPDATE SET epoch = held.epoch + 1 WHERE held.sink = excluded.sink
RETURNING epoch, stamp
"""
_IS_OF_TABLE = """
SELECT to_regclass(%(table)s) IS NOT NULL AND (
    relation IS NULL OR relation = to_regclass(%(table)s)::oid OR beside <> to_regclass(%(sql)s)::oid
) FROM {positions} WHERE table_name = %(name)s
"""
# Two processes that create it at once: one of them fails, and tries again.
_LOCK = 0x68656164

Connection = psycopg.Connection[tuple[object, ...]]


class Positions:
    """The row of one table in the table of positions. Each process that takes over gets a higher epoch."""

    def __init__(self, table: Table) -> None:
        self._table, self._sql = table, table.beside(NAME)
        self._epoch = 0
        self.stamp: str | None = None

    def take_over(self, connection: Connection, owner: str) -> str | None:
        """The stamp that is there. From here on, older processes are refused. Raises `TargetFailed`."""
        if connection.execute("SELECT to_regclass(%s)", (self._sql,)).fetchone() == (None,):
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
            connection.execute(_CREATE.format(positions=self._sql).encode())
        elif connection.execute(_IS_OLD, (self._sql,)).fetchone() is not None:
            connection.execute(_ALTER.format(positions=self._sql).encode())
        asked = {"table": self._table.name, "sink": owner}
        found = connection.execute(_TAKE_OVER.format(positions=self._sql).encode(), asked).fetchone()
        if found is None:
            other = connection.execute(
                f"SELECT sink FROM {self._sql} WHERE table_name = %s".encode(), (self._table.name,)
            ).fetchone()
            held_by = "" if other is None else f", {other[0]}"
            raise TargetFailed(f"Table {self._table.shown} belongs to another sink{held_by}", "gone")
        epoch, stamp = found
        assert isinstance(epoch, int)
        self._epoch, self.stamp = epoch, None if stamp is None else str(stamp)
        return self.stamp

    def hold(self, connection: Connection) -> str | None:
        """The stamp, which nobody else moves until the transaction ends. Raises `TargetFailed` for an older process."""
        found = connection.execute(
            f"SELECT epoch, stamp FROM {self._sql} WHERE table_name = %s FOR UPDATE".encode(), (self._table.name,)
        ).fetchone()
        if found is None:
            raise psycopg.errors.UndefinedTable
        held = found[0]
        assert isinstance(held, int)
        if held < self._epoch:
            # Nobody takes over with a smaller one: the database was restored from a backup.
            raise PositionChanged
        if held > self._epoch:
            raise TargetFailed(f"Another process is writing to table {self._table.shown}", "gone")
        return None if found[1] is None else str(found[1])

    def move(self, connection: Connection, stamp: str) -> None:
        connection.execute(
            f"UPDATE {self._sql} SET stamp = %s, moved_at = now(), relation = to_regclass(%s)::oid, "
            "beside = to_regclass(%s)::oid WHERE table_name = %s".encode(),
            (stamp, self._table.sql, self._sql, self._table.name),
        )

    def is_of_this_table(self, connection: Connection) -> bool:
        """Whether the stamp is about the table that is there.

        A table that was replaced alone has another identity than when it was last written. One that was restored with
        the whole database has another one, too, and so has the table of positions.
        """
        found = connection.execute(
            _IS_OF_TABLE.format(positions=self._sql).encode(),
            {"table": self._table.sql, "sql": self._sql, "name": self._table.name},
        ).fetchone()
        return found == (True,)

    def doubt(self, connection: Connection) -> None:
        """The table is the sink's, and what it holds is not known."""
        connection.execute(f"UPDATE {self._sql} SET stamp = '' WHERE table_name = %s".encode(), (self._table.name,))
        self.stamp = ""

    def forget(self, connection: Connection) -> None:
        """The table holds nothing of the view."""
        connection.execute(f"UPDATE {self._sql} SET stamp = NULL WHERE table_name = %s".encode(), (self._table.name,))
        self.stamp = None

    def note_created(self, connection: Connection) -> None:
        """Remembers that the table is ours, so that its columns may follow the view's."""
        connection.execute(
            f"UPDATE {self._sql} SET created = to_regclass(%s)::oid WHERE table_name = %s".encode(),
            (self._table.sql, self._table.name),
        )

    def is_created(self, connection: Connection) -> bool:
        """Whether the table, as it is now, was created by a sink."""
        found = connection.execute(
            f"SELECT created = to_regclass(%s)::oid FROM {self._sql} WHERE table_name = %s".encode(),
            (self._table.sql, self._table.name),
        ).fetchone()
        return found == (True,)

    def remove(self, connection: Connection) -> None:
        connection.execute(f"DELETE FROM {self._sql} WHERE table_name = %s".encode(), (self._table.name,))
        self.stamp = None

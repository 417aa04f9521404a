"""A table of a PostgreSQL database as a target: rows and position change in one transaction."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import ClassVar, NoReturn

import psycopg
import pyarrow as pa

from headwater.connectors.postgres.address import address_of
from headwater.connectors.postgres.target.columns import COPY_FORMAT, readable, rows_of
from headwater.connectors.postgres.target.position import Connection, Positions
from headwater.connectors.postgres.target.table import Table
from headwater.connectors.postgres.target.writing import Writer
from headwater.connectors.secrets import expanded_url
from headwater.engine.sinks.port import PositionChanged
from headwater.engine.sinks.target import Assignment, Delivery, Target
from headwater.errors import SourceUnavailable, TableRemoved, TargetFailed, UsageError

READ_BYTES = 8 << 20
"""How many bytes of the table the audit reads at a time, about."""
LOCK_SECONDS_MAX = 30
"""How long a statement waits for somebody else's lock; then the delivery fails, says so, and is tried again."""
# A process that was frozen or cut off in the middle of a transaction must not keep its locks from the next one.
_SESSION = """
SET lock_timeout = {milliseconds};
SET idle_in_transaction_session_timeout = '1min';
SET tcp_keepalives_idle = 20;
SET tcp_keepalives_interval = 10;
SET tcp_keepalives_count = 3
"""


class Postgres(Target):
    """A table, created if it is missing, that holds a view by its key. It needs a unique index on the key's columns.

    `table` may name its schema: "reports.revenue". A table that is there already is checked; it may have more columns.
    If it has rows that no sink has put there, it is left alone unless `replace`. Each delivery is one transaction,
    which also moves the position in the table `headwater_sinks` beside it. A password may be in the URL, also as
    `${NAME}` of the environment, in a file, in PGPASSWORD or in ~/.pgpass.
    """

    kind: ClassVar[str] = "postgres"

    def __init__(self, url: str, *, table: str, replace: bool = False, password_file: str | Path | None = None) -> None:
        self._address = address_of(expanded_url(url), password_file=password_file)
        schema, _, name = table.rpartition(".")
        if not name:
            raise UsageError("The table of a PostgreSQL target has no name.", hint='Write table="revenue".')
        self.table, self.replace = Table(schema, name), replace
        self._assignment: Assignment | None = None
        self._connection: Connection | None = None
        self._positions = Positions(self.table)
        self._thread: int | None = None

    def __repr__(self) -> str:
        return f"Postgres({str(self._address)!r}, table={self.table.shown!r})"

    @property
    def address(self) -> str:
        return f"{self._address} {self.table.shown}"

    def open(self, assignment: Assignment) -> str | None:
        self._assignment, self._thread = assignment, threading.get_ident()
        connection = self._connect()
        with self._failing(), connection.transaction():
            stamp = self._positions.take_over(connection, assignment.owner)
            if stamp is not None and not self._positions.is_of_this_table(connection):
                # What is in the table, if it is there, was put there by somebody else, such as a backup of it alone.
                self._positions.doubt(connection)
            return self._positions.stamp

    def deliver(self, delivery: Delivery) -> None:
        connection = self._connect()
        try:
            with self._failing(), connection.transaction():
                self._deliver(connection, delivery)
        except TableRemoved:
            self._begin_again(connection)
        self._positions.stamp = delivery.stamp

    @property
    def transaction(self) -> str | None:
        return f"{self._address} as {self._address.parameters.get('user')}"

    def deliver_with(self, delivery: Delivery, others: Sequence[tuple[Target, Delivery]]) -> None:
        connection = self._connect()
        mine: list[tuple[Postgres, Delivery]] = [(self, delivery)]
        for other, its in others:
            assert isinstance(other, Postgres), "targets of one transaction are of one kind"
            mine.append((other, its))
        try:
            with self._failing(), connection.transaction():
                for target, its in mine:
                    target._deliver(connection, its)  # noqa: SLF001 - it is one of these
        except TableRemoved:
            # The next `open` of each of them finds out which it was.
            raise PositionChanged from None
        for target, its in mine:
            target._positions.stamp = its.stamp  # noqa: SLF001

    def _deliver(self, connection: Connection, delivery: Delivery) -> None:
        assert self._assignment is not None, "it was opened"
        held = self._positions.hold(connection)
        if held == delivery.stamp != self._positions.stamp:
            # It was committed, and the connection ended before that was known.
            return
        if held != self._positions.stamp and not delivery.content:
            raise PositionChanged
        writer = Writer(connection, self.table, self._assignment)
        if delivery.content:
            ours = self._positions.is_created(connection)
            created = writer.replace(delivery, adopted=ours or held is not None or self.replace, ours=ours)
            if created:
                self._positions.note_created(connection)
        elif not delivery.is_move:
            writer.change(delivery)
        self._positions.move(connection, delivery.stamp)

    def _begin_again(self, connection: Connection) -> NoReturn:
        """The table or the position was removed behind our back: the content has to come. Raises `PositionChanged`."""
        assert self._assignment is not None, "it was opened"
        with self._failing(), connection.transaction():
            self._positions.take_over(connection, self._assignment.owner)
            self._positions.forget(connection)
        raise PositionChanged

    def rows(self, columns: pa.Schema) -> Iterator[pa.Table]:
        connection = self._connect()
        listed = ", ".join(readable(self.table.column(field.name), field.type) for field in columns)
        query = f"COPY (SELECT {listed} FROM {self.table.sql}) TO STDOUT {COPY_FORMAT}"
        with self._failing(), connection.transaction(), connection.cursor() as cursor:
            held = bytearray()
            with cursor.copy(query.encode()) as copy:
                # A piece is always a row.
                for piece in copy:
                    held += piece
                    if len(held) >= READ_BYTES:
                        yield rows_of(bytes(held), columns)
                        held.clear()
            if held:
                yield rows_of(bytes(held), columns)

    def check(self) -> None:
        if self._positions.stamp is None:
            return
        connection = self._connect()
        try:
            with self._failing(), connection.transaction():
                held = self._positions.hold(connection)
                if held != self._positions.stamp or not self._positions.is_of_this_table(connection):
                    raise PositionChanged
        except TableRemoved:
            self._begin_again(connection)

    def forget(self) -> None:
        connection = self._connect()
        with self._failing(), connection.transaction():
            self._positions.remove(connection)

    def close(self) -> None:
        connection = self._connection
        if connection is None:
            return
        if threading.get_ident() != self._thread:
            # Another thread uses the connection, and closes it when what it waits for was canceled.
            with suppress(psycopg.Error):
                connection.cancel_safe(timeout=5)
            return
        self._connection = None
        with suppress(psycopg.Error):
            connection.close()

    def _connect(self) -> Connection:
        """The connection; another one if the server has closed the last. Raises `TargetFailed`."""
        if self._connection is None or self._connection.closed:
            try:
                self._connection = self._address.connect()
            except SourceUnavailable as error:
                raise TargetFailed(error.message.rstrip(".")) from None
            with self._failing():
                milliseconds = round(LOCK_SECONDS_MAX * 1000)
                self._connection.execute(_SESSION.format(milliseconds=milliseconds).encode())
        return self._connection

    def _failing(self) -> _Failing:
        return _Failing(self)

    def failed(self, error: psycopg.Error) -> TargetFailed:
        """What to raise for an error of the driver."""
        if isinstance(error, psycopg.OperationalError):
            connection, self._connection = self._connection, None
            if connection is not None:
                with suppress(psycopg.Error):
                    connection.close()
            return TargetFailed(self._address.unavailable(error).message.rstrip("."))
        return TargetFailed(self._address.failed(error).message.rstrip("."), "refused")


class _Failing:
    """Within the block, what the driver raises is raised as what it is for a target."""

    def __init__(self, target: Postgres) -> None:
        self._target = target

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, psycopg.errors.UndefinedTable):
            raise TableRemoved from None
        if isinstance(error, psycopg.Error):
            raise self._target.failed(error) from None

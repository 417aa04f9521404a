"""A store's tables in a schema of a PostgreSQL database, and transactions whose failures say what to do next."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache

import psycopg
from psycopg import errors, sql

from headwater.engine.postgres.address import PostgresAddress
from headwater.engine.postgres.connections import Connection, Connections, connections_to
from headwater.engine.relational.database import BUSY_SECONDS_MAX, FORMAT, Database, Rows, schema
from headwater.errors import (
    DiskFull,
    HeadwaterError,
    Indeterminate,
    InternalError,
    StoreBusy,
    StoreOutdated,
    StoreUnavailable,
    StoreUnusable,
    UsageError,
)

ASK_SECONDS_MAX = 20.0
"""How long a commit whose answer was lost is asked about, before it is left to the caller."""

_ASK_EVERY_SECONDS = 0.1
# What a transaction sees is what is there at its first statement.
_READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SELECT 1"
_WRITE = "BEGIN ISOLATION LEVEL READ COMMITTED"
# Those who write take turns at this row, so each sees what the one before has committed.
_TURN = "SELECT version, pg_current_xact_id()::text FROM pipeline FOR UPDATE"
_STATUS = "SELECT pg_xact_status(%s::xid8), version FROM pipeline"
_JSON_EXTRACT = """
CREATE FUNCTION json_extract(value text, path text) RETURNS bigint IMMUTABLE LANGUAGE sql AS
$$ SELECT (jsonb_path_query_first(value::jsonb, path::jsonpath) #>> '{}')::bigint $$;
"""
# A server that only reads is one that another is about to follow.
_UNAVAILABLE = (
    psycopg.OperationalError,
    psycopg.InterfaceError,
    errors.ReadOnlySqlTransaction,
    errors.IdleInTransactionSessionTimeout,
)


class PostgresTransaction:
    """The statements of a transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._last = 0
        self.has_changed = False

    def execute(self, statement: str, values: Sequence[object] = (), /) -> Rows:
        return self._counted(self._connection.execute(_translated(statement), values))

    def executemany(self, statement: str, rows: Iterable[Sequence[object]], /) -> None:
        with self._connection.cursor() as cursor:
            cursor.executemany(_translated(statement), rows)
            self._counted(cursor)

    def changes(self) -> int:
        return self._last

    def _counted(self, cursor: psycopg.Cursor[tuple[object, ...]]) -> psycopg.Cursor[tuple[object, ...]]:
        if not (cursor.statusmessage or "").startswith("SELECT"):
            self._last = max(0, cursor.rowcount)
            self.has_changed = self.has_changed or self._last > 0
        return cursor


class PostgresDatabase(Database):
    """The tables of one store, which are there."""

    def __init__(self, address: PostgresAddress, connections: Connections) -> None:
        """Takes one use of the connections over. Raises `StoreOutdated`."""
        self._address, self._connections, self._closed = address, connections, False
        with self.read() as tx:
            (found,) = tx.execute("SELECT format FROM pipeline").fetchone()
        if found != FORMAT:
            raise StoreOutdated(str(address), found, FORMAT)

    @contextmanager
    def write(self) -> Iterator[PostgresTransaction]:
        self._check_usable()
        with self._connections.transaction(_WRITE) as connection:
            with self._failing():
                version, number = connection.execute(_TURN).fetchone() or (0, "")
                tx = PostgresTransaction(connection)
                yield tx
                if tx.has_changed:
                    connection.execute("UPDATE pipeline SET version = version + 1")
            self._commit(connection, str(number), int(version) + tx.has_changed)

    @contextmanager
    def read(self) -> Iterator[PostgresTransaction]:
        self._check_usable()
        with self._connections.transaction(_READ) as connection, self._failing():
            yield PostgresTransaction(connection)

    def version(self) -> int:
        with self.read() as tx:
            return int(tx.execute("SELECT version FROM pipeline").fetchone()[0])

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._connections.close()

    def _commit(self, connection: Connection, number: str, version: int) -> None:
        try:
            connection.execute("COMMIT", prepare=False)
        except psycopg.Error as error:
            if not connection.broken and not connection.closed:
                # The server has answered, and so has undone it.
                raise self._error(error) from error
            self._settle(number, version, error)

    def _settle(self, number: str, version: int, error: psycopg.Error) -> None:
        """Returns if the transaction with this number, which leaves this version or a later one, was committed.

        Raises what says that it was not, or that this is not known.
        """
        status = self._status(number, version)
        if status == "aborted":
            raise self._connections.unavailable(error) from error
        if status != "committed":
            raise Indeterminate(
                f"The store {self._address} could not say whether the batch was published.",
                hint="Check that its server runs, then open the store again: its last batch shows whether it was.",
            ) from error

    def _status(self, number: str, version: int) -> str | None:
        """What became of a transaction; None if the server does not know, or does not say in time.

        A server that crashed may have lost the transaction with its number, and may give that number to another one.
        """
        deadline = time.monotonic() + ASK_SECONDS_MAX
        while time.monotonic() < deadline:
            with suppress(StoreUnavailable, psycopg.OperationalError):
                try:
                    with self._connections.transaction(_READ) as connection:
                        row = connection.execute(_STATUS, (number,)).fetchone()
                except errors.InvalidParameterValue:
                    return "aborted"
                if row is not None and row[0] != "in progress":
                    is_another = row[0] == "committed" and row[1] < version
                    return "aborted" if is_another else row[0]
            time.sleep(_ASK_EVERY_SECONDS)
        return None

    @contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            raise self._error(error) from error

    def _error(self, error: psycopg.Error) -> HeadwaterError:
        """What the caller should see for a statement that failed: the transaction is undone."""
        where = str(self._address)
        if isinstance(error, errors.LockNotAvailable):
            return StoreBusy(where, BUSY_SECONDS_MAX)
        if isinstance(error, errors.DiskFull):
            return DiskFull(where)
        if isinstance(error, errors.DataCorrupted | errors.IndexCorrupted):
            return StoreUnusable(where, _sentence(error), damaged=True)
        if isinstance(error, errors.UndefinedTable | errors.InsufficientPrivilege):
            return StoreUnusable(where, _sentence(error), damaged=False)
        if isinstance(error, _UNAVAILABLE):
            return self._connections.unavailable(error)
        return InternalError(f"A statement of the store {where} failed: {_sentence(error)}.")

    def _check_usable(self) -> None:
        if self._closed:
            raise UsageError("The store is closed.", hint="Open it again.")


def create_database(address: PostgresAddress) -> PostgresDatabase:
    """The database, with its tables, which are made if they are missing. Raises what a store raises."""
    connections = connections_to(address)
    try:
        with connections.transaction(_WRITE) as connection:
            # Two drivers that begin at once take turns.
            connection.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", (address.schema,))
            if not _has_tables(connection):
                connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(address.schema)))
                connection.execute((_JSON_EXTRACT + schema("BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY")).encode())
            connection.execute("COMMIT", prepare=False)
        return PostgresDatabase(address, connections)
    except psycopg.Error as error:
        connections.close()
        raise StoreUnusable(str(address), _sentence(error), damaged=False) from error
    except BaseException:
        connections.close()
        raise


def find_database(address: PostgresAddress) -> PostgresDatabase | None:
    """The database for a reader; None if there are no tables yet. Raises what a store raises."""
    connections = connections_to(address)
    try:
        with connections.transaction(_READ) as connection:
            found = _has_tables(connection)
        if found:
            return PostgresDatabase(address, connections)
    except BaseException:
        connections.close()
        raise
    connections.close()
    return None


def drop_tables(address: PostgresAddress) -> None:
    """Removes the schema with everything in it."""
    connections = connections_to(address)
    try:
        with connections.transaction(_WRITE) as connection:
            connection.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(address.schema)))
            connection.execute("COMMIT", prepare=False)
    except psycopg.Error as error:
        raise StoreUnusable(str(address), _sentence(error), damaged=False) from error
    finally:
        connections.close()


def _has_tables(connection: Connection) -> bool:
    # The search path names the store's schema alone.
    row = connection.execute("SELECT to_regclass('pipeline')").fetchone()
    return row is not None and row[0] is not None


@lru_cache(maxsize=256)
def _translated(statement: str) -> bytes:
    """A statement with the marks for values that the driver knows."""
    return statement.replace("%", "%%").replace("?", "%s").encode()


def _sentence(error: psycopg.Error) -> str:
    return (error.diag.message_primary or " ".join(str(error).split())).rstrip(".")

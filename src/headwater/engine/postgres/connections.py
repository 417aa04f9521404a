"""The connections of this process to the databases of view stores: lent for one transaction, and used again.

Readers, subscriptions and the driver of one store share them, so a process has as many connections as transactions at
the same moment, and one more while somebody waits.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Self

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from headwater.engine.postgres.address import PostgresAddress
from headwater.engine.relational.database import BUSY_SECONDS_MAX
from headwater.errors import StoreUnavailable, UsageError

Connection = psycopg.Connection[tuple[Any, ...]]

CONNECT_SECONDS_MAX = 10
IDLE_MAX = 4
"""Connections that nobody uses and that stay open."""

STALLED_SECONDS_MAX = 60
"""A transaction whose process is stopped ends after this time, and lets others write."""

# A network that swallows everything is noticed in seconds, and not after the two hours of the operating system.
_ALIVE = {
    "connect_timeout": CONNECT_SECONDS_MAX,
    "keepalives_idle": 5,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}
_SETTINGS = {
    "lock_timeout": f"{BUSY_SECONDS_MAX:g}s",
    "idle_in_transaction_session_timeout": f"{STALLED_SECONDS_MAX}s",
    # A role may have limits that are meant for queries of people.
    "statement_timeout": "0",
    # Server's side of the above: the transaction of a machine that is gone ends.
    "tcp_keepalives_idle": "5",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
}


class Connections:
    """The connections to one store, of all that use it in this process."""

    def __init__(self, address: PostgresAddress) -> None:
        self.address, self._pid = address, os.getpid()
        given: dict[str, Any] = {**_ALIVE, "application_name": f"headwater {address.schema}"}
        self._conninfo = make_conninfo("", **{**given, **conninfo_to_dict(address.conninfo)})
        self._lock = threading.Lock()
        self._idle: list[Connection] = []
        self._users = 0

    def use(self) -> Self:
        """One more user, who calls `close` when it needs no connection any more."""
        with self._lock:
            self._users += 1
        return self

    def close(self) -> None:
        """One user fewer; the last one closes what is open."""
        with self._lock:
            self._users -= 1
            idle, self._idle = (self._idle, []) if self._users == 0 else ([], self._idle)
        for connection in idle:
            connection.close()

    @contextmanager
    def transaction(self, begin: str) -> Iterator[Connection]:
        """A connection in a transaction that was begun with some statements, rolled back if the block leaves it open.

        Raises `StoreUnavailable` if the server does not answer.
        """
        connection = self._begun(begin)
        try:
            yield connection
        finally:
            if connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
                with suppress(psycopg.Error):
                    connection.execute("ROLLBACK", prepare=False)
            self._give_back(connection)

    def connect(self) -> Connection:
        """A connection of the caller's own. Raises `StoreUnavailable`."""
        try:
            connection = psycopg.connect(self._conninfo, autocommit=True)
        except psycopg.Error as error:
            raise self.unavailable(error) from None
        try:
            self._set_up(connection)
        except psycopg.Error as error:
            connection.close()
            raise self.unavailable(error) from None
        return connection

    def unavailable(self, error: psycopg.Error) -> StoreUnavailable:
        """What to raise for an error of the driver after which nothing has happened."""
        said = " ".join(str(error).split()).removeprefix("connection failed: ").rstrip(".")
        return StoreUnavailable(str(self.address), said)

    def _begun(self, begin: str) -> Connection:
        if self._pid != os.getpid():
            raise UsageError("The store was opened by the parent process.", hint="Open it again in this one.")
        while (connection := self._taken()) is not None:
            # The server may have closed it meanwhile: then nothing was begun on it.
            with suppress(psycopg.OperationalError, psycopg.InterfaceError):
                connection.execute(begin.encode(), prepare=False)
                return connection
            connection.close()
        connection = self.connect()
        try:
            connection.execute(begin.encode(), prepare=False)
        except psycopg.Error as error:
            connection.close()
            raise self.unavailable(error) from None
        return connection

    def _taken(self) -> Connection | None:
        with self._lock:
            return self._idle.pop() if self._idle else None

    def _give_back(self, connection: Connection) -> None:
        with self._lock:
            sound = not connection.closed and connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
            if sound and self._users and len(self._idle) < IDLE_MAX:
                self._idle.append(connection)
                return
        connection.close()

    def _set_up(self, connection: Connection) -> None:
        for name, value in _SETTINGS.items():
            connection.execute(sql.SQL("SET {} = {}").format(sql.Identifier(name), sql.Literal(value)))
        connection.execute(sql.SQL("SET search_path = {}").format(sql.Identifier(self.address.schema)))
        # What was committed outlives a crash of the server, whatever its default is.
        connection.execute(
            "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
        )


_known: dict[str, Connections] = {}
_knowing = threading.Lock()


def connections_to(address: PostgresAddress) -> Connections:
    """The connections of this process to a store. The caller closes them."""
    with _knowing:
        found = _known.get(address.text)
        if found is None or found._pid != os.getpid():  # noqa: SLF001 - it is of this module
            found = _known[address.text] = Connections(address)
        return found.use()

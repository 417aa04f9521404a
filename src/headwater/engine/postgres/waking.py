"""How those who wait on a store on PostgreSQL learn of a commit: NOTIFY by who commits, and one thread that listens."""

from __future__ import annotations

import hashlib
import os
import threading
from contextlib import suppress
from typing import Self

import psycopg
from psycopg import sql

from headwater.engine.postgres.address import PostgresAddress
from headwater.engine.postgres.connections import Connection, connections_to
from headwater.errors import StoreUnavailable
from headwater.system.background import Background
from headwater.system.wake import LOOK_EVERY_SECONDS

# How soon a thread that listens notices that it is to end.
_ENDS_WITHIN_SECONDS = 0.2


class PostgresWaker:
    """Wakes and waits for one store."""

    def __init__(self, address: PostgresAddress) -> None:
        self._connections = connections_to(address)
        self._listener = _listener_of(address)
        self._closed = False

    def touch(self) -> None:
        # What is told has happened: others look for themselves within a second.
        with suppress(StoreUnavailable, psycopg.Error), self._connections.transaction("BEGIN") as connection:
            connection.execute(sql.SQL("NOTIFY {}").format(_channel(self._connections.address)))
            connection.execute("COMMIT", prepare=False)

    def ticket(self) -> int:
        return self._listener.ticket()

    def wait(self, ticket: int, seconds: float) -> None:
        if not self._closed:
            self._listener.wait(ticket, seconds)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._listener.close()
            self._connections.close()


class _Listener:
    """Listens for all that wait on one store in this process. While nobody has waited, it has no connection."""

    def __init__(self, address: PostgresAddress) -> None:
        self.pid = os.getpid()
        self._address = address
        self._changed = threading.Condition()
        self._count = 0
        self._users = 0
        self._connection: Connection | None = None
        self._thread: Background | None = None
        self._ended = threading.Event()

    def use(self) -> Self:
        with self._changed:
            self._users += 1
        return self

    def close(self) -> None:
        """One user fewer, who is woken if it waits. The last one ends the thread."""
        with self._changed:
            self._users -= 1
            self._count += 1
            self._changed.notify_all()
            if self._users:
                return
            thread, self._thread = self._thread, None
            ended, self._ended = self._ended, threading.Event()
            ended.set()
        if thread is not None:
            thread.stop()

    def ticket(self) -> int:
        with self._changed:
            if self._thread is None and self._users:
                # It listens before the first ticket is given out, if the server is there.
                with suppress(StoreUnavailable, psycopg.Error):
                    self._listen()
                ended = self._ended
                self._thread = Background("postgres-listener", lambda: self._run(ended)).start()
            return self._count

    def wait(self, ticket: int, seconds: float) -> None:
        with self._changed:
            if self._count == ticket:
                self._changed.wait(min(seconds, LOOK_EVERY_SECONDS))

    def _listen(self) -> Connection:
        connections = connections_to(self._address)
        try:
            self._connection = connections.connect()
        finally:
            connections.close()
        self._connection.execute(sql.SQL("LISTEN {}").format(_channel(self._address)))
        return self._connection

    def _run(self, ended: threading.Event) -> None:
        while not ended.is_set():
            try:
                for _ in (self._connection or self._listen()).notifies(timeout=_ENDS_WITHIN_SECONDS):
                    self._wake()
                    if ended.is_set():
                        break
            except (StoreUnavailable, psycopg.Error):
                self._disconnect()
                # What was said while nobody listened is unknown.
                self._wake()
                ended.wait(LOOK_EVERY_SECONDS)
        self._disconnect()

    def _wake(self) -> None:
        with self._changed:
            self._count += 1
            self._changed.notify_all()

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


_known: dict[str, _Listener] = {}
_knowing = threading.Lock()


def _listener_of(address: PostgresAddress) -> _Listener:
    with _knowing:
        found = _known.get(address.text)
        if found is None or found.pid != os.getpid():
            found = _known[address.text] = _Listener(address)
        return found.use()


def _channel(address: PostgresAddress) -> sql.Identifier:
    # A name has at most 63 bytes.
    return sql.Identifier("headwater_" + hashlib.blake2b(address.schema.encode(), digest_size=16).hexdigest())

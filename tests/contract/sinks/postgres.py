"""A PostgreSQL database as a system of the contract suite."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path
from typing import ClassVar

from headwater.connectors.postgres.target.target import Postgres
from headwater.engine.sinks.target import Target
from tests.contract.sinks.keyed import REFUSED, System
from tests.postgres.servers import Server


@cache
def started() -> tuple[Server, tempfile.TemporaryDirectory[str]]:
    """One server for all tests of a process."""
    place = tempfile.TemporaryDirectory(prefix="hw")
    server = Server.create("18", Path(place.name))
    server.start()
    return server, place


def stop_server() -> None:
    if started.cache_info().currsize:
        server, place = started()
        server.stop()
        place.cleanup()
        started.cache_clear()


class PostgresSystem(System):
    """A database with a table of the user's, which refuses a text."""

    transactional: ClassVar[bool] = True

    def __init__(self) -> None:
        self.server, _ = started()
        self._opened = self.server.database()
        self.database = self._opened.__enter__()
        self.execute(f"CREATE TABLE texts (key bigint PRIMARY KEY, text text CHECK (text <> '{REFUSED}'))")

    def execute(self, statement: str, *values: object) -> list[tuple[object, ...]]:
        with self.server.connect(self.database) as connection:
            found = connection.execute(statement.encode(), values)
            return found.fetchall() if found.description else []

    def target(self) -> Target:
        return Postgres(self.server.url(self.database), table="texts")

    def rows(self) -> dict[int, str]:
        return {int(str(key)): str(text) for key, text in self.execute("SELECT key, text FROM texts")}

    def put(self, key: int, text: str | None) -> None:
        self.execute("DELETE FROM texts WHERE key = %s", key)
        if text is not None:
            self.execute("INSERT INTO texts VALUES (%s, %s)", key, text)

    def lose(self) -> None:
        self.execute("TRUNCATE texts")
        self.execute("DROP TABLE headwater_sinks")

    def stop(self) -> None:
        self.server.kill()

    def start(self) -> None:
        self.server.start()

    def close(self) -> None:
        self._opened.__exit__(None, None, None)

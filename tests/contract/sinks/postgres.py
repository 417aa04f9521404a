"""A PostgreSQL database as a system of the contract suite."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable
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
        self._place = tempfile.TemporaryDirectory(prefix="hw")
        self.directory = self._place.name
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

    def back_up(self) -> Callable[[], None]:
        dump = Path(self.directory) / "dump"
        self.run("pg_dump", "--format=custom", f"--file={dump}")
        # As one does it: everything that is there is dropped, and made again.
        return lambda: self.run("pg_restore", "--clean", "--single-transaction", str(dump))

    def run(self, program: str, *arguments: str) -> None:
        """Runs a program of PostgreSQL on the database."""
        command = [str(self.server.binaries / program), f"--dbname={self.server.url(self.database)}", *arguments]
        subprocess.run(command, check=True, capture_output=True)

    def stop(self) -> None:
        self.server.kill()

    def start(self) -> None:
        self.server.start()

    def close(self) -> None:
        self._opened.__exit__(None, None, None)
        self._place.cleanup()

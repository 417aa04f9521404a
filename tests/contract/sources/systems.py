"""What the contract suite of sources needs to know of a system outside: how to open it, and how to change it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar

from headwater.connectors.postgres.source import open_postgres
from headwater.engine.parts import Report, Stop
from headwater.engine.sources import Home, Source, SourceStatus
from headwater.log.port import Log
from tests.postgres.servers import Server, chosen_versions


class System(ABC):
    """One system, with a table `t` of whole numbers that has the rows 1 and 2 at first.

    A new kind of source writes one such class and names it in `conftest.py`.
    """

    topic: ClassVar[str]
    """The topic that the table becomes, if the source is `s`."""

    @abstractmethod
    def source(self, home: Home) -> Source:
        """A source of this system, as a new process would have it."""

    @abstractmethod
    def add(self, number: int) -> None:
        """Adds a row."""

    @abstractmethod
    def close(self) -> None:
        """Gives everything back."""


class ListSystem(System):
    """A list in memory, and the smallest source that there can be."""

    topic = "s.t"

    def __init__(self) -> None:
        self.rows = [1, 2]

    def source(self, home: Home) -> Source:
        return _ListSource(home, self.rows)

    def add(self, number: int) -> None:
        self.rows.append(number)

    def close(self) -> None:
        self.rows.clear()


class _ListSource(Source):
    kind = "list"

    def __init__(self, home: Home, rows: list[int]) -> None:
        super().__init__(home)
        self._rows, self._bookmark = rows, f"{home.name}._position"

    @property
    def address(self) -> str:
        return "memory"

    def check(self) -> list[str]:
        return ["t"]

    def run(self, stop: Stop, report: Report) -> None:
        with self.home.alone(stop, report) as alone:
            while alone and not stop.is_set():
                self._take(self.home.log)
                stop.wait(0.01)

    def _take(self, log: Log) -> None:
        log.create("s.t", "id bigint", key="id", exist_ok=True)
        taken = self._taken()
        rows = self._rows[taken or 0 :]
        if rows or taken is None:
            with log.commit() as commit:
                commit.append("s.t", [{"id": row} for row in rows])
                commit.bookmark(self._bookmark, (taken or 0) + len(rows), expect=taken)

    def _taken(self) -> int | None:
        held = self.home.log.bookmark(self._bookmark)
        assert held is None or isinstance(held, int)
        return held

    def is_ready(self) -> bool:
        return self._taken() is not None

    def status(self) -> SourceStatus:
        taken = self._taken()
        return SourceStatus(
            source=self.home.name, kind=self.kind, address=self.address,
            phase="not begun" if taken is None else "streaming", paused=False, active=True, position=str(taken or 0),
            bytes_behind=None, bytes_retained=None, bytes_until_lost=None, seconds_behind=None, blocks_read=0,
            blocks_total=0, tables=(), details=(), alarms=(),
        )  # fmt: skip


class PostgresSystem(System):
    """A server of PostgreSQL, of the newest version that there is."""

    topic = "s.t"

    def __init__(self) -> None:
        self._opened = ExitStack()
        directory = self._opened.enter_context(TemporaryDirectory(prefix="hw"))
        self._server = Server.create(chosen_versions()[-1], Path(directory))
        self._server.start()
        self._opened.callback(self._server.stop)
        self._database = self._opened.enter_context(self._server.database())
        self._connection = self._opened.enter_context(self._server.connect(self._database))
        self._connection.execute("CREATE TABLE t (id int8 PRIMARY KEY); INSERT INTO t VALUES (1), (2)")

    def source(self, home: Home) -> Source:
        return open_postgres(home, self._server.url(self._database), tables=["t"], heartbeat=timedelta(seconds=0.2))

    def add(self, number: int) -> None:
        self._connection.execute("INSERT INTO t VALUES (%s)", (number,))

    def close(self) -> None:
        self._opened.close()

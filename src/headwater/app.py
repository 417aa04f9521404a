"""An application: topics, and views over them that are kept up to date."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, Unpack

import duckdb
import pyarrow as pa

from headwater.engine.pipeline import Pipeline, Progress
from headwater.engine.reading import WAIT, Reader, Snapshot
from headwater.engine.manifest import Size
from headwater.engine.store import Excluded, Generation, Store, delete_state
from headwater.engine.subscription import Subscription
from headwater.errors import UsageError
from headwater.log.embedded import EmbeddedLog, open_log
from headwater.log.names import check_name
from headwater.log.options import TopicOptions
from headwater.log.topic import Topic
from headwater.model.position import Position
from headwater.spark.functions import Function
from headwater.spark.program import Program
from headwater.spark.session import start_session
from headwater.spark.verification import Batches, Verification

OnError = Literal["fail", "dead_letter"]


class App:
    """Topics and views under one name. Its views are one pipeline: they move together from position to position."""

    def __init__(self, name: str, *, log: str | Path | EmbeddedLog, master: str = "local[*]", **pipeline: Any) -> None:
        check_name("application", name)
        self.name, self._master = name, master
        self.log = log if isinstance(log, EmbeddedLog) else open_log(log)
        self.directory = self.log.directory / "pipelines" / name
        self._views: dict[str, str] = {}
        self._policies: dict[str, str] = {}
        self._functions: list[Function] = []
        self._pipeline_options = pipeline
        self._program: Program | None = None
        self._pipeline: Pipeline | None = None
        self._reader: Reader | None = None
        self._stopped = threading.Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stops what runs and closes the log."""
        self.stop()
        for opened in (self._pipeline, self._reader, self.log):
            if opened is not None:
                opened.close()
        self._pipeline = self._reader = None

    def topic(
        self,
        name: str,
        schema: str | pa.Schema,
        *,
        key: str | Sequence[str] | None = None,
        partitions: int = 1,
        event_time: str | None = None,
        **settings: Unpack[TopicOptions],
    ) -> Topic:
        """A topic of the log, created if it is missing. With a key it is a table: its newest row per key."""
        return self.log.create(
            name, schema, key=key, partitions=partitions, event_time=event_time, exist_ok=True, **settings
        )

    def view(self, name: str, sql: str, *, on_error: OnError = "fail") -> None:
        """A view: a query over topics and other views, whose result is kept up to date.

        `on_error` says what happens when a record makes an expression fail: the pipeline stops before it (`fail`), or
        goes on without it and keeps it aside (`dead_letter`).
        """
        check_name("view", name)
        if name in self._views:
            raise UsageError(f"There are two views called {name!r}.", hint="Give one of them another name.")
        if on_error not in ("fail", "dead_letter"):
            raise UsageError(f"{on_error!r} is no way to handle errors.", hint="Use 'fail' or 'dead_letter'.")
        self._views[name] = sql.strip().rstrip(";")
        self._policies[name] = on_error
        self._program = None

    def function(self, name: str, function: Callable[..., pa.Array], returns: str) -> None:
        """A function in Python for use in SQL: Arrow arrays in, one Arrow array out. It must be deterministic."""
        self._functions.append(Function(name, function, returns))
        self._program = None

    @property
    def views(self) -> Mapping[str, str]:
        """The SQL of every view."""
        return dict(self._views)

    @property
    def program(self) -> Program:
        """The views, planned. Raises `InvalidQuery` and `UnsupportedQuery`."""
        if self._program is None:
            if not self._views:
                raise UsageError("This application has no views.", hint="Define one: app.view('name', 'SELECT ...').")
            session = start_session(self._master)
            self._program = Program(session, self.log.topics(), self._views, self._functions)
        return self._program

    def catch_up(self, end: Position | None = None) -> Position:
        """Brings all views to a position, or to where the log is now, and returns when they are there."""
        for _ in self.batches(end):
            pass
        return self.pipeline.position

    def batches(self, end: Position | None = None) -> Iterator[Progress]:
        """As `catch_up`, batch by batch."""
        yield from self.pipeline.catch_up(end)

    def run(self, on_batch: Callable[[Progress], None] = lambda _: None) -> None:
        """Keeps all views up to date until `stop` is called, from another thread or by `on_batch`."""
        self._stopped.clear()
        for progress in self.pipeline.follow(self._stopped.is_set):
            on_batch(progress)

    def stop(self) -> None:
        """Lets `run` return after the batch that it is in."""
        self._stopped.set()

    @property
    def pipeline(self) -> Pipeline:
        """The running pipeline, which fences any other of this application."""
        if self._pipeline is None:
            self._pipeline = Pipeline(
                self.log, self.directory, self.program, policies=self._policies, **self._pipeline_options
            )
        return self._pipeline

    def read(self, view: str, *, at_least: Position | None = None, timeout: timedelta = WAIT) -> pa.Table:
        """The rows of a view, at a position that is at least the given one."""
        return self.snapshot([view], at_least=at_least, timeout=timeout).tables[view]

    def snapshot(
        self, views: Sequence[str] | None = None, *, at_least: Position | None = None, timeout: timedelta = WAIT
    ) -> Snapshot:
        """The rows of several views (all, if none are named), all at one position."""
        return self._open_reader().read(list(self._views if views is None else views), at_least, timeout)

    def query(self, sql: str, *, at_least: Position | None = None) -> pa.Table:
        """Runs SQL over the views, all at one position. It is DuckDB's SQL, and only reads."""
        snapshot = self.snapshot(at_least=at_least)
        with duckdb.connect(config={"enable_external_access": False}) as connection:
            connection.execute("SET TimeZone = 'UTC'")
            for name, table in snapshot.tables.items():
                connection.register(name, table)
            return connection.execute(sql).to_arrow_table()

    def subscribe(self, view: str, *, after: Position | None = None) -> Subscription:
        """The content of a view and then every change of it, or every change after a position."""
        return Subscription(self.directory, view, after)

    def verify(self, view: str) -> Verification:
        """Compares a view with what its SQL gives as an ordinary batch query over the log at the view's position."""
        snapshot = self.snapshot([view])
        with Store(self.directory) as store:
            excluded = store.excluded(snapshot.generation)
        batches = Batches(self.program, self.log, self._functions)
        return batches.verify(view, snapshot.tables[view], snapshot.position, excluded)

    def state(self) -> dict[str, Size]:
        """The size of every part of the state and of every view, on disk."""
        with Store(self.directory) as store:
            current = store.current()
            return {} if current is None else store.sizes(current.id)

    def generations(self) -> list[Generation]:
        with Store(self.directory) as store:
            return store.generations()

    def dead_letters(self) -> list[Excluded]:
        """The records that views with on_error='dead_letter' have refused."""
        with Store(self.directory) as store:
            current = store.current()
            return [] if current is None else store.excluded(current.id)

    def delete_state(self) -> None:
        """Deletes all views and their state. The next run builds them anew from the log."""
        delete_state(self.directory)

    def _open_reader(self) -> Reader:
        if self._reader is None:
            self._reader = Reader(self.directory)
        return self._reader

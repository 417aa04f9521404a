"""An application: topics, and views over them that are kept up to date."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, Unpack

import pyarrow as pa

from headwater.connectors.alerting import Alerting, Alerts
from headwater.connectors.connections import Connections
from headwater.connectors.receiving import Receiving
from headwater.engine.changing import open_pipeline
from headwater.engine.explanation import Explanation
from headwater.engine.following import release_all
from headwater.engine.functions import Function, Functions
from headwater.engine.opening import check_address, delete_state, open_store
from headwater.engine.parts import Report
from headwater.engine.pipeline import Pipeline, PipelineOptions, Progress
from headwater.engine.presence import present
from headwater.engine.reading import WAIT
from headwater.engine.remembered import lost, tried_again
from headwater.engine.running import needs_person
from headwater.engine.sparkplace import SparkPlace
from headwater.engine.supervision import Retry, supervised
from headwater.engine.timekeeping import Emit, Late, Timed, Timekeeping
from headwater.engine.topic_rows import TopicRows
from headwater.engine.whereabouts import settle
from headwater.errors import ExternalError, Fenced, RecordFailed, SparkStopped, UsageError, WorkerLost
from headwater.log.evolving import declare_topic
from headwater.log.opening import open_log, opening
from headwater.log.options import TopicOptions
from headwater.log.port import Log
from headwater.log.topic import Topic
from headwater.model.durations import Duration
from headwater.model.position import Position
from headwater.published import Published
from headwater.system.heartbeat import Heart, error_of
from headwater.system.names import check_name

if TYPE_CHECKING:
    from headwater.spark.frames import DataFrame, SparkSession
    from headwater.spark.program import Program
    from headwater.spark.runtime import Runtime
    from headwater.spark.verification import Verification

OnError = Literal["fail", "dead_letter"]


class App(Published, Alerting, Receiving, Functions, Timed):
    """Topics and views under one name. Its views are one pipeline: they move together from position to position."""

    def __init__(
        self,
        name: str,
        *,
        log: str | Path | Log,
        store: str | None = None,
        state: str | Path | None = None,
        master: str = "local[*]",
        spark: SparkSession | None = None,
        spark_conf: Mapping[str, str] | None = None,
        **pipeline: Unpack[PipelineOptions],
    ) -> None:
        """`store` is the PostgreSQL database that says what is published; `state` is the place in S3, or the directory,
        that holds the files of views and of their state. Without them both are beside the log.
        """
        check_name("application", name)
        self.name, self._spark = name, SparkPlace(master, spark, spark_conf or {})
        self._owns_log, how = not isinstance(log, Log), opening()
        self.log = log if isinstance(log, Log) else open_log(log)
        self._creates = how.may_write(self.log.state_directory)
        super().__init__(self.log.state_directory / "pipelines" / name)
        settle(self.directory, name, self.log, store, state, check_address)
        self._missing_topics: list[str] = []
        self._policies: dict[str, str] = {}
        self._webhooks_in, self._statsd = {}, None
        self.time = Timekeeping(self.log, lambda: self._runtime.program.time_sources if self._runtime else ())
        self._connections = Connections(self.log, self.directory)
        self._alerts = Alerts(self.log, self.directory, self._connections, self.topic)
        self._functions: list[Function] = []
        self._pipeline_options = pipeline
        self._runtime: Runtime | None = None
        self._pipeline: Pipeline | None = None
        self._heart: Heart | None = None
        self._retries, self._approve = 0, False
        self._tell_build_failed: Callable[[Exception], None] = lambda _: None
        self._stopped = threading.Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stops what runs, and closes the log if this application opened it."""
        self.stop()
        for opened in (self._pipeline, self._reader, self.log if self._owns_log else None):
            if opened is not None:
                opened.close()
        self._pipeline = self._reader = None

    def topic(
        self,
        name: str,
        schema: str | pa.Schema,
        *,
        key: str | Sequence[str] | None = None,
        partitions: int | None = None,
        partition_by: str | Sequence[str] | None = None,
        event_time: str | None = None,
        watermark: Duration | None = None,
        producer: str | None = None,
        idle: Duration | None = None,
        future_max: Duration | None = None,
        late: Late = "correct",
        **settings: Unpack[TopicOptions],
    ) -> Topic:
        """A topic of the log. With a key it is a table: its newest row per key.

        It is created if it is missing. If its definition differs, it is altered where the log allows that: nullable
        columns are added, types widened, partitions added to a topic that no columns divide, settings changed. What is
        not named here stays as it is. Raises `TopicDiffers`, with the differences, for any other change.

        `partition_by` keeps records with equal values in order, in a topic without a key as well. Commands of
        `headwater` that only read change nothing.

        `watermark` is how late events may come, to each `producer` (a column) that has not been silent for `idle`.
        `late` says what becomes of those that come later: they `correct` results, as long as they do so
        ("correct for 1 day"), or views `drop` them. What is dropped is in `late('topic')` in SQL. An event time more
        than `future_max` after the log received its record moves no watermark, and is dropped as late ones are.
        """
        found = declare_topic(
            self.log, name, schema, key=key, partitions=partitions, partition_by=partition_by, event_time=event_time,
            settings=settings, missing=None if self._creates else self._missing_topics,
        )  # fmt: skip
        if watermark is not None:
            self.time.set_watermark(found, watermark, producer, idle, event_time, future_max)
        before = self.time.late.get(name)
        self.time.set_late(found, late, create=self._creates)
        if self.time.late.get(name) != before:
            self._runtime = None
        return found

    @property
    def missing_topics(self) -> Sequence[str]:
        """Topics that are declared but were not created, because the application was loaded read-only."""
        return list(self._missing_topics)

    def view(
        self,
        name: str,
        sql: str,
        *,
        key: str | Sequence[str] | None = None,
        on_error: OnError = "fail",
        emit: Emit = "changes",
    ) -> None:
        """A view: a query over topics and other views, whose result is kept up to date.

        `on_error` says what happens when a record makes an expression fail: the pipeline stops before it (`fail`), or
        continues without it and sets it aside (`dead_letter`). `key` names the columns by which the server finds rows:
        `/views/{name}/rows/{key}`; otherwise it is the first column. With emit="final" rows wait for the watermark.
        """
        check_name("view", name)
        if name in self._views:
            raise UsageError(f"There is already a view named {name!r}.", hint="Give one of them another name.")
        if on_error not in ("fail", "dead_letter"):
            raise UsageError(
                f"Invalid on_error={on_error!r}: expected 'fail' or 'dead_letter'.", hint="Use 'fail' or 'dead_letter'."
            )
        # Not stripped at its beginning, so that lines are counted as the user does.
        self._views[name] = self.time.emitted(name, sql.rstrip().rstrip(";"), emit)
        self._policies[name] = on_error
        if key is not None:
            self._keys[name] = (key,) if isinstance(key, str) else tuple(key)
        self._runtime = None

    def sql_files(self, directory: str | Path) -> list[str]:
        """Adds the `*.sql` files of a directory as views: `revenue.sql` is the view `revenue`, and its text the SQL.

        A view that is already defined stays as it is. Returns the names of the views that were added.
        """
        files = {file.stem: file for file in sorted(Path(directory).glob("*.sql")) if file.is_file()}
        added = [name for name in files if name not in self._views]
        for name in added:
            self.view(name, files[name].read_text(encoding="utf-8"))
        return added

    def _add_function(self, function: Function) -> None:
        self._functions.append(function)
        self._runtime = None

    @property
    def program(self) -> Program:
        """The views, planned. Raises `InvalidQuery` and `UnsupportedQuery`."""
        return self.plan().program

    def set_master(self, master: str) -> None:
        """Runs on another Spark than it was defined with, from the next start of Spark on. Raises `UsageError`."""
        if self._spark.session is not None:
            raise UsageError(
                "This application was given a Spark session, which has its master.",
                hint="Leave spark= or --master out.",
            )
        self._spark = replace(self._spark, master=master)

    def start_spark(self) -> None:
        """Starts Spark and its workers in the background; `plan` waits for this, or says why it failed."""
        from headwater.spark.starting import start_beside

        start_beside(self._spark)

    def plan(self, on_step: Callable[[str], None] = lambda _: None) -> Runtime:
        """Starts Spark and plans the views, which takes some seconds; `on_step` is told what is happening."""
        if self._runtime is None:
            if not self._views:
                raise UsageError(
                    "This application has no views.",
                    hint="Define one: app.view('name', 'SELECT ...'), or put the query into name.sql beside it.",
                )
            self._runtime = self._planned(self._views, on_step)
        return self._runtime

    def refresh(self) -> None:
        """Lets the views be planned again if topics have changed since they were."""
        if self._runtime is not None and not self._runtime.is_current():
            self._runtime = None

    def warm_up(self) -> None:
        """Plans the views and runs batches that do not count, so that the next one is fast. Raises `SparkStopped`."""
        self.refresh()
        try:
            self.plan().warm_up()
        except SparkStopped as error:
            self._recover(error)
            raise

    def _planned(self, views: Mapping[str, str], on_step: Callable[[str], None] = lambda _: None) -> Runtime:
        # Spark takes a second to import, and reading does not need it.
        from headwater.spark.runtime import Runtime

        planned = Runtime(self._spark, self.log, views, self._functions, on_step, self.time.late)
        self.time.check(planned.program.time_sources)
        return planned

    def catch_up(self, end: Position | None = None, *, approve: bool = False) -> Position:
        """Brings all views to a position, or to the log's current one, and returns when they have reached it.

        With `approve`, changed views become a `candidate`, and readers see the former ones until `switch`. Raises
        `AlreadyRunning` if another process runs the application.
        """
        for _ in self.batches(end, approve=approve):
            pass
        return self.pipeline.position

    def batches(
        self, end: Position | None = None, *, on_retry: Callable[[Retry], None] = lambda _: None, approve: bool = False
    ) -> Iterator[Progress]:
        """Like `catch_up`, batch by batch. If Spark loses a process, `on_retry` is told, and the batch is retried."""
        if end is None:
            self.time.advance(self.plan)
        end = self.log.position() if end is None else end
        self._set_approve(approve)

        def begun() -> Iterator[Progress]:
            self._begin()
            yield from self.pipeline.catch_up(end)

        yield from self._beaten(supervised(begun, self._recover, self._counted(on_retry), lambda: False))

    def follow(
        self, stopped: Callable[[], bool], *, on_retry: Callable[[Retry], None] = lambda _: None,
        on_build_failure: Callable[[Exception], None] = lambda _: None, approve: bool = False,
    ) -> Iterator[Progress]:  # fmt: skip
        """Batches for as long as it is not stopped, each as soon as the log has moved; `on_retry` as in `batches`.
        `on_build_failure` is told why changed views cannot be built; the former ones are kept up to date.
        """
        self._tell_build_failed = on_build_failure
        self._set_approve(approve)

        def begun() -> Iterator[Progress]:
            self._begin()
            yield from self.pipeline.follow(stopped)

        yield from self._beaten(supervised(begun, self._recover, self._counted(on_retry), stopped))

    def _set_approve(self, approve: bool) -> None:  # noqa: FBT001 - as it was given
        if approve != self._approve:
            self._approve = approve
            self.close_pipeline()

    @contextmanager
    def beating(self, more: Callable[[], Mapping[str, Any]] = dict, *, take_over: bool = False) -> Iterator[Heart]:
        """Lets every process see that this application is running, and `more` about it, while the block lasts.

        Raises `AlreadyRunning` if another process runs it, unless this one is to `take_over`.
        """
        if self._heart is not None:
            yield self._heart
            return
        heart = Heart(self.directory, about=lambda: {**self._about(), **more()})
        with present(self.directory, take_over=take_over), heart:
            self._heart = heart
            try:
                yield heart
            finally:
                self._heart = None

    def _about(self) -> dict[str, Any]:
        failure = self.log.upkeep_failure
        upkeep = None if failure is None else error_of(failure)
        build = None if self._pipeline is None else self._pipeline.build_json()
        return {"retries": self._retries, "not_kept": dict(self._not_kept), "upkeep": upkeep, "build": build}

    def _beaten(self, batches: Iterator[Progress]) -> Iterator[Progress]:
        """The batches. The heartbeat records why one failed for good, even if this process keeps running."""
        with self.beating() as heart:
            try:
                yield from batches
            except Exception as error:
                if needs_person(error):
                    heart.end(error)
                raise

    def _counted(self, on_retry: Callable[[Retry], None]) -> Callable[[Retry], None]:
        def count(retry: Retry) -> None:
            self._retries += 1
            on_retry(retry)

        return count

    def run(
        self,
        on_batch: Callable[[Progress], None] = lambda _: None,
        *,
        serve: bool | str = False,
        once: bool = False,
        take_over: bool = False,
        approve: bool = False,
        report: Report | None = None,
    ) -> None:
        """As `headwater run`: sources, views and sinks, until `stop` is called from another thread or by `on_batch`.

        `serve` adds the server, at its usual address or at "HOST:PORT". With `once` it ends once the views have caught
        up with the log, and no sink is fed. With `approve`, changed views wait for `switch`. `report` is told what
        happens. Raises the error with which a part has failed for good; `AlreadyRunning` if another process runs the
        application, unless this one is to `take_over`; and `Fenced` when another process has taken over from this one.
        """
        from headwater.runner import run

        self._stopped.clear()
        run(
            self,
            on_batch,
            serve=serve,
            once=once,
            take_over=take_over,
            approve=approve,
            report=report,
            asked=self._stopped.is_set,
        )

    def _stand_aside(self) -> None:
        if self._heart is None:
            self.close_pipeline()

    def stop(self) -> None:
        """Makes `run` return after its current batch."""
        self._stopped.set()

    def close_pipeline(self) -> None:
        """Lets the next batch begin with what is published."""
        if self._pipeline is not None:
            self._pipeline.close()
        self._pipeline = None

    @property
    def pipeline(self) -> Pipeline:
        """The running pipeline, which fences any other of this application."""
        if self._pipeline is None:
            self._pipeline = open_pipeline(
                self.log, self.directory, self.program, former=lambda definition: self.plan().former(definition),
                policies=self._policies, on_failure=self._tell_build_failed, approve=self._approve,
                **self._pipeline_options,
            )  # fmt: skip
            # Sinks that are no longer declared need nothing any more.
            self._pipeline.store.release({feed.name: feed.view for feed in self.sinks.values()})
        return self._pipeline

    def _begin(self) -> None:
        """Runs the first batch, which has no records; if a view makes it fail, the others are kept without it."""
        pipeline = self.pipeline
        try:
            pipeline.begin()
        except (ExternalError, Fenced, RecordFailed):
            raise
        except Exception:
            self._not_kept = self.plan().broken()
            kept = {name: sql for name, sql in self._views.items() if name not in self._not_kept}
            if not self._not_kept or not kept:
                raise
            pipeline.close()
            self._pipeline, self._runtime = None, self._planned(kept)
            self.pipeline.begin()

    def _recover(self, error: SparkStopped | WorkerLost) -> None:
        """Makes the next batch possible after a process was lost."""
        if isinstance(error, WorkerLost):
            # Spark starts another.
            return
        if self._spark.session is not None:
            # It is not ours to start again.
            raise error
        from headwater.spark.session import forget_session

        self.close_pipeline()
        self._runtime = None
        forget_session()

    def lost_history(self) -> list[str]:
        """What changed views will not see, because it is gone; nothing if the views are as they were built."""
        built = self.published()
        runtime = self.plan()
        if built is None or runtime.defines(built.definition):
            return []
        return lost(self.log, runtime.program.topics)

    def verify(self, view: str) -> Verification:
        """Compares a view with what its SQL returns as an ordinary batch query over the log at the view's position.

        For a topic that was trimmed by retention, the records that are kept count, and those that the view began with.
        A view that remembers records that are no longer in the log is compared with a replay from a `base`, which says
        what was proved. Raises `HistoryGone` if there is none, and `ViewChanged` if the view's definition has changed
        since it was built.
        """
        self._check_known(view)
        self._check_kept(view)
        return tried_again(partial(self._verify, view))

    def _verify(self, view: str) -> Verification:
        snapshot, runtime = self.snapshot([view]), self.plan()
        with open_store(self.directory, create=False) as store:
            return runtime.verify(view, snapshot, store, self.name)

    def explain(self, view: str | None = None) -> Explanation:
        """The operators of one view, or of all views: their levels, their keys, their state, and what reaches them."""
        if view is not None:
            self._check_known(view)
        runtime = self.plan()
        built = self.published()
        same = built is not None and built.fingerprint == runtime.program.fingerprint
        explained = runtime.explain().with_state(self.state()) if same else runtime.explain()
        return explained if view is None else explained.of(view)

    def dataframe(
        self, name: str, *, at_least: Position | None = None, at: Position | None = None, timeout: Duration = WAIT
    ) -> DataFrame:
        """The rows of a view, or of a topic (for a table, the newest per key), as a Spark DataFrame.

        They are as of a position that is `at_least` the given one, or exactly `at` it.
        """
        from headwater.spark.frames import dataframe, topic_rows

        if at is not None and at_least is not None:
            raise UsageError("A DataFrame takes either at or at_least, not both.")
        if name not in self._views:
            return dataframe(self._spark, topic_rows(self.log, name, at_least=at_least, at=at))
        return dataframe(self._spark, self.read(name, at_least=at_least, at=at, timeout=timeout))

    def _topic_rows(self) -> TopicRows:
        return TopicRows(self.log)

    def delete_state(self) -> None:
        """Deletes all views and their state. The next run rebuilds them from the log.

        Raises `AlreadyRunning` if another process runs the application.
        """
        with nullcontext() if self._heart is not None else present(self.directory):
            self.close_pipeline()
            delete_state(self.directory)
            release_all(self.log, self.name)

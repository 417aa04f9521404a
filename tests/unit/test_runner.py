"""One run of an application: what each of its parts does when another one fails, without Spark."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headwater.app import App
from headwater.engine import presence
from headwater.engine.batch import Batch, StageNote
from headwater.engine.definition import Definition
from headwater.engine.parts import Report, Stop
from headwater.engine.pipeline import Progress
from headwater.engine.sources import Home, Source, SourceStatus
from headwater.engine.subscription import Changes
from headwater.errors import AlreadyRunning, DiskFull, Fenced, RecordFailed, UnknownView, UsageError
from headwater.system import background
from headwater.system.heartbeat import read_heartbeat
from tests.unit.cli.app_sample import definition
from tests.webhooks.receiver import until


class Program:
    """Views that never change; `on_run` is called in every batch."""

    fingerprint = "one"
    topics = ("orders",)
    time_sources = ()
    tasks = 1

    def __init__(self) -> None:
        self.on_run: Callable[[Batch], None] = lambda _: None
        self.program = self

    @property
    def definition(self) -> Definition:
        return definition({"v": "SELECT 1"})

    def defines(self, built: Definition) -> bool:
        return built.views.keys() == self.definition.views.keys()

    def run(self, batch: Batch) -> list[StageNote]:
        self.on_run(batch)
        return []


class Ticks(Source):
    """Appends a record when it is told to, or fails."""

    kind = "ticks"

    def __init__(self, home: Home, *, ready: bool = True, error: Exception | None = None) -> None:
        super().__init__(home)
        self.ready, self.error = ready, error
        self.runs = 0

    @property
    def address(self) -> str:
        return "ticks"

    def check(self) -> list[str]:
        return ["ticks"]

    def run(self, stop: Stop, report: Report) -> None:
        with self.home.alone(stop, report) as alone:
            self.runs += 1
            if alone and self.error is not None:
                raise self.error
            while not stop.wait(60):
                pass

    def is_ready(self) -> bool:
        return self.ready

    def status(self) -> SourceStatus:
        raise NotImplementedError


class Noting(Report):
    """Keeps what a run tells."""

    def __init__(self) -> None:
        self.failures: list[tuple[str, Exception]] = []
        self.warned: list[str] = []
        self.said: list[str] = []

    def say(self, text: str) -> None:
        self.said.append(text)

    def failed(self, part: str, error: Exception) -> None:
        self.failures.append((part, error))

    def warn(self, text: str) -> None:
        self.warned.append(text)


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> Program:
    """Takes the place of what Spark would run."""
    made = Program()
    monkeypatch.setattr(App, "plan", lambda _app, _step=None: made)
    monkeypatch.setattr(background, "PAUSE_SECONDS", 0.01)
    return made


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    with App("shop", log=tmp_path / "log") as app:
        app.topic("orders", "id bigint", key="id")
        app.view("v", "SELECT 1")
        yield app


class Running:
    """A run in a thread."""

    def __init__(self, app: App, **options: Any) -> None:
        self.batches: list[Progress] = []
        self.report = Noting()
        self.failure: BaseException | None = None
        self._app, self._options = app, options
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def is_over(self) -> bool:
        return not self._thread.is_alive()

    def stop(self) -> None:
        self._app.stop()
        self._thread.join(30)
        assert self.is_over()

    def _run(self) -> None:
        try:
            self._app.run(self.batches.append, report=self.report, **self._options)
        except BaseException as error:  # noqa: BLE001 - the test is told
            self.failure = error


def test_a_second_run_is_refused_and_changes_nothing(
    app: App, program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(presence, "ENDING_SECONDS_MAX", 0.1)
    first = Running(app)
    until(lambda: first.batches)
    with App("shop", log=tmp_path / "log") as other:
        other.view("v", "SELECT 1")
        for begin in (other.run, other.catch_up, other.delete_state):
            with pytest.raises(AlreadyRunning, match=f"process {os.getpid()} on "):
                begin()
    app.log.append("orders", [{"id": 1}])
    until(lambda: first.batches[-1].position == app.log.position())
    first.stop()
    assert first.failure is None


def test_a_run_ends_when_another_one_takes_over(app: App, program: Program, tmp_path: Path) -> None:
    """Also if it serves, and if nothing is written that would make it commit."""
    source = app.source("ticks", Ticks)
    first = Running(app, serve="127.0.0.1:0")
    until(lambda: first.batches)
    with App("shop", log=tmp_path / "log") as other:
        other.view("v", "SELECT 1")
        second = Running(other, take_over=True)
        until(first.is_over)
        assert isinstance(first.failure, Fenced)
        assert first.report.failures == []
        other.log.append("orders", [{"id": 1}])
        until(lambda: second.batches and second.batches[-1].position == other.log.position())
        heartbeat = read_heartbeat(app.directory)
        assert heartbeat is not None
        assert (heartbeat.ended_at, heartbeat.error) == (None, None), "the one that ended says nothing over the other"
        second.stop()
        assert second.failure is None
    assert isinstance(source, Ticks)


def test_the_pipeline_waits_until_the_sources_are_ready(app: App, program: Program) -> None:
    source = app.source("ticks", Ticks, ready=False)
    assert isinstance(source, Ticks)
    run = Running(app)
    until(lambda: source.runs == 1)
    assert run.batches == []
    source.ready = True
    until(lambda: run.batches)
    run.stop()
    assert run.failure is None


def test_a_source_that_fails_stops_nothing_else_and_is_told_at_the_end(app: App, program: Program) -> None:
    error = UsageError("The slot is gone.")
    app.source("bad", Ticks, error=error)
    good = app.source("good", Ticks)
    run = Running(app)
    until(lambda: run.report.failures)
    app.log.append("orders", [{"id": 1}])
    until(lambda: run.batches and run.batches[-1].position == app.log.position())
    beat = read_heartbeat(app.directory)
    assert beat is not None
    until(lambda: _parts(app).get("source-bad", {}).get("status") == "failed")
    assert _parts(app)["source-good"]["status"] == "running"
    heart = read_heartbeat(app.sources["bad"].home.directory)
    assert heart is not None
    assert heart.error is not None
    assert heart.error["message"] == "The slot is gone."
    assert not run.is_over()
    run.stop()
    assert run.failure is error
    assert isinstance(good, Ticks)
    assert good.runs == 1


def _parts(app: App) -> Any:
    heartbeat = read_heartbeat(app.directory)
    return {} if heartbeat is None else heartbeat.about["parts"]


def test_a_run_ends_if_its_only_source_fails_before_it_is_ready(app: App, program: Program) -> None:
    app.source("bad", Ticks, ready=False, error=UsageError("Not set up."))
    with pytest.raises(UsageError, match="Not set up"):
        app.run()
    with pytest.raises(UsageError, match="Not set up"):
        app.run(once=True)


def test_a_source_that_fails_for_a_while_is_restarted(app: App, program: Program) -> None:
    source = app.source("ticks", Ticks, error=OSError("for a while"))
    assert isinstance(source, Ticks)
    run = Running(app)
    until(lambda: source.runs > 2)
    source.error = None
    until(lambda: run.batches)
    run.stop()
    assert (run.failure, run.report.failures) == (None, [])


def test_a_pipeline_that_fails_for_a_while_is_restarted_and_its_heart_beats_on(app: App, program: Program) -> None:
    failed: list[int] = []

    def fail(batch: Batch) -> None:
        if batch.number == 2 and len(failed) < 3:
            failed.append(batch.number)
            raise DiskFull("there")

    program.on_run = fail
    app.log.append("orders", [{"id": 1}])
    run = Running(app)
    until(lambda: run.batches and run.batches[-1].position == app.log.position())
    heartbeat = read_heartbeat(app.directory)
    assert heartbeat is not None
    assert heartbeat.ended_at is None
    run.stop()
    assert (len(failed), run.failure) == (3, None)
    assert len(run.report.warned) == 3


@pytest.mark.parametrize("beside", [False, True])
def test_a_record_that_fails_ends_the_run_unless_another_part_has_work(
    app: App, program: Program, beside: bool
) -> None:
    error = RecordFailed("v", "orders", 0, 1, "Division by zero.")

    def fail(batch: Batch) -> None:
        if batch.number == 2:
            raise error

    program.on_run = fail
    if beside:
        app.source("ticks", Ticks)
    app.log.append("orders", [{"id": 1}])
    run = Running(app)
    if beside:
        until(lambda: run.report.failures)
        assert run.report.failures == [("pipeline", error)]
        assert not run.is_over()
        run.stop()
    until(run.is_over)
    assert run.failure is error


def test_once_ends_when_the_views_are_there_and_feeds_no_sink(app: App, program: Program) -> None:
    came: list[Changes] = []
    app.sink("out", view="v", to=came.append, start="content")
    app.source("ticks", Ticks)
    app.log.append("orders", [{"id": 1}])
    seen: list[Progress] = []
    app.run(seen.append, once=True)
    assert seen[-1].position == app.log.position()
    assert came == []


def test_a_sink_of_a_view_that_there_is_not_is_refused(app: App, program: Program) -> None:
    app.sink("out", view="nowhere", to=print)
    with pytest.raises(UnknownView):
        app.run()


def test_a_run_serves_where_it_is_told_to(app: App, program: Program) -> None:
    report = Noting()
    app.run(lambda _: app.stop(), serve="127.0.0.1:0", report=report)
    assert report.said[0].startswith("Serving shop at http://localhost:")
    with pytest.raises(UsageError, match="not an address"):
        app.run(serve="here")

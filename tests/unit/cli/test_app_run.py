"""`headwater run` with a program that needs no Spark: until the views are there, and until a signal."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from headwater.app import App
from headwater.cli.ending import Ending
from headwater.engine import presence
from headwater.engine.batch import Batch, StageNote
from headwater.engine.definition import Definition
from headwater.engine.opening import open_store
from headwater.errors import InternalError, RecordFailed, SparkStopped, WorkerLost
from headwater.log.embedded.log import EmbeddedLog
from headwater.server.running import Server
from headwater.system.heartbeat import Heart
from tests.unit.cli.app_sample import definition, write_application
from tests.unit.cli.conftest import Run
from tests.webhooks.receiver import SECRET, receiving, until


class Program:
    """Views that never change; `on_run` is called in the middle of every batch."""

    fingerprint = "one"
    topics = ("orders",)
    time_sources = ()
    tasks = 1

    def __init__(self) -> None:
        self.on_run: Callable[[Batch], None] = lambda _: None

    @property
    def definition(self) -> Definition:
        return definition({"revenue": "SELECT 1"})

    def run(self, batch: Batch) -> list[StageNote]:
        self.on_run(batch)
        return []


class Runtime:
    def __init__(self, program: Program) -> None:
        self.program = program

    def defines(self, definition: object) -> bool:
        return True


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> Program:
    """Takes the place of what Spark would run."""
    made = Program()
    monkeypatch.setattr(App, "plan", lambda _app, _step=None: Runtime(made))
    return made


@pytest.fixture
def app(tmp_path: Path) -> Path:
    file = write_application(tmp_path)
    with EmbeddedLog(tmp_path / "data", upkeep=False) as log:
        log.create("orders", "id bigint, country string, amount decimal(12,2)", key="id")
        log.append("orders", [{"id": 1}])
        log.append("orders", [{"id": 2}])
    return file


@pytest.fixture(autouse=True)
def signals_as_before() -> Iterator[None]:
    before = {each: signal.signal(each, signal.default_int_handler) for each in (signal.SIGINT, signal.SIGTERM)}
    yield
    for each, handler in before.items():
        signal.signal(each, handler)


def test_once_ends_when_the_views_are_there(headwater: Run, app: Path, program: Program) -> None:
    ran = headwater("run", app, "--once", "--json")
    assert (ran.code, ran.err) == (0, "")
    assert [(one["batch"], one["position"], one["behind"]) for one in ran.objects()] == [(1, "0", 2), (2, "2", 0)]
    again = headwater("run", app, "--once", "--json")
    assert (again.code, again.out) == (0, "")
    assert again.err == "The views are at position 2; there was nothing to do.\n"


def test_the_master_is_that_of_the_command_line(
    headwater: Run, app: Path, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    masters: list[str] = []
    monkeypatch.setattr(App, "start_spark", lambda app: masters.append(app._spark.master))
    assert headwater("run", app, "--once", "--master", "spark://somewhere:7077").code == 0
    assert headwater("run", app, "--once").code == 0
    assert masters == ["spark://somewhere:7077", "local[*]"]


def test_a_second_run_is_refused_unless_it_takes_over(
    headwater: Run, app: Path, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(presence, "ENDING_SECONDS_MAX", 0.1)
    directory = app.parent / "data" / "pipelines" / "shop"
    with presence.present(directory), Heart(directory):
        ran = headwater("run", app, "--once")
        assert (ran.code, ran.out) == (5, "")
        assert f"Application 'shop' is already running: process {os.getpid()} on" in ran.err
        assert "--take-over" in ran.err
        assert headwater("run", app, "--once", "--take-over").code == 0


def test_a_run_that_is_fenced_says_so_with_its_exit_code(headwater: Run, app: Path, program: Program) -> None:
    def take_over(_: Batch) -> None:
        with open_store(app.parent / "data" / "pipelines" / "shop") as store:
            store.take_over()

    program.on_run = take_over
    ran = headwater("run", app, "--port", "0")
    assert ran.code == 5
    assert "was replaced by a newer one" in ran.err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_lets_the_batch_end(headwater: Run, app: Path, program: Program, number: int) -> None:
    program.on_run = lambda _: os.kill(os.getpid(), number)
    ran = headwater("run", app, "--json")
    assert (ran.code, [one["batch"] for one in ran.objects()]) == (0, [1])


def test_once_that_was_not_done_is_told_from_one_that_was(headwater: Run, app: Path, program: Program) -> None:
    program.on_run = lambda _: os.kill(os.getpid(), signal.SIGINT)
    assert headwater("run", app, "--once").code == 130


def test_a_second_signal_does_not_wait(headwater: Run, app: Path, program: Program) -> None:
    def interrupt(_: Batch) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        pytest.fail("the batch continued")

    program.on_run = interrupt
    ran = headwater("run", app, "--json")
    assert (ran.code, ran.out) == (0, "")


@pytest.mark.parametrize("error", [InternalError("Spark is gone."), SparkStopped("gone"), WorkerLost("gone")])
def test_spark_that_was_ended_with_the_program_is_no_failure(
    headwater: Run, app: Path, program: Program, error: Exception
) -> None:
    def end(_: Batch) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        raise error

    program.on_run = end
    ran = headwater("run", app, "--no-server")
    ending, ended = ran.err.splitlines()
    assert (ran.code, ended) == (0, "Stopped in the middle of a batch, which had no effect.")
    assert ending.startswith("Stopping after the current batch")


def test_a_record_that_fails_is_a_sentence_and_a_hint(headwater: Run, app: Path, program: Program) -> None:
    def fail(_: Batch) -> None:
        raise RecordFailed("revenue", "orders", 0, 1, "Division by zero.")

    program.on_run = fail
    ran = headwater("run", app, "--once")
    assert ran.code == 2
    assert ran.err.splitlines()[0] == (
        "error: View 'revenue' fails on the record at offset 1 of topic 'orders', partition 0: Division by zero."
    )


def test_an_application_without_views(headwater: Run, tmp_path: Path) -> None:
    file = tmp_path / "app.py"
    file.write_text(f"import headwater as hw\napp = hw.App('shop', log={str(tmp_path / 'data')!r})\n")
    ran = headwater("run", file, "--no-server")
    assert ran.code == 2
    assert ran.err.startswith("error: This application has no views.\nhint: Define one: app.view(")


def test_a_signal_that_is_ignored_stays_ignored() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with Ending() as ending:
        os.kill(os.getpid(), signal.SIGINT)
        assert not ending.asked
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_a_run_serves_as_well_and_stays_when_a_record_fails(
    headwater: Run, app: Path, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The views stay as they are, and people can see why, until somebody ends it."""

    def fail(batch: Batch) -> None:
        if batch.number > 1:
            raise RecordFailed("revenue", "orders", 0, 1, "Division by zero.")

    answers: list[httpx.Response] = []
    started = Server.start

    def start(server: Server) -> Server:
        threading.Thread(target=visit, args=(server,)).start()
        return started(server)

    def visit(server: Server) -> None:
        until = time.monotonic() + 60
        while time.monotonic() < until and server._service.running.failure is None:
            time.sleep(0.05)
        answers.append(httpx.get(f"{server.url}/readyz", timeout=10))
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(Server, "start", start)
    program.on_run = fail
    ran = headwater("run", app, "--port", 0)
    assert ran.code == 2
    assert "error: View 'revenue' fails on the record at offset 1" in ran.err
    assert "'pipeline' has failed; everything else keeps running until Ctrl-C." in ran.err
    assert answers[0].json()["checks"]["pipeline"]["code"] == "record_failed"


def test_a_server_that_fails_does_not_end_the_run(
    headwater: Run, app: Path, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwater.server.keeper.PAUSE_SECONDS", 0.05)
    urls: list[str] = []
    started = Server.start

    def start(server: Server) -> Server:
        urls.append(server.url)
        if len(urls) == 1:
            monkeypatch.setattr(server._service, "start", broken)
            with suppress(OSError):
                started(server)
            return server
        os.kill(os.getpid(), signal.SIGTERM)
        return started(server)

    async def broken() -> None:
        raise OSError("Too many open files")

    monkeypatch.setattr(Server, "start", start)
    ran = headwater("run", app, "--port", 0)
    assert ran.code == 0
    assert "The server has failed (OSError: Too many open files). Restarting it" in ran.err
    assert len(urls) == 2
    assert urls[0] == urls[1]


WEBHOOK = (
    'app.webhook_out("mail", view={view!r}, url={url!r}, secret={secret!r}, start="content", allow_private=True)\n'
)


def test_a_run_sends_webhooks_and_one_that_ends_by_itself_does_not(headwater: Run, app: Path, program: Program) -> None:
    with receiving() as receiver:
        declared = app.read_text()
        app.write_text(declared + WEBHOOK.format(view="revenue", url=receiver.url, secret=SECRET))
        assert headwater("run", app, "--once").code == 0
        assert receiver.came == []

        def end() -> None:
            until(lambda: receiver.taken)
            os.kill(os.getpid(), signal.SIGTERM)

        ending = threading.Thread(target=end)
        ending.start()
        ran = headwater("run", app, "--no-server")
        ending.join()
        assert ran.code == 0, ran.err
        assert [one["type"] for one in receiver.messages()] == ["view.snapshot"]
        app.write_text(declared + WEBHOOK.format(view="nowhere", url=receiver.url, secret=SECRET))
        ran = headwater("run", app, "--no-server")
        assert (ran.code, ran.err.splitlines()[0]) == (2, "error: There is no view 'nowhere'.")

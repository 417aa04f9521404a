"""Kills a capture, its server, or both, again and again, and looks whether the log has what the database has."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import psycopg

import headwater as hw
from headwater.connectors.postgres.address import address_of
from headwater.connectors.postgres.capture import Capture
from headwater.connectors.postgres.options import CaptureOptions
from tests.postgres.bank import Clients, assert_balanced, open_bank
from tests.postgres.bank_views import BankViews
from tests.postgres.oracle import assert_same, catch_up
from tests.postgres.servers import Server

ROOT = Path(__file__).parents[2]
KINDS = ("capture", "server", "both")
TABLES = ["checking", "savings"]


@dataclass
class Torture:
    """A bank, a log, and a seed: the same seed kills at the same moments."""

    server: Server
    database: str
    directory: Path
    seed: int
    views: bool = False
    """Whether views follow the log, in this process, and are compared, too. Needs Spark."""

    def run(self, rounds: int) -> int:
        """This many rounds; how many commits the log has at the end."""
        rng = random.Random(self.seed)
        with self.server.connect(self.database) as connection:
            open_bank(connection)
        clients = Clients(self.server, self.database, 3, self.seed, pause=0.003)
        views = BankViews(self.directory / "log", "s" + self.database) if self.views else None
        try:
            for _ in range(rounds):
                self._round(rng.choice(KINDS), rng.uniform(0.05, 2.5), rng)
                if views is not None:
                    views.follow()
            clients.stop()
            commits = self.check()
            if views is not None:
                with self._connect() as source:
                    views.check(source)
        finally:
            clients.stop()
            if views is not None:
                views.close()
        return commits

    def _round(self, kind: str, seconds: float, rng: random.Random) -> None:
        process = self._start()
        try:
            self._hurt(process, kind, seconds, rng)
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
        if kind == "both":
            self.server.start()

    def _hurt(self, process: subprocess.Popen[bytes], kind: str, seconds: float, rng: random.Random) -> None:
        self._wait_for(process)
        time.sleep(seconds)
        if kind in ("server", "both"):
            self.server.kill()
            if kind == "server":
                time.sleep(rng.uniform(0, 0.3))
                self.server.start()
                time.sleep(rng.uniform(0, 0.5))
        assert process.poll() is None, f"the capture ended by itself: {self._said()}"

    def check(self) -> int:
        """That the log has what the database has, and had nothing else in between."""
        with hw.open(self.directory / "log") as log, self._connect() as source:
            capture = Capture(log, self._options())
            catch_up(capture, source, seconds=300)
            assert_same(source, log, capture, TABLES)
            return assert_balanced(log, [capture.options.names.topic("public", table) for table in TABLES])

    def _connect(self) -> psycopg.Connection[tuple[object, ...]]:
        return self.server.connect(self.database)

    def _options(self) -> CaptureOptions:
        return CaptureOptions(
            "s" + self.database,
            address_of(self.server.url(self.database)),
            tables=("*",),
            heartbeat=timedelta(seconds=0.3),
            directory=self.directory / "capture",
        )

    def _start(self) -> subprocess.Popen[bytes]:
        paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
        with (self.directory / "said").open("ab") as said:
            return subprocess.Popen(
                [
                    sys.executable,
                    str(Path(__file__).with_name("victim.py")),
                    self.server.url(self.database),
                    str(self.directory / "log"),
                    str(self.directory / "capture"),
                    "s" + self.database,
                ],
                env={**os.environ, "PYTHONPATH": paths},
                stdout=said,
                stderr=subprocess.STDOUT,
            )

    def _wait_for(self, process: subprocess.Popen[bytes]) -> None:
        """Returns when the capture begins: on a busy machine a process takes long to come so far."""
        deadline = time.monotonic() + 300
        while f"begun {process.pid}\n" not in (self.directory / "said").read_text():
            assert process.poll() is None, self._said()
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def _said(self) -> str:
        return (self.directory / "said").read_text()[-3000:]

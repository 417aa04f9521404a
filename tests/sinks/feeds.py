"""A process that forks feeds of the view `v` to a target, to be killed: everything is imported before the first one."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from headwater.connectors.registry import target_class
from headwater.engine.parts import Report, Stop
from headwater.engine.sinks.delivering import TargetSink
from headwater.engine.sinks.feed import Feed
from headwater.engine.sinks.patience import Patience
from headwater.engine.sinks.target import Assignment
from headwater.log.opening import open_log

ROOT = Path(__file__).parents[2]
PATIENCE = Patience(timedelta(milliseconds=5), timedelta(milliseconds=50), timedelta(minutes=10), refusals_max=20)
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Order:
    """What to feed: the view `v` of a pipeline's directory, to a target of `hw.sinks` with these arguments.

    `limits` are constants of modules that are set first, so that small data make many steps.
    """

    directory: str
    log: str
    kind: str
    arguments: dict[str, Any]
    limits: dict[str, int] = field(default_factory=dict)


class Feeds:
    """The process that forks, and the feed that runs, if one does."""

    def __init__(self, order: Order, said: Path) -> None:
        self._order, self._said = order, said
        self.pid: int | None = None
        with said.open("ab") as file:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.sinks.feeds", str(said)],
                cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=file, text=True, bufsize=1,
            )  # fmt: skip

    def start(self) -> None:
        """Forks a feed, unless one runs."""
        if self.is_alive():
            return
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(asdict(self._order)) + "\n")
        self.pid = int(self._process.stdout.readline())

    def is_alive(self) -> bool:
        return self.pid is not None and Path(f"/proc/{self.pid}").exists()

    def kill(self) -> None:
        """Ends the feed with SIGKILL, and returns when it is gone."""
        if self.pid is not None and self.is_alive():
            os.kill(self.pid, signal.SIGKILL)
            while self.is_alive():
                time.sleep(0.001)
        self.pid = None

    def close(self) -> None:
        self.kill()
        self._process.kill()
        self._process.communicate()

    def said(self) -> str:
        return self._said.read_text()


class _Printed(Report):
    def say(self, text: str) -> None:
        print(text, flush=True)

    def warn(self, text: str) -> None:
        print(text, flush=True)


def feed(order: Order) -> None:
    """Feeds until it is killed, or paused."""
    for name, value in order.limits.items():
        module, _, constant = name.rpartition(".")
        setattr(sys.modules[module], constant, value)
    directory = Path(order.directory)
    with open_log(order.log) as log:
        assignment = Assignment(directory.name, "out", "v", ("key",))
        target: Any = target_class(order.kind)
        sink = TargetSink(target(**order.arguments), assignment, directory, log, "out.dead_letters")
        Feed(directory, "out", "v", sink, "content", PATIENCE).run(Stop(), _Printed())


def main() -> None:
    said = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND)
    # Children that are killed leave nothing to wait for.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        order = Order(**json.loads(line))
        target_class(order.kind)
        child = os.fork()
        if child == 0:
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            os.dup2(said, 1)
            feed(order)
            print("The feed has ended.", flush=True)
            os._exit(0)
        print(child, flush=True)


if __name__ == "__main__":
    main()

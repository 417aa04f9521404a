"""Measures the demo: from the command to the first page, and from a commit in PostgreSQL to a subscriber's wire."""

from __future__ import annotations

import json as json_module
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import httpx
import numpy as np
import psycopg
import typer
from rich.console import Console

from bench.report import Line, Report, machine
from headwater.demo.database import free_port

VIEW = "customer_lifetime_value"
FIRST_CUSTOMER = 1_000_000
PAUSE_SECONDS = (0.2, 1.2)
_DATABASE = re.compile(r"postgresql://\S+")
_messages = Console(stderr=True)


@contextmanager
def demo(place: Path, port: int) -> Iterator[tuple[str, float, str]]:
    """A demo until the block ends: its address, the seconds until its views could be read, and its database."""
    said = place / "said"
    program = str(Path(sys.executable).parent / "headwater")
    url = f"http://localhost:{port}"
    began = time.monotonic()
    with (
        said.open("w") as messages,
        subprocess.Popen(
            [program, "demo", "--no-browser", "--port", str(port)],
            stderr=messages,
            env={**os.environ, "TMPDIR": str(place)},
        ) as running,
    ):
        try:
            database = _until_open(said, running)
            yield url, time.monotonic() - began, database
        finally:
            running.send_signal(signal.SIGINT)
            running.wait()


def _until_open(said: Path, running: subprocess.Popen[bytes]) -> str:
    """Returns when the demo says that its views can be read: where its database is."""
    while running.poll() is None:
        if found := _DATABASE.search(said.read_text()):
            return found[0]
        time.sleep(0.05)
    raise RuntimeError(f"the demo has ended: {said.read_text()}")


class Follower(threading.Thread):
    """Notes when rows of customers that only this benchmark makes arrive on the wire."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self._url = url
        self.follows = threading.Event()
        self.arrived: dict[int, float] = {}

    def run(self) -> None:
        headers = {"Accept": "text/event-stream"}
        with httpx.stream("GET", f"{self._url}/views/{VIEW}/changes", headers=headers, timeout=None) as answer:
            for line in answer.iter_lines():
                now = time.monotonic()
                if not line.startswith("data: "):
                    continue
                self.follows.set()
                for change in json_module.loads(line.removeprefix("data: ")).get("changes", []):
                    if change["row"]["id"] >= FIRST_CUSTOMER:
                        self.arrived.setdefault(change["row"]["id"], now)


def freshness(url: str, database: str, commits: int) -> list[float]:
    """Milliseconds from the return of a commit to its change on the wire, one by one at random times."""
    follower = Follower(url)
    follower.start()
    follower.follows.wait(60)
    chance = random.Random(1)
    committed: dict[int, float] = {}
    with psycopg.connect(database, autocommit=True) as connection:
        for customer in range(FIRST_CUSTOMER, FIRST_CUSTOMER + commits):
            connection.execute("INSERT INTO customers VALUES (%s, 'Somebody', 'DE', now())", (customer,))
            committed[customer] = time.monotonic()
            time.sleep(chance.uniform(*PAUSE_SECONDS))
    deadline = time.monotonic() + 60
    while len(follower.arrived) < commits and time.monotonic() < deadline:
        time.sleep(0.1)
    missing = [customer for customer in committed if customer not in follower.arrived]
    if missing:
        raise RuntimeError(f"{len(missing)} changes never arrived")
    return [1000 * (follower.arrived[customer] - at) for customer, at in committed.items()]


def measure(place: Path, commits: int, warm_seconds: float) -> Iterator[Line]:
    with demo(place, free_port()) as (url, seconds, database):
        note = "all views readable over HTTP, packages installed"
        yield Line("command to first page", seconds, "s", 40.0, "less", note=note)
        time.sleep(warm_seconds)
        found = freshness(url, database, commits)
        about = f"{commits} commits, all views, traffic, database and server on this machine"
        yield Line("commit to wire, p50", float(np.percentile(found, 50)), "ms", 700.0, "less", note=about)
        yield Line("commit to wire, p99", float(np.percentile(found, 99)), "ms", 2000.0, "less", note=about)


def main(
    *,
    commits: Annotated[int, typer.Option(help="Commits whose freshness is measured.", min=1)] = 200,
    warm_seconds: Annotated[float, typer.Option(help="How long the demo runs before.", min=0.0)] = 30.0,
    json: Annotated[Path | None, typer.Option(help="Also write everything to this file, as JSON.")] = None,
    markdown: Annotated[bool, typer.Option(help="Print Markdown, as in docs/benchmarks.md.")] = False,
) -> None:
    """Measures the demo as people run it."""
    with tempfile.TemporaryDirectory(prefix="hwbench") as name:
        place = Path(name)
        # If root runs it, somebody else runs PostgreSQL.
        place.chmod(0o711)
        about = machine(place)
        _messages.print("the demo ...")
        lines = list(measure(place, commits, warm_seconds))
    report = Report(about, {"commits": commits, "warm_seconds": warm_seconds}, [], lines, title="The demo")
    if json is not None:
        json.write_text(report.to_json() + "\n")
    if markdown:
        typer.echo(report.to_markdown())
    else:
        report.print(Console(width=None if sys.stdout.isatty() else 200))


if __name__ == "__main__":
    typer.run(main)

"""A server in a process of its own, over an application made for measuring."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

HOST = "127.0.0.1"
START_SECONDS_MAX = 180.0
SOURCE = """
import headwater as hw

app = hw.App("bench", log={log!r})
app.topic("events", "id bigint, user string, url string, amount double, at timestamp")
app.topic("orders", "id bigint, customer bigint, amount bigint", key="id")
app.view(
    "totals",
    "SELECT customer, count(*) AS orders, sum(amount) AS amount FROM orders GROUP BY customer",
    key="customer",
)
"""


@contextmanager
def served(directory: Path, command: Literal["serve", "run"]) -> Iterator[int]:
    """The port of `headwater serve` or `headwater run` for as long as the block lasts."""
    with serving(directory, command) as (port, _):
        yield port


@contextmanager
def serving(directory: Path, command: Literal["serve", "run"]) -> Iterator[tuple[int, int]]:
    """As `served`, the port and the id of the process."""
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / "app.py"
    file.write_text(SOURCE.format(log=str(directory / "data")))
    program = "from headwater.cli import main; main()"
    started = subprocess.Popen(
        [sys.executable, "-c", program, command, str(file), "--port", "0"], stderr=subprocess.PIPE, text=True
    )
    try:
        yield _port(started), started.pid
    finally:
        started.terminate()
        started.communicate(timeout=60)


def _port(started: subprocess.Popen[str]) -> int:
    assert started.stderr is not None
    for line in started.stderr:
        if line.startswith("Serving "):
            return int(line.strip().rpartition(":")[2])
    raise RuntimeError("the server did not start")


def request(connection: http.client.HTTPConnection, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
    """One request on a connection that stays open."""
    connection.request(method, path, body, {"Content-Type": "application/x-ndjson"} if body else {})
    answered = connection.getresponse()
    return answered.status, answered.read()


def append(port: int, topic: str, rows: list[dict[str, object]]) -> str:
    """Appends records; their position."""
    body = "\n".join(json.dumps(row) for row in rows).encode()
    status, answered = request(http.client.HTTPConnection(HOST, port), "POST", f"/topics/{topic}/records", body)
    if status != 200:
        raise RuntimeError(answered.decode())
    return str(json.loads(answered)["position"])


def wait_for(port: int, path: str) -> bytes:
    """The first answer that is not an error: Spark takes a while to start."""
    until = time.monotonic() + START_SECONDS_MAX
    while True:
        status, answered = request(http.client.HTTPConnection(HOST, port), "GET", path)
        if status == 200:
            return answered
        if time.monotonic() > until:
            raise RuntimeError(answered.decode())
        time.sleep(0.2)

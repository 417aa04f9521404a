"""Records in over HTTP, in batches of 100, each answered when it is durable."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from bench.report import Line
from bench.server.served import HOST, request, served
from bench.timing import MILLISECONDS, percentile

BATCH = 100
CLIENTS = 8
GOAL = 20_000


def measure(directory: Path, seconds: float) -> list[Line]:
    """Several clients, each sending the next batch when the last one is durable."""
    with served(directory / "ingest", "serve") as port:
        _send(port, time.monotonic() + 1.0, [])
        taken: list[list[float]] = [[] for _ in range(CLIENTS)]
        began = time.monotonic()
        threads = [threading.Thread(target=_send, args=(port, began + seconds, each)) for each in taken]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        elapsed = time.monotonic() - began
        latencies = [one * MILLISECONDS for each in taken for one in each]
        topic = http.client.HTTPConnection(HOST, port)
        held = json.loads(request(topic, "GET", "/topics/events")[1])["topic"]["records"]
    sent = len(latencies) * BATCH
    note = f"{CLIENTS} clients, JSON lines, {held:,} records in the topic"
    return [
        Line(f"ingest over HTTP, batches of {BATCH}, durable", sent / elapsed, "records/s", GOAL, note=note),
        Line("ingest: one batch, p50", percentile(latencies, 0.5), "ms", better="less"),
        Line("ingest: one batch, p99", percentile(latencies, 0.99), "ms", better="less"),
    ]


def body(first: int) -> bytes:
    """A batch as JSON lines."""
    return b"\n".join(_row(first + number) for number in range(BATCH))


def _row(number: int) -> bytes:
    row = {
        "id": number,
        "user": f"user-{number % 10_000}",
        "url": f"/products/{number % 1000}",
        "amount": number / 8,
        "at": "2026-01-31T12:00:00Z",
    }
    return json.dumps(row).encode()


def _send(port: int, until: float, taken: list[float]) -> None:
    connection = http.client.HTTPConnection(HOST, port)
    bodies: Sequence[bytes] = [body(first * BATCH) for first in range(20)]
    number = 0
    while (began := time.monotonic()) < until:
        status, answered = request(connection, "POST", "/topics/events/records", bodies[number % len(bodies)])
        if status != 200:
            raise RuntimeError(answered.decode())
        taken.append(time.monotonic() - began)
        number += 1

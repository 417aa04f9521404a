"""Rows by key and changes to many followers, while a pipeline keeps the view up to date."""

from __future__ import annotations

import asyncio
import http.client
import json
import random
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from bench.report import Line
from bench.server.served import HOST, append, request, served, wait_for
from bench.timing import MILLISECONDS, percentile

CUSTOMERS = 10_000
READS_PER_SECOND = 500
READERS = 8
SUBSCRIBERS = 500
APPENDS_PER_SECOND = 10
ROWS_PER_APPEND = 20
P99_GOAL_MS = 10.0
WARM_UP_SECONDS = 20
"""While Java compiles what the pipeline does all the time."""


def measure(directory: Path, seconds: float, subscribers: int = SUBSCRIBERS) -> list[Line]:
    """Both, on one server that runs the pipeline as well."""
    with served(directory / "views", "run") as port:
        rows: list[dict[str, object]] = [{"id": n, "customer": n, "amount": 1} for n in range(CUSTOMERS)]
        position = append(port, "orders", rows)
        wait_for(port, f"/views/totals/rows/1?at_least={position}&wait=30")
        writer = Writer(port)
        with writer:
            time.sleep(WARM_UP_SECONDS)
            reads = _reads(port, seconds)
        followed = asyncio.run(_followed(port, writer, seconds, subscribers))
    return [*reads, *followed]


class Writer:
    """Appends orders all the time, so that the pipeline has something to do."""

    def __init__(self, port: int) -> None:
        self._port, self._ended = port, threading.Event()
        self._thread: threading.Thread | None = None
        self.last = "0"
        self._next = CUSTOMERS

    def __enter__(self) -> None:
        self._ended.clear()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        assert self._thread is not None
        self._thread.join()

    def _run(self) -> None:
        chosen = random.Random(7)
        while not self._ended.wait(1 / APPENDS_PER_SECOND):
            rows: list[dict[str, object]] = [
                {"id": self._next + n, "customer": chosen.randrange(CUSTOMERS), "amount": 1}
                for n in range(ROWS_PER_APPEND)
            ]
            self._next += ROWS_PER_APPEND
            self.last = append(self._port, "orders", rows)


def _reads(port: int, seconds: float) -> list[Line]:
    """Reads at fixed times, whether or not earlier ones are answered: a slow server cannot slow the clock."""
    taken: list[list[float]] = [[] for _ in range(READERS)]
    began = time.monotonic() + 0.5
    threads = [threading.Thread(target=_read, args=(port, began, seconds, n, taken[n])) for n in range(READERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    latencies = [one * MILLISECONDS for each in taken for one in each]
    note = f"{len(latencies):,} reads at {READS_PER_SECOND}/s, a pipeline at work, {CUSTOMERS:,} keys"
    return [
        Line("row of a view by key, p50", percentile(latencies, 0.5), "ms", better="less", note=note),
        Line("row of a view by key, p99", percentile(latencies, 0.99), "ms", P99_GOAL_MS, "less", note=note),
    ]


def _read(port: int, began: float, seconds: float, reader: int, taken: list[float]) -> None:
    connection, chosen = http.client.HTTPConnection(HOST, port), random.Random(reader)
    every = READERS / READS_PER_SECOND
    for number in range(int(seconds / every)):
        due = began + (number + reader / READERS) * every
        time.sleep(max(0.0, due - time.monotonic()))
        status, answered = request(connection, "GET", f"/views/totals/rows/{chosen.randrange(CUSTOMERS)}")
        if status != 200:
            raise RuntimeError(answered.decode())
        taken.append(time.monotonic() - due)


class Follower:
    """Adds up what it is told of the view: a sum over all rows that is the same in whatever order they come."""

    def __init__(self) -> None:
        self.total = self.events = 0
        self.position = -1
        self._moved = asyncio.Event()

    async def reached(self, position: int) -> None:
        """Returns when it was told of what happened up to a position."""
        while self.position < position:
            await self._moved.wait()

    async def run(self, port: int, until: asyncio.Event) -> None:
        reader, writer = await asyncio.open_connection(HOST, port, limit=64 << 20)
        writer.write(b"GET /views/totals/changes HTTP/1.1\r\nHost: localhost\r\n\r\n")
        while not until.is_set():
            line = await reader.readline()
            if line.startswith(b"data: "):
                self._take(json.loads(line[6:]))
        writer.close()

    def _take(self, data: dict[str, Any]) -> None:
        self.events += 1
        self.total += sum(change["weight"] * _print(change["row"]) for change in data["changes"])
        if data["complete"]:
            self.position = int(data["position"])
            self._moved.set()
            self._moved = asyncio.Event()


def _print(row: dict[str, int]) -> int:
    """A number that tells rows apart."""
    return hash((row["customer"], row["orders"], row["amount"]))


async def _followed(port: int, writer: Writer, seconds: float, subscribers: int) -> list[Line]:
    ended = asyncio.Event()
    followers = [Follower() for _ in range(subscribers)]
    tasks = [asyncio.create_task(each.run(port, ended)) for each in followers]
    await asyncio.gather(*(each.reached(0) for each in followers))
    with writer:
        await asyncio.sleep(seconds)
    answered = await asyncio.to_thread(wait_for, port, f"/views/totals?limit=10000&at_least={writer.last}&wait=30")
    expected = sum(_print(row) for row in json.loads(answered)["rows"])
    with suppress(TimeoutError):
        async with asyncio.timeout(60):
            await asyncio.gather(*(each.reached(int(writer.last)) for each in followers))
    right = sum(each.total == expected for each in followers)
    ended.set()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    note = f"{followers[0].events - 1} changes in {seconds:g} s, each follower's sum compared with the view"
    return [Line("subscribers that got every change", right, "", subscribers, note=note)]

"""Queries over a view: how long a small one takes over HTTP, and what a greedy one does to the server."""

from __future__ import annotations

import http.client
import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa

from bench.report import Line
from bench.server.served import HOST, serving
from bench.timing import MILLISECONDS, latencies, percentile
from headwater.app import App
from headwater.engine.arrangements import arrangement_of
from headwater.engine.definition import DefinedView, Definition
from headwater.engine.opening import open_store
from headwater.engine.publication import BatchCommit
from headwater.engine.querying import query
from headwater.engine.reading import Reader
from headwater.engine.runs import RunWriter
from headwater.model.position import START
from headwater.views.zset import HASH, WEIGHT

CUSTOMERS = 1_000
P50_GOAL_MS = 10.0
SMALL = "SELECT count(*) AS customers, sum(amount) AS amount FROM totals WHERE customer % 2 = 0"
GREEDY = ("SELECT len(range(1000000000))", "SELECT unnest(range(1000000000))", "SELECT repeat('x', 1000000000)")
"""Each takes gigabytes inside one call of a function."""
WARM_UP_QUERIES = 20


def measure(directory: Path, seconds: float) -> list[Line]:
    """One connection asks, one query after another."""
    place = directory / "queries"
    with App("bench", log=place / "data") as app:
        _publish(app.directory)
        with serving(place, "serve") as (port, process):
            connection = http.client.HTTPConnection(HOST, port, timeout=60)
            over_http = _latencies(lambda: _ask(connection, SMALL), seconds)
            with Reader(app.directory) as reader:
                in_process = _latencies(lambda: query(reader, SMALL), seconds / 4)
            before = _resident_mib(process)
            refused = [_refused(connection, sql) for sql in GREEDY]
            grown = _resident_mib(process) - before
            after = _latencies(lambda: _ask(connection, SMALL), seconds / 4)
    note = f"{len(over_http):,} queries, one after another, over {CUSTOMERS:,} rows"
    return [
        Line("small query over HTTP, p50", percentile(over_http, 0.5), "ms", P50_GOAL_MS, "less", note=note),
        Line("small query over HTTP, p99", percentile(over_http, 0.99), "ms", better="less", note=note),
        Line("small query after greedy ones, p50", percentile(after, 0.5), "ms", P50_GOAL_MS, "less"),
        Line("small query in Python, p50", percentile(in_process, 0.5), "ms", better="less", note="a DuckDB for each"),
        Line("greedy query is refused after", max(refused), "ms", better="less", note="; ".join(GREEDY)),
        Line("memory of the server after greedy queries", grown, "MiB more", better="less"),
    ]


def _publish(directory: Path) -> None:
    """The view's content, as a pipeline would publish it."""
    columns = pa.schema([("customer", pa.int64()), ("orders", pa.int64()), ("amount", pa.int64())])
    numbers = np.arange(CUSTOMERS)
    rows = {HASH: numbers, **dict.fromkeys(columns.names, numbers), WEIGHT: np.ones(CUSTOMERS, dtype=np.int64)}
    with open_store(directory) as store:
        writer = RunWriter(store.blobs, name="bench")
        writer.add(arrangement_of("totals"), pa.table(rows))
        runs, epoch = writer.close(), store.take_over()
        generation = store.open_generation("bench", Definition(views={"totals": DefinedView("", columns)}))
        store.commit(BatchCommit(generation.id, epoch, 1, START, runs, changes={"totals": runs}, promote=True))


def _ask(connection: http.client.HTTPConnection, sql: str) -> int:
    connection.request("POST", "/query", json.dumps({"sql": sql}), {"Content-Type": "application/json"})
    answered = connection.getresponse()
    answered.read()
    return answered.status


def _latencies(work: Callable[[], object], seconds: float) -> list[float]:
    for _ in range(WARM_UP_QUERIES):
        work()
    return [taken * MILLISECONDS for taken in latencies(work, seconds=seconds)]


def _refused(connection: http.client.HTTPConnection, sql: str) -> float:
    began = time.monotonic()
    if _ask(connection, sql) != 422:
        raise RuntimeError(f"{sql} was not refused")
    return (time.monotonic() - began) * MILLISECONDS


def _resident_mib(process: int) -> float:
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)

"""Many views in one application: how long they take to plan, to begin, to take in a small batch, and to verify."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bench.engine.processes import processor_seconds
from bench.report import Line
from headwater.app import App

VIEWS = 250
CUSTOMERS, ORDERS, CHANGES = 500, 5_000, 100
WARM_BATCHES, BATCHES = 2, 5
_TEMPLATES = (
    "SELECT customer % {n} AS k, count(*) AS n, sum(amount) AS total FROM orders GROUP BY 1",
    "SELECT country, sum(amount + {n}) AS total FROM sold GROUP BY country",
    "SELECT segment, min(amount) AS least, max(amount) AS most FROM sold WHERE id % {n} <> 0 GROUP BY 1",
    "SELECT customer, count(DISTINCT amount % {n}) AS n FROM orders GROUP BY customer",
    "SELECT id, customer, amount * {n} AS amount, upper(note) AS note FROM orders WHERE amount % {n} = 1",
    "SELECT o.id, c.country, o.amount / {n} AS part FROM orders o LEFT JOIN customers c ON c.id = o.customer + {n}",
    """SELECT * FROM (
           SELECT id, customer, row_number() OVER (PARTITION BY customer % {n} ORDER BY amount DESC, id) AS place
           FROM orders
       ) WHERE place <= 3""",
    "SELECT customer % {n} AS k, stddev(amount) AS s, percentile(amount, 0.5) AS p FROM orders GROUP BY 1",
    "SELECT id, rank() OVER (PARTITION BY customer % {n} ORDER BY amount) AS place FROM orders",
    """SELECT country, count(*) AS n FROM customers WHERE id IN (SELECT customer FROM orders WHERE amount > {n})
       GROUP BY 1""",
)
"""Every tenth view is of the same kind; one of ten uses a node of Spark's own."""
_SOLD = """(SELECT o.id, o.amount, c.country, c.segment FROM orders o JOIN customers c ON c.id = o.customer)"""


def sql_of(number: int) -> str:
    """The SQL of a view, by its number."""
    kind, variant = number % len(_TEMPLATES), number // len(_TEMPLATES)
    return _TEMPLATES[kind].format(n=variant + 2).replace("FROM sold", f"FROM {_SOLD}")


def measure(directory: Path, views: int = VIEWS) -> Iterator[Line]:
    """The seconds of each step."""
    dice = np.random.default_rng(views)
    with App("many", log=directory / "log") as app:
        app.topic("customers", "id bigint, country string, segment string", key="id")
        app.topic("orders", "id bigint, customer bigint, amount bigint, note string", key="id")
        names = [f"v{number}" for number in range(views)]
        for number, name in enumerate(names):
            app.view(name, sql_of(number))
        app.log.append("customers", _customers(np.arange(CUSTOMERS), dice))
        app.log.append("orders", _orders(np.arange(ORDERS), dice))
        planning = _Spent.of(app.plan)
        first = _Spent.of(app.catch_up)
        batches = [_batch(app, dice) for _ in range(WARM_BATCHES + BATCHES)][WARM_BATCHES:]
        verifying = _Spent.of(lambda: [name for name in names if not app.verify(name).equal])
    wrong = verifying.found
    note = f"WRONG: {', '.join(wrong)}" if wrong else f"all {views} views equal their SQL"
    small = sorted(batches, key=lambda batch: batch.seconds)[len(batches) // 2]
    yield planning.line(f"{views} views: Spark's start and planning")
    yield first.line(f"{views} views: the first batches, {CUSTOMERS + ORDERS:,} rows")
    yield small.line(f"{views} views: a batch of {CHANGES} changes, median", f"of {BATCHES}")
    yield verifying.line(f"{views} views: verify", note)


@dataclass(frozen=True, slots=True)
class _Spent:
    """The time that something took, here and in the processes that it uses, and what it gave."""

    seconds: float
    processor_seconds: float
    found: Any

    @classmethod
    def of(cls, work: Callable[[], object]) -> _Spent:
        began, before = time.monotonic(), processor_seconds(os.getpid())
        found = work()
        return cls(time.monotonic() - began, processor_seconds(os.getpid()) - before, found)

    def line(self, title: str, note: str = "") -> Line:
        spent = f"{self.processor_seconds:.1f} s of processor time"
        return Line(title, self.seconds, "s", note=f"{spent}; {note}" if note else spent)


def _batch(app: App, dice: np.random.Generator) -> _Spent:
    """What a small batch takes."""
    app.log.append("orders", _orders(dice.choice(ORDERS, CHANGES - 10, replace=False), dice))
    app.log.append("customers", _customers(dice.choice(CUSTOMERS, 10, replace=False), dice))
    return _Spent.of(app.catch_up)


def _customers(ids: np.ndarray[tuple[int], np.dtype[np.int64]], dice: np.random.Generator) -> pa.Table:
    countries = [f"country-{number}" for number in dice.integers(0, 20, len(ids))]
    return pa.table({"id": ids, "country": countries, "segment": [f"s{len(name) % 3}" for name in countries]})


def _orders(ids: np.ndarray[tuple[int], np.dtype[np.int64]], dice: np.random.Generator) -> pa.Table:
    return pa.table(
        {
            "id": ids, "customer": dice.integers(0, CUSTOMERS, len(ids)), "amount": dice.integers(1, 1000, len(ids)),
            "note": [f"note {number}" for number in ids],
        }
    )  # fmt: skip

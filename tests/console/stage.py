"""A shop to look at in a browser: topics, views, readers, dead letters and a captured database, without Spark."""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import httpx
import pyarrow as pa

from headwater.app import App
from headwater.engine.definition import DefinedView, Definition
from headwater.engine.explanation import Explanation
from headwater.engine.parts import Report, Stop
from headwater.engine.publication import BatchCommit, Excluded
from headwater.engine.sources import Home, Source, SourceStatus, TableStatus
from headwater.errors import SourceUnavailable
from headwater.log.embedded.position import commit_of
from headwater.log.port import Log
from headwater.server.limits import Limits
from headwater.server.running import Address, Server
from headwater.server.service import Service
from headwater.system.heartbeat import Heart
from headwater.views.zset import WEIGHT
from tests.unit.engine.samples import Driver, at

COUNTRIES = ("DE", "FR", "IT", "ES", "NL", "PL", "SE", "AT")
SQL = {
    "revenue": """SELECT c.country, count(*) AS orders, sum(o.amount) AS revenue
FROM shop.orders o
JOIN shop.customers c ON c.id = o.customer
WHERE o.state <> 'cancelled'   -- money that was given back does not count
GROUP BY c.country""",
    "best_countries": "SELECT country, revenue FROM revenue ORDER BY revenue DESC LIMIT 3",
    "visits": "SELECT url, count(*) AS visits FROM page_views GROUP BY url",
    "orders_waiting": "SELECT id, customer, amount FROM shop.orders WHERE state = 'paid'",
}
MONEY = pa.decimal128(22, 2)
COLUMNS = {
    "revenue": pa.schema([("country", pa.string()), ("orders", pa.int64()), ("revenue", MONEY)]),
    "best_countries": pa.schema([("country", pa.string()), ("revenue", MONEY)]),
    "visits": pa.schema([("url", pa.string()), ("visits", pa.int64())]),
}
READS = {
    "revenue": ["shop.orders", "shop.customers"],
    "best_countries": ["revenue"],
    "visits": ["page_views"],
}


def _operator(number: int, level: int, label: str, inputs: Sequence[tuple[Any, ...]], **about: Any) -> dict[str, Any]:
    given = [{"port": port, "producer": producer, "steps": steps, "key": key} for port, producer, steps, key in inputs]
    empty: dict[str, Any] = {"linear": [], "recomputed": [], "view": None, "state": None}
    return {"number": number, "level": level, "label": label, "inputs": given, **empty, **about}


EXPLANATION = Explanation.from_json({
    "views": {"revenue": 6, "best_countries": 8, "visits": 10},
    "origins": [
        {"number": 0, "title": "topic shop.orders"},
        {"number": 1, "title": "topic shop.customers"},
        {"number": 2, "title": "topic page_views"},
    ],
    "operators": [
        _operator(3, 1, "table shop.orders", [("records", 0, [], ["id"])]),
        _operator(4, 1, "table shop.customers", [("records", 1, [], ["id"])]),
        _operator(
            5, 2, "inner join on customer",
            [("left", 3, ["where NOT (state = 'cancelled')"], ["customer"]), ("right", 4, [], ["id"])],
        ),
        _operator(7, 3, "aggregate by country", [("rows", 5, [], ["country"])], linear=["count(*)", "sum(amount)"]),
        _operator(6, 4, "publish revenue", [("rows", 7, [], ["country"])], view="revenue"),
        _operator(9, 4, "first rows of everything", [("rows", 7, [], [])], recomputed=["the first 3"]),
        _operator(8, 5, "publish best_countries", [("rows", 9, [], ["country"])], view="best_countries"),
        _operator(11, 1, "aggregate by url", [("records", 2, [], ["url"])], linear=["count(*)"]),
        _operator(10, 2, "publish visits", [("rows", 11, [], ["url"])], view="visits"),
    ],
})  # fmt: skip


class Database(Source):
    """A source whose database is not there: what its status would be."""

    kind = "postgres"

    def __init__(self, directory: Path, log: Log | None = None) -> None:
        super().__init__(Home("shop", cast("Log", log), directory))
        self.directory, self._has_log = directory, log is not None
        self.failure: SourceUnavailable | None = None
        self.status_now = SourceStatus(
            source="shop", kind="postgres", address="postgresql://shop@db.internal/shop", phase="streaming",
            paused=False, active=True, position="0/5A3C1F8", bytes_behind=4_096, bytes_retained=1_830_000,
            bytes_until_lost=None, seconds_behind=0.2, blocks_read=0, blocks_total=0,
            tables=(
                TableStatus("public.orders", "shop.orders", "streaming", None, None),
                TableStatus("public.customers", "shop.customers", "streaming", None, None),
            ),
            details=(("slot", "headwater_shop reserved"),), alarms=(),
        )  # fmt: skip

    @property
    def address(self) -> str:
        return self.status_now.address

    def check(self) -> list[str]:
        return [table.name for table in self.status_now.tables]

    def run(self, stop: Stop, report: Report) -> None:
        raise NotImplementedError

    def is_ready(self) -> bool:
        return True

    def status(self) -> SourceStatus:
        if self.failure is not None:
            raise self.failure
        return self.status_now

    def topics(self) -> list[str]:
        return super().topics() if self._has_log else []


def zset(view: str, rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    """A change of a view: the values of a row, its weight last. Its key is its first value."""
    columns = COLUMNS[view]
    schema = pa.schema([("_hash", pa.int64()), *columns, (WEIGHT, pa.int64())])
    named = [dict(zip([*columns.names, WEIGHT], row, strict=True)) for row in rows]
    return pa.Table.from_pylist([{**row, "_hash": sum(str(row[columns.names[0]]).encode())} for row in named], schema)


@dataclass
class Stage:
    """The application and its server, and what happens in it."""

    app: App
    service: Service
    server: Server
    client: httpx.Client
    driver: Driver
    database: Database
    pipeline: Heart
    capture: Heart
    told: dict[str, Any]
    content: dict[str, dict[Any, tuple[Any, ...]]] = field(default_factory=dict)
    random: random.Random = field(default_factory=lambda: random.Random(7))
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    @property
    def url(self) -> str:
        return self.server.url

    def send(self, topic: str, *rows: Mapping[str, object]) -> str:
        answered = self.client.post(f"/topics/{topic}/records", json=list(rows))
        assert answered.status_code == 200, answered.text
        return str(answered.json()["position"])

    def publish(self, wanted: Mapping[str, Sequence[tuple[Any, ...]]], **stats: Any) -> None:
        """Publishes rows of views, each in place of the one with the same key; a key alone deletes its row."""
        if self.driver.store.generation(self.driver.generation).position == self.app.log.position():
            # Views change only because something happened.
            self.app.log.append("shop.orders", [self.order()])
        changes = {}
        for view, rows in wanted.items():
            there = self.content.setdefault(view, {})
            change: list[tuple[Any, ...]] = []
            for row in rows:
                old = there.pop(row[0], None)
                if old is not None:
                    change.append((*old, -1))
                if len(row) > 1:
                    there[row[0]] = row
                    change.append((*row, 1))
            changes[view] = zset(view, change)
        total = sum(table.num_rows for table in changes.values())
        # A batch takes its time, also where nobody computes anything.
        took = self.random.uniform(0.25, 0.6)
        committed_at = time.time_ns() // 1000 - round(took * 1.3e6)
        told = {
            "records": total,
            "seconds": took,
            "committed_at": committed_at,
            "operators": {5: (total, total), 7: (total, total)},
            **stats,
        }
        self.driver.publish(changes, commit_of(self.app.log.position()), stats=told)

    def order(self) -> dict[str, object]:
        """A new order of somebody."""
        number = next(self.numbers)
        amount = f"{self.random.randint(500, 25_000) / 100:.2f}"
        state = self.random.choice(["paid", "paid", "sent", "cancelled"])
        return {"id": number, "customer": number % 40, "amount": amount, "state": state}

    def visit(self) -> dict[str, object]:
        now = datetime.now(UTC).isoformat()
        return {"user": self.random.randint(1, 40), "url": f"/product/{self.random.randint(1, 6)}", "at": now}

    def revenue(self, *countries: str) -> dict[str, list[tuple[Any, ...]]]:
        """What some more orders make of the revenue, to be published."""
        there = self.content.get("revenue", {})
        rows: list[tuple[Any, ...]] = []
        for country in countries:
            _, orders, amount = there.get(country, (country, 0, Decimal(0)))
            more = Decimal(self.random.randint(500, 25_000)) / 100
            rows.append((country, orders + 1, amount + more))
        best = sorted([*{**there, **{row[0]: row for row in rows}}.values()], key=lambda row: -row[2])[:3]
        names = {row[0] for row in best}
        gone: list[tuple[Any, ...]] = [(key,) for key in self.content.get("best_countries", {}) if key not in names]
        return {"revenue": rows, "best_countries": [*gone, *((row[0], row[2]) for row in best)]}

    def visited(self, *rows: Mapping[str, object]) -> dict[str, list[tuple[Any, ...]]]:
        """What some more visits make of the visits, to be published."""
        counts = {key: row[1] for key, row in self.content.get("visits", {}).items()}
        for row in rows:
            counts[row["url"]] = counts.get(row["url"], 0) + 1
        return {"visits": [(url, counts[url]) for url in dict.fromkeys(row["url"] for row in rows)]}

    def refuse(self, reason: str) -> None:
        """A view sets a record aside."""
        excluded = [Excluded("revenue", "shop.orders", 0, 0, reason)]
        self.driver.batch += 1
        position = commit_of(self.app.log.position())
        self.driver.store.commit(
            BatchCommit(
                self.driver.generation, self.driver.epoch, self.driver.batch, at(position), [], excluded=excluded
            )
        )

    @contextmanager
    def traffic(self, seconds: float = 0.25) -> Iterator[None]:
        """Records come and views follow, until the block ends."""
        ended = threading.Event()

        def run() -> None:
            while not ended.wait(seconds):
                self.app.log.append("shop.orders", [self.order() for _ in range(self.random.randint(2, 9))])
                visits = [self.visit() for _ in range(self.random.randint(5, 20))]
                self.send("page_views", *visits)
                self.publish({**self.visited(*visits), **self.revenue(*self.random.sample(COUNTRIES, 3))})

        thread = threading.Thread(target=run, name="traffic")
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()


def application(directory: Path) -> App:
    app = App("shop", log=directory / "data")
    if "shop.customers" not in {topic.name for topic in app.log.topics()}:
        app.topic("shop.customers", "id bigint, name string", key="id", cleanup="compact")
        app.log.alter("shop.customers", schema="id bigint, name string, country string")
    app.topic(
        "shop.orders", "id bigint, customer bigint, amount decimal(12,2), state string", key="id", partitions=2,
        retention_age=None,
    )  # fmt: skip
    app.topic("shop._schema", "lsn string, relation string, topic string, event string, detail string")
    app.topic(
        "page_views", "user bigint, url string, at timestamp", event_time="at", retention_age=timedelta(days=7),
        dead_letter="rejected",
    )  # fmt: skip
    app.webhook_in("github", "pushes", secret="only for this stage", style="github")
    for view, sql in SQL.items():
        app.view(view, sql, key=COLUMNS[view].names[:1] if view in COLUMNS else None)
    return app


def fill(stage: Stage) -> None:
    """Everything that there is to see."""
    log = stage.app.log
    names = ("Ann", "Bob", "Cem", "Dora", "Eva", "Finn", "Gül", "Hugo")
    people = [{"id": n, "name": f"{names[n % 8]} {n}", "country": COUNTRIES[n % 8]} for n in range(40)]
    log.append("shop.customers", people)
    for event, detail in (("found", "2 columns"), ("altered", "column country text was added")):
        table = {"lsn": "0/5A00028", "relation": "public.customers", "topic": "shop.customers"}
        log.append("shop._schema", [{**table, "event": event, "detail": detail}])
    for _ in range(6):
        log.append("shop.orders", [stage.order() for _ in range(20)])
        stage.send("page_views", *(visits := [stage.visit() for _ in range(30)]))
        stage.publish({**stage.visited(*visits), **stage.revenue(*COUNTRIES)})
    with log.consumer("page_views", group="recommendations", idle_timeout=timedelta(seconds=1)) as consumer:
        next(iter(consumer))
        consumer.commit()
    stage.send("page_views", {"user": "nobody", "url": "/product/1"}, {"url": 5, "at": "yesterday"})
    stage.refuse("Division by zero.")
    state = pa.table({"_hash": range(120), "row": [str(n) for n in range(120)], WEIGHT: [1] * 120})
    stage.driver.publish({}, commit_of(log.position()), state={"3": state, "5/left": state, "7": state.slice(0, 8)})


@contextmanager
def staged(
    directory: Path, *, filled: bool = True, published: bool = True, port: int = 0, **options: Any
) -> Iterator[Stage]:
    """Serves the shop; what was filled before is there again."""
    limits = Limits(**options.pop("limits", {}))
    told: dict[str, Any] = {"retries": 0, "not_kept": {}}
    with application(directory) as app:
        database = Database(directory / "capture", app.log)
        app._connections.sources["shop"] = database
        views = {view: DefinedView(SQL[view], COLUMNS[view], tuple(READS[view])) for view in COLUMNS}
        driver = Driver(app.directory, defined=Definition(views=views, explanation=EXPLANATION))
        if published and driver.batch == 0:
            driver.publish({}, 0)
        service = Service(app, limits=limits, **options)
        with (
            Heart(app.directory, about=lambda: told) as pipeline,
            Heart(database.directory) as capture,
            Server(service, Address(port=port)) as server,
            httpx.Client(base_url=server.url, timeout=30) as client,
        ):
            stage = Stage(app, service, server, client, driver, database, pipeline, capture, told)
            try:
                if filled:
                    fill(stage)
                yield stage
            finally:
                driver.close()


@contextmanager
def empty_stage(directory: Path, **options: Any) -> Iterator[Server]:
    """An application in which there is nothing yet."""
    with App("shop", log=directory / "data") as app, Server(Service(app, **options), Address(port=0)) as server:
        yield server

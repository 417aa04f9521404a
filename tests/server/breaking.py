"""A served shop that can be broken: its pipeline publishes made-up rows, and its supervisor only says yes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from headwater.app import App
from headwater.demo.endpoints import PAGES, endpoints
from headwater.demo.events import TOPIC
from headwater.demo.incidents import Incidents
from headwater.demo.reports import Reports
from headwater.engine.parts import Report
from headwater.engine.publication import BatchCommit, Excluded
from headwater.engine.running import Runner
from headwater.errors import Determinate
from headwater.log.embedded.position import commit_of
from headwater.runner import feeds_of
from headwater.server.running import Address, Server
from headwater.server.service import Service
from tests.server.selling import DEFINED, Sales, sell
from tests.unit.engine.samples import Driver, at, zset

COLUMNS = (
    "session string, customer_id bigint, product_id bigint, action string, device string, seconds string, at timestamp"
)
FIRST_ORDERS = 40
NOWHERE = "postgresql://nobody@127.0.0.1:1/reports"


@dataclass
class Supervised:
    """Plays the supervisor."""

    asked: list[str] = field(default_factory=list)
    database: str = "running"
    is_gone: bool = False

    def __call__(self, action: str, seconds: float = 0) -> dict[str, Any]:
        if self.is_gone:
            raise Determinate("The demo's supervisor does not answer.")
        if action == "status":
            about = {"name": "database", "state": self.database, "pid": 7, "starts": 1, "seconds": 1.0}
            return {"processes": [about]}
        self.asked.append(action)
        if action == "stop-database":
            self.database = "stopped"
        if action == "start-database":
            self.database = "running"
        return {"killed": 1, "pid": 2, "lsn": "0/10"}


@dataclass
class Broken:
    """The served shop, its supervisor, and what verifications find."""

    client: httpx.Client
    supervised: Supervised
    app: App
    wrong: set[str] = field(default_factory=set)

    def incident(self) -> dict[str, Any]:
        found: dict[str, Any] = self.client.get("/demo").json()["incidents"][0]
        return found

    def ended(self) -> dict[str, Any]:
        until(lambda: self.incident()["state"] in ("green", "red", "failed"))
        return self.incident()


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline, "it did not come to be in time"
        time.sleep(0.02)


def pipeline(app: App, stopped: threading.Event) -> None:
    """Publishes every position of the log, and sets aside what has no number of seconds. If the shop sells, it does."""
    sales = Sales() if app.sinks else None
    driver = Driver(app.directory, defined=DEFINED if sales else None)
    seen = -1
    while not stopped.wait(0.02):
        position = commit_of(app.log.position())
        if position == seen:
            continue
        poisonous = [row for row in app.log.scan(TOPIC).to_pylist() if not row["seconds"].isdigit()]
        sold = {} if sales is None else sales.changes(FIRST_ORDERS if seen < 0 else 1)
        driver.publish({"v": zset((seen, seen, "row", 1)), **sold}, position)
        if poisonous and not driver.store.excluded(driver.generation):
            driver.batch += 1
            driver.store.commit(BatchCommit(
                driver.generation, driver.epoch, driver.batch, at(position), [],
                promote=False, excluded=[Excluded("v", TOPIC, 0, 3, "no number")],
            ))  # fmt: skip
        seen = position
    driver.close()


@contextmanager
def shop(directory: Path, reports: str | None = None) -> Iterator[Broken]:
    """With the URL of a report database, the shop sells, and has sinks."""
    with App("shop", log=directory / "data") as app:
        app.topic(TOPIC, COLUMNS, event_time="at", dead_letter="refused")
        app.view("v", "SELECT key, text FROM page_views")
        if reports is not None:
            sell(app, reports)
            Reports(reports).create()
        stopped = threading.Event()
        running = threading.Thread(target=pipeline, args=(app, stopped))
        running.start()
        supervised = Supervised()
        wrong: set[str] = set()

        def verify(view: str) -> dict[str, object]:
            position = service.reader.position()
            return {"position": str(position), "rows": 1, "equal": view not in wrong, "differences": 0}

        service = Service(app, verify=verify, pages=PAGES)
        outside = Reports(reports or NOWHERE)
        more = endpoints(Incidents(service, supervised, outside), outside)
        with (
            Runner(feeds_of(app), Report()),
            Server(service, Address(port=0), more) as server,
            httpx.Client(base_url=server.url, timeout=30) as client,
        ):
            yield Broken(client, supervised, app, wrong)
        stopped.set()
        running.join()

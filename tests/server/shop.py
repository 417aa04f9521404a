"""A shop whose view is published by hand, so that the server needs no Spark, served on a port of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from headwater.app import App
from headwater.log.embedded.position import commit_of
from headwater.server.limits import Limits
from headwater.server.running import Address, Server
from headwater.server.service import Service
from headwater.system.heartbeat import Heart
from tests.unit.engine.samples import Driver, definition, zset

SECRET = "it is a secret"


@dataclass
class Shop:
    """The application, what publishes its view, the server, and a client of it."""

    app: App
    driver: Driver
    service: Service
    server: Server
    client: httpx.Client
    heart: Heart
    told: dict[str, Any]

    def publish(self, *rows: tuple[int, str, int], position: int | None = None) -> str:
        """Publishes changes of the view: key, text and weight; at the position of the log unless another is given."""
        commit = commit_of(self.app.log.position()) if position is None else position
        self.driver.publish({"v": zset(*((key, key, text, weight) for key, text, weight in rows))}, commit)
        return str(commit)

    def append(self, *rows: Mapping[str, object], topic: str = "clicks") -> str:
        """Appends over HTTP; the position."""
        answered = self.client.post(f"/topics/{topic}/records", json=list(rows))
        assert answered.status_code == 200, answered.text
        return str(answered.json()["position"])


def application(directory: Path) -> App:
    app = App("shop", log=directory / "data")
    app.topic("orders", "id bigint, country string, amount decimal(12,2)", key="id", partitions=2, dead_letter="dead")
    app.topic("clicks", "user bigint, url string, body binary")
    app.webhook_in("github", "pushes", secret=SECRET, style="github")
    app.view("v", "SELECT key, text FROM clicks")
    app.view("w", "SELECT 1")
    return app


@contextmanager
def opened(directory: Path, *, runs: bool = True, **options: Any) -> Iterator[Shop]:
    """Serves a shop; its view is published with two rows, at position 0, if it was not yet.

    If it `runs`, there is the heartbeat of a pipeline.
    """
    limits = Limits(**options.pop("limits", {}))
    with application(directory) as app:
        driver = Driver(app.directory, defined=definition("v", sql="SELECT key, text FROM clicks", reads=["clicks"]))
        if driver.batch == 0:
            driver.publish({"v": zset((1, 1, "one", 1), (2, 2, "two", 1))}, 0)
        service = Service(app, limits=limits, **options)
        told: dict[str, Any] = {"retries": 0, "not_kept": {}}
        heart = Heart(app.directory, clock=service.clock, about=lambda: told)
        with (
            heart if runs else nullcontext(),
            Server(service, Address(port=0)) as server,
            httpx.Client(base_url=server.url, timeout=30) as client,
        ):
            try:
                yield Shop(app, driver, service, server, client, heart, told)
            finally:
                driver.close()


@dataclass
class Event:
    """A server-sent event."""

    name: str = "message"
    id: str | None = None
    data: Any = None


@dataclass
class Events:
    """Reads events from the lines of a stream."""

    lines: Iterator[str]
    comments: list[str] = field(default_factory=list)

    def __iter__(self) -> Iterator[Event]:
        found = Event()
        for line in self.lines:
            name, _, value = line.partition(": ")
            if not line and found.data is not None:
                yield found
                found = Event()
            elif not line:
                found = Event()
            elif name == "":
                self.comments.append(value)
            elif name == "event":
                found.name = value
            elif name == "id":
                found.id = value
            elif name == "data":
                found.data = json.loads(value)

    def next(self) -> Event:
        return next(iter(self))


@contextmanager
def following(url: str, path: str, last: str | None = None, **headers: str) -> Iterator[Events]:
    """Follows a stream of events."""
    sent = {"Accept": "text/event-stream", **headers}
    if last is not None:
        sent["Last-Event-ID"] = last
    with httpx.stream("GET", url + path, headers=sent, timeout=30) as answered:
        assert answered.status_code == 200, answered.read()
        assert answered.headers["content-type"].startswith("text/event-stream")
        yield Events(answered.iter_lines())


def added_up(events: list[Event], before: Mapping[str, int] | None = None) -> dict[str, int]:
    """What the changes of events come to: rows as text, and how often each is there."""
    total: dict[str, int] = dict(before or {})
    for event in events:
        if event.name == "snapshot":
            total = {}
        for change in event.data["changes"]:
            row = json.dumps(change["row"], sort_keys=True)
            total[row] = total.get(row, 0) + change["weight"]
    return {row: weight for row, weight in total.items() if weight}

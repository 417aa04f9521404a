"""Sinks over HTTP: how far they are, waiting for them, operating them, and rows that their targets refuse."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

from headwater.client import Client
from headwater.engine.parts import Report
from headwater.engine.running import Runner
from headwater.engine.sinks import feed
from headwater.errors import SinksBehind, UnknownSink
from headwater.model.position import Position
from headwater.runner import feeds_of
from tests.contract.sinks.keyed import REFUSED, MemorySystem, MemoryTarget
from tests.server.shop import Shop
from tests.webhooks.receiver import until


class Sunk:
    """A shop whose view is brought to a target in memory."""

    def __init__(self, shop: Shop, system: MemorySystem) -> None:
        self.shop, self.system = shop, system

    def sink(self) -> dict[str, Any]:
        found: dict[str, Any] = self.shop.client.get("/sinks/copy").json()
        return found

    def do(self, what: str) -> dict[str, Any]:
        answered = self.shop.client.post(f"/sinks/copy/{what}")
        assert answered.status_code == 200, answered.text
        found: dict[str, Any] = answered.json()
        return found


@pytest.fixture
def sunk(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sunk]:
    monkeypatch.setattr(feed, "LOOK_SECONDS", 0.02)
    system = MemorySystem()
    shop.app.sink("copy", view="v", to=MemoryTarget(system), key="key")
    with Runner(feeds_of(shop.app), Report()):
        made = Sunk(shop, system)
        until(lambda: made.sink()["position"] == "0")
        yield made


def test_a_write_is_answered_when_the_sinks_have_it(sunk: Sunk) -> None:
    shop = sunk.shop
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(shop.client.post, "/topics/clicks/records?wait=copy", json={"url": "a"})
        until(lambda: shop.app.log.offsets("clicks")[0][1] == 1)
        assert not asked.done()
        shop.publish((3, "three", 1))
        answered = asked.result(20)
    assert answered.status_code == 200, answered.text
    assert sunk.system.rows() == {1: "one", 2: "two", 3: "three"}
    assert sunk.sink()["position"] == answered.json()["position"]


def test_a_write_for_which_sinks_are_late_is_durable(sunk: Sunk) -> None:
    answered = sunk.shop.client.post("/topics/clicks/records?wait=copy&timeout=0.1", json={"url": "a"})
    assert answered.status_code == 504
    error = answered.json()["error"]
    assert (error["code"], error["position"], error["sinks"]) == ("sinks_behind", "1", {"copy": "0"})
    assert sunk.shop.app.log.offsets("clicks")[0][1] == 1


def test_nothing_is_written_for_a_sink_that_there_is_not(sunk: Sunk) -> None:
    answered = sunk.shop.client.post("/topics/clicks/records?wait=copy,search", json={"url": "a"})
    assert (answered.status_code, answered.json()["error"]["code"]) == (404, "unknown_sink")
    assert sunk.shop.app.log.offsets("clicks")[0][1] == 0
    assert sunk.shop.client.get("/sinks/search").status_code == 404


def test_a_sink_whose_view_does_not_change_has_every_position_of_the_views(sunk: Sunk) -> None:
    position = sunk.shop.append({"url": "a"})
    sunk.shop.driver.publish({}, int(position))
    answered = sunk.shop.client.get(f"/sinks/copy?at_least={position}&wait=10")
    assert answered.status_code == 200, answered.text
    assert sunk.shop.client.get(f"/sinks?at_least={position}&wait=10").status_code == 200


def test_python_waits_too(sunk: Sunk) -> None:
    app = sunk.shop.app
    position = Position.parse(sunk.shop.append({"url": "a"}))
    with pytest.raises(SinksBehind) as raised:
        app.wait(position, sinks=["copy"], timeout=0.05)
    assert raised.value.behind == {"copy": "0"}
    with pytest.raises(UnknownSink):
        app.wait(position, sinks=["search"])
    publisher = threading.Timer(0.1, lambda: sunk.shop.publish((3, "three", 1)))
    publisher.start()
    app.wait(position, timeout=timedelta(seconds=20))
    publisher.join()
    assert sunk.system.rows()[3] == "three"


def test_the_client_waits(sunk: Sunk) -> None:
    with Client(sunk.shop.server.url) as client:
        with pytest.raises(SinksBehind) as raised:
            client.append("clicks", [{"url": "a"}], wait=["copy"], timeout=0.1)
        assert (raised.value.wanted, raised.value.behind) == ("1", {"copy": "0"})
        publisher = threading.Timer(0.1, lambda: sunk.shop.publish((3, "three", 1)))
        publisher.start()
        client.wait(Position.parse("1"), sinks=["copy"])
        publisher.join()
        (sink,) = client.sinks()
        assert (sink["name"], sink["position"], sink["lag"]) == ("copy", "1", 0)


def test_a_sink_is_shown_with_lag_and_rate(sunk: Sunk) -> None:
    sunk.do("pause")
    for number in range(3):
        sunk.shop.publish((number + 3, f"{number}", 1), position=number + 1)
    shown = sunk.sink()
    assert (shown["status"], shown["paused"], shown["lag"]) == ("paused", True, 3)
    assert 0 <= shown["lag_seconds"] < 60
    assert shown["error"] is None
    sunk.do("resume")
    until(lambda: sunk.sink()["lag"] == 0)
    shown = sunk.sink()
    assert (shown["status"], shown["paused"], shown["rows"], shown["lag_seconds"]) == ("running", False, 5, 0)
    assert 0 < shown["rows_per_second"] <= 1
    assert (shown["dead_letter"], shown["holds_content"]) == ("copy.dead_letters", True)
    until(lambda: "copy" in sunk.shop.client.get("/history").json()["samples"][-1]["sinks"])


def test_a_sink_is_reset(sunk: Sunk) -> None:
    sunk.system.put(1, "changed")
    sunk.do("reset")
    until(lambda: sunk.system.rows() == {1: "one", 2: "two"})


def audited(sunk: Sunk) -> dict[str, Any]:
    until(lambda: sunk.shop.client.get("/sinks/copy/audit").json()["status"] != "running")
    found: dict[str, Any] = sunk.shop.client.get("/sinks/copy/audit").json()
    return found


def test_a_sink_is_audited_and_repaired(sunk: Sunk) -> None:
    client = sunk.shop.client
    assert client.get("/sinks/copy/audit").json()["status"] == "never"
    sunk.system.put(1, "changed")
    assert client.post("/sinks/copy/audit").status_code == 202
    found = audited(sunk)
    assert (found["status"], found["result"]["equal"]) == ("done", False)
    assert found["result"]["different"] == {"count": 1, "named": [{"key": 1}]}
    client.post("/sinks/copy/audit?repair=true")
    assert audited(sunk)["result"]["repaired"]
    assert sunk.system.rows() == {1: "one", 2: "two"}
    sunk.system.stop()
    client.post("/sinks/copy/audit")
    found = audited(sunk)
    assert (found["status"], found["error"]["message"]) == ("failed", "It is down.")


def letters(sunk: Sunk, state: str = "open") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = sunk.shop.client.get(f"/dead-letters?state={state}").json()["letters"]
    return found


def test_a_refused_row_is_a_dead_letter_that_is_fixed_and_sent(sunk: Sunk) -> None:
    client = sunk.shop.client
    sunk.shop.publish((4, REFUSED, 1), position=1)
    until(lambda: len(letters(sunk)) == 1)
    (letter,) = letters(sunk)
    assert (letter["kind"], letter["sink"], letter["view"], letter["reason"]) == ("sink", "copy", "v", "It is refused")
    answered = client.post(f"/dead-letters/{letter['id']}/send", json={"key": 4, "text": REFUSED})
    assert (answered.status_code, answered.json()["error"]["code"]) == (422, "row_refused")
    assert "It is refused" in answered.json()["error"]["message"]
    answered = client.post(f"/dead-letters/{letter['id']}/send", json={"key": 4, "text": "fixed"})
    assert (answered.status_code, answered.json()["state"]) == (200, "sent"), answered.text
    assert sunk.system.rows()[4] == "fixed"
    assert [one["id"] for one in letters(sunk, "sent")] == [letter["id"]]
    assert client.post(f"/dead-letters/{letter['id']}/send", json={"key": 4, "text": "x"}).status_code == 409


def test_a_letter_of_a_row_with_a_later_version_is_superseded(sunk: Sunk) -> None:
    sunk.shop.publish((4, REFUSED, 1), position=1)
    until(lambda: len(letters(sunk)) == 1)
    sunk.shop.publish((4, REFUSED, -1), (4, "four", 1), position=2)
    until(lambda: sunk.system.rows().get(4) == "four")
    (letter,) = letters(sunk)
    answered = sunk.shop.client.post(f"/dead-letters/{letter['id']}/send", json={"key": 4, "text": "fixed"})
    assert (answered.status_code, answered.json()["state"]) == (200, "superseded"), answered.text
    assert sunk.system.rows()[4] == "four"
    assert letters(sunk) == []

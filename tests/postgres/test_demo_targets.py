"""The demo's report database, a real one: searched, damaged in every way there is, and right again after each."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pytest

from headwater.demo import incidents as incidents_module
from headwater.demo.events import TOPIC
from headwater.demo.reports import EDITED_ROWS, Reports, query_of
from tests.postgres.servers import Server, chosen_versions
from tests.server.breaking import FIRST_ORDERS, Broken, shop, until

AUDITED = {"search": "equal", "report": "equal"}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """One version: the demo brings its own, and what it asks for is in all of them."""
    with tempfile.TemporaryDirectory(prefix="hw") as directory:
        made = Server.create(chosen_versions()[0], Path(directory))
        made.start()
        yield made
        made.stop()


@pytest.fixture
def url(server: Server, database: str) -> str:
    return server.url(database)


@pytest.fixture
def broken(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Broken]:
    monkeypatch.setattr(incidents_module, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(incidents_module, "REPORTS_DOWN_SECONDS", 1.5)
    monkeypatch.setattr(incidents_module, "BACKUP_AGE_SECONDS", 0.0)
    with shop(tmp_path, url) as made:
        until(lambda: made.client.get("/demo/search").status_code == 200)
        yield made


def orders(url: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(url) as connection:
        return connection.execute("SELECT id, customer, total FROM orders ORDER BY id").fetchall()


def buy(broken: Broken) -> None:
    """One more order, in the view; the sinks get it when they can."""
    broken.app.log.append(TOPIC, [{"seconds": "1"}])


def test_orders_are_found_by_words(broken: Broken) -> None:
    found = broken.client.get("/demo/search", params={"words": "jackets JP"}).json()
    assert found["rows"] == FIRST_ORDERS
    assert 0 < found["matching"] < FIRST_ORDERS
    assert {(one["products"], one["country"]) for one in found["orders"]} == {("Rain jacket", "JP")}
    # A word that somebody has only begun to type, and what is no word at all.
    assert broken.client.get("/demo/search", params={"words": "jack jp"}).json()["orders"] == found["orders"]
    everything = broken.client.get("/demo/search", params={"words": "& | ! ( :*"}).json()
    assert (everything["matching"], len(everything["orders"])) == (FIRST_ORDERS, 20)
    assert [one["id"] for one in everything["orders"]] == list(range(FIRST_ORDERS, FIRST_ORDERS - 20, -1))
    assert broken.client.get("/demo/search", params={"words": "unicorn"}).json()["orders"] == []


def test_words_become_a_query() -> None:
    assert query_of("Rain jack") == "Rain:* & jack:*"
    assert query_of("o'Neill; DROP--") == "o:* & Neill:* & DROP:*"
    assert query_of("  ") == ""


def test_both_tables_always_add_up_to_the_same(broken: Broken) -> None:
    for _ in range(20):
        buy(broken)
        found = broken.client.get("/demo/search").json()
        assert Decimal(found["paid"]) == Decimal(found["revenue"]) > 0
        assert sum(Decimal(one["revenue"]) for one in found["countries"]) == Decimal(found["revenue"])


def test_edited_rows_are_found_and_exactly_those_repaired(broken: Broken, url: str) -> None:
    before = orders(url)
    broken.client.post("/demo/edit-report")
    incident = broken.ended()
    assert incident["state"] == "green", incident
    assert incident["audited"] == {"search": "repaired", "report": "equal"}
    (told,) = (step["text"] for step in incident["steps"] if step["text"].startswith("Audited search"))
    wrong = f"{EDITED_ROWS} missing, {EDITED_ROWS} different, 1 extra"
    assert f": {wrong} of {FIRST_ORDERS} rows; exactly these were repaired." in told
    assert orders(url) == before
    # Views know nothing of it, and are not verified.
    assert (incident["verified"], incident["verified_seconds"]) == ({}, None)
    # It has recovered with the repair, which is the audit.
    assert incident["recovered_seconds"] is None
    assert incident["audited_seconds"] > 0


def test_an_emptied_table_gets_all_rows_back(broken: Broken, url: str) -> None:
    before = orders(url)
    broken.client.post("/demo/empty-report")
    incident = broken.ended()
    assert (incident["state"], incident["audited"]) == ("green", {"search": "repaired", "report": "equal"}), incident
    assert f" {FIRST_ORDERS} missing, 0 different, 0 extra " in " ".join(step["text"] for step in incident["steps"])
    assert orders(url) == before


def test_an_audit_that_is_not_possible_now_is_tried_again(
    broken: Broken, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever stops the database after the table was edited must not leave it as it is."""
    monkeypatch.setattr(incidents_module, "LOOK_SECONDS", 2.0)
    before = orders(url)
    broken.client.post("/demo/edit-report")
    until(lambda: bool(broken.incident()["steps"]))
    assert orders(url) != before
    reports = Reports(url)
    reports.deny()
    until(lambda: broken.incident()["state"] == "auditing")
    time.sleep(2 * incidents_module.AUDIT_RETRY_SECONDS)
    assert set(broken.incident()["audited"].values()) == {"waiting"}
    assert reports.is_allowed()
    incident = broken.ended()
    assert (incident["state"], incident["audited"]["search"]) == ("green", "repaired"), incident
    assert orders(url) == before


def test_a_database_that_nobody_reaches_gets_what_came_meanwhile(broken: Broken, url: str) -> None:
    broken.client.post("/demo/deny-report")
    until(lambda: broken.client.get("/demo/search").status_code == 503)
    buy(broken)
    until(lambda: broken.app.sinks["search"].status().status == "retrying")
    incident = broken.ended()
    # Right without any repair.
    assert (incident["state"], incident["audited"]) == ("green", AUDITED), incident
    assert len(orders(url)) == FIRST_ORDERS + 1


def test_a_backup_that_is_restored_gets_what_it_lacks(
    broken: Broken, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(incidents_module, "BACKUP_AGE_SECONDS", 2.0)
    broken.client.post("/demo/restore-report")
    until(lambda: any("backup was made" in step["text"] for step in broken.incident()["steps"]))
    buy(broken)
    until(lambda: len(orders(url)) == FIRST_ORDERS + 1)
    incident = broken.ended()
    assert (incident["state"], incident["audited"]) == ("green", AUDITED), incident
    steps = [step["text"] for step in incident["steps"]]
    assert f"A backup was made, with {FIRST_ORDERS:,} orders." in steps
    assert f"The backup has replaced the database, which had {FIRST_ORDERS + 1:,} orders." in steps
    assert len(orders(url)) == FIRST_ORDERS + 1


def test_what_nobody_damaged_has_to_be_equal_without_repair(broken: Broken, url: str) -> None:
    Reports(url).edit()
    broken.client.post("/demo/verify")
    incident = broken.ended()
    assert (incident["state"], incident["audited"]["search"]) == ("red", "different"), incident
    assert len(orders(url)) == FIRST_ORDERS - EDITED_ROWS + 1


def test_a_sink_that_somebody_has_paused_is_left_alone(broken: Broken) -> None:
    broken.app.sinks["search"].pause()
    began = time.monotonic()
    broken.client.post("/demo/verify")
    incident = broken.ended()
    # Both are paused: they are one group.
    assert (incident["state"], incident["audited"]) == ("green", {}), incident
    assert broken.app.sinks["search"].control.is_paused
    assert time.monotonic() - began < incidents_module.RECOVERY_SECONDS_MAX

"""The demo's pages in a browser: what can be broken, what becomes of it, and what a search finds meanwhile."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from headwater.demo import incidents as incidents_module
from headwater.demo.incidents import ACTIONS
from tests.postgres.servers import Server, chosen_versions
from tests.server.breaking import FIRST_ORDERS, shop


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with tempfile.TemporaryDirectory(prefix="hw") as directory:
        made = Server.create(chosen_versions()[0], Path(directory))
        made.start()
        yield made
        made.stop()


def test_an_incident_is_followed_until_all_views_are_right(page: Page, tmp_path: Path) -> None:
    with shop(tmp_path) as broken:
        page.goto(str(broken.client.base_url))
        page.locator(".side").get_by_role("link", name="Break it").click()
        expect(page.locator("h1")).to_have_text("Break it")
        expect(page.locator(".blow button")).to_have_count(len(ACTIONS) - 1)
        expect(page.get_by_text("Nothing is broken yet.")).to_be_visible()
        expect(page.locator(".processes li").first).to_contain_text("database")
        broken.supervised.database = "stopped"
        expect(page.get_by_role("button", name="Start the database")).to_be_visible()
        broken.supervised.database = "running"
        expect(page.locator(".blow button")).to_have_count(len(ACTIONS) - 1)
        page.get_by_role("button", name="Send a poison event").click()
        incident = page.locator(".incident").first
        expect(incident).to_contain_text("all right")
        expect(incident).to_contain_text("Set aside: page_views")
        expect(incident.locator(".verdicts")).to_contain_text("v: right")


def test_orders_are_searched_while_their_table_is_damaged_and_repaired(
    page: Page, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(incidents_module, "LOOK_SECONDS", 0.0)
    with server.database() as database, shop(tmp_path, server.url(database)) as broken:
        page.goto(str(broken.client.base_url))
        page.locator(".side").get_by_role("link", name="Search").click()
        orders = page.get_by_role("region", name="Orders").locator("tbody tr")
        expect(orders).to_have_count(20)
        expect(page.get_by_role("status").first).to_contain_text(f"{FIRST_ORDERS} of {FIRST_ORDERS} orders")
        expect(page.locator(".figures")).to_contain_text("equal")
        box = page.get_by_role("searchbox", name="Search orders")
        box.fill("rain jack")
        expect(orders.first).to_contain_text("Rain jacket")
        expect(page.get_by_role("status").first).to_contain_text(re.compile(rf"^1\d of {FIRST_ORDERS} orders"))
        box.fill("unicorn")
        expect(page.get_by_text("No order has all of these words.")).to_be_visible()
        page.get_by_role("button", name="tent").click()
        expect(orders.first).to_contain_text("Tent for two")
        page.locator(".side").get_by_role("link", name="Break it").click()
        page.get_by_role("button", name="Empty the search table").click()
        incident = page.locator(".incident").first
        expect(incident).to_contain_text("all right")
        expect(incident).to_contain_text(f"{FIRST_ORDERS} missing")
        expect(incident.locator(".verdicts")).to_contain_text("search: repaired")
        expect(incident.locator(".verdicts")).to_contain_text("report: equal")
        page.get_by_role("button", name="Edit the search table").click()
        expect(page.locator(".incident")).to_have_count(2)
        expect(page.locator(".incident").first).to_contain_text("5 missing, 5 different, 1 extra")


def test_what_is_refused_is_told(page: Page, tmp_path: Path) -> None:
    with shop(tmp_path) as broken:
        page.goto(f"{broken.client.base_url}/#/break-it")
        page.route("**/demo/verify", lambda route: route.fulfill(status=429, json={"error": TOO_MANY}))
        page.get_by_role("button", name="Verify everything").click()
        expect(page.get_by_role("alert")).to_contain_text("There are too many incidents")


TOO_MANY = {"code": "too_many", "message": "There are too many incidents at the moment.", "hint": "Try again soon."}

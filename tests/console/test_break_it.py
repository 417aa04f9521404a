"""The page "Break it" in a browser: what can be done, and what becomes of it."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Page, expect

from headwater.demo.incidents import ACTIONS
from tests.server.breaking import shop


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
        expect(incident).to_contain_text("all views right")
        expect(incident).to_contain_text("Set aside: page_views")
        expect(incident.locator(".verdicts")).to_contain_text("v: right")


def test_what_is_refused_is_told(page: Page, tmp_path: Path) -> None:
    with shop(tmp_path) as broken:
        page.goto(f"{broken.client.base_url}/#/break-it")
        page.route("**/demo/verify", lambda route: route.fulfill(status=429, json={"error": TOO_MANY}))
        page.get_by_role("button", name="Verify all views").click()
        expect(page.get_by_role("alert")).to_contain_text("There are too many incidents")


TOO_MANY = {"code": "too_many", "message": "There are too many incidents at the moment.", "hint": "Try again soon."}

"""Alerts in a browser: what fires, who is told, and what has happened."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tests.console.alerting import NAME, alarm
from tests.console.stage import Stage


def test_what_fires_and_what_has_happened_is_shown(page: Page, stage: Stage) -> None:
    alarm(stage)
    page.goto(f"{stage.url}/#/alerts")
    firing = page.get_by_role("region", name="Firing")
    expect(firing.locator("tbody tr")).to_have_count(2)
    expect(firing.locator("tbody tr").first).to_contain_text("FR")
    expect(firing).to_contain_text("country: FR · orders: 4 · revenue: 121.50")
    history = page.get_by_role("region", name="History")
    expect(history.locator("tbody tr")).to_have_count(4)
    expect(history.locator("tbody tr").nth(1)).to_contain_text("cleared")
    rules = page.get_by_role("region", name="Rules")
    expect(rules.locator("tbody tr", has_text=NAME)).to_contain_text("after 2 min, every 60 min, quiet 22:00-07:00 UTC")
    receivers = page.get_by_role("region", name="Receivers")
    expect(receivers.locator("tbody tr", has_text="mail")).to_contain_text("ops@example.com by mail.example.com:587")
    slack = receivers.locator("tbody tr", has_text="slack")
    expect(slack).to_contain_text("retrying")
    expect(slack).to_contain_text("503 Service Unavailable")
    expect(rules.locator("tbody tr", has_text="no visits")).to_contain_text("none")
    assert "hush" not in page.content()
    page.get_by_label("Filter by name").fill("visits")
    expect(page.locator("main")).to_contain_text("none firing")


def test_an_alert_that_fires_meanwhile_appears(page: Page, stage: Stage) -> None:
    stage.app.alert("no visits", view="visits")
    page.goto(f"{stage.url}/#/alerts")
    expect(page.locator("main")).to_contain_text("Nothing has fired yet.")
    alarm_record = {
        "id": "a", "alert": "no visits", "view": "visits", "key": "/product/1", "event": "fired",
        "at": "2026-01-01T00:00:00Z", "since": "2026-01-01T00:00:00Z", "position": "1", "row": '{"url":"/product/1"}',
    }  # fmt: skip
    stage.app.log.append("shop.alerts", [alarm_record])
    expect(page.get_by_role("region", name="Firing")).to_contain_text("/product/1")


def test_without_alerts_the_page_says_how_to_declare_one(page: Page, stage: Stage) -> None:
    page.goto(f"{stage.url}/#/alerts")
    expect(page.locator(".empty")).to_contain_text("This application has no alerts.")
    expect(page.locator(".empty")).to_contain_text("app.alert(")

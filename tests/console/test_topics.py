"""Topics in a browser: records as they arrive, where they are looked for, and everything about a topic."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from tests.console.stage import Stage

ROWS = "tr[data-row]"


def test_records_appear_as_they_arrive(page: Page, stage: Stage) -> None:
    page.goto(f"{stage.url}/#/topics/page_views")
    expect(page.locator(ROWS)).to_have_count(50)
    stage.send("page_views", {"user": 77, "url": "/just/now", "at": "2026-01-01T00:00:00Z"})
    expect(page.locator(ROWS).first).to_contain_text("/just/now")
    expect(page.locator(ROWS)).to_have_count(51)


def test_pause_and_go_on(page: Page, stage: Stage) -> None:
    page.goto(f"{stage.url}/#/topics/page_views")
    expect(page.locator(ROWS)).to_have_count(50)
    page.get_by_role("button", name="Pause").click()
    expect(page.locator(".live-state")).to_have_text("Paused")
    stage.send("page_views", {"user": 1, "url": "/meanwhile/1"}, {"user": 2, "url": "/meanwhile/2"})
    go_on = page.get_by_role("button", name="Resume (2 new)")
    expect(go_on).to_be_visible()
    expect(page.locator(ROWS, has_text="/meanwhile")).to_have_count(0)
    go_on.click()
    expect(page.locator(ROWS, has_text="/meanwhile")).to_have_count(2)
    expect(page.locator(ROWS)).to_have_count(52)


def test_the_page_does_not_grow_without_end(page: Page, stage: Stage) -> None:
    page.goto(f"{stage.url}/#/topics/page_views")
    expect(page.locator(ROWS)).to_have_count(50)
    for start in range(0, 1200, 300):
        stage.send("page_views", *({"user": n, "url": f"/many/{n}"} for n in range(start, start + 300)))
    expect(page.locator(ROWS).first).to_contain_text("/many/1199")
    expect(page.locator(ROWS)).to_have_count(500)


def test_go_to_an_offset_a_time_and_back(page: Page, stage: Stage) -> None:
    page.goto(f"{stage.url}/#/topics/page_views")
    expect(page.locator(ROWS)).to_have_count(50)
    page.get_by_label("Where to go").select_option("An offset")
    page.get_by_label("An offset").fill("20")
    page.get_by_role("button", name="Go", exact=True).click()
    expect(page.locator(ROWS).first.locator("td").first).to_have_text("20")
    expect(page.locator(ROWS)).to_have_count(100)
    page.get_by_role("button", name="Next 100").click()
    expect(page.locator(ROWS).first.locator("td").first).to_have_text("120")
    expect(page.locator(".more")).to_contain_text("the end")
    page.get_by_label("Where to go").select_option("A time")
    page.get_by_label("Local time").fill("2020-01-01T00:00:00")
    page.get_by_role("button", name="Go", exact=True).click()
    expect(page.locator(ROWS).first.locator("td").first).to_have_text("0")
    page.get_by_role("button", name="Back to live").click()
    expect(page.locator(ROWS)).to_have_count(50)


def test_filter(page: Page, stage: Stage) -> None:
    page.goto(f"{stage.url}/#/topics/page_views")
    expect(page.locator(ROWS)).to_have_count(50)
    page.get_by_label("Column").select_option("url")
    page.get_by_label("Comparison").select_option("contains")
    page.get_by_label("Value").fill("special")
    page.get_by_role("button", name="Add").click()
    expect(page.locator(".empty")).to_contain_text("No record matches all conditions")
    stage.send("page_views", {"user": 1, "url": "/plain"}, {"user": 2, "url": "/special"})
    expect(page.locator(ROWS)).to_have_count(1)
    expect(page.locator(ROWS)).to_contain_text("/special")
    page.locator(".chip").click()
    expect(page.locator(ROWS)).to_have_count(50)


def test_one_record_in_full(page: Page, stage: Stage) -> None:
    stage.send("page_views", {"user": 9_007_199_254_740_993, "url": "/in/full", "_headers": {"agent": "curl"}})
    page.goto(f"{stage.url}/#/topics/page_views")
    page.locator(ROWS, has_text="/in/full").click()
    panel = page.get_by_role("dialog")
    expect(panel).to_contain_text("9007199254740993")
    expect(panel).to_contain_text("agent")
    expect(panel.locator("time").first).to_have_attribute("title", re.compile(r"\d{4}"))
    page.keyboard.press("Escape")
    expect(panel).to_have_count(0)


def test_a_deleted_row(page: Page, stage: Stage) -> None:
    stage.send("shop.customers", {"id": 3, "_deleted": True})
    page.goto(f"{stage.url}/#/topics/shop.customers")
    expect(page.locator("tr.deleted")).to_contain_text("deleted")
    page.locator("tr.deleted").click()
    expect(page.get_by_role("dialog")).to_contain_text("tombstone")


def test_schema_partitions_and_groups(page: Page, stage: Stage) -> None:
    page.goto(f"{stage.url}/#/topics/shop.customers/schema")
    expect(page.locator(".version")).to_have_count(2)
    expect(page.locator(".version").first).to_contain_text("+ country")
    page.goto(f"{stage.url}/#/topics/shop.orders/partitions")
    expect(page.get_by_role("region", name="Partitions").locator("tbody tr")).to_have_count(2)
    page.goto(f"{stage.url}/#/topics/page_views/partitions")
    expect(page.locator("main")).to_contain_text("7 days")
    expect(page.locator("main")).to_contain_text("rejected")
    page.goto(f"{stage.url}/#/topics/page_views/groups")
    expect(page.get_by_role("region", name="Groups")).to_contain_text("recommendations")
    page.goto(f"{stage.url}/#/topics/pushes/groups")
    expect(page.locator(".empty")).to_contain_text("No group reads this topic")


def test_markup_in_a_record_stays_text(page: Page, stage: Stage) -> None:
    stage.send("page_views", {"user": 1, "url": "<img src=x onerror=alert(1)>"})
    page.goto(f"{stage.url}/#/topics/page_views")
    expect(page.locator(ROWS).first).to_contain_text("<img src=x onerror=alert(1)>")
    assert page.locator("main img").count() == 0


def test_send_a_test_event(page: Page, stage: Stage) -> None:
    page.goto(f"{stage.url}/#/send/page_views")
    page.get_by_role("button", name="Send", exact=True).click()
    expect(page.locator(".sent")).to_contain_text("Durable at position")
    stage.publish(stage.revenue("DE"))
    expect(page.locator(".sent")).to_contain_text("later the views had seen it")
    page.get_by_label("Record, or a list of records, as JSON").fill('{"user": "nobody"}')
    page.get_by_role("button", name="Send", exact=True).click()
    expect(page.locator(".sent")).to_contain_text("1 did not fit")
    page.get_by_label("Topic").select_option("shop.orders")
    # An example comes into the field while it is empty.
    expect(page.get_by_label("Record, or a list of records, as JSON")).to_have_value(re.compile("amount"))
    page.get_by_label("Record, or a list of records, as JSON").fill('{"id": 1, "amount": "much"}')
    page.get_by_role("button", name="Send", exact=True).click()
    expect(page.locator(".failure")).to_be_visible()
    expect(page.get_by_role("region", name="Records that do not fit")).to_contain_text("amount")
    page.get_by_label("Record, or a list of records, as JSON").fill("{")
    page.get_by_role("button", name="Send", exact=True).click()
    expect(page.locator(".failure")).to_contain_text("not JSON")

"""Queries in a browser: SQL over views and topics, its rows, and what is wrong with it."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tests.console.stage import Stage


def test_a_query_is_written_run_and_answered(page: Page, stage: Stage) -> None:
    page.goto(f"{stage.url}/#/query")
    field = page.get_by_label("SQL")
    expect(field).to_have_value("SELECT * FROM revenue LIMIT 100")
    field.fill("SELECT country, orders FROM  ORDER BY country")
    field.evaluate("(field) => field.setSelectionRange(28, 28)")
    page.get_by_role("button", name="revenue", exact=True).click()
    expect(field).to_have_value("SELECT country, orders FROM revenue ORDER BY country")
    page.get_by_role("button", name="Run").click()
    rows = page.get_by_role("region", name="Rows").locator("tbody tr")
    expect(rows).to_have_count(8)
    expect(page.locator("main")).to_contain_text("8 rows at position")
    rows.first.click()
    expect(page.get_by_role("dialog", name="Row")).to_contain_text('"country": "AT"')
    # What was written stays.
    page.goto(f"{stage.url}/#/topics")
    expect(page.locator("h1")).to_have_text("Topics")
    page.goto(f"{stage.url}/#/query")
    expect(rows).to_have_count(8)


def test_a_topic_is_read_and_a_mistake_is_explained(page: Page, stage: Stage) -> None:
    page.goto(f"{stage.url}/#/query")
    page.get_by_label("SQL").fill("SELECT count(*) AS views FROM page_views")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("region", name="Rows").locator("tbody tr")).to_have_count(1)
    page.get_by_label("SQL").fill("SELECT country FROM revenues")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("alert")).to_contain_text("revenues")
    page.get_by_label("SQL").fill("SELECT range(2000000000)")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("alert")).to_contain_text("query_")

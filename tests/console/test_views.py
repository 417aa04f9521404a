"""Views in a browser: rows that change before one's eyes, what is behind them, and whether they are right."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, expect

from headwater.errors import UsageError
from headwater.log.embedded.position import commit_of
from tests.console.stage import Stage, staged

ROWS = "tr[data-row]"


def test_changed_cells_flash_without_a_reload(page: Page, stage: Stage) -> None:
    page.goto(f"{stage.url}/#/views/revenue")
    expect(page.locator(ROWS)).to_have_count(8)
    page.evaluate("window.sameDocument = true")
    orders = stage.content["revenue"]["DE"][1]
    stage.publish({"revenue": [("DE", orders, Decimal("123456.78"))]})
    row = page.locator(ROWS, has_text="DE")
    expect(row.locator(".flash")).to_have_text("123456.78")
    expect(row.locator(".flash")).to_have_count(1)
    stage.publish({"revenue": [("PT", 1, Decimal("9.00"))]})
    expect(page.locator(f"{ROWS}.fresh")).to_contain_text("PT")
    stage.publish({"revenue": [("PT",)]})
    expect(page.locator(ROWS)).to_have_count(8)
    assert page.evaluate("window.sameDocument")


def test_rows_are_ordered_filtered_and_shown_in_full(page: Page, stage: Stage) -> None:
    page.goto(f"{stage.url}/#/views/revenue")
    expect(page.locator(ROWS)).to_have_count(8)
    # Twice, faster than the server answers.
    page.get_by_role("button", name="country").dblclick()
    expect(page.locator("th[aria-sort=descending]")).to_contain_text("country")
    expect(page.locator(ROWS).first).to_contain_text("SE")
    page.get_by_label("Value").fill("FR")
    page.get_by_label("Value").press("Enter")
    expect(page.locator(ROWS)).to_have_count(1)
    page.locator(ROWS).click()
    expect(page.get_by_role("dialog")).to_contain_text('"country": "FR"')


def test_a_large_view_is_shown_page_by_page(page: Page, stage: Stage) -> None:
    stage.publish({"visits": [(f"/page/{number:04}", number) for number in range(3000)]})
    page.goto(f"{stage.url}/#/views/visits")
    page.get_by_role("button", name="url").click()
    expect(page.locator(".more")).to_contain_text("1\u201350 of 3,006")
    page.get_by_role("button", name="Next").click()
    expect(page.locator(ROWS).first).to_contain_text("/page/0050")
    expect(page.locator(ROWS)).to_have_count(50)


def test_changes_as_they_happen(page: Page, stage: Stage) -> None:
    page.goto(f"{stage.url}/#/views/revenue/changes")
    expect(page.locator(".empty")).to_contain_text("Nothing has changed since you opened this page")
    position = commit_of(stage.app.log.position())
    stage.publish(stage.revenue("IT"))
    table = page.get_by_role("region", name="Changes")
    expect(table.locator("tbody tr")).to_have_count(2)
    expect(table.locator(".badge")).to_have_text(["+1", "\u22121"])
    expect(table.locator("tbody tr").first).to_contain_text(str(position + 1))
    page.get_by_role("button", name="Pause").click()
    stage.publish(stage.revenue("IT"))
    expect(page.get_by_role("button", name="Resume (2 new)")).to_be_visible()
    expect(table.locator("tbody tr")).to_have_count(2)
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Resume").click()
    expect(table.locator("tbody tr")).to_have_count(4)


def test_sql_and_operators(page: Page, stage: Stage) -> None:
    page.goto(f"{stage.url}/#/views/revenue/definition")
    expect(page.locator(".sql")).to_contain_text("JOIN shop.customers")
    expect(page.locator(".sql-word", has_text="GROUP")).to_be_visible()
    graph = page.locator(".graph")
    expect(graph.locator(".graph-node")).to_have_count(7)
    expect(graph.locator(".graph-heading")).to_have_text(["Log", "Level 1", "Level 2", "Level 3", "Level 4"])
    expect(graph).to_contain_text("inner join on customer")
    expect(page.get_by_role("region", name="Operators")).to_contain_text("adds up count(*), sum(amount)")


def test_state_and_history(page: Page, stage: Stage) -> None:
    page.goto(f"{stage.url}/#/views/revenue/history")
    positions = page.get_by_role("region", name="Positions").locator("tbody tr")
    before = len(stage.client.get("/views/revenue/definition").json()["batches"])
    expect(positions).to_have_count(before)
    expect(page.locator(".chart", has_text="Freshness of each batch").locator(".chart-line")).to_have_count(1)
    stage.publish(stage.revenue("ES"))
    expect(positions).to_have_count(before + 1)
    figures = page.locator(".figures")
    expect(figures.locator("div", has_text="State of operators").locator("dd")).to_contain_text("kB")


def test_verify_shows_its_result_and_when(page: Page, stage: Stage) -> None:
    page.goto(f"{stage.url}/#/views/revenue")
    expect(page.locator(".verify")).to_contain_text("Never verified")
    page.get_by_role("button", name="Verify").click()
    expect(page.locator(".verify")).to_contain_text("8 rows equal to the batch query")
    expect(page.locator(".verify time")).to_have_text(re.compile("now|ago"))
    page.goto(f"{stage.url}/#/views")
    expect(page.locator(ROWS, has_text="best_countries")).to_contain_text("never")
    expect(page.locator(ROWS).first).to_contain_text("right")


def test_a_verification_that_finds_something_or_fails(page: Page, tmp_path: Path) -> None:
    found: dict[str, Any] = {
        "position": "12", "rows": 8, "equal": False, "doubles_within": 1e-9, "differences": 1,
        "examples": [{"surplus": -1, "row": {"country": "DE", "orders": 3, "revenue": "7.00"}}],
    }  # fmt: skip

    def verify(view: str) -> dict[str, object]:
        if view == "visits":
            raise UsageError("The views' definitions have changed.", hint="Run the application first.")
        return found

    with staged(tmp_path, verify=verify) as stage:
        page.goto(f"{stage.url}/#/views/revenue")
        page.get_by_role("button", name="Verify").click()
        expect(page.locator(".verify")).to_contain_text("differs")
        expect(page.locator(".verify td").first).to_have_text("1 missing")
        page.goto(f"{stage.url}/#/views/visits")
        page.get_by_role("button", name="Verify").click()
        expect(page.locator(".verify .failure")).to_contain_text("Run the application first.")


def test_a_view_that_is_not_built_yet_appears_when_it_is(page: Page, tmp_path: Path) -> None:
    with staged(tmp_path, filled=False, published=False) as stage:
        page.goto(f"{stage.url}/#/views/revenue")
        expect(page.locator(".empty")).to_contain_text("not built yet")
        stage.publish({"revenue": [("DE", 1, Decimal("5.00"))]})
        expect(page.locator(ROWS)).to_have_count(1)

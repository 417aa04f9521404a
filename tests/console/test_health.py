"""What the console shows when something that should run does not: pipeline, capture, and views that are left out."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tests.console.stage import Stage

ROWS = "tr[data-row]"


def test_a_pipeline_that_does_not_run_is_seen_on_every_page(page: Page, stage: Stage) -> None:
    page.goto(f"{stage.url}/#/pipelines")
    figures = page.locator(".figures").first
    expect(figures).to_contain_text("process")
    expect(page.locator(".top .badge")).to_have_text("up to date")
    stage.pipeline.end()
    expect(page.locator(".top .badge")).to_have_text("not running")
    expect(page.locator(".side .badge.bad")).to_have_text("down")
    expect(page.locator(".problem")).to_contain_text("The pipeline is not running")
    expect(figures).to_contain_text("ended")
    page.goto(f"{stage.url}/#/flow")
    expect(page.locator(".failure")).to_contain_text("The pipeline is not running")


def test_a_capture_that_does_not_run_is_never_up_to_date(page: Page, stage: Stage) -> None:
    page.goto(f"{stage.url}/#/capture")
    expect(page.locator(".figures").first).to_contain_text("streaming")
    stage.capture.end()
    expect(page.locator(".top .badge")).to_have_text("capture not running")
    expect(page.locator(".alarm")).to_contain_text("The capture is not running. It ended")
    expect(page.locator(".figures").first).to_contain_text("not running")


def test_a_view_that_is_not_kept_says_why(page: Page, stage: Stage) -> None:
    reason = "Spark cannot run it."
    stage.told["not_kept"] = {"orders_waiting": reason}
    stage.pipeline.beat()
    page.goto(f"{stage.url}/#/pipelines")
    expect(page.locator(".alarm")).to_contain_text(f"View orders_waiting is not kept up to date: {reason}")
    expect(page.locator(".side .badge.bad")).to_have_text("1")
    page.goto(f"{stage.url}/#/views")
    expect(page.locator(ROWS, has_text="orders_waiting")).to_contain_text("not kept")
    page.goto(f"{stage.url}/#/views/orders_waiting")
    expect(page.locator(".alarm")).to_contain_text(reason)

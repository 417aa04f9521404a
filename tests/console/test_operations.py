"""Dead letters, captures, pipelines, signing in, and a connection that is lost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from playwright.sync_api import Page, expect

from headwater.engine.publication import BatchCommit
from headwater.server.tokens import Scope, Tokens
from tests.console.stage import Stage, staged

ROWS = "tr[data-row]"


def test_a_dead_letter_is_mended_and_sent_again(page: Page, stage: Stage) -> None:
    page.goto(f"{stage.url}/#/dead-letters")
    expect(page.locator(ROWS)).to_have_count(3)
    expect(page.locator(".side .badge.warn")).to_have_text("3")
    page.locator(ROWS, has_text="nobody").click()
    panel = page.get_by_role("dialog")
    field = panel.locator("textarea")
    expect(field).to_have_value('{\n  "user": "nobody",\n  "url": "/product/1"\n}')
    field.fill("not JSON")
    panel.get_by_role("button", name="Send again").click()
    expect(panel.locator(".failure")).to_contain_text("not JSON")
    field.fill('{"user": 5, "url": "/mended"}')
    panel.get_by_role("button", name="Send again").click()
    expect(panel.get_by_role("status")).to_contain_text("sent again")
    page.keyboard.press("Escape")
    expect(page.locator(ROWS)).to_have_count(2)
    expect(page.locator(".side .badge.warn")).to_have_text("2")
    assert [record.value["url"] for record in stage.app.log.read("page_views") if record.value][-1] == "/mended"
    page.get_by_role("button", name="Sent again").click()
    expect(page.locator(ROWS)).to_have_count(1)


def test_a_dead_letter_is_discarded(page: Page, stage: Stage) -> None:
    page.goto(f"{stage.url}/#/dead-letters")
    page.locator(ROWS, has_text="refused by revenue").click()
    panel = page.get_by_role("dialog")
    expect(panel).to_contain_text("Division by zero.")
    panel.get_by_role("button", name="Discard").click()
    expect(panel.get_by_role("status")).to_contain_text("discarded")
    assert stage.client.get("/dead-letters").json()["counts"]["discarded"] == 1
    panel.get_by_role("button", name="Close").click()
    expect(page.locator(ROWS)).to_have_count(2)


def test_a_new_dead_letter_appears_by_itself(page: Page, stage: Stage) -> None:
    page.goto(f"{stage.url}/#/dead-letters")
    expect(page.locator(ROWS)).to_have_count(3)
    stage.send("page_views", {"user": "another"})
    expect(page.locator(ROWS)).to_have_count(4)
    expect(page.locator(".side .badge.warn")).to_have_text("4")


def test_capture(page: Page, stage: Stage) -> None:
    page.goto(f"{stage.url}/#/capture")
    expect(page.locator("main")).to_contain_text("streaming")
    expect(page.locator(".figures")).to_contain_text("1.8 MB")
    expect(page.get_by_role("region", name="Schema history").locator("tbody tr").first).to_contain_text("altered")
    now = stage.database.status_now
    stage.database.status_now = replace(
        now, phase="snapshot", blocks_read=300, blocks_total=1200, alarms=("no process captures it",), active=False
    )
    expect(page.locator("main")).to_contain_text("300 of 1,200 blocks read")
    assert page.locator("progress").evaluate("bar => bar.position") == 0.25
    expect(page.locator(".alarm")).to_contain_text("no process captures it")


def test_batches_of_the_pipeline(page: Page, stage: Stage) -> None:
    page.goto(f"{stage.url}/#/pipelines")
    batches = page.get_by_role("region", name="Batches").locator("tbody tr")
    newest = str(stage.driver.batch)
    expect(batches.first.locator("td").first).to_have_text(newest)
    stage.publish(stage.revenue("NL"), seconds=2.5)
    expect(batches.first).to_contain_text("2.5 s")
    expect(page.get_by_role("region", name="State")).to_contain_text("operator 5/left")


def test_changed_views_are_compared_and_switched_to(page: Page, stage: Stage) -> None:
    store, current = stage.driver.store, stage.driver.store.generation(stage.driver.generation)
    built = store.open_generation("changed", current.definition)
    runs = store.runs(current.id)["view/revenue"]
    store.commit(BatchCommit(built.id, stage.driver.epoch, 1, current.position, runs))
    page.goto(f"{stage.url}/#/pipelines")
    changed = page.get_by_role("region", name="Changed views").first
    expect(page.locator("main")).to_contain_text("Up to date at position")
    changed.locator("tr", has_text="revenue").get_by_role("button", name="Compare").click()
    expect(changed.locator("tr", has_text="revenue").locator("td").nth(1)).to_have_text("0")
    page.get_by_role("button", name="Switch to them").click()
    expect(page.get_by_role("button", name="Roll back")).to_be_enabled()
    assert store.generation(built.id).status == "current"
    page.get_by_role("button", name="Discard the former versions").click()
    expect(page.get_by_role("button", name="Roll back")).to_have_count(0)


@contextmanager
def guarded(directory: Path) -> Iterator[tuple[Stage, dict[Scope, str]]]:
    with staged(directory) as stage:
        scopes: tuple[Scope, ...] = ("read", "admin")
        made = {scope: Tokens(stage.app.directory).create(scope, scope) for scope in scopes}
        stage.service.tokens.refresh()
        yield stage, made


def test_signing_in(page: Page, tmp_path: Path) -> None:
    with guarded(tmp_path) as (stage, tokens):
        page.goto(f"{stage.url}/#/views/revenue")
        page.get_by_label("Token").fill("hw_read_guess")
        page.get_by_role("button", name="Sign in").click()
        expect(page.locator(".failure")).to_contain_text("The token is not known.")
        page.get_by_label("Token").fill(tokens["read"])
        page.get_by_role("button", name="Sign in").click()
        expect(page.locator("h1")).to_have_text("revenue")
        expect(page.locator(ROWS)).to_have_count(8)
        expect(page.get_by_role("button", name="Verify")).to_be_disabled()
        assert page.evaluate("document.cookie") == "", "no script can read the token"
        page.reload()
        expect(page.locator("h1")).to_have_text("revenue")
        page.get_by_role("button", name="Sign out").click()
        expect(page.locator("h1")).to_have_text("Sign in")
        page.get_by_label("Token").fill(tokens["admin"])
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("button", name="Verify")).to_be_enabled()


def test_a_token_that_is_revoked_leads_back_to_signing_in(page: Page, tmp_path: Path) -> None:
    with guarded(tmp_path) as (stage, tokens):
        page.goto(stage.url)
        page.get_by_label("Token").fill(tokens["read"])
        page.get_by_role("button", name="Sign in").click()
        expect(page.locator("h1")).to_have_text("Flow")
        Tokens(stage.app.directory).revoke("read")
        stage.service.tokens.refresh()
        page.locator(".side a", has_text="Topics").click()
        expect(page.locator("h1")).to_have_text("Sign in")


def test_a_lost_connection_is_shown_and_resumed(page: Page, tmp_path: Path) -> None:
    with staged(tmp_path) as stage:
        port = stage.server.port
        page.goto(f"{stage.url}/#/topics/page_views")
        expect(page.locator(ROWS)).to_have_count(50)
    expect(page.locator(".top")).to_contain_text("Connection lost")
    expect(page.locator(ROWS)).to_have_count(50)
    with staged(tmp_path, filled=False, port=port) as stage:
        stage.send("page_views", {"user": 1, "url": "/after/all"})
        expect(page.locator(".top")).not_to_contain_text("Connection lost")
        expect(page.locator(ROWS).first).to_contain_text("/after/all")
        expect(page.locator(ROWS)).to_have_count(51)

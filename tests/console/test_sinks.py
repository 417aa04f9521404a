"""Sinks in a browser: their lag, paused and resumed, audited and repaired, and the rows that a target refuses."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.console.stage import Stage
from tests.console.sunk import REFUSED, Reports, sunk
from tests.webhooks.receiver import until


@pytest.fixture
def target(stage: Stage) -> Iterator[Reports]:
    with sunk(stage) as made:
        yield made


def test_sinks_are_listed_and_lead_to_one(page: Page, stage: Stage, target: Reports) -> None:
    page.goto(f"{stage.url}/#/sinks")
    row = page.locator("tr[data-row]", has_text="report")
    expect(row).to_contain_text("up to date")
    expect(row).to_contain_text(target.address)
    expect(page.locator("tr[data-row]")).to_have_count(2)
    row.click()
    expect(page.locator("h1")).to_have_text("report")
    expect(page.locator(".figures")).to_contain_text("revenue")
    expect(page.locator(".chart")).to_contain_text("Lag")
    page.goto(f"{stage.url}/#/flow")
    node = page.locator("[data-node='sink:report']")
    expect(node).to_contain_text("lag 0")
    node.click()
    expect(page.locator("h1")).to_have_text("report")


def test_a_sink_is_paused_and_resumed(page: Page, stage: Stage, target: Reports) -> None:
    page.goto(f"{stage.url}/#/sinks/report")
    page.get_by_role("button", name="Pause").click()
    expect(page.locator(".figures")).to_contain_text("paused")
    stage.publish(stage.revenue("DE"))
    expect(page.locator(".figures")).to_contain_text(re.compile(r"Lag\s*[1-9]"))
    page.get_by_role("button", name="Resume").click()
    expect(page.locator(".figures")).to_contain_text("up to date")
    assert target.held["DE"]["orders"] == stage.content["revenue"]["DE"][1]


def test_a_target_that_fails_says_why(page: Page, stage: Stage, target: Reports) -> None:
    target.failure = "It has no room"
    stage.publish(stage.revenue("DE"))
    page.goto(f"{stage.url}/#/sinks/report")
    expect(page.locator(".figures")).to_contain_text("retrying")
    expect(page.locator("main")).to_contain_text("It has no room")
    target.failure = None
    page.get_by_role("button", name="Retry now").click()
    expect(page.locator(".figures")).to_contain_text("up to date")


def test_a_target_is_audited_and_repaired(page: Page, stage: Stage, target: Reports) -> None:
    page.goto(f"{stage.url}/#/sinks/report")
    expect(page.locator(".verify")).to_contain_text("Never audited")
    page.get_by_role("button", name="Audit").click()
    expect(page.locator(".verify")).to_contain_text("equal")
    target.corrupt()
    page.get_by_role("button", name="Audit").click()
    expect(page.locator(".verify")).to_contain_text("3 keys")
    keys = page.get_by_role("region", name="Keys that differ")
    expect(keys.locator("tbody tr")).to_have_count(3)
    expect(keys).to_contain_text("only in the target")
    page.get_by_role("button", name="Repair exactly these rows").click()
    expect(page.locator(".verify")).to_contain_text("repaired")
    assert target.held.keys() == stage.content["revenue"].keys() - {REFUSED}


def test_a_refused_row_is_fixed_and_sent_again(page: Page, stage: Stage, target: Reports) -> None:
    page.goto(f"{stage.url}/#/sinks/report")
    letters = page.get_by_role("region", name="Dead letters")
    expect(letters).to_contain_text("no_revenue_of_nl")
    letters.locator("tr[data-row]").first.click()
    panel = page.get_by_role("dialog")
    expect(panel).to_contain_text("refused by report")
    panel.get_by_role("button", name="Send again").click()
    expect(panel.get_by_role("alert")).to_contain_text("The target refuses the row again")
    target.refuses = False
    panel.get_by_role("button", name="Send again").click()
    expect(panel.get_by_role("status")).to_contain_text("sent again")
    assert REFUSED in target.held


def test_a_sink_is_reset_when_it_was_said_twice(page: Page, stage: Stage, target: Reports) -> None:
    target.corrupt()
    page.goto(f"{stage.url}/#/sinks/report")
    page.get_by_role("button", name="Reset").click()
    page.get_by_role("button", name="Deliver the content again").click()
    expected = stage.content["revenue"].keys() - {REFUSED}
    until(lambda: target.held.keys() == expected and stage.app.sinks["report"].status().position is not None)
    page.get_by_role("button", name="Audit").click()
    expect(page.locator(".verify")).to_contain_text("equal")

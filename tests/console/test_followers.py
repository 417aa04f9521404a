"""Followers in a browser: who holds what, what was missed, and released after it was asked for twice."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.console.followed import LOST, follow
from tests.console.stage import Stage


@pytest.fixture(autouse=True)
def followers(stage: Stage) -> None:
    follow(stage)


def test_followers_are_listed_with_what_they_missed(page: Page, stage: Stage) -> None:
    page.goto(f"{stage.url}/#/flow")
    page.get_by_role("navigation", name="Pages").get_by_role("link", name="Followers").click()
    rows = page.get_by_role("region", name="Followers", exact=True).locator("tbody tr")
    expect(rows).to_have_count(4)
    expect(rows.filter(has_text="shop/1/base")).to_contain_text("base")
    expect(rows.filter(has_text=LOST)).to_contain_text("2 missed")
    expect(page.get_by_role("region", name="Missed records").locator("tbody tr")).to_contain_text("hold_bytes_max is 0")
    rows.get_by_role("link", name="recommendations").click()
    expect(page.locator("h1")).to_have_text("recommendations")


def test_one_that_no_longer_exists_is_released(page: Page, stage: Stage) -> None:
    page.goto(f"{stage.url}/#/followers")
    page.get_by_role("button", name=f"Release {LOST}").click()
    page.get_by_role("button", name="Keep it").click()
    assert stage.app.log.followers.find(LOST) is not None
    page.get_by_role("button", name=f"Release {LOST}").click()
    page.get_by_role("button", name="Release it").click()
    expect(page.get_by_role("status").filter(has_text=f"Nothing is kept for {LOST}")).to_be_visible()
    expect(page.get_by_role("region", name="Missed records")).to_have_count(0)
    assert stage.app.log.followers.find(LOST) is None

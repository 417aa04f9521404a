"""Groups in a browser: who reads, how far behind, moved to another place and deleted."""

from __future__ import annotations

import re
from datetime import timedelta

from playwright.sync_api import Page, expect

from tests.console.stage import Stage

GROUP = "recommendations"


def test_groups_are_listed_and_lead_to_one(page: Page, stage: Stage) -> None:
    page.goto(f"{stage.url}/#/groups")
    row = page.locator("tr[data-row]", has_text=GROUP)
    expect(row).to_contain_text("page_views")
    expect(row).to_contain_text("none")
    row.click()
    expect(page.locator("h1")).to_have_text(GROUP)
    expect(page.get_by_role("region", name="Partitions").locator("tbody tr")).to_have_count(1)
    expect(page.locator("main")).to_contain_text("No member is reading")


def test_a_group_is_moved_after_it_was_shown_where_to(page: Page, stage: Stage) -> None:
    log = stage.app.log
    [before] = log.lag(GROUP)
    page.goto(f"{stage.url}/#/groups/{GROUP}")
    page.get_by_role("button", name="Preview").click()
    moves = page.get_by_role("region", name="Old and new offsets")
    expect(moves.locator("tbody tr")).to_contain_text(re.compile("records? again"))
    assert log.lag(GROUP)[0].offset == before.offset
    page.get_by_role("button", name="Move the group").click()
    expect(page.get_by_role("status").filter(has_text="Moved in 1 partition")).to_be_visible()
    assert log.lag(GROUP)[0].offset == 0
    page.get_by_label("Where to move it").select_option("An offset")
    page.get_by_label("An offset").fill("7")
    page.get_by_role("button", name="Preview").click()
    expect(moves.locator("tbody tr")).to_contain_text("7 records skipped")
    page.get_by_label("An offset").fill("1000000")
    expect(moves).to_have_count(0)
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_role("alert")).to_contain_text("not 1000000")
    assert log.lag(GROUP)[0].offset == 0


def test_members_are_shown_and_continue_from_there(page: Page, stage: Stage) -> None:
    log = stage.app.log
    with log.consumer("page_views", group=GROUP, member="worker-1") as consumer:
        while consumer.poll(timedelta(seconds=1)) is not None:
            consumer.commit()
        page.goto(f"{stage.url}/#/groups/{GROUP}")
        expect(page.get_by_role("region", name="Members")).to_contain_text("worker-1")
        page.get_by_role("button", name="Preview").click()
        expect(page.locator("main")).to_contain_text("1 active member")
        page.get_by_role("button", name="Move it despite its members").click()
        expect(page.get_by_role("status").filter(has_text="Moved in 1 partition")).to_be_visible()
        batch = consumer.poll(timedelta(seconds=20))
        assert batch is not None
        assert batch.records["_offset"][0].as_py() == 0


def test_a_group_is_deleted_when_it_was_said_twice(page: Page, stage: Stage) -> None:
    page.goto(f"{stage.url}/#/groups/{GROUP}")
    page.get_by_role("button", name="Delete the group").click()
    page.get_by_role("button", name="Keep it").click()
    page.get_by_role("button", name="Delete the group").click()
    page.get_by_role("button", name="Delete its offsets for good").click()
    expect(page.locator(".empty")).to_contain_text("There are no consumer groups yet")
    assert stage.app.log.groups() == []

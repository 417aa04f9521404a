"""Makes the pictures of the console in docs/pictures/console: `make pictures`.

Every page, light and dark, with data; what is said where there is nothing, and where something is wrong; and on a
phone. The application is the one of the console's tests, which needs no Spark.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from playwright.sync_api import Browser, Page, expect, sync_playwright

from headwater.errors import RecordFailed
from headwater.server.service import Running
from tests.console.alerting import alarm
from tests.console.chromium import chromium
from tests.console.followed import follow
from tests.console.stage import Stage, empty_stage, staged
from tests.console.sunk import sunk

PICTURES = Path(__file__).parents[1] / "docs" / "pictures" / "console"
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
SETTLE_SECONDS = 2.0
TRAFFIC_SECONDS = 30
"""So long something happens before the first picture, so that charts have something to show."""

PAGES = {
    "flow": "flow",
    "topics": "topics",
    "topic": "topics/page_views",
    "topic-schema": "topics/shop.customers/schema",
    "topic-partitions": "topics/shop.orders/partitions",
    "topic-groups": "topics/page_views/groups",
    "views": "views",
    "view": "views/revenue",
    "view-changes": "views/revenue/changes",
    "view-definition": "views/revenue/definition",
    "view-history": "views/revenue/history",
    "groups": "groups",
    "group": "groups/recommendations",
    "sinks": "sinks",
    "sink": "sinks/report",
    "alerts": "alerts",
    "dead-letters": "dead-letters",
    "dead-letter": "dead-letters/rejected~0~0",
    "capture": "capture",
    "pipelines": "pipelines",
    "send": "send/page_views",
}
EMPTY = (
    "flow",
    "topics",
    "views",
    "groups",
    "followers",
    "sinks",
    "alerts",
    "dead-letters",
    "capture",
    "pipelines",
    "send",
)
WRONG = {
    "flow": "flow",
    "topic": "topics/nope",
    "view": "views/nope",
    "capture": "capture",
    "pipelines": "pipelines",
    "view-verify": "views/revenue",
}
PHONE = ("flow", "topic", "view", "alerts", "dead-letters", "pipelines")


QUERY = "SELECT country, orders, revenue\nFROM revenue\nWHERE orders > 2\nORDER BY revenue DESC"


class Camera:
    """Takes pictures of one console, in both schemes."""

    def __init__(
        self, browser: Browser, url: str, width: int = 1280, height: int = 860, *, folder: Path = PICTURES
    ) -> None:
        self.pages: dict[str, Page] = {}
        for scheme in SCHEMES:
            context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
            self.pages[scheme] = context.new_page()
            self.pages[scheme].goto(url)
        self._url, self._folder = url, folder

    def take(self, name: str, address: str, act: Callable[[Page], None] = lambda _: None) -> None:
        for page in self.pages.values():
            page.goto(f"{self._url}/#/{address}")
        for page in self.pages.values():
            with suppress(AssertionError):
                expect(page.locator(".loading")).to_have_count(0)
            act(page)
        # What flashes has flashed, and what waits for the next second has come.
        time.sleep(SETTLE_SECONDS)
        for scheme, page in self.pages.items():
            page.screenshot(path=self._folder / f"{name}-{scheme}.png")
        print(name, flush=True)

    def close(self) -> None:
        for page in self.pages.values():
            page.context.close()


def with_data(browser: Browser, stage: Stage) -> None:
    camera, phone = Camera(browser, stage.url), Camera(browser, stage.url, 360, 740)
    with stage.traffic():
        time.sleep(TRAFFIC_SECONDS)
        alarm(stage)
        for view in ("revenue", "visits"):
            stage.client.post(f"/views/{view}/verify")
        for name, address in PAGES.items():
            camera.take(name, address)
        camera.take("record", "topics/page_views", lambda page: page.locator("tr[data-row]").nth(4).click())
        camera.take("group-move", PAGES["group"], lambda page: page.get_by_role("button", name="Preview").click())
        camera.take("query", "query", ask)
        camera.take("keys", "flow", lambda page: page.keyboard.press("?"))
        follow(stage)
        camera.take("followers", "followers")
        for name in PHONE:
            phone.take(f"phone-{name}", PAGES[name])
    camera.close()
    phone.close()


def ask(page: Page) -> None:
    """Runs a query."""
    page.get_by_label("SQL").fill(QUERY)
    page.get_by_role("button", name="Run").click()


def with_an_error(browser: Browser, stage: Stage, running: Running) -> None:
    running.failure, running.failed_at = (
        RecordFailed("revenue", "shop.orders", 1, 7, "Division by zero."),
        datetime.now(UTC),
    )
    now = stage.database.status_now
    stage.database.status_now = replace(
        now, active=False, bytes_retained=1_200_000_000, alarms=("no process captures it",), seconds_behind=93.0
    )
    camera = Camera(browser, stage.url)
    stage.client.post("/views/revenue/verify")
    for name, address in WRONG.items():
        camera.take(f"{name}-error", address)
    stage.server.stop()
    camera.take("lost-error", "views")
    camera.close()


def main() -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    right = {"position": "42", "rows": 8, "equal": True, "doubles_within": 1e-9, "differences": 0, "examples": []}
    example = {"surplus": -1, "row": {"country": "DE", "orders": 3, "revenue": "7.00"}}
    wrong = {**right, "equal": False, "differences": 1, "examples": [example]}
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as directory:
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        with staged(Path(directory) / "full", verify=lambda _: dict(right)) as stage, sunk(stage) as target:
            target.corrupt()
            stage.client.post("/sinks/report/audit")
            with_data(browser, stage)
        with empty_stage(Path(directory) / "empty") as server:
            camera = Camera(browser, server.url)
            for name in EMPTY:
                camera.take(f"{name}-empty", name)
            camera.close()
        running = Running(runs_here=True)
        with staged(Path(directory) / "wrong", verify=lambda _: dict(wrong), running=running) as stage:
            with_an_error(browser, stage, running)
        with staged(Path(directory) / "guarded", filled=False) as stage:
            stage.service.tokens.create("reader", "read")
            camera = Camera(browser, stage.url)
            camera.take("sign-in", "flow")
            camera.close()
        browser.close()


if __name__ == "__main__":
    main()

"""Chromium, and a page of it for each test, on which nothing may go wrong unnoticed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright

from headwater.server.queries import pool
from tests.console.chromium import chromium
from tests.console.stage import Stage, staged

# Sizes on disk are looked at every ten seconds, and machines may be busy.
SECONDS_MAX = 40
# An answer that is an error is what some tests are about; the browser notes each of them.
EXPECTED = ("Failed to load resource", "net::ERR_")


expect.set_options(timeout=SECONDS_MAX * 1000)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """Fails the test if the console reports an error: a bug, or something that its policy forbids."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    opened = context.new_page()
    opened.set_default_timeout(SECONDS_MAX * 1000)
    problems: list[str] = []

    def note(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not any(text in message.text for text in EXPECTED):
            problems.append(message.text)

    opened.on("console", note)
    opened.on("pageerror", lambda error: problems.append(str(error)))
    yield opened
    context.close()
    assert problems == []


@pytest.fixture(autouse=True)
def no_warm_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few pages ask queries: for the others, the server need not get processes ready."""
    monkeypatch.setattr(pool, "WARM_UP_AFTER_SECONDS", 3600.0)


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    verified = {"position": "12", "rows": 8, "equal": True, "doubles_within": 1e-9, "differences": 0, "examples": []}
    with staged(tmp_path, verify=lambda _: dict(verified)) as made:
        yield made

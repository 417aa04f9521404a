"""Makes the pictures of the README in docs/pictures from a demo that runs: `make demo-pictures`.

It breaks the demo on the way: what can be seen on the page *Break it* has happened.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import httpx
import typer
from playwright.sync_api import sync_playwright

from tests.console.chromium import chromium
from tools.screenshots import Camera

FOLDER = Path(__file__).parents[1] / "docs" / "pictures"
URL = "http://localhost:8580"
INCIDENT_SECONDS_MAX = 600
PICTURES = {
    "flow": ("flow", 1110),
    "view": ("views/revenue_by_country", 930),
    "views": ("views", 860),
    "break-it": ("break-it", 1160),
    "search": ("search", 930),
}
"""The page of each picture, and how much of it is seen."""
BROKEN = ("poison", "burst", "kill-pipeline", "stop-database", "late", "edit-report")


def broken(client: httpx.Client, action: str) -> None:
    """Does something bad to the demo, and returns when it has recovered."""
    number = client.post(f"/demo/{action}").raise_for_status().json()["number"]
    deadline = time.monotonic() + INCIDENT_SECONDS_MAX
    while time.monotonic() < deadline:
        incidents = client.get("/demo").json()["incidents"]
        state = next(one["state"] for one in incidents if one["number"] == number)
        if state == "green":
            return
        if state in ("red", "failed"):
            break
        time.sleep(0.5)
    raise SystemExit(f"error: {action} did not end well")


def main(
    url: Annotated[str, typer.Argument(help="Where the demo is.")] = URL,
    *,
    whole: Annotated[bool, typer.Option(help="Break everything first; otherwise only send late events.")] = True,
) -> None:
    """Takes the pictures, light and dark."""
    with httpx.Client(base_url=url, timeout=60) as client, sync_playwright() as playwright:
        for action in BROKEN if whole else ("late",):
            broken(client, action)
        # So that charts show more than what was broken.
        time.sleep(60 if whole else 5)
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        for name, (address, height) in PICTURES.items():
            camera = Camera(browser, url, height=height, folder=FOLDER)
            camera.take(name, address)
            camera.close()
        browser.close()


if __name__ == "__main__":
    typer.run(main)

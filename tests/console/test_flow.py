"""The flow, the frame around the pages, the keyboard, themes, phones, and what is said when there is nothing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from headwater.engine.sinks.port import Mark
from headwater.engine.sinks.progress import Progress, ProgressFile
from headwater.errors import RecordFailed
from headwater.model.position import START
from headwater.server.service import Running
from tests.console.stage import Stage, empty_stage, staged

PAGES = ("flow", "topics", "views", "groups", "alerts", "dead-letters", "capture", "pipelines", "send")
DETAILS = (
    "topics/shop.orders", "topics/shop.orders/schema", "topics/page_views/partitions", "topics/page_views/groups",
    "views/revenue", "views/revenue/changes", "views/revenue/definition", "views/revenue/history",
    "groups/recommendations",
)  # fmt: skip


def test_the_flow_shows_the_application_and_leads_into_its_parts(page: Page, stage: Stage) -> None:
    page.goto(stage.url)
    graph = page.locator(".graph")
    for name in ("shop", "github", "HTTP", "shop.orders", "page_views", "revenue", "best_countries", "recommendations"):
        expect(graph.locator(".graph-title", has_text=re.compile(f"^{re.escape(name)}$"))).to_be_visible()
    expect(graph.locator(".graph-heading")).to_have_text(["Sources", "Topics", "Views and dead letters", "Readers"])
    lefts = [graph.locator(f"[data-node='{node}']").bounding_box() for node in
             ("http:http", "topic:page_views", "view:visits", "group:recommendations")]  # fmt: skip
    xs = [box["x"] for box in lefts if box]
    assert len(xs) == 4
    assert xs == sorted(set(xs)), "from left to right"
    graph.locator("[data-node='view:revenue']").click()
    expect(page.locator("h1")).to_have_text("revenue")


def test_rates_lag_and_freshness_stand_on_the_edges(page: Page, stage: Stage) -> None:
    page.goto(stage.url)
    expect(page.locator(".graph-label", has_text=re.compile(r"lag \d"))).to_have_count(1)
    with stage.traffic(0.1):
        moving = page.locator(".graph-label.moves text", has_text=re.compile(r"[1-9].*/s · [\d.]+ m?s"))
        expect(moving.first).to_be_visible()
        expect(page.locator(".top")).to_contain_text("freshness")


def test_a_webhook_is_a_reader_that_says_why_it_is_paused(page: Page, stage: Stage) -> None:
    stage.app.webhook_out("mail", view="revenue", url="https://hooks.example.com/hush", secret="hush")
    sent = Progress(
        "revenue", Mark(START, 1), 4, None, "paused", "https://hooks.example.com answers 410 Gone", failures=1
    )
    file = ProgressFile(stage.app.directory, "mail")
    file.directory.mkdir()
    file.save(sent)
    page.goto(stage.url)
    node = page.locator("[data-node='sink:mail']")
    expect(node).to_contain_text("webhook · hooks.example.com")
    expect(node).to_contain_text(re.compile(r"✗ paused · lag [1-9]"))
    expect(node.locator("title")).to_contain_text("4 deliveries to https://hooks.example.com")
    expect(node.locator("title")).to_contain_text("answers 410 Gone")
    expect(page.locator(".graph-label.late", has_text=re.compile(r"lag [1-9]"))).to_have_count(1)
    assert "hush" not in page.content()
    node.click()
    expect(page.locator("h1")).to_have_text("mail")
    expect(page.locator(".figures")).to_contain_text("gave up")
    expect(page.locator("main")).to_contain_text("answers 410 Gone")


def test_boxes_do_not_lie_on_each_other(page: Page, stage: Stage) -> None:
    page.goto(stage.url)
    nodes = page.locator(".graph-node")
    expect(nodes.first).to_be_visible()
    boxes = [box for number in range(nodes.count()) if (box := nodes.nth(number).bounding_box())]
    assert len(boxes) >= 12
    for number, one in enumerate(boxes):
        for other in boxes[number + 1 :]:
            apart = (
                one["x"] + one["width"] <= other["x"] or other["x"] + other["width"] <= one["x"]
                or one["y"] + one["height"] <= other["y"] or other["y"] + other["height"] <= one["y"]
            )  # fmt: skip
            assert apart, (one, other)


def test_a_pipeline_that_failed_is_seen_on_every_page(page: Page, tmp_path: Path) -> None:
    running = Running(runs_here=True)
    with staged(tmp_path, running=running) as stage:
        running.failure = RecordFailed("revenue", "shop.orders", 1, 7, "Division by zero.")
        page.goto(stage.url)
        expect(page.locator(".top")).to_contain_text("failed")
        expect(page.locator(".failure")).to_contain_text("Division by zero")
        page.locator(".side a", has_text="Pipelines").click()
        expect(page.locator(".failure")).to_contain_text("on_error='dead_letter'")
        expect(page.locator(".problem a")).to_have_text("shop.orders")


def test_an_application_with_nothing_says_what_to_do(page: Page, tmp_path: Path) -> None:
    said = {
        "flow": "no topics yet", "topics": "no topics yet", "views": "no views yet", "dead-letters": "no dead letters",
        "capture": "No database is captured", "sinks": "no sinks yet",
        "pipelines": "Nothing was published yet", "send": "no topic to send to",
    }  # fmt: skip
    with empty_stage(tmp_path) as server:
        for name, text in said.items():
            page.goto(f"{server.url}/#/{name}")
            expect(page.locator(".empty").first).to_contain_text(text)


def test_what_is_not_there_says_so(page: Page, stage: Stage) -> None:
    page.goto(f"{stage.url}/#/topics/nope")
    expect(page.locator(".failure")).to_contain_text("nope")
    page.goto(f"{stage.url}/#/views/nope")
    expect(page.locator(".failure")).to_contain_text("nope")
    page.goto(f"{stage.url}/#/nowhere")
    expect(page.locator(".empty")).to_contain_text("no such page")


def test_the_keyboard(page: Page, stage: Stage) -> None:
    page.goto(stage.url)
    expect(page.locator(".graph")).to_be_visible()
    for keys, title in (("gt", "Topics"), ("gv", "Views"), ("gd", "Dead letters"), ("gc", "Capture"), ("gf", "Flow")):
        for key in keys:
            page.keyboard.press(key)
        expect(page.locator("h1")).to_have_text(title)
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog", name="Keys")).to_have_count(0)
    page.keyboard.press("g")
    page.keyboard.press("t")
    expect(page.locator("tr[data-row]")).to_have_count(6)
    page.keyboard.press("/")
    page.keyboard.type("views")
    expect(page.locator("tr[data-row]")).to_have_count(1)
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("page_views")


def test_j_and_k_go_through_a_list(page: Page, stage: Stage) -> None:
    page.goto(f"{stage.url}/#/views")
    expect(page.locator("tr[data-row]").first).to_be_visible()
    for key, place in (("j", 0), ("j", 1), ("j", 2), ("k", 1)):
        page.keyboard.press(key)
        expect(page.locator("tr[data-row]").nth(place)).to_be_focused()


def test_light_and_dark(page: Page, stage: Stage) -> None:
    back = "getComputedStyle(document.body).backgroundColor"
    page.emulate_media(color_scheme="light")
    page.goto(stage.url)
    expect(page.locator("h1")).to_be_visible()
    light = page.evaluate(back)
    page.emulate_media(color_scheme="dark")
    dark = page.evaluate(back)
    assert light != dark
    page.get_by_label("Theme").select_option("light")
    assert page.evaluate(back) == light
    page.reload()
    expect(page.locator("h1")).to_be_visible()
    assert page.evaluate(back) == light, "the choice is remembered"


CONTRAST = """() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (text) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = text;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const part = (value) => (value / 255 <= 0.03928 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4);
  const light = ([r, g, b]) => 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  const behind = (element) => {
    for (let one = element; one; one = one.parentElement) {
      const found = rgba(getComputedStyle(one).backgroundColor);
      if (found[3] > 200) return found;
    }
    return rgba("white");
  };
  const bad = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || element.closest("svg, option, :disabled, noscript, .skip")) continue;
    if (!element.checkVisibility()) continue;
    const [a, b] = [light(rgba(getComputedStyle(element).color)), light(behind(element))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const name = element.className || element.tagName;
    if (ratio < 4.5) bad.push(`${name}: ${ratio.toFixed(2)} ${walker.currentNode.data.slice(0, 30)}`);
  }
  return bad;
}"""

NAMELESS = """() => [...document.querySelectorAll("button, a[href], input, select, textarea")].filter((one) => {
  const label = one.getAttribute("aria-label") || one.textContent.trim() || one.closest("label")?.textContent.trim();
  return !label && one.checkVisibility();
}).map((one) => one.outerHTML)"""


def show(page: Page, stage: Stage, name: str) -> None:
    """Goes to a page, and waits until everything of it is there."""
    page.goto(f"{stage.url}/#/{name}")
    expect(page.locator(f"main[data-page='#/{name}']")).to_be_visible()
    expect(page.locator(".loading")).to_have_count(0)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everything_is_readable_and_has_a_name(page: Page, stage: Stage, scheme: str) -> None:
    page.emulate_media(color_scheme="light" if scheme == "light" else "dark", reduced_motion="reduce")
    for name in (*PAGES, *DETAILS):
        show(page, stage, name)
        assert page.evaluate(CONTRAST) == [], name
        assert page.evaluate(NAMELESS) == [], name


def test_a_phone_shows_every_page_without_moving_it_sideways(page: Page, stage: Stage) -> None:
    page.set_viewport_size({"width": 360, "height": 740})
    for name in (*PAGES, *DETAILS):
        show(page, stage, name)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, name
    page.goto(f"{stage.url}/#/flow")
    page.locator(".flow-list a", has_text="revenue").first.click()
    expect(page.locator("h1")).to_have_text("revenue")

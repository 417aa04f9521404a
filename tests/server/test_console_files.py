"""The console's files: who gets them, with which rules, and that they need nothing from elsewhere."""

from __future__ import annotations

import re

from headwater.server.console_files import console_files
from headwater.server.tokens import Tokens
from tests.server.shop import Shop

LINES_MAX = 500
BROWSER = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
ADDRESS = re.compile(rb"(?:https?:)?//[\w.]+\.\w+")
NAMESPACE = b"http://www.w3.org/2000/svg"


def test_a_browser_gets_the_console_and_a_program_gets_json(shop: Shop) -> None:
    page = shop.client.get("/", headers=BROWSER)
    assert page.headers["Content-Type"] == "text/html; charset=utf-8"
    assert page.headers["Vary"] == "Accept"
    assert "<title>headwater</title>" in page.text
    assert shop.client.get("/").json()["name"] == "shop"


def test_nothing_but_its_own_files_may_run(shop: Shop) -> None:
    for path in ("/", "/console/app.js", "/console/pages/flow.js", "/console/console.css", "/console/icon.svg"):
        policy = shop.client.get(path, headers=BROWSER).headers["Content-Security-Policy"]
        rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
        assert (rules["default-src"], rules["script-src"], rules["style-src"]) == ("'none'", "'self'", "'self'")
        assert (rules["frame-ancestors"], rules["base-uri"]) == ("'none'", "'none'")
        assert "unsafe" not in policy


def test_a_file_that_the_browser_has_is_not_sent_again(shop: Shop) -> None:
    first = shop.client.get("/console/app.js")
    assert first.headers["Content-Type"] == "text/javascript; charset=utf-8"
    again = shop.client.get("/console/app.js", headers={"If-None-Match": first.headers["ETag"]})
    assert (again.status_code, again.content) == (304, b"")
    changed = shop.client.get("/console/app.js", headers={"If-None-Match": '"another"'})
    assert changed.content == first.content


def test_no_other_file_is_served(shop: Shop) -> None:
    for path in (
        "/console/",
        "/console/nope.js",
        "/console/../gate.py",
        "/console/%2e%2e/gate.py",
        "/console//etc/passwd",
    ):
        refused = shop.client.get(path)
        assert refused.status_code == 404, path
        assert refused.json()["error"]["code"] == "not_found"
    assert shop.client.post("/console/app.js").status_code == 405


def test_the_files_need_no_token_and_the_data_does(shop: Shop) -> None:
    Tokens(shop.app.directory).create("reader", "read")
    shop.service.tokens.refresh()
    assert shop.client.get("/", headers=BROWSER).status_code == 200
    assert shop.client.get("/console/app.js").status_code == 200
    assert shop.client.get("/flow").status_code == 401


def test_another_host_gets_no_page(shop: Shop) -> None:
    for path in ("/", "/console/app.js"):
        assert shop.client.get(path, headers={**BROWSER, "Host": "evil.example"}).status_code == 421


def test_every_file_that_is_named_is_there() -> None:
    there = console_files()
    for name, file in there.items():
        folder = name.rpartition("/")[0]
        for found in re.findall(r'from "(\.[^"]+)"', file.content.decode()):
            parts = [part for part in (*folder.split("/"), *found.split("/")) if part not in ("", ".")]
            while ".." in parts:
                up = parts.index("..")
                del parts[up - 1 : up + 1]
            assert "/".join(parts) in there, (name, found)
    index = there["index.html"].content.decode()
    named = re.findall(r'(?:src|href)="([^"]+)"', index)
    assert named
    assert {one.removeprefix("console/") for one in named} <= there.keys()


def test_the_files_need_nothing_from_elsewhere_and_are_short() -> None:
    for name, file in console_files().items():
        text = file.content.replace(NAMESPACE, b"")
        # What follows the name of a database in an example is no address of a page.
        assert [one for one in ADDRESS.findall(text) if one.startswith(b"http")] == [], name
        assert b"innerHTML" not in text, name
        assert len(text.splitlines()) <= LINES_MAX, name
    index = console_files()["index.html"].content
    assert re.findall(rb"<script(?![^>]*src=)|<style|\son\w+=|style=", index) == []

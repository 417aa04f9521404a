"""Who may do what: addresses, tokens, cookies, other people's pages, and what is never shown."""

from __future__ import annotations

import ssl
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from headwater.app import App
from headwater.errors import UsageError
from headwater.log.embedded.position import commit_of
from headwater.server import tokens as token_module
from headwater.server.application import ENDPOINTS
from headwater.server.openapi import public_path
from headwater.server.running import Address, Server
from headwater.server.service import Service
from headwater.server.tokens import Scope, Tokens
from tests.server.shop import SECRET, Shop, following, opened

RANK = {"read": 1, "write": 2, "admin": 3}


@pytest.fixture
def guarded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Shop, dict[Scope, str]]]:
    """A shop with a token of every scope."""
    monkeypatch.setattr(token_module, "LOOK_EVERY_SECONDS", 0.05)
    with opened(tmp_path) as shop:
        scopes: tuple[Scope, ...] = ("read", "write", "admin")
        made = {scope: Tokens(shop.app.directory).create(scope, scope) for scope in scopes}
        until(lambda: len(shop.service.tokens.known()) == 3)
        yield shop, made


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 40
    while not condition():
        assert time.monotonic() < deadline, "it did not come to be in time"
        time.sleep(0.02)


def bearer(text: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {text}"}


def test_every_endpoint_needs_its_scope(guarded: tuple[Shop, dict[Scope, str]]) -> None:
    """Asked with a token that is not enough, nothing but the refusal comes back; with enough, something else does."""
    shop, tokens = guarded
    for endpoint in ENDPOINTS:
        path = public_path(endpoint).replace("{", "").replace("}", "")
        bare = shop.client.request(endpoint.method, path)
        if endpoint.scope is None:
            assert bare.json()["error"]["code"] != "no_token" if bare.status_code >= 400 else True, path
            continue
        assert (bare.status_code, bare.json()["error"]["code"]) == (401, "no_token"), path
        assert bare.headers["WWW-Authenticate"] == "Bearer"
        for scope, text in tokens.items():
            if "changes" in path:
                continue
            answered = shop.client.request(endpoint.method, path, headers=bearer(text))
            refused = answered.status_code == 403
            assert refused == (RANK[scope] < RANK[endpoint.scope]), (path, scope, answered.text)


def test_a_wrong_or_revoked_token_is_refused(guarded: tuple[Shop, dict[Scope, str]]) -> None:
    shop, tokens = guarded
    for headers in (
        bearer("hw_admin_guess"),
        {"Authorization": f"Basic {tokens['read']}"},
        {"Authorization": "Bearer"},
    ):
        assert shop.client.get("/views", headers=headers).status_code == 401
    assert shop.client.get("/views", headers=bearer(tokens["read"])).status_code == 200
    Tokens(shop.app.directory).revoke("read")
    until(lambda: shop.client.get("/views", headers=bearer(tokens["read"])).status_code == 401)
    assert shop.client.get(f"/views?token={tokens['write']}").status_code == 401


def test_a_stream_ends_when_its_token_is_revoked(guarded: tuple[Shop, dict[Scope, str]]) -> None:
    shop, tokens = guarded
    with following(shop.server.url, "/views/v/changes", **bearer(tokens["read"])) as events:
        assert events.next().name == "snapshot"
        Tokens(shop.app.directory).revoke("read")
        until(lambda: len(shop.service.tokens.known()) == 2)
        shop.publish((9, "secret", 1), position=9)
        last = events.next()
        assert (last.name, last.data["error"]["code"]) == ("error", "no_token")
        assert list(events) == []
    until(lambda: shop.service.streams == 0)


def test_what_comes_without_a_token_is_small(shop: Shop) -> None:
    for body, status in ((b'{"token": "%s"}' % (b"x" * (2 << 20)), 413), (b'{"token": "\\ud800"}', 400), (b"[]", 400)):
        answered = shop.client.post("/session", content=body, headers={"Content-Type": "application/json"})
        assert answered.status_code == status


def test_a_browser_keeps_its_token_in_a_cookie(guarded: tuple[Shop, dict[Scope, str]]) -> None:
    shop, tokens = guarded
    assert shop.client.post("/session", json={"token": "no"}).status_code == 401
    begun = shop.client.post("/session", json={"token": tokens["admin"]})
    assert begun.json() == {"scope": "admin", "token": "admin", "tokens_needed": True, "pages": []}
    cookie = begun.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert shop.client.get("/views").status_code == 200
    record, own = {"url": "a"}, {"Origin": shop.server.url}
    assert shop.client.post("/topics/clicks/records", json=record).status_code == 403
    evil = {"Origin": "http://evil.example"}
    assert shop.client.post("/topics/clicks/records", json=record, headers=evil).status_code == 403
    assert shop.client.post("/topics/clicks/records", json=record, headers=own).status_code == 200
    assert shop.client.delete("/session", headers=own).status_code == 204
    assert shop.client.get("/views").status_code == 401


def test_without_tokens_only_names_of_this_machine_are_answered(shop: Shop) -> None:
    for path in ("/views", "/healthz", "/nope"):
        rebound = shop.client.get(path, headers={"Host": "evil.example"})
        assert (rebound.status_code, rebound.json()["error"]["code"]) == (421, "unknown_host")
    assert shop.client.get("/views", headers={"Host": f"127.0.0.1:{shop.server.port}"}).status_code == 200


@pytest.mark.parametrize("amount", ["-1e-999999999", '"1E-999999999"', "0E-999999999", "1e99999999999999999999"])
def test_no_number_ends_the_server(shop: Shop, amount: str) -> None:
    """In Arrow each of them but the last is an address outside of a table."""
    record = f'{{"id": 1, "country": "DE", "amount": {amount}}}'
    sent = shop.client.post("/topics/orders/records", content=record, headers={"Content-Type": "application/x-ndjson"})
    assert sent.status_code == 200
    found = shop.client.get("/topics/orders/records", params={"where": f"amount:eq:{amount.strip(chr(34))}"})
    assert found.status_code in (200, 400)
    assert shop.client.get("/healthz").status_code == 200


def test_a_page_of_another_site_can_send_nothing(shop: Shop) -> None:
    for headers in ({"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}, {"Origin": "null"}):
        answered = shop.client.post("/topics/clicks/records", json={"url": "a"}, headers=headers)
        assert (answered.status_code, answered.json()["error"]["code"]) == (403, "foreign_origin")
    assert commit_of(shop.app.log.position()) == 0
    plain = {"Content-Type": "text/plain"}
    assert shop.client.post("/topics/clicks/records", content=b"{}", headers=plain).status_code == 415


def test_every_answer_has_the_headers_that_protect_it(shop: Shop) -> None:
    for path in ("/", "/views", "/nope", "/views/nope"):
        headers = shop.client.get(path).headers
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
        assert headers["Cache-Control"] == "no-store"
        assert "server" not in headers
        assert "access-control-allow-origin" not in headers


def test_nothing_secret_is_shown(guarded: tuple[Shop, dict[Scope, str]]) -> None:
    shop, tokens = guarded
    for path in ("/hooks", "/flow", "/pipelines", "/metrics", "/openapi.json", "/session", "/capture", "/topics"):
        text = shop.client.get(path, headers=bearer(tokens["admin"])).text
        assert SECRET not in text
        assert not any(token in text for token in tokens.values())


def test_a_bug_shows_nothing_of_itself(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("secret detail")

    monkeypatch.setattr(shop.service.contents, "read", broken)
    answered = shop.client.get("/views/v")
    assert (answered.status_code, answered.json()["error"]["code"]) == (500, "internal")
    assert "secret detail" not in answered.text


def test_an_address_that_others_reach_needs_tokens(tmp_path: Path) -> None:
    with App("shop", log=tmp_path / "data") as app:
        address = Address("0.0.0.0", 0)
        with pytest.raises(UsageError, match="there are no tokens"):
            Server(Service(app, tokens_required=True), address)
        text = Tokens(app.directory).create("ci", "read")
        with Server(Service(app, tokens_required=True), address) as server:
            url = f"http://127.0.0.1:{server.port}"
            assert httpx.get(f"{url}/views").status_code == 401
            assert httpx.get(f"{url}/views", headers=bearer(text)).status_code == 200
            # Also when the last token is gone, nothing is open to everybody.
            Tokens(app.directory).revoke("ci")
            until(lambda: httpx.get(f"{url}/views", headers=bearer(text)).status_code == 401)
            assert httpx.get(f"{url}/views").status_code == 401


def test_tls(tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1",
         "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", certificate],
        check=True, capture_output=True, timeout=60,
    )  # fmt: skip
    with App("shop", log=tmp_path / "data") as app:
        with pytest.raises(UsageError, match="a certificate and its key"):
            Server(Service(app), Address(port=0, certificate=certificate))
        with pytest.raises(UsageError, match="cannot be used"):
            Server(Service(app), Address(port=0, certificate=key, key=certificate))
        with Server(Service(app, secure=True), Address(port=0, certificate=certificate, key=key)) as server:
            trusted = ssl.create_default_context(cafile=str(certificate))
            assert httpx.get(f"{server.url}/healthz", verify=trusted).json()["status"] == "ok"
            assert server.url.startswith("https://")


def test_a_port_that_is_taken(shop: Shop) -> None:
    other = App("other", log=shop.app.log.state_directory.parent / "other")
    with other as app, pytest.raises(UsageError, match="is already in use"):
        Server(Service(app), Address(port=shop.server.port))

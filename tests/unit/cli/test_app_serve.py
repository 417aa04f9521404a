"""`headwater` serve and token: what they start, what they refuse, and what they print."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from headwater.cli import serving
from headwater.server.running import Server, is_free
from headwater.server.tokens import Tokens
from tests.unit.cli.app_sample import publish, write_application
from tests.unit.cli.conftest import Run


@pytest.fixture
def app(tmp_path: Path) -> Path:
    file = write_application(tmp_path)
    publish(tmp_path)
    return file


@pytest.fixture(autouse=True)
def signals_as_before() -> Iterator[None]:
    before = {each: signal.signal(each, signal.default_int_handler) for each in (signal.SIGINT, signal.SIGTERM)}
    yield
    for each, handler in before.items():
        signal.signal(each, handler)


class Visitor:
    """Looks at the server as soon as it is there, and then ends the program."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, path: str = "/views/revenue/rows/DE") -> None:
        self.answers: list[httpx.Response] = []
        self._path = path
        started = Server.start

        def start(server: Server) -> Server:
            threading.Thread(target=self._visit, args=(server,)).start()
            return started(server)

        monkeypatch.setattr(Server, "start", start)

    def _visit(self, server: Server) -> None:
        until = time.monotonic() + 30
        while not self.answers and time.monotonic() < until:
            try:
                self.answers.append(httpx.get(server.url + self._path, timeout=10))
            except httpx.HTTPError:
                time.sleep(0.05)
        time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGTERM)


def test_an_application_is_served_until_a_signal(headwater: Run, app: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    visitor = Visitor(monkeypatch)
    ran = headwater("serve", app, "--port", 0)
    assert ran.code == 0
    assert ran.err.startswith("Serving shop at http://localhost:")
    assert visitor.answers[0].json()["rows"] == [{"country": "DE", "revenue": "12.50", "tags": ["a", "b"]}]


def test_a_limit_is_an_option(headwater: Run, app: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    visitor = Visitor(monkeypatch, "/views/revenue?limit=10")
    assert headwater("serve", app, "--port", 0, "--limit", "page_rows_max=1").code == 0
    assert len(visitor.answers[0].json()["rows"]) == 1
    for wrong in ("nope=1", "page_rows_max", "page_rows_max=0", "page_rows_max=x"):
        assert headwater("serve", app, "--port", 0, "--limit", wrong).code == 2


def test_an_address_that_others_reach_needs_a_token(headwater: Run, app: Path) -> None:
    ran = headwater("serve", app, "--host", "0.0.0.0", "--port", 0)
    assert ran.code == 2
    assert "there are no tokens" in ran.err
    assert "hint: Create one with `headwater token`" in ran.err


def test_a_port_that_is_taken_is_only_an_error_if_it_was_asked_for(
    headwater: Run, app: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(serving, "is_free", lambda _host, _port: False)
        visitor = Visitor(patched)
        assert headwater("serve", app).code == 0
        assert visitor.answers[0].status_code == 200
        port = visitor.answers[0].request.url.port
    assert port is not None
    assert is_free("127.0.0.1", port)


def test_tokens_are_made_listed_and_revoked(headwater: Run, app: Path) -> None:
    assert "There are no tokens" in headwater("token", app, "--list").err
    made = headwater("token", app, "--scope", "write", "--name", "ci")
    text = made.out.strip()
    assert text.startswith("hw_write_")
    assert "cannot be shown again" in made.err
    tokens = Tokens(app.parent / "data" / "pipelines" / "shop")
    found = tokens.find(text)
    assert found is not None
    assert (found.name, found.scope) == ("ci", "write")
    listed = headwater("token", app, "--list", "--json")
    assert [(one["name"], one["scope"]) for one in listed.objects()] == [("ci", "write")]
    assert text not in listed.out + headwater("token", app, "--list").out
    assert headwater("token", app, "--scope", "write", "--name", "ci").code == 2
    assert headwater("token", app, "--revoke", "ci").code == 0
    assert headwater("token", app, "--revoke", "ci").code == 2
    assert headwater("token", app, "--scope", "root").code == 2
    assert headwater("token", app, "--json").objects()[0]["name"] == "read"

"""Secrets of targets: from the environment and from files, and shown by nothing that anybody can look at."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from headwater.cli.failures import report
from headwater.connectors.opensearch.target import OpenSearch
from headwater.connectors.postgres.target.target import Postgres
from headwater.connectors.redis.target import Redis
from headwater.connectors.secrets import expanded, expanded_url
from headwater.engine.sinks.feed import Feed
from headwater.engine.sinks.target import Target
from headwater.errors import HeadwaterError, UsageError
from headwater.server.failures import error_body
from tests.contract.sinks.feeding import Keyed
from tests.contract.sinks.redis import PREFIX, Server
from tests.webhooks.receiver import until
from tests.webhooks.sending import QUICK

SECRET = "hush/@:%41 #?&="
HERE = quote(SECRET, safe="")

Make = Callable[[str], Target]
TARGETS: dict[str, Make] = {
    "opensearch": lambda password: OpenSearch(f"http://me:{password}@127.0.0.1:1", index="texts"),
    "postgres": lambda password: Postgres(f"postgresql://me:{password}@127.0.0.1:1/shop", table="texts"),
    "redis": lambda password: Redis(f"redis://me:{password}@127.0.0.1:1/0", prefix="t:"),
}
FROM_FILES: dict[str, Callable[[Path], Target]] = {
    "opensearch": lambda file: OpenSearch("http://me@127.0.0.1:1", index="texts", password_file=file),
    "postgres": lambda file: Postgres("postgresql://me@127.0.0.1:1/shop", table="texts", password_file=file),
    "redis": lambda file: Redis("redis://me@127.0.0.1:1/0", prefix="t:", password_file=file),
}


def check_shows_nothing(target: Target, view: Keyed, caplog: pytest.LogCaptureFixture, capfd: Any) -> None:
    """Looks at everything that is shown of a sink whose target does not answer."""
    caplog.set_level(logging.DEBUG)
    sink = view.sink(target)
    feed = Feed(view.directory, "out", "v", sink, "content", QUICK)
    shown = [repr(target), str(target), target.address, repr(feed), repr(sink.assignment)]
    with view.feeding(target) as made:
        until(lambda: made.status().failures >= 2)
        shown += made.said
        shown.append(str(asdict(made.status())))
    try:
        feed.audit()
    except HeadwaterError as error:
        report(error)
        shown += [str(error), repr(error), str(error_body(error)), str(error.__cause__), str(error.__notes__)]
    shown += [record.getMessage() for record in caplog.records]
    shown += [str(capfd.readouterr())]
    shown += [path.read_text(errors="replace") for path in (view.directory / "sinks").rglob("*") if path.is_file()]
    for secret in (SECRET, HERE, "hush"):
        assert [one for one in shown if secret in one] == []


@pytest.mark.parametrize("kind", sorted(TARGETS))
def test_nothing_shows_a_password_of_a_url(
    kind: str, view: Keyed, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    check_shows_nothing(TARGETS[kind](HERE), view, caplog, capfd)


@pytest.mark.parametrize("kind", sorted(TARGETS))
def test_nothing_shows_a_password_of_the_environment(
    kind: str,
    view: Keyed,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", SECRET)
    check_shows_nothing(TARGETS[kind]("${SHOP_PASSWORD}"), view, caplog, capfd)


@pytest.mark.parametrize("kind", sorted(FROM_FILES))
def test_nothing_shows_a_password_of_a_file(
    kind: str, view: Keyed, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "password"
    file.write_text(f"{SECRET}\n")
    check_shows_nothing(FROM_FILES[kind](file), view, caplog, capfd)


@pytest.mark.parametrize("kind", sorted(FROM_FILES))
def test_a_password_file_that_is_missing_is_named(kind: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="password file"):
        FROM_FILES[kind](tmp_path / "missing")


@pytest.mark.parametrize("kind", sorted(TARGETS))
def test_a_variable_that_is_not_set_is_named(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SHOP_PASSWORD", raising=False)
    with pytest.raises(UsageError, match="SHOP_PASSWORD is not set"):
        TARGETS[kind]("${SHOP_PASSWORD}")


@pytest.mark.parametrize("kind", sorted(TARGETS))
def test_a_url_that_cannot_be_read_is_not_shown(kind: str) -> None:
    for broken in ("hush@[::", "hush hush\n"):
        shown = []
        try:
            made = TARGETS[kind](broken)
            shown += [repr(made), made.address]
        except HeadwaterError as error:
            shown += [str(error), error.hint]
        assert shown
        assert "hush" not in "".join(shown)


def test_variables_are_put_in_as_they_have_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", SECRET)
    monkeypatch.setenv("SHOP_URL", "redis://h:1/0")
    assert expanded("ApiKey ${SHOP_PASSWORD}") == f"ApiKey {SECRET}"
    assert expanded_url("redis://me:${SHOP_PASSWORD}@h:1/0") == f"redis://me:{HERE}@h:1/0"
    assert expanded_url("${SHOP_URL}") == "redis://h:1/0"
    assert expanded_url("redis://me:$1{2}@h") == "redis://me:$1{2}@h"


@pytest.mark.parametrize("how", ["url", "environment", "file"])
def test_a_server_takes_the_password(how: str, view: Keyed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", "hush+hush")
    (tmp_path / "password").write_text("hush+hush\n")
    server = Server(password="hush+hush")
    try:
        bare = f"127.0.0.1:{server.port}/0"
        target = {
            "url": lambda: Redis(server.url, prefix=PREFIX),
            "environment": lambda: Redis(f"redis://:${{SHOP_PASSWORD}}@{bare}", prefix=PREFIX),
            "file": lambda: Redis(f"redis://{bare}", prefix=PREFIX, password_file=tmp_path / "password"),
        }[how]()
        with view.feeding(target) as made:
            until(lambda: made.at() == 1)
    finally:
        server.close()

"""`headwater alerts` and `GET /alerts` show what fires, from any process, and no secret."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from headwater.app import App
from headwater.loading import load
from headwater.log.opening import open_log
from headwater.server.running import Address, Server
from headwater.server.service import Service
from tests.unit.cli.conftest import Run

HUSH = "hush-hush"
SOURCE = f"""
import headwater as hw

app = hw.App("shop", log={{log!r}})
app.topic("orders", "id bigint, state string", key="id")
app.view("waiting", "SELECT id FROM orders WHERE state = 'paid'", key="id")
app.alert("orders stuck", view="waiting", after="2 minutes", quiet=("22:00", "07:00"), to=[
    hw.sinks.Slack("https://hooks.slack.com/services/{HUSH}"),
    hw.sinks.Mail("ops@example.com", smtp="smtps://me:{HUSH}@mail.example.com", digest="5 minutes"),
    hw.sinks.PagerDuty("{HUSH}"),
    hw.sinks.Http("https://example.com/{HUSH}?token={HUSH}", headers={{{{"Authorization": "{HUSH}"}}}}),
])
"""


@pytest.fixture
def app(tmp_path: Path) -> Path:
    file = tmp_path / "app.py"
    file.write_text(SOURCE.format(log=str(tmp_path / "data")))
    return file


def fire(file: Path, *turns: tuple[str, str]) -> None:
    at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    with load(str(file)) as app:
        made: Any = app
        for number, (event, key) in enumerate(turns):
            made.log.append("shop.alerts", [{
                "id": key, "alert": "orders stuck", "view": "waiting", "key": key, "event": event, "at": at,
                "since": at, "position": str(number), "row": f'{{"id":{key}}}',
            }])  # fmt: skip


@contextmanager
def served(app: App) -> Iterator[httpx.Client]:
    with Server(Service(app), Address(port=0)) as server, httpx.Client(base_url=server.url, timeout=30) as client:
        yield client


def declare(file: Path) -> None:
    """As the first run does: the topics are created."""
    namespace: dict[str, Any] = {}
    exec(compile(file.read_text(), file, "exec"), namespace)
    namespace["app"].close()


def test_an_application_whose_alerts_never_ran_has_none_that_fire(headwater: Run, app: Path) -> None:
    declare(app)
    ran = headwater("alerts", app)
    assert ran.code == 0
    assert "orders stuck" in ran.out
    assert "slack https://hooks.slack.com: running" in " ".join(ran.out.split())


def test_what_fires_is_listed_and_fails_if_it_is_to(headwater: Run, app: Path) -> None:
    declare(app)
    fire(app, ("fired", "7"), ("fired", "8"), ("cleared", "7"))
    ran = headwater("alerts", app, "--fail-if-firing")
    assert ran.code == 3
    assert "1 alert firing" in ran.err
    assert '{"id":8}' in ran.out
    (found,) = headwater("alerts", app, "--json", "--recent", "2").objects()
    assert [one["key"] for one in found["firing"]] == ["8"]
    assert [(one["event"], one["key"]) for one in found["recent"]] == [("cleared", "7"), ("fired", "8")]
    assert found["alerts"][0]["after_seconds"] == 120
    assert found["alerts"][0]["quiet"] == "22:00-07:00 UTC"


def test_the_server_says_the_same(headwater: Run, app: Path) -> None:
    declare(app)
    fire(app, ("fired", "7"))
    (found,) = headwater("alerts", app, "--json").objects()
    with load(str(app)) as loaded, served(loaded) as client:
        assert client.get("/alerts?recent=20").json() == found
        assert client.get("/alerts?recent=0").json()["recent"] == []
        assert client.get("/alerts?recent=-1").status_code == 400


def test_no_secret_is_shown_anywhere(headwater: Run, app: Path) -> None:
    declare(app)
    fire(app, ("fired", "7"))
    shown = [headwater("alerts", app).out, headwater("alerts", app, "--json").out]
    with load(str(app)) as loaded, served(loaded) as client:
        shown += [client.get(path).text for path in ("/alerts", "/flow", "/metrics", "/healthz", "/readyz")]
        shown += [repr(loaded.sinks), repr(loaded.notifiers), repr(loaded.alerts)]
    assert "hooks.slack.com" in shown[0]
    assert HUSH not in "".join(shown)


def test_alerts_are_declared_with_what_they_need(tmp_path: Path) -> None:
    with App("shop", log=open_log(tmp_path / "log")) as app:
        app.view("waiting", "SELECT 1 AS id", key="id")
        app.view("keyless", "SELECT 1 AS id")
        app.alert("orders stuck", view="waiting")
        assert app.alerts["orders stuck"].rule.key == ("id",)
        assert list(app.sinks) == ["orders-stuck"]
        assert "shop.alerts" in [topic.name for topic in app.log.topics()]
        with pytest.raises(Exception, match="needs a key: it tells one alert from another"):
            app.alert("keyless", view="keyless")
        with pytest.raises(Exception, match="already an alert named 'orders stuck'"):
            app.alert("orders stuck", view="waiting")
        with pytest.raises(Exception, match=r"cannot be sent to 'ops@example.com'"):
            app.alert("other", view="waiting", to=["ops@example.com"])  # type: ignore[list-item]
        with pytest.raises(Exception, match="Invalid after"):
            app.alert("other", view="waiting", after="soon")
        app.log.close()

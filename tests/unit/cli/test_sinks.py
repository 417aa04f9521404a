"""Sinks from the command line: how far they are, and what is done with them while nobody feeds them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headwater.app import App
from headwater.engine.parts import Report
from headwater.engine.running import Runner
from headwater.engine.sinks import feed
from headwater.loading import load
from headwater.log.opening import open_log
from headwater.runner import feeds_of
from tests.unit.cli.app_sample import publish, write_application
from tests.unit.cli.conftest import Run
from tests.webhooks.receiver import until

SINK = """
from headwater.sinks import Topic

app.sink("copy", view="revenue", to=Topic("copied", log=app.log), key="country")
app.sink("called", view="revenue", to=print)
"""


@contextmanager
def running(file: Path) -> Iterator[App]:
    """The sinks of the application, fed until they have everything that is published."""
    with load(str(file), "create") as app, Runner(feeds_of(app), Report()):
        until(lambda: [one.status().lag for one in app.sinks.values()] == [0, 0])
        yield app


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An application whose sinks were fed, and are not any more."""
    monkeypatch.setattr(feed, "LOOK_SECONDS", 0.02)
    file = write_application(tmp_path)
    file.write_text(file.read_text() + SINK)
    publish(tmp_path)
    with running(file):
        pass
    return file


def change(file: Path) -> None:
    """Changes what the target has."""
    with open_log(file.parent / "data") as log:
        log.append("copied", [{"country": "DE", "revenue": "99.00"}, {"country": "XX"}])
        log.delete("copied", [{"country": "FR"}])


def copied(file: Path) -> dict[str, str]:
    with open_log(file.parent / "data") as log:
        return {row["country"]: str(row["revenue"]) for row in log.table("copied").to_pylist()}


def test_sinks_are_listed(headwater: Run, app: Path) -> None:
    copy, called = headwater("sink", "list", app, "--json").objects()
    assert (copy["name"], copy["view"], copy["status"], copy["position"], copy["lag"]) == (
        "copy",
        "revenue",
        "running",
        "7",
        0,
    )
    assert (called["name"], called["sink"]) == ("called", "function")
    assert "copy" in headwater("sink", "list", app).out


def test_an_application_may_have_none(headwater: Run, tmp_path: Path) -> None:
    file = write_application(tmp_path)
    publish(tmp_path)
    ran = headwater("sink", "list", file)
    assert (ran.code, ran.out) == (0, "")
    assert "The application has no sinks." in ran.err
    ran = headwater("sink", "status", file)
    assert (ran.code, ran.err.splitlines()[0]) == (2, "error: This application has no sinks.")
    ran = headwater("sink", "pause", file, "copy")
    assert (ran.code, ran.err.splitlines()[0]) == (2, "error: There is no sink 'copy'.")


def test_status_says_what_is_wrong(headwater: Run, app: Path) -> None:
    ran = headwater("sink", "status", app, "copy")
    assert ran.code == 0
    assert "at position 7, 0 rows and 0s behind" in ran.out
    progress = app.parent / "data" / "pipelines" / "shop" / "sinks" / "copy.json"
    text = progress.read_text()
    wrong = text.replace('"status": "running"', '"status": "paused"').replace('"error": null', '"error": "It is full"')
    assert wrong != text
    progress.write_text(wrong)
    ran = headwater("sink", "status", app, "copy", "--json")
    assert (ran.code, ran.objects()[0]["status"]) == (3, "paused")
    assert "alarm: sink copy: It is full" in ran.err


def test_a_target_is_audited_and_repaired(headwater: Run, app: Path) -> None:
    before = copied(app)
    ran = headwater("sink", "audit", app, "copy")
    assert (ran.code, ran.out.splitlines()[0].split(":")[0]) == (0, "copy  equal at position 7")
    change(app)
    ran = headwater("sink", "audit", app, "copy")
    assert ran.code == 1
    assert ran.out.splitlines()[1:] == [
        "  missing in the target: FR",
        "  different in the target: DE",
        "  extra in the target: XX",
    ]
    assert "error: Sink copy: target and view differ." in ran.err
    assert "--repair` repairs exactly these rows" in ran.err
    ran = headwater("sink", "audit", app, "copy", "--repair", "--json")
    assert (ran.code, ran.objects()[0]["repaired"]) == (0, True)
    assert copied(app) == before
    ran = headwater("sink", "audit", app, "called")
    assert (ran.code, ran.err.splitlines()[0]) == (2, "error: A sink of kind 'function' cannot be audited.")


def test_a_sink_is_paused_and_resumed(headwater: Run, app: Path) -> None:
    assert headwater("sink", "pause", app, "copy").code == 0
    assert headwater("sink", "status", app, "copy", "--json").objects()[0]["paused"]
    assert headwater("sink", "resume", app, "copy").code == 0
    assert not headwater("sink", "status", app, "copy", "--json").objects()[0]["paused"]


def test_a_sink_is_reset(headwater: Run, app: Path) -> None:
    before = copied(app)
    change(app)
    assert headwater("sink", "reset", app, "copy", answer="n\n").code == 1
    assert headwater("sink", "reset", app, "copy", "--yes").code == 0
    with running(app):
        pass
    assert copied(app) == before


def test_a_sink_is_dropped(headwater: Run, app: Path) -> None:
    before = copied(app)
    assert headwater("sink", "drop", app, "copy", "--yes").code == 0
    (state,) = headwater("sink", "status", app, "copy", "--json").objects()
    assert (state["position"], state["status"]) == (None, "paused")
    assert copied(app) == before
    with open_log(app.parent / "data") as log:
        assert log.bookmark("sink.shop.copy") is None

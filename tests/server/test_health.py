"""Health is measured: who runs, how stale everything is, and what fails, also when nobody is there to say so."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from headwater.app import App
from headwater.engine.books import Books
from headwater.errors import DiskFull, RecordFailed, SourceUnavailable
from headwater.log.embedded.log import EmbeddedLog
from headwater.model.position import START
from headwater.server import sources
from headwater.server.service import Service
from headwater.system import background
from headwater.system.background import Background
from headwater.system.heartbeat import FILE, Heart, read_heartbeat
from headwater.testing.clock import ManualClock
from tests.console.stage import Database
from tests.server.alerts import firing, rules
from tests.server.shop import Shop, application, opened
from tests.server.test_operating import until

SECOND = timedelta(seconds=1)
HEADWATER = str(Path(sys.executable).parent / "headwater")
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
"""With which other processes find the tests."""


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(datetime.now(UTC))


def pipeline(shop: Shop) -> dict[str, Any]:
    found: dict[str, Any] = shop.client.get("/pipelines").json()["pipelines"][0]
    return found


def figure(shop: Shop, name: str) -> float:
    return next(float(line.split()[1]) for line in shop.client.get("/metrics").text.splitlines() if name in line[:80])


def fell_silent(directory: Path, clock: ManualClock, ago: timedelta) -> None:
    """The one that beats there was killed a while ago."""
    at = (clock.now() - ago // timedelta(microseconds=1)) * 1000
    os.utime(directory / FILE, ns=(at, at))


def test_a_server_without_a_pipeline_is_not_ready(tmp_path: Path, clock: ManualClock) -> None:
    with opened(tmp_path, runs=False, clock=clock) as shop:
        ready = shop.client.get("/readyz")
        assert (ready.status_code, ready.json()["status"]) == (503, "not_ready")
        assert ready.json()["checks"]["pipeline"]["code"] == "not_running"
        assert (pipeline(shop)["status"], pipeline(shop)["process"]["state"]) == ("not_running", "never_seen")
        assert shop.client.get("/flow").json()["status"] == "not_running"
        assert figure(shop, "headwater_pipeline_running{}") == 0
        clock.advance(180 * SECOND)
        assert 175 <= pipeline(shop)["freshness_seconds"] < 240
        assert 175 <= figure(shop, "headwater_freshness_seconds{}") < 240
        assert 175 <= shop.client.get("/flow").json()["freshness_seconds"] < 240


def test_a_server_whose_pipeline_runs_is_up_to_date(shop: Shop) -> None:
    found = pipeline(shop)
    assert (found["status"], found["freshness_seconds"], found["not_kept"]) == ("up_to_date", 0, {})
    assert found["process"]["running"] is True
    assert found["process"]["pid"] == os.getpid()
    assert shop.client.get("/readyz").json()["status"] == "ready"


def test_freshness_is_the_age_of_the_oldest_commit_that_the_views_lack(tmp_path: Path, clock: ManualClock) -> None:
    with opened(tmp_path, clock=clock) as shop:
        log = shop.app.log
        assert isinstance(log, EmbeddedLog)
        log._writer._clock = clock
        for number in range(3):
            log.append("clicks", [{"url": str(number)}])
            clock.advance(100 * SECOND)
        shop.heart.beat()
        assert pipeline(shop)["freshness_seconds"] == pytest.approx(300, abs=1)
        shop.publish((5, "five", 1), position=1)
        assert pipeline(shop)["freshness_seconds"] == pytest.approx(200, abs=1)
        log.seal("clicks")
        shop.publish((6, "six", 1), position=2)
        assert pipeline(shop)["freshness_seconds"] == pytest.approx(100, abs=1)
        assert pipeline(shop)["status"] == "behind"
        clock.advance(50 * SECOND)
        shop.heart.beat()
        assert pipeline(shop)["freshness_seconds"] == pytest.approx(150, abs=1)
        shop.publish((7, "seven", 1), position=3)
        assert (pipeline(shop)["freshness_seconds"], pipeline(shop)["status"]) == (0, "up_to_date")


def test_a_commit_that_no_view_reads_counts_from_when_it_was_noticed(tmp_path: Path, clock: ManualClock) -> None:
    with opened(tmp_path, clock=clock) as shop:
        shop.app.log.append("orders", [{"id": 1}])
        assert pipeline(shop)["freshness_seconds"] == pytest.approx(0, abs=5)
        clock.advance(70 * SECOND)
        shop.heart.beat()
        assert pipeline(shop)["freshness_seconds"] >= 65


def test_a_process_on_its_way_back_makes_the_server_degraded_only(tmp_path: Path, clock: ManualClock) -> None:
    with opened(tmp_path, clock=clock) as shop:
        shop.heart.end()
        clock.advance(30 * SECOND)
        ready = shop.client.get("/readyz")
        assert (ready.status_code, ready.json()["status"]) == (200, "degraded")
        assert "ended 30 s ago" in ready.json()["checks"]["pipeline"]["message"]
        assert pipeline(shop)["status"] == "not_running"
        clock.advance(31 * SECOND)
        assert shop.client.get("/readyz").status_code == 503


def test_a_pipeline_that_failed_elsewhere_is_told_with_its_error(tmp_path: Path) -> None:
    with opened(tmp_path) as shop:
        shop.heart.end(RecordFailed("v", "clicks", 0, 7, "Division by zero."))
        found = pipeline(shop)
        assert (found["status"], found["error"]["code"]) == ("failed", "record_failed")
        assert found["failed_at"] == found["process"]["ended_at"] is not None
        assert shop.client.get("/readyz").status_code == 503
        assert "Division by zero" in shop.client.get("/readyz").json()["checks"]["pipeline"]["message"]


def test_a_killed_pipeline_is_missed(tmp_path: Path, clock: ManualClock) -> None:
    """A real process, which beats by the machine's clock, and is killed."""
    with opened(tmp_path, runs=False, clock=clock) as shop:
        command = [sys.executable, str(Path(__file__).with_name("beating.py")), str(tmp_path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "beating\n"
            seen = read_heartbeat(shop.app.directory)
            assert seen is not None
            clock.advance(timedelta(microseconds=seen.beat_at - clock.now()))
            found = pipeline(shop)
            assert (found["status"], found["process"]["pid"]) == ("up_to_date", process.pid)
            process.send_signal(signal.SIGKILL)
            process.wait()
        seen = read_heartbeat(shop.app.directory)
        assert seen is not None
        clock.advance(timedelta(microseconds=seen.beat_at - clock.now()) + 11 * SECOND)
        found = pipeline(shop)
        assert (found["status"], found["process"]["state"]) == ("not_running", "silent")
        assert figure(shop, "headwater_pipeline_running{}") == 0
        assert f"process {process.pid}" in shop.client.get("/readyz").json()["checks"]["pipeline"]["message"]


def test_serve_alone_is_not_ready(tmp_path: Path) -> None:
    """`headwater serve` beside nobody, over views that a pipeline published before it was killed."""
    (tmp_path / "app.py").write_text(
        "from pathlib import Path\nfrom tests.server.shop import application\n"
        f"app = application(Path({str(tmp_path)!r}))\n"
    )
    with opened(tmp_path) as shop:
        shop.app.log.append("clicks", [{"url": "a"}])
        held = (shop.app.directory / FILE).read_bytes()
    path = tmp_path / "data" / "pipelines" / "shop" / FILE
    path.write_bytes(held)
    ago = datetime.now(UTC).timestamp() - 180
    os.utime(path, (ago, ago))
    with subprocess.Popen(
        [HEADWATER, "serve", "app.py", "--port", "0"], cwd=tmp_path, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT
    ) as program:
        try:
            assert program.stderr is not None
            url = program.stderr.readline().split()[-1]
            ready = httpx.get(f"{url}/readyz", timeout=30)
            assert (ready.status_code, ready.json()["checks"]["pipeline"]["code"]) == (503, "not_running")
            found = httpx.get(f"{url}/pipelines", timeout=30).json()["pipelines"][0]
            assert (found["status"], found["behind"]) == ("not_running", 1)
            assert found["freshness_seconds"] >= 180
            metrics = httpx.get(f"{url}/metrics", timeout=30).text
            assert firing(rules()["HeadwaterPipelineNotRunning"], metrics)
            assert firing(rules()["HeadwaterViewsStale"], metrics)
        finally:
            program.send_signal(signal.SIGTERM)
            program.communicate(timeout=30)


def test_a_view_that_is_not_kept_is_shown_with_its_reason(shop: Shop) -> None:
    reason = "Spark cannot run it."
    shop.told["not_kept"] = {"w": reason}
    shop.heart.beat()
    assert pipeline(shop)["not_kept"] == {"w": reason}
    ready = shop.client.get("/readyz")
    assert (ready.status_code, ready.json()["status"]) == (200, "degraded")
    assert ready.json()["checks"]["not_kept"]["views"] == {"w": reason}
    assert {one["name"]: one["not_kept"] for one in shop.client.get("/views").json()["views"]} == {
        "v": None,
        "w": reason,
    }
    assert shop.client.get("/views/w/definition").json()["view"]["not_kept"] == reason
    nodes = {one["id"]: one for one in shop.client.get("/flow").json()["nodes"]}
    assert (nodes["view:w"]["not_kept"], nodes["view:v"]["not_kept"]) == (reason, None)
    assert figure(shop, 'headwater_view_not_kept{view="w"}') == 1
    assert figure(shop, 'headwater_view_not_kept{view="v"}') == 0


@contextmanager
def captured(directory: Path, **options: Any) -> Iterator[tuple[Shop, Database]]:
    """The shop with a source; its capture beats as often as it is told to."""
    database = Database(directory / "capture")

    def sourced(self: App) -> dict[str, Any]:
        return {"db": database}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(App, "sources", property(sourced))
        with opened(directory, **options) as shop:
            yield shop, database


def test_a_capture_that_does_not_run_is_never_up_to_date(tmp_path: Path, clock: ManualClock) -> None:
    with captured(tmp_path, clock=clock) as (shop, database):
        assert pipeline(shop)["status"] == "capture_not_running"
        assert shop.client.get("/readyz").json()["checks"]["capture db"]["code"] == "not_running"
        with Heart(database.directory, clock=clock):
            assert pipeline(shop)["status"] == "up_to_date"
            assert shop.client.get("/readyz").json()["status"] == "ready"
            (source,) = shop.client.get("/capture").json()["sources"]
            assert (source["process"]["running"], source["status"]["phase"]) == (True, "streaming")
        clock.advance(90 * SECOND)
        shop.heart.beat()
        (source,) = shop.client.get("/capture").json()["sources"]
        assert source["process"]["state"] == "ended"
        assert pipeline(shop)["status"] == "capture_not_running"
        assert pipeline(shop)["freshness_seconds"] >= 90
        assert shop.client.get("/readyz").status_code == 503


def test_the_source_is_asked_whether_or_not_it_is_captured(tmp_path: Path, clock: ManualClock) -> None:
    with captured(tmp_path, clock=clock) as (shop, database):
        database.status_now = replace(database.status_now, bytes_retained=123, seconds_behind=61.0, alarms=("x",))
        shop.service.sources.ask()
        assert figure(shop, 'headwater_capture_bytes_retained{source="db"}') == 123
        assert figure(shop, 'headwater_capture_answers{source="db"}') == 1
        clock.advance(61 * SECOND)
        assert figure(shop, 'headwater_capture_answers{source="db"}') == 0
        assert "headwater_capture_bytes_retained{" not in shop.client.get("/metrics").text


def test_work_that_restarts_is_shown(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "PAUSE_SECONDS", 3600.0)

    def fail() -> None:
        raise OSError(24, "Too many open files: /secret/place")

    worker = Background("t-shown", fail).start()
    until(lambda: worker.state().restarting)
    alive = shop.client.get("/healthz")
    assert (alive.status_code, alive.json()["status"]) == (200, "degraded")
    assert alive.json()["background"]["t-shown"]["restarts"] == 1
    assert "secret" not in alive.text
    ready = shop.client.get("/readyz")
    assert (ready.status_code, ready.json()["status"]) == (200, "degraded")
    assert "t-shown" in ready.json()["checks"]["background"]["message"]
    worker.stop()
    assert shop.client.get("/healthz").json()["status"] == "ok"


def test_a_follower_of_positions_survives_an_unexpected_error(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "PAUSE_SECONDS", 0.01)
    moving = shop.service.log_moves._moving
    failed: list[int] = []
    following = moving.next

    def break_once(seen: Any) -> Any:
        if not failed:
            failed.append(1)
            raise ValueError("unexpected")
        return following(seen)

    monkeypatch.setattr(moving, "next", break_once)
    until(lambda: failed)
    position = shop.append({"url": "a"})
    assert shop.client.get(f"/topics?at_least={position}").status_code == 200
    assert shop.client.get("/healthz").json()["background"]["positions-log"]["restarts"] >= 1


def test_every_rule_fires_in_its_state_and_in_no_other(
    tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "ASK_SECONDS", 3600.0)
    with captured(tmp_path, clock=clock) as (shop, database), Heart(database.directory, clock=clock) as capture:
        shop.service.sources.ask()
        books = [Books("clicks", 5, 0, timedelta(0))]
        monkeypatch.setattr(shop.app, "books", lambda: books)
        good = shop.client.get("/metrics").text + 'up{job="headwater"} 1\n'
        assert {name for name, rule in rules().items() if firing(rule, good)} == set()
        found = dict(bad_states(shop, database, capture, clock, good, books))
        assert found.keys() | {"HeadwaterSinkPaused", "HeadwaterDiskNearlyFull"} == rules().keys()
        for name, text in found.items():
            assert firing(rules()[name], text, good), name


def bad_states(
    shop: Shop, database: Database, capture: Heart, clock: ManualClock, good: str, books: list[Books]
) -> Iterator[tuple[str, str]]:
    """The figures in each of the states that a rule is for, by the rule's name."""

    def figures() -> str:
        return shop.client.get("/metrics").text

    yield "HeadwaterServerDown", good.replace('up{job="headwater"} 1', 'up{job="headwater"} 0')
    shop.told["retries"] = 3
    shop.told["not_kept"] = {"w": "it cannot run"}
    shop.heart.beat()
    yield "HeadwaterPipelineRetries", figures()
    yield "HeadwaterViewNotKept", figures()
    status = database.status_now
    database.status_now = replace(status, bytes_retained=11 << 30, seconds_behind=61.0, alarms=("too much",))
    shop.service.sources.ask()
    for name in ("HeadwaterWalRetained", "HeadwaterCaptureBehind", "HeadwaterCaptureAlarm"):
        yield name, figures()
    database.failure = SourceUnavailable("the database", "it is gone")
    shop.service.sources.ask()
    yield "HeadwaterSourceUnavailable", figures()
    shop.client.post("/topics/orders/records", json=[{"id": "x"}])
    yield "HeadwaterDeadLetters", figures()
    books[0] = Books("clicks", 6, 1, timedelta(seconds=1))
    yield "HeadwaterLateRecords", figures()
    assert shop.client.get("/pipelines").json()["pipelines"][0]["books"] == [
        {"topic": "clicks", "in": 6, "out": 5, "late": 1, "late_by_seconds": 1.0, "future": 0}
    ]
    assert isinstance(shop.app.log, EmbeddedLog)
    fall_behind(shop.app.log)
    yield "HeadwaterGroupNearRetention", figures()
    yield "HeadwaterFollowerNearLimit", figures()
    shop.app.log.alter("ring", retention_bytes=1)
    shop.app.log.upkeep()
    yield "HeadwaterGroupMissedRecords", figures()
    yield "HeadwaterFollowerMissedRecords", figures()
    shop.app.log._upkeep.failure = DiskFull("x")
    yield "HeadwaterUpkeepFailing", figures()
    background._restarts["history"] += 3
    yield "HeadwaterBackgroundRestarts", figures()
    background._restarts["history"] -= 3
    capture.end()
    yield "HeadwaterCaptureNotRunning", figures()
    clock.advance(61 * SECOND)
    shop.heart.beat()
    yield "HeadwaterViewsStale", figures()
    shop.heart.end(RecordFailed("v", "clicks", 0, 7, "Division by zero."))
    yield "HeadwaterPipelineNotRunning", figures()
    yield "HeadwaterPipelineFailed", figures()


def fall_behind(log: EmbeddedLog) -> None:
    """A group and a pipeline have not read what takes nine tenths of their topic's retention."""
    log.create("ring", "id bigint")
    log.consumer("ring", group="late").close()
    log.followers.hold("late/1", "pipeline", START, ["ring"])
    log.append("ring", [{"id": number} for number in range(100)])
    log.seal("ring")
    [size] = log.sizes("ring")
    log.alter("ring", retention_bytes=size.bytes * 10 // 9, hold_bytes_max=0)


def test_the_figures_of_groups(shop: Shop) -> None:
    assert isinstance(shop.app.log, EmbeddedLog)
    fall_behind(shop.app.log)
    shop.app.log.create("kept", "id bigint")
    shop.app.log.consumer("kept", group="late").close()
    labels = '{group="late",topic="ring",partition="0"}'
    [lag] = [one for one in shop.app.log.lag("late") if one.topic == "ring"]
    assert figure(shop, f"headwater_lag_records{labels}") == 100
    assert figure(shop, f"headwater_lag_bytes{labels}") == lag.bytes > 0
    assert 0.8 < figure(shop, f"headwater_lag_risk{labels}") <= 1
    assert figure(shop, f"headwater_lag_gone_records{labels}") == 0
    # Where nothing is ever deleted there is no risk.
    assert 'headwater_lag_risk{group="late",topic="kept"' not in shop.client.get("/metrics").text
    shop.app.log.alter("ring", retention_bytes=1)
    shop.app.log.upkeep()
    assert figure(shop, f"headwater_lag_gone_records{labels}") == 100


def test_the_rule_for_a_disk_that_fills_up(shop: Shop) -> None:
    rule, figures = rules()["HeadwaterDiskNearlyFull"], "headwater_disk_free_ratio{{}} {}\n"
    assert (firing(rule, figures.format(0.09)), firing(rule, figures.format(0.2))) == ([{}], [])
    assert 0 <= figure(shop, "headwater_disk_free_ratio{}") <= 1


def test_the_rule_for_a_sink_that_is_paused() -> None:
    rule, figures = rules()["HeadwaterSinkPaused"], 'headwater_sink_paused{{sink="crm",view="v"}} {}\n'
    assert firing(rule, figures.format(1)) == [{"sink": "crm", "view": "v"}]
    assert firing(rule, figures.format(0)) == []


def test_a_service_needs_no_processes_where_there_is_nothing_to_run(tmp_path: Path) -> None:
    with App("empty", log=tmp_path / "data") as app:
        assert Service(app).processes.all() == []
    with application(tmp_path / "shop") as app:
        assert [one.kind for one in Service(app).processes.all()] == ["pipeline"]

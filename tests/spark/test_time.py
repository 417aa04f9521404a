"""Views that compare with now(): right at every position, whatever stops in between, and fed by a clock that ticks."""

from __future__ import annotations

import random
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headwater.app import App
from headwater.engine.comparison import differences
from headwater.errors import UsageError, ViewFailed

START = datetime(2026, 1, 1, tzinfo=UTC)
VIEWS = {
    "recent": "SELECT id, at, until FROM events WHERE at > now() - INTERVAL 10 MINUTES",
    "valid": "SELECT id FROM events WHERE at <= now() AND now() < until",
    "silent": "SELECT kind, max(at) AS last FROM events GROUP BY kind HAVING max(at) < now() - INTERVAL 5 MINUTES",
    "per_kind": "SELECT e.kind, count(*) AS n, max(r.at) AS last FROM recent r JOIN events e USING (id) GROUP BY 1",
    "quiet_kinds": "SELECT s.kind, count(*) AS n FROM silent s JOIN events e ON e.kind = s.kind GROUP BY s.kind",
}


def declare(app: App) -> App:
    app.clock()
    app.topic("events", "id int, kind string, at timestamp, until timestamp", key="id")
    for name, sql in VIEWS.items():
        app.view(name, sql)
    return app


def change(app: App, chance: random.Random, now: datetime) -> None:
    """A commit of some events, early and late ones, or the deletion of some."""
    ids = [chance.randrange(40) for _ in range(chance.randrange(1, 12))]
    if chance.random() < 0.2:
        app.log.delete("events", [{"id": one} for one in set(ids)])
        return
    rows = []
    for one in ids:
        at = None if chance.random() < 0.1 else now + timedelta(minutes=chance.uniform(-30, 10))
        until = None if at is None or chance.random() < 0.1 else at + timedelta(minutes=chance.uniform(-2, 20))
        rows.append({"id": one, "kind": f"k{one % 5}", "at": at, "until": until})
    app.log.append("events", rows)


@pytest.mark.parametrize(("seed", "tasks"), [(1, 1), (2, 2)])
def test_right_at_every_position_and_after_a_stop(spark: SparkSession, tmp_path: Path, seed: int, tasks: int) -> None:
    chance, now = random.Random(seed), START
    with declare(
        App("running", log=tmp_path / "log", master="local[2]", one_task_rows_max=20_000 if tasks == 1 else 0)
    ) as app:
        for _ in range(6):
            change(app, chance, now)
            if chance.random() < 0.7:
                now += timedelta(seconds=chance.choice([1, 60, 400]))
                app.log.tick(now)
            app.catch_up()
            for view in VIEWS:
                assert app.verify(view).equal, view
        content = app.snapshot().tables
    assert any(table.num_rows for table in content.values())
    with declare(App("stopped", log=tmp_path / "log", master="local[2]")) as late:
        late.catch_up()
        for view, table in late.snapshot().tables.items():
            assert differences(table, content[view]) == []


def test_a_record_that_fails_is_found_at_its_own_time(spark: SparkSession, tmp_path: Path) -> None:
    with App("failing", log=tmp_path / "log", master="local[2]") as app:
        app.clock()
        app.topic("events", "id int, text string, at timestamp")
        app.view("numbers", "SELECT CAST(text AS int) AS n FROM events WHERE at <= now()", on_error="dead_letter")
        app.log.tick(START)
        soon = START + timedelta(minutes=1)
        app.log.append("events", [{"id": 1, "text": "5", "at": START}, {"id": 2, "text": "?", "at": START}])
        app.log.append("events", [{"id": 3, "text": "7", "at": soon}])
        app.log.tick(soon)
        app.catch_up()
        assert sorted(app.read("numbers")["n"].to_pylist()) == [5, 7]
        assert [row.offset for row in app.dead_letters()] == [1]
        assert app.verify("numbers").equal
        # What fails when its moment comes is in no record of that commit.
        app.log.append("events", [{"id": 4, "text": "!", "at": soon + timedelta(minutes=1)}])
        app.catch_up()
        app.log.tick(soon + timedelta(minutes=1))
        with pytest.raises(ViewFailed, match="'!'"):
            app.catch_up()


def test_the_clock_ticks_while_the_application_runs(spark: SparkSession, tmp_path: Path) -> None:
    with App("ticking", log=tmp_path / "log", master="local[2]") as app:
        app.clock(every="50ms")
        app.topic("events", "id int, at timestamp")
        app.view("past", "SELECT id FROM events WHERE at <= now()")
        soon = datetime.now(UTC) + timedelta(seconds=2)
        app.log.append("events", [{"id": 1, "at": soon - timedelta(days=1)}, {"id": 2, "at": soon}])
        seen: set[int] = set()

        def look(_: object) -> None:
            seen.add(app.read("past").num_rows)
            if 2 in seen:
                app.stop()

        ending = threading.Timer(120, app.stop)
        ending.start()
        try:
            app.run(look)
        finally:
            ending.cancel()
        assert 2 in seen
        assert app.verify("past").equal
        assert app.log.now() is not None


def test_windows_come_out_when_they_are_final(spark: SparkSession, tmp_path: Path) -> None:
    with App("final", log=tmp_path / "log", master="local[2]") as app:
        app.topic("clicks", "device string, at timestamp", event_time="at", watermark="10 seconds", producer="device")
        per_minute = "SELECT window(at, '1 minute') AS window, count(*) AS n FROM clicks GROUP BY 1"
        app.view("running", per_minute)
        app.view("bills", per_minute, emit="final")
        app.view("closed", "SELECT device, at FROM clicks WHERE at < watermark('clicks') - INTERVAL 1 MINUTE")

        def click(*events: tuple[str, int]) -> tuple[list[int], int, int]:
            rows = [{"device": device, "at": START + timedelta(seconds=at)} for device, at in events]
            app.log.append("clicks", rows)
            app.catch_up()
            assert all(app.verify(view).equal for view in app.views)
            bills = sorted(app.read("bills")["n"].to_pylist())
            return bills, app.read("running").num_rows, app.read("closed").num_rows

        assert click(("a", 5), ("b", 10), ("a", 50)) == ([], 1, 0)
        assert click(("a", 75)) == ([], 2, 0)
        assert click(("b", 69)) == ([], 2, 0)
        assert click(("b", 70)) == ([3], 2, 0)
        # Late, and counted all the same.
        assert click(("a", 30)) == ([4], 2, 0)
        assert click(("a", 200), ("b", 200)) == ([3, 4], 3, 7)
        app.log.watermark("clicks", START + timedelta(minutes=10))
        app.catch_up()
        assert sorted(app.read("bills")["n"].to_pylist()) == [2, 3, 4]
        assert app.verify("bills").equal


def test_a_view_that_reads_a_clock_needs_one(spark: SparkSession, tmp_path: Path) -> None:
    with App("clockless", log=tmp_path / "log", master="local[2]") as app:
        app.topic("events", "id int, at timestamp")
        app.view("past", "SELECT id FROM events WHERE at <= now()")
        with pytest.raises(UsageError, match="has no clock"):
            app.catch_up()
        with pytest.raises(UsageError, match="cannot tick every 0 s"):
            app.clock(every=0)

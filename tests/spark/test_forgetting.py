"""What retention, compaction and lag do to views: no false verdict and no dead end, whatever was chosen."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headwater.engine import following
from headwater.engine.embedded.database import SqliteDatabase
from headwater.errors import HistoryGone, RecordsMissed, UnsupportedQuery
from headwater.system.storage import Storage
from tests.spark.forgetting import AGE, VIEWS, World, batches, prove, rows

STREAM: dict[str, Any] = {"retention_age": AGE}
HELD = timedelta(days=7)


@pytest.fixture
def world(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setattr(following, "HOLD_SECONDS", 0.0)
    world = World(tmp_path)
    with world.log:
        yield world


def begin(world: World, **topic: Any) -> None:
    world.log.create("t", "id bigint, g string, v int", **topic)
    world.append((1, "a", 1), (2, "a", 5), (3, "b", 3))
    world.append((4, "b", 9), (5, "a", 2), (1, "c", 4))


@pytest.mark.parametrize("key", [None, "id"])
def test_views_that_run_forget_what_retention_removes(world: World, key: str | None) -> None:
    begin(world, key=key, **STREAM)
    with world.app() as app:
        app.catch_up()
        prove(app)
        world.clock.advance(AGE / 2)
        world.append((6, "a", 7), (2, "b", 8))
        app.catch_up()
        world.pass_time(AGE * 0.6)
        assert world.first == 0, "the pipeline has still to retract them"
        app.catch_up()
        assert rows(app, "all_of_it") == [(2,)]
        prove(app)
        world.clock.advance(timedelta(seconds=2))
        app.close_pipeline()
        world.log.upkeep()
        assert world.first == 6
        prove(app)
    with world.app({"changed": "SELECT g, avg(v) AS mean FROM t GROUP BY g"}) as app:
        app.catch_up()
        prove(app, {"changed": ""})
        assert app.verify("changed").since == {"t": {0: 6}}


def test_a_pipeline_that_is_behind_reads_and_forgets_in_order(world: World) -> None:
    begin(world, key="id", **STREAM)
    with world.app() as app:
        app.catch_up(world.log.position())
    world.append((7, "c", 1), (8, "a", 6))
    world.pass_time()
    world.append((9, "a", 4), (2, "c", 3))
    assert world.first == 0, "the pipeline has not read all of it"
    with world.app() as app:
        assert not any(one.missed for one in batches(app))
        assert rows(app, "all_of_it") == [(2,)]
        prove(app)
    world.pass_time(timedelta(minutes=1))
    assert world.first == 8


def test_what_was_deleted_over_the_limit_is_told_and_the_views_are_built_again(world: World) -> None:
    begin(world, **STREAM)
    with world.app() as app:
        app.catch_up()
    world.append((7, "c", 1))
    world.pass_time(AGE + HELD + timedelta(hours=1))
    world.append((8, "a", 6), (7, "b", 2))
    assert world.first == 7
    (missed,) = world.log.followers.missed()
    assert (missed.follower, missed.kind, missed.topic, missed.first, missed.last) == ("shop/1", "pipeline", "t", 0, 6)
    assert "hold_age_max is 7d" in missed.reason
    with world.app() as app:
        assert [one.missed for one in batches(app) if one.missed] == [[missed]]
        assert rows(app, "all_of_it") == [(2,)]
        prove(app)
    assert world.log.followers.missed() == []


def test_views_that_keep_remember_what_was_deleted_and_are_proved_from_a_base(world: World) -> None:
    begin(world, views="keep", **STREAM)
    with world.app() as app:
        app.catch_up()
        prove(app)
        assert app.verify("totals").base is None
        assert "deletes; verified from a base)" in str(app.explain("totals"))
        world.pass_time()
        assert world.first == 6
        world.append((8, "a", 6))
        app.catch_up()
        assert rows(app, "all_of_it") == [(7,)]
        prove(app)
        found = app.verify("totals")
        assert found.base is not None
        assert (found.base.offsets, found.since, found.position > found.base.position) == (*[{"t": {0: 6}}] * 2, True)
    changed = {"totals": "SELECT g, sum(v) AS total FROM t GROUP BY g"}
    with world.app(changed) as app:
        app.catch_up()
        assert rows(app, "totals") == [("a", 6)]
        prove(app, changed)
        assert app.verify("totals").since == {"t": {0: 6}}


def test_a_new_application_begins_with_what_is_kept(world: World) -> None:
    begin(world, **STREAM)
    world.pass_time()
    world.append((8, "a", 6), (9, "b", 1))
    assert world.first == 6
    with world.app() as app:
        app.catch_up()
        assert rows(app, "all_of_it") == [(2,)]
        prove(app)


@pytest.mark.parametrize(("on_gone", "left"), [("earliest", 7), ("rebuild", 1), (None, 0)])
def test_a_view_that_keeps_and_misses_records_does_what_it_was_told_to(world: World, on_gone: Any, left: int) -> None:
    begin(world, views="keep", **STREAM)
    with world.app(on_gone=on_gone) as app:
        app.catch_up()
    world.append((7, "c", 1), (8, "c", 1))
    world.pass_time(AGE + HELD + timedelta(hours=1))
    world.append((9, "a", 6))
    with world.app(on_gone=on_gone) as app:
        if on_gone is None:
            with pytest.raises(RecordsMissed, match=r"offsets 6 to 7 .2 records., deleted because hold_age_max is"):
                app.catch_up()
            with pytest.raises(HistoryGone, match="offsets 0 to 7"):
                app.verify("totals")
            return
        found = batches(app)
        assert sum(missed.records for one in found for missed in one.missed) == 2
        assert rows(app, "all_of_it") == [(left,)]
        if on_gone == "rebuild":
            prove(app)
            return
        prove(app)
        assert app.verify("totals").since == {"t": {0: 9}}, "proved from the base that was taken after the gap"


def test_tombstones_wait_for_pipelines_that_have_not_seen_them(world: World) -> None:
    begin(world, key="id", cleanup="compact")
    with world.app() as app:
        app.catch_up()
    world.delete(1, 2)
    world.append((7, "a", 7))
    world.clock.advance(timedelta(days=3))
    world.log.compact("t")
    assert {record.key for record in world.log.read("t") if record.value is None} == {1, 2}
    with world.app() as app:
        app.catch_up()
        prove(app)
        assert rows(app, "all_of_it") == [(4,)]
    world.log.compact("t")
    assert not any(record.value is None for record in world.log.read("t"))


def test_a_pipeline_that_missed_tombstones_builds_its_views_again(world: World) -> None:
    begin(world, key="id", cleanup="compact")
    with world.app() as app:
        app.catch_up()
    world.delete(1, 2)
    world.append((7, "a", 7))
    world.clock.advance(timedelta(days=9))
    world.log.compact("t")
    assert [(one.first, one.last) for one in world.log.followers.missed()] == [(6, 7)]
    with world.app() as app:
        assert sum(missed.records for one in batches(app) for missed in one.missed) == 2
        assert rows(app, "all_of_it") == [(4,)]
        prove(app)


def test_records_that_were_set_aside_are_forgotten_like_others(world: World) -> None:
    begin(world, key="id", **STREAM)
    world.append((1, "x", 0), (6, "a", 2))
    world.clock.advance(AGE / 2)
    world.append((7, "a", 0), (8, "b", 1))
    views = {"shares": "SELECT id, 1 / v AS share FROM t", "all_of_it": VIEWS["all_of_it"]}
    with world.app({}) as app:
        for view, sql in views.items():
            app.view(view, sql, on_error="dead_letter")
        app.catch_up()
        assert len(app.dead_letters()) == 2
        prove(app, views)
        world.pass_time(AGE * 0.6)
        app.catch_up()
        prove(app, views)
        assert rows(app, "all_of_it") == [(1,)]


def test_several_partitions_and_tasks_forget_alike(world: World) -> None:
    world.log.create("t", "id bigint, g string, v int", partitions=3, **STREAM)
    for start in (0, 40, 80):
        world.append(*((number, "abc"[number % 3], number % 7) for number in range(start, start + 40)))
        world.clock.advance(AGE / 4)
    with world.app(one_task_rows_max=1) as app:
        app.catch_up()
        world.append((500, "a", 1))
        world.pass_time(AGE * 0.5)
        app.catch_up()
        assert 0 < rows(app, "all_of_it")[0][0] < 100
        prove(app)


def test_the_history_of_a_table_that_forgets_is_refused(world: World) -> None:
    begin(world, key="id", **STREAM)
    refused = pytest.raises(UnsupportedQuery, match="retention deletes the older versions of its rows")
    with world.app({"v": "SELECT id, operation FROM changes('t')"}) as app, refused:
        app.plan()


def test_a_base_shows_what_was_lost_after_it(world: World) -> None:
    begin(world, views="keep", **STREAM)
    with world.app() as app:
        app.catch_up()
        for number in (11, 12, 13):
            world.append((number, "a", number), (number + 10, "d", 1))
            app.catch_up()
        world.clock.advance(AGE)
        world.append((30, "a", 1), (31, "b", 2))
        app.catch_up()
        world.pass_time(timedelta(hours=1))
        app.catch_up()
        world.append((40, "a", 3), (41, "b", 1))
        app.catch_up()
        assert world.first == 12
        prove(app)
        bases = app.bases()
        assert [one.offsets["t"][0] for one in bases] == [6, 14], "records after the first are gone"
        before = sorted(path.name for path in (app.directory / "runs").iterdir())
        assert app.verify("all_of_it").base == bases[-1]
        assert sorted(path.name for path in (app.directory / "runs").iterdir()) == before, "a replay leaves nothing"
        app.close_pipeline()
        with SqliteDatabase(app.directory, Storage()).write() as tx:
            # What is published loses what changed after the base, as if a merge had gone wrong.
            tx.execute("DELETE FROM runs WHERE arrangement = 'view/rows' AND file NOT IN (SELECT file FROM base_runs)")
            assert tx.changes()
    with world.app() as app:
        wrong = app.verify("rows")
        assert [(one.row["id"], one.surplus) for one in wrong.differences] == [(40, -1)]
        assert app.verify("all_of_it").equal


def test_a_replay_from_a_base_drops_the_late_records_that_the_views_dropped(world: World) -> None:
    def click(second: int) -> None:
        world.log.append(
            "clicks", [{"device": "a", "at": datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=second)}]
        )
        world.log.seal("clicks")
        app.catch_up()

    with world.app({"counted": "SELECT device, count(*) AS n FROM clicks GROUP BY device"}) as app:
        app.topic(
            "clicks", "device string, at timestamp", event_time="at", watermark="10 seconds", late="drop", views="keep",
            **STREAM,
        )  # fmt: skip
        # What is kept alone would put the watermark at 481 s; the deleted record puts it at 490 s.
        click(100)
        click(500)
        world.clock.advance(AGE)
        click(491)
        world.pass_time(timedelta(hours=1))
        click(485)
        click(510)
        assert world.log.offsets("clicks")[0][0] == 2
        assert rows(app, "counted") == [("a", 4)]
        found = app.verify("counted")
        assert found.base is not None
        assert found.differences == []

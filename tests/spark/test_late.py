"""Late records that are dropped: the same ones however batches are cut, found in late(), and verified."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

from headwater.app import App
from headwater.engine.comparison import differences
from headwater.errors import UnsupportedQuery, UsageError
from headwater.log.embedded.log import EmbeddedLog
from tests.property.engine.lateness_model import Committed, Event, Model

START = datetime(2026, 1, 1, tzinfo=UTC)
PER_MINUTE = "SELECT window(at, '1 minute') AS window, device, count(*) AS n, sum(v) AS v FROM clicks GROUP BY ALL"
VIEWS = {
    "running": PER_MINUTE,
    "counted": "SELECT count(*) AS n FROM clicks",
    "recent": "SELECT device, at, _commit FROM changes('clicks') WHERE v < 50",
    "ledger": "SELECT device, at, v, _watermark, _late_by, _offset FROM late('clicks')",
    "by_device": "SELECT device, count(*) AS n, max(_late_by) AS by FROM late('clicks') GROUP BY device",
}


def declare(app: App, late: str = "drop") -> App:
    app.clock()
    app.topic(
        "clicks", "device string, at timestamp, v int", partitions=2, event_time="at", watermark="10 seconds",
        producer="device", idle="2 minutes", late=late,
    )  # fmt: skip
    for name, sql in VIEWS.items():
        app.view(name, sql)
    app.view("bills", PER_MINUTE, emit="final")
    return app


def change(app: App, chance: random.Random, now: datetime) -> datetime:
    """A tick, or a commit of events on time, late, early and twice."""
    now += timedelta(seconds=chance.choice([1, 5, 40]))
    if chance.random() < 0.3:
        app.log.tick(now)
        return now
    rows = []
    for _ in range(chance.randrange(1, 8)):
        at = None if chance.random() < 0.05 else now - timedelta(seconds=chance.choice([0, 0, 3, 60, 300, -20]))
        rows.append({"device": chance.choice(["a", "b", "c", None]), "at": at, "v": chance.randrange(100)})
    app.log.append("clicks", rows * chance.choice([1, 1, 2]))
    return now


@pytest.mark.parametrize(("seed", "tasks"), [(1, 1), (2, 2)])
def test_the_same_records_are_late_in_every_division(
    spark: SparkSession, tmp_path: Path, seed: int, tasks: int
) -> None:
    chance, now = random.Random(seed), START
    rows_max = 20_000 if tasks == 1 else 0
    with declare(App("running", log=tmp_path / "log", master="local[2]", one_task_rows_max=rows_max)) as app:
        for _ in range(8):
            for _ in range(chance.randrange(1, 5)):
                now = change(app, chance, now)
            app.catch_up()
            for view in app.views:
                assert app.verify(view).equal, view
            balanced(app)
        content = app.snapshot().tables
        assert late_offsets(app) == expected(app)
        origins = {origin.title for origin in app.explain().origins.values()}
        assert sorted(origins) == ["late records of topic clicks", "topic clicks (without late records)"]
    assert content["ledger"].num_rows > 0
    # After an hour's stop all of it is one batch; another application reads it for the first time.
    with declare(App("stopped", log=tmp_path / "log", master="local[2]")) as stopped:
        stopped.catch_up()
        for view, table in stopped.snapshot().tables.items():
            assert differences(table, content[view]) == [], view
    with declare(App("running", log=tmp_path / "log", master="local[2]")) as app:
        app.delete_state()
        app.catch_up()
        for view, table in app.snapshot().tables.items():
            assert differences(table, content[view]) == [], view


def test_records_that_are_a_little_late_correct_results(spark: SparkSession, tmp_path: Path) -> None:
    with declare(App("bounded", log=tmp_path / "log", master="local[2]"), late="correct for 1 minute") as app:
        app.view("minutes", "SELECT date_trunc('MINUTE', at) AS minute, count(*) AS n FROM clicks GROUP BY 1")
        click(app, ("a", 300))
        click(app, ("a", 230), ("a", 229))
        app.catch_up()
        assert app.read("counted")["n"].to_pylist() == [2]
        ledger = app.read("ledger")
        assert ledger["at"].to_pylist() == [START + timedelta(seconds=229)]
        assert ledger["_watermark"].to_pylist() == [START + timedelta(seconds=290)]
        assert ledger["_late_by"].to_pylist() == [61.0]
        assert all(app.verify(view).equal for view in app.views)


def test_what_is_amended_counts_and_stays_in_the_ledger(spark: SparkSession, tmp_path: Path) -> None:
    with declare(App("amending", log=tmp_path / "log", master="local[2]")) as app:
        click(app, ("a", 300), ("b", 400))
        click(app, ("a", 100), ("a", 110), ("a", 301))
        app.catch_up()
        before = app.read("running").num_rows
        ledger = app.read("ledger")
        assert ledger.num_rows == 2
        (books,) = app.books()
        assert (books.records, books.out, books.late) == (5, 3, 2)
        assert books.late_by == timedelta(seconds=190)
        app.log.amend("clicks", ledger.filter(pc.equal(ledger["_late_by"], 190.0)))
        app.catch_up()
        assert app.read("running").num_rows == before + 1
        assert app.read("counted")["n"].to_pylist() == [4]
        assert app.read("ledger").num_rows == 2
        assert [(one.records, one.late) for one in app.books()] == [(6, 2)]
        # It is no event of a producer: c is not one that holds the watermark back.
        app.log.amend("clicks", [{"device": "c", "at": START, "v": 1}])
        click(app, ("a", 1000), ("b", 1000))
        click(app, ("a", 900))
        app.catch_up()
        assert app.read("ledger").num_rows == 3
        assert all(app.verify(view).equal for view in app.views)


def test_an_event_from_the_future_is_dropped_and_moves_no_watermark(spark: SparkSession, tmp_path: Path) -> None:
    with App("future", log=tmp_path / "log", master="local[2]") as app:
        columns = "device string, at timestamp, v int"
        app.topic("clicks", columns, event_time="at", watermark="10 s", future_max="1 hour", late="drop")
        app.view("counted", "SELECT count(*) AS n FROM clicks")
        app.view("ledger", "SELECT device, v, _reason, _late_by, _watermark FROM late('clicks')")
        app.view("bills", "SELECT window(at, '1 minute') AS window, count(*) AS n FROM clicks GROUP BY 1", emit="final")
        now = datetime.now(UTC)
        app.log.append("clicks", [{"device": "a", "at": now + timedelta(hours=2), "v": 1}])
        app.log.append("clicks", [{"device": "a", "at": now + timedelta(minutes=50), "v": 2}])
        app.log.append("clicks", [{"device": "a", "at": now + timedelta(days=400), "v": 3}])
        app.log.append("clicks", [{"device": "a", "at": now, "v": 4}])
        app.catch_up()
        ledger = sorted(app.read("ledger").to_pylist(), key=lambda row: row["v"])
        assert [(row["v"], row["_reason"]) for row in ledger] == [(1, "future"), (3, "future"), (4, "late")]
        assert ledger[0]["_watermark"] is None
        assert ledger[1]["_watermark"] == ledger[2]["_watermark"] == now + timedelta(minutes=50, seconds=-10)
        assert [row["_late_by"] for row in ledger] == [None, None, 2990.0]
        assert app.read("counted")["n"].to_pylist() == [1]
        (books,) = app.books()
        assert (books.records, books.out, books.late, books.future) == (4, 1, 1, 2)
        assert all(app.verify(view).equal for view in app.views)


def test_a_stop_while_records_are_late_changes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    """What is known of producers is kept with each batch: the next process judges as the one before would have."""
    for round_ in range(3):
        with declare(App("resumed", log=tmp_path / "log", master="local[2]")) as app:
            click(app, ("a", 300 * round_), ("b", 300 * round_ + 5))
            click(app, ("a", 300 * round_ - 100))
            app.catch_up()
            assert app.read("ledger").num_rows == round_ + 1
            balanced(app)
            assert all(app.verify(view).equal for view in app.views)


def test_a_topic_whose_records_are_forgotten_cannot_drop_late_ones(tmp_path: Path) -> None:
    with App("refused", log=tmp_path / "log") as app:
        columns = "device string, at timestamp"
        with pytest.raises(UsageError, match="retention deletes"):
            app.topic("a", columns, event_time="at", watermark=10, late="drop", retention_age="1 day")
        with pytest.raises(UsageError, match="newest record per key"):
            app.topic("b", columns, key="device", event_time="at", watermark=10, late="drop")
        with pytest.raises(UsageError, match="has no watermark"):
            app.topic("c", columns, event_time="at", late="drop")
        with pytest.raises(UsageError, match="which late"):
            app.topic("d", "_late_by double, at timestamp", event_time="at", watermark=10, late="drop")
        for wrong in ("never", "correct for ever", "correct for"):
            with pytest.raises(UsageError, match="expected 'correct', 'drop'"):
                app.topic("e", columns, event_time="at", watermark=10, late=wrong)
        app.topic("f", columns, event_time="at", watermark=10, idle=60, late="drop")
        for source in ("headwater.watermark.f", "headwater.clock"):
            assert app.log.topic(source).settings.cleanup == "none"
            assert app.log.topic(source).settings.retention_age is None
        # Declared once more, by an application that drops nothing.
        app.topic("g", columns, event_time="at", watermark=10, idle=60)
        app.clock()
        assert app.log.topic("headwater.clock").settings.retention_age is None


def test_records_that_retention_takes_stop_the_views(spark: SparkSession, tmp_path: Path) -> None:
    with App("trimmed", log=tmp_path / "log", master="local[2]") as app:
        app.topic("clicks", "device string, at timestamp, v int", event_time="at", watermark=10, late="drop")
        app.view("counted", "SELECT count(*) AS n FROM clicks")
        click(app, ("a", 100))
        app.catch_up()
        app.log.alter("clicks", retention_bytes=1, segment_bytes_max=1)
        click(app, ("a", 200))
        click(app, ("a", 300))
        assert isinstance(app.log, EmbeddedLog)
        app.log.upkeep()
        with pytest.raises(UsageError, match="Retention deletes records of topic 'clicks'"):
            app.catch_up()


def test_another_rule_is_another_view(spark: SparkSession, tmp_path: Path) -> None:
    with declare(App("changing", log=tmp_path / "log", master="local[2]")) as app:
        click(app, ("a", 300))
        click(app, ("a", 230), ("b", 100))
        app.catch_up()
        assert app.read("counted")["n"].to_pylist() == [1]
        app.topic(
            "clicks", "device string, at timestamp, v int", partitions=2, event_time="at", watermark="2 minutes",
            producer="device", idle="2 minutes", late="drop",
        )  # fmt: skip
        app.close_pipeline()
        app.catch_up()
        assert app.read("counted")["n"].to_pylist() == [2]
        assert all(app.verify(view).equal for view in app.views)


def test_nothing_is_in_late_if_nothing_is_dropped(spark: SparkSession, tmp_path: Path) -> None:
    with App("correcting", log=tmp_path / "log", master="local[2]") as app:
        app.topic("clicks", "device string, at timestamp", event_time="at", watermark="10 seconds")
        app.view("ledger", "SELECT * FROM late('clicks')")
        with pytest.raises(UnsupportedQuery, match=r"late\('clicks'\)") as error:
            app.catch_up()
        assert "late='drop'" in error.value.hint


def click(app: App, *events: tuple[str, int]) -> None:
    app.log.append("clicks", [{"device": d, "at": START + timedelta(seconds=at), "v": 1} for d, at in events])


def balanced(app: App) -> None:
    """In = out + late."""
    counted = sum(app.read("counted")["n"].to_pylist())
    came = sum(end for _, end in app.log.offsets("clicks", at=app.snapshot().position).values())
    assert came == counted + app.read("ledger").num_rows


def late_offsets(app: App) -> list[tuple[datetime, int]]:
    ledger = app.read("ledger")
    return sorted(zip(ledger["at"].to_pylist(), ledger["_offset"].to_pylist(), strict=True))


def expected(app: App) -> list[tuple[datetime, int]]:
    """What the model says about the log."""
    end = app.snapshot().position
    ticks, marks = said(app, "headwater.clock"), said(app, "headwater.watermark.clicks")
    events: dict[int, list[tuple[Event, int]]] = {}
    for row in app.log.scan("clicks", end=end).to_pylist():
        at = None if row["at"] is None else _microseconds(row["at"])
        events.setdefault(row["_commit"], []).append((Event(row["device"], at), row["_offset"]))
    model, found = Model(10_000_000, 120_000_000), list[tuple[datetime, int]]()
    for number in sorted({*ticks, *marks, *events}):
        there = events.get(number, [])
        commit = Committed(number, ticks.get(number), marks.get(number), [event for event, _ in there])
        for (_, event, _, late), (_, offset) in zip(model.judge([commit]), there, strict=True):
            if late and event.at is not None:
                found.append((START + timedelta(microseconds=event.at - _microseconds(START)), offset))
    return sorted(found)


def said(app: App, topic: str) -> dict[int, int]:
    """What the records of a time source say, by commit."""
    rows = app.log.scan(topic, end=app.snapshot().position).to_pylist()
    return {row["_commit"]: _microseconds(row["at"]) for row in rows}


def _microseconds(at: datetime) -> int:
    return (at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)

"""Watermarks follow from records alone: each producer's newest event, the least of them, and never back."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from headwater.engine import judging
from headwater.engine.ticking import Ticking
from headwater.engine.timekeeping import Timekeeping
from headwater.engine.watermarking import Watermarking
from headwater.engine.watermarks import WatermarkRule, check_rule
from headwater.errors import UnknownTopic, UsageError
from headwater.log.embedded.log import EmbeddedLog
from headwater.model.ddl import parse_ddl

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
SCHEMA = parse_ddl("device string, at timestamp")
RULE = WatermarkRule("clicks", "at", timedelta(seconds=10), "device", timedelta(minutes=1))


def after(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EmbeddedLog]:
    with EmbeddedLog(tmp_path / "log") as log:
        log.create("clicks", SCHEMA, partitions=2)
        yield log


def click(log: EmbeddedLog, *events: tuple[str | None, float | None]) -> None:
    rows = [{"device": device, "at": None if at is None else after(at)} for device, at in events]
    log.append("clicks", rows)


def watermarking(log: EmbeddedLog) -> Watermarking:
    return Watermarking(log, RULE, lambda: True)


def reached(log: EmbeddedLog) -> float | None:
    found = log.watermark_at("clicks")
    return None if found is None else (found - NOON).total_seconds()


def test_the_producer_furthest_behind_decides(log: EmbeddedLog) -> None:
    one = watermarking(log)
    one.advance()
    assert reached(log) is None
    click(log, ("a", 100), ("b", 50), ("a", 20), (None, 70), ("a", None))
    one.advance()
    assert reached(log) == 40
    click(log, ("b", 90), (None, 80))
    one.advance()
    assert reached(log) == 70
    assert one.state().held_back_by == ("", "b", "a")


def test_it_never_goes_back(log: EmbeddedLog) -> None:
    one = watermarking(log)
    click(log, ("a", 100))
    one.advance()
    click(log, ("new", 5))
    one.advance()
    assert reached(log) == 90
    click(log, ("new", 101), ("a", 120))
    one.advance()
    assert reached(log) == 91


def test_an_idle_producer_does_not_hold_it_back(log: EmbeddedLog) -> None:
    one = watermarking(log)
    log.tick(NOON)
    click(log, ("a", 0), ("b", 0))
    one.advance()
    log.tick(after(59))
    click(log, ("a", 60))
    one.advance()
    assert (reached(log), one.state().idle) == (-10, ())
    log.tick(after(60))
    one.advance()
    assert (reached(log), one.state().idle) == (50, ("b",))
    click(log, ("b", 30))
    one.advance()
    assert (reached(log), one.state().idle) == (50, ())


def test_late_events_are_counted(log: EmbeddedLog) -> None:
    one = watermarking(log)
    click(log, ("a", 100), ("b", 100))
    one.advance()
    click(log, ("a", 90), ("a", 89), ("b", 60), ("a", 300))
    one.advance()
    state = one.state()
    assert (state.late, state.late_by) == (2, timedelta(seconds=30))
    other = watermarking(log)
    click(log, ("b", 50), ("b", 200))
    other.advance()
    assert (other.state().late, other.state().late_by) == (3, timedelta(seconds=40))


def test_it_continues_although_what_it_has_read_is_deleted(log: EmbeddedLog) -> None:
    one = watermarking(log)
    log.alter("clicks", segment_bytes_max=1)
    for seconds in (100, 110, 120):
        click(log, ("a", seconds))
    one.advance()
    log.alter("clicks", retention_bytes=1)
    log.upkeep()
    assert max(first for first, _ in log.offsets("clicks").values()) > 0
    click(log, ("a", 200))
    other = watermarking(log)
    other.advance()
    assert reached(log) == 190


def test_all_idle_is_no_progress(log: EmbeddedLog) -> None:
    one = watermarking(log)
    log.tick(NOON)
    click(log, ("a", 0))
    one.advance()
    log.tick(after(600))
    one.advance()
    assert reached(log) == -10


def test_another_process_continues(log: EmbeddedLog) -> None:
    watermarking(log).advance()
    click(log, ("a", 100), ("b", 50))
    watermarking(log).advance()
    first, second = watermarking(log), watermarking(log)
    click(log, ("b", 60))
    first.advance()
    click(log, ("b", 70))
    second.advance()
    first.advance()
    assert reached(log) == 60
    assert log.scan("headwater.watermark.clicks").num_rows == 3


def test_what_was_promised_by_hand_counts_at_once(log: EmbeddedLog) -> None:
    one = watermarking(log)
    click(log, ("a", 100))
    log.watermark("clicks", after(500))
    one.advance()
    assert reached(log) == 500
    with pytest.raises(UsageError, match="The watermark of topic 'clicks' is at"):
        log.watermark("clicks", after(499))
    with pytest.raises(UnknownTopic):
        log.watermark("other", NOON)


def test_it_is_the_same_no_matter_when_it_is_looked_at(log: EmbeddedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """A backlog is judged record by record, as it would have been had somebody looked after every commit."""
    often, once = watermarking(log), watermarking(log)
    log.tick(NOON)
    for seconds in range(0, 300, 20):
        click(log, ("a", seconds), ("b", seconds - 30 if seconds < 100 else None))
        click(log, ("a", seconds - 50))
        log.tick(after(seconds))
        often._look()
    monkeypatch.setattr(judging, "ROWS_MAX", 7)
    once._look()
    assert once.state() == often.state()
    assert once._lateness == often._lateness
    assert (once.state().idle, once.state().late) == (("b",), 13)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (WatermarkRule("clicks", "when", timedelta(0)), "no column 'when'"),
        (WatermarkRule("clicks", "at", timedelta(0), "phone"), "no column 'phone'"),
        (WatermarkRule("clicks", "device", timedelta(0)), "'device' of topic 'clicks' is no timestamp"),
    ],
)
def test_a_rule_that_does_not_fit_its_topic(rule: WatermarkRule, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        check_rule(rule, SCHEMA)


def test_what_views_read_has_to_be_declared(log: EmbeddedLog) -> None:
    time = Timekeeping(log, lambda: ["watermark.clicks"])
    with pytest.raises(UsageError, match="reads the watermark of 'clicks', which has none"):
        time.check(["watermark.clicks"])
    with pytest.raises(UsageError, match="has a watermark and no event time"):
        time.set_watermark(log.topic("clicks"), "10 seconds", None, None, None)
    with pytest.raises(UsageError, match="reads no topic with a watermark"):
        time.emitted("bill", "SELECT 1 FROM clicks", "final")
    time.set_watermark(log.topic("clicks"), "10 seconds", "device", "1 minute", "at")
    with pytest.raises(UsageError, match="has idle producers, and the application has no clock"):
        time.check(["watermark.clicks"])
    time.set_clock("1 second", create=True)
    time.check(["watermark.clicks", "clock"])
    assert [part.name for part in time.parts()] == ["watermark of clicks", "clock"]


def test_whoever_drops_late_records_needs_to_know_who_is_idle(log: EmbeddedLog) -> None:
    time = Timekeeping(log, list)
    time.set_watermark(log.topic("clicks"), "10 seconds", "device", "1 minute", "at")
    time.check([])
    time.set_late(log.topic("clicks"), "drop", create=True)
    with pytest.raises(UsageError, match="has idle producers, and the application has no clock"):
        time.check([])
    time.set_clock("1 second", create=True)
    time.check([])
    clock = next(part for part in time.parts() if part.name == "clock")
    assert isinstance(clock, Ticking)
    assert clock._reads()
    time.set_late(log.topic("clicks"), "correct", create=True)
    assert not clock._reads()


def test_a_watermark_set_by_hand_needs_no_rule(log: EmbeddedLog) -> None:
    log.watermark("clicks", NOON)
    Timekeeping(log, list).check(["watermark.clicks"])

"""A log's clock: its ticks are records, and it never goes back."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from headwater.errors import UsageError
from headwater.log.port import Log
from headwater.log.times import CLOCK, create_source, keep_source
from headwater.model.record import AMENDED
from tests.contract.implementation import Implementation

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def test_a_tick_is_true_from_its_position_on(log: Log, implementation: Implementation) -> None:
    log.create("notes", "text string")
    before = log.append("notes", [{"text": "before"}])
    first = log.tick(NOON)
    between = log.append("notes", [{"text": "between"}])
    second = log.tick(NOON + timedelta(microseconds=1))
    other = implementation.open()
    assert before < first < between < second == log.position()
    assert [other.now(at=position) for position in (before, first, between)] == [None, NOON, NOON]
    assert other.now() == log.now(at=second) == NOON + timedelta(microseconds=1)


def test_a_clock_that_has_not_ticked_shows_no_time(log: Log) -> None:
    assert log.now() is None


def test_the_same_tick_again_is_none(log: Log) -> None:
    position = log.tick(NOON)
    assert log.tick(NOON) == position == log.position()


def test_the_clock_does_not_go_back(log: Log) -> None:
    log.tick(NOON)
    with pytest.raises(UsageError, match="The clock of the log is at 2026-01-01T12:00:00"):
        log.tick(NOON - timedelta(seconds=1))
    assert log.now() == NOON


def test_many_may_tick(log: Log, implementation: Implementation) -> None:
    logs = [log, implementation.open()]
    log.tick(NOON)

    def tick(number: int) -> bool:
        try:
            logs[number % 2].tick(NOON + timedelta(seconds=number))
        except UsageError:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(tick, range(1, 30)))
    assert done[-1]
    assert log.now() == NOON + timedelta(seconds=29)
    ticks = log.scan("headwater.clock")["at"].to_pylist()
    assert ticks == sorted(set(ticks))
    assert len(ticks) == 1 + sum(done)


def test_what_is_amended_says_so_and_has_the_columns_of_the_topic(log: Log) -> None:
    log.create("clicks", "device string, at timestamp")
    rows = [{"device": "a", "at": NOON}]
    ledger = pa.Table.from_pylist([{**rows[0], "_late_by": 5.0, "_reason": "late"}])
    log.append("clicks", rows)
    log.amend("clicks", ledger)
    log.amend("clicks", rows)
    found = log.scan("clicks")
    assert found["device"].to_pylist() == ["a"] * 3
    headers = [dict(one or ()) for one in found["_headers"].to_pylist()]
    assert [AMENDED in one for one in headers] == [False, True, True]


def test_what_others_are_judged_by_is_kept(log: Log) -> None:
    create_source(log, CLOCK)
    assert log.topic("headwater.clock").settings.retention_age is not None
    for _ in range(2):
        keep_source(log, CLOCK)
        create_source(log, CLOCK)
        settings = log.topic("headwater.clock").settings
        assert (settings.retention_age, settings.cleanup) == (None, "none")

"""Lag: what a group has not read, in records, bytes and seconds, and when somebody should look."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import UnknownGroup
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.lag import RISK_ALARM, Lag, LagLimits
from headwater.testing.clock import ManualClock

HOUR = timedelta(hours=1)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def log(tmp_path: Path, clock: ManualClock) -> Iterator[EmbeddedLog]:
    with EmbeddedLog(tmp_path, durability="os", upkeep=False, clock=clock) as log:
        yield log


def read_up_to(log: EmbeddedLog, records: int, topic: str = "orders", group: str = "billing") -> None:
    """Lets the group have dealt with this many records of partition 0, whatever batches they come in."""
    log.consumer(topic, group=group).close()
    with log._catalog.write() as tx:
        tx.execute("UPDATE claims SET offset = ? WHERE group_name = ? AND partition = 0", (records, group))


def lag_of(log: EmbeddedLog) -> Lag:
    [lag] = log.lag("billing")
    return lag


def lag(**changes: Any) -> Lag:
    values: dict[str, Any] = {
        "group": "g", "topic": "t", "partition": 0, "member": None, "offset": 0, "end": 0, "records": 0, "bytes": 0,
        "seconds": 0.0, "gone": 0, "risk": None,
    }  # fmt: skip
    return Lag(**(values | changes))


def test_nothing_read_is_everything_behind(log: EmbeddedLog, clock: ManualClock) -> None:
    log.create("orders", "id bigint")
    log.append("orders", [{"id": n} for n in range(10)])
    clock.advance(HOUR)
    read_up_to(log, 0)
    found = lag_of(log)
    assert (found.offset, found.end, found.records, found.gone, found.seconds) == (0, 10, 10, 0, 3600)
    assert found.bytes == log.segments("orders")[0].bytes


def test_everything_read_is_nothing_behind(log: EmbeddedLog, clock: ManualClock) -> None:
    log.create("orders", "id bigint", retention_age=HOUR, retention_bytes=1000)
    log.append("orders", [{"id": 1}])
    clock.advance(HOUR)
    read_up_to(log, 1)
    found = lag_of(log)
    assert (found.records, found.bytes, found.seconds, found.gone, found.risk) == (0, 0, 0.0, 0, 0.0)


def test_an_empty_topic_is_nothing_behind(log: EmbeddedLog) -> None:
    log.create("orders", "id bigint")
    read_up_to(log, 0)
    found = lag_of(log)
    assert (found.records, found.bytes, found.seconds, found.risk) == (0, 0, 0.0, None)


def test_the_age_is_that_of_the_oldest_unread_record_not_of_its_segment(log: EmbeddedLog, clock: ManualClock) -> None:
    log.create("orders", "id bigint")
    log.append("orders", [{"id": 1}])
    clock.advance(10 * HOUR)
    log.append("orders", [{"id": 2}])
    clock.advance(timedelta(seconds=5))
    read_up_to(log, 1)
    assert lag_of(log).seconds == 5


def test_once_a_segment_is_sealed_the_age_lies_between_its_ends(log: EmbeddedLog, clock: ManualClock) -> None:
    log.create("orders", "id bigint")
    for number in range(4):
        log.append("orders", [{"id": number}])
        clock.advance(HOUR)
    log.seal("orders")
    read_up_to(log, 2)
    assert 3600 <= lag_of(log).seconds <= 4 * 3600


def test_a_damaged_segment_does_not_hide_the_lag(log: EmbeddedLog, clock: ManualClock) -> None:
    log.create("orders", "id bigint")
    log.append("orders", [{"id": 1}])
    clock.advance(HOUR)
    read_up_to(log, 0)
    (log.directory / log.segments("orders")[0].file).unlink()
    assert lag_of(log).seconds == 3600


def test_bytes_are_counted_over_all_unread_segments(log: EmbeddedLog) -> None:
    log.create("orders", "id bigint", segment_bytes_max=1)
    for number in range(4):
        log.append("orders", [{"id": number}])
    sizes = [segment.bytes for segment in log.segments("orders")]
    assert len(sizes) == 4
    read_up_to(log, 1)
    assert lag_of(log).bytes == sum(sizes[1:])
    assert lag_of(log).records == 3


def test_what_retention_deleted_before_it_was_read_is_counted(log: EmbeddedLog, clock: ManualClock) -> None:
    log.create("orders", "id bigint", segment_bytes_max=1, retention_age=HOUR, hold_age_max=0)
    for number in range(3):
        log.append("orders", [{"id": number}])
    read_up_to(log, 1)
    clock.advance(2 * HOUR)
    log.append("orders", [{"id": 3}])
    log.upkeep()
    found = lag_of(log)
    assert (found.offset, found.gone, found.records, found.end, found.seconds) == (1, 2, 1, 4, 0)


def test_risk_is_the_part_of_the_retention_that_is_used_up(log: EmbeddedLog, clock: ManualClock) -> None:
    log.create("orders", "id bigint", retention_age=3 * HOUR, hold_age_max=HOUR, hold_bytes_max=0)
    log.append("orders", [{"id": 1}])
    read_up_to(log, 0)
    clock.advance(HOUR)
    assert lag_of(log).risk == 0.25
    size = lag_of(log).bytes
    log.alter("orders", retention_bytes=2 * size)
    assert lag_of(log).risk == 0.5
    log.alter("orders", retention_bytes=100 * size)
    assert lag_of(log).risk == 0.25
    log.alter("orders", retention_age=None, retention_bytes=None)
    assert lag_of(log).risk is None


def test_who_holds_the_partition_is_shown(log: EmbeddedLog) -> None:
    log.create("orders", "id bigint")
    with log.consumer("orders", group="billing", member="worker-1"):
        assert lag_of(log).member == "worker-1"
    assert lag_of(log).member is None


def test_a_group_that_never_was_is_told_from_one_without_topics(log: EmbeddedLog) -> None:
    with pytest.raises(UnknownGroup):
        log.lag("nobody")
    log.create("orders", "id bigint")
    read_up_to(log, 0)
    log.drop("orders")
    assert log.groups() == ["billing"]
    assert log.lag("billing") == []


@given(
    st.builds(
        lag, records=st.integers(0, 20), bytes=st.integers(0, 20), seconds=st.floats(0, 20), gone=st.integers(0, 2),
        risk=st.none() | st.floats(0, 2),
    ),
    st.integers(0, 20),
)  # fmt: skip
def test_each_limit_raises_its_own_alarm(found: Lag, limit: int) -> None:
    never = float("inf")
    assert bool(found.alarms(LagLimits(risk=never))) == (found.gone > 0)
    kept = lag(records=found.records, bytes=found.bytes, seconds=found.seconds, risk=found.risk)
    assert bool(kept.alarms(LagLimits(risk=never, records=limit))) == (found.records > limit)
    assert bool(kept.alarms(LagLimits(risk=never, bytes=limit))) == (found.bytes > limit)
    assert bool(kept.alarms(LagLimits(risk=never, age=timedelta(seconds=limit)))) == (found.seconds > limit)
    assert bool(kept.alarms(LagLimits())) == (found.risk is not None and found.risk >= RISK_ALARM)


def test_every_alarm_says_what_and_how_much() -> None:
    bad = lag(records=11, bytes=12, seconds=13.0, gone=14, risk=0.9)
    said = bad.alarms(LagLimits(records=1, bytes=2, age=timedelta(seconds=3)))
    assert len(said) == 5
    for number in ("11", "12", "13", "14", "90%"):
        assert any(number in sentence for sentence in said)

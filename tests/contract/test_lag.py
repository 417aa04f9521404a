"""Lag: how far a group is behind, in records, bytes and seconds, and when to raise the alarm."""

from __future__ import annotations

from datetime import timedelta

import pytest

from headwater.errors import UnknownGroup
from headwater.log.lag import LagLimits
from headwater.log.port import Log
from tests.contract.implementation import LEASE, RETENTION, Implementation
from tests.contract.looking import AT_ONCE, ORDERS, delivered, orders


@pytest.fixture(autouse=True)
def topics(log: Log) -> None:
    log.create("events", ORDERS, partitions=2, retention_age=RETENTION)


def test_lag_counts_what_was_not_committed(log: Log, implementation: Implementation) -> None:
    log.append("events", orders(0, 1, 2), partition=0)
    with log.consumer("events", group="billing", lease=LEASE) as consumer:
        assert len(delivered(consumer)) == 3
        [first, second] = log.lag("billing")
        assert (first.group, first.topic, first.partition, first.member) == ("billing", "events", 0, consumer.member)
        assert (first.offset, first.end, first.records) == (0, 3, 3)
        assert first.bytes > 0
        assert (second.records, second.bytes, second.seconds) == (0, 0, 0)
        consumer.commit()
        log.append("events", orders(3), partition=0)
        [first, _] = implementation.open().lag("billing")
        assert (first.offset, first.end, first.records, first.gone) == (3, 4, 1, 0)
    [first, _] = log.lag("billing")
    assert first.member is None
    assert first.offset == 3


def test_lag_in_seconds_is_the_age_of_the_oldest_unread_record(log: Log, implementation: Implementation) -> None:
    log.append("events", orders(0), partition=0)
    with log.consumer("events", group="billing", lease=LEASE) as consumer:
        implementation.let_time_pass()
        [first, second] = log.lag("billing")
        assert first.seconds >= 1
        assert second.seconds == 0
        consumer.poll(AT_ONCE)
        consumer.commit()
        assert log.lag("billing")[0].seconds == 0


def test_lag_of_all_groups_or_of_one(log: Log) -> None:
    assert log.lag() == []
    with pytest.raises(UnknownGroup) as error:
        log.lag("nobody")
    assert error.value.name == "nobody"
    for group in ("b", "a"):
        log.consumer("events", group=group, lease=LEASE).close()
    assert [(lag.group, lag.partition) for lag in log.lag()] == [("a", 0), ("a", 1), ("b", 0), ("b", 1)]
    assert [lag.group for lag in log.lag("a")] == ["a", "a"]


def test_lag_tells_what_was_deleted_unread(log: Log, implementation: Implementation) -> None:
    log.append("events", orders(0, 1), partition=1)
    log.consumer("events", group="slow", lease=LEASE).close()
    implementation.forget(log, "events")
    log.append("events", orders(2), partition=1)
    [_, second] = log.lag("slow")
    assert (second.offset, second.end, second.records, second.gone) == (0, 3, 1, 2)
    assert any("deleted" in alarm for alarm in second.alarms(LagLimits()))


def test_alarms_name_the_limit_that_is_passed(log: Log, implementation: Implementation) -> None:
    log.append("events", orders(0, 1, 2), partition=0)
    log.consumer("events", group="slow", lease=LEASE).close()
    implementation.let_time_pass()
    [first, second] = log.lag("slow")
    assert first.alarms(LagLimits()) == []
    assert second.alarms(LagLimits(records=0, bytes=0, age=AT_ONCE)) == []
    assert len(first.alarms(LagLimits(records=2))) == 1
    assert first.alarms(LagLimits(records=3)) == []
    assert len(first.alarms(LagLimits(records=2, bytes=1, age=timedelta(milliseconds=1), risk=0.0))) == 4


def test_risk_is_the_part_of_the_retention_that_is_used_up(log: Log, implementation: Implementation) -> None:
    log.create("kept", ORDERS)
    log.append("kept", orders(0))
    log.append("events", orders(0), partition=0)
    log.consumer(["events", "kept"], group="slow", lease=LEASE).close()
    implementation.let_time_pass()
    risks = {(lag.topic, lag.partition): lag.risk for lag in log.lag("slow")}
    assert risks["kept", 0] is None
    assert risks["events", 1] == 0
    late = risks["events", 0]
    assert late is not None
    assert 0 < late < 0.1

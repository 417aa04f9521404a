"""A consumer that loses partitions: nothing that it made of them is committed, and nothing is left out."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from headwater.errors import Fenced, TombstonesGone, UsageError
from headwater.log.consumer import Consumer
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.lag import LagLimits
from headwater.testing.clock import ManualClock

AT_ONCE = timedelta(0)
# So long that it ends only where a test says so.
LEASE = timedelta(hours=1)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EmbeddedLog]:
    with EmbeddedLog(tmp_path, durability="os", upkeep=False, clock=ManualClock()) as log:
        log.create("orders", "id bigint", partitions=2)
        log.create("totals", "id bigint")
        yield log


def member(log: EmbeddedLog, name: str, lease: timedelta = LEASE) -> Consumer:
    return log.consumer("orders", group="billing", member=name, lease=lease)


def ids(log: EmbeddedLog, topic: str) -> list[int]:
    found: list[int] = log.scan(topic)["id"].to_pylist()
    return found


def deliver(consumer: Consumer) -> list[int]:
    """Everything that there is to deliver."""
    found: list[int] = []
    while (batch := consumer.poll(AT_ONCE)) is not None:
        found += batch.records["id"].to_pylist()
    return found


def make(log: EmbeddedLog, consumer: Consumer, numbers: list[int]) -> None:
    """Commits output with the offsets."""
    with log.commit() as commit:
        commit.append("totals", [{"id": number} for number in numbers])
        commit.offsets(consumer)


def take_away(log: EmbeddedLog, partition: int) -> None:
    """What the others do with a partition of a member that they think is dead."""
    with log._catalog.write() as tx:
        tx.execute("UPDATE claims SET member = NULL, epoch = epoch + 1 WHERE partition = ?", (partition,))
        tx.execute("UPDATE groups SET version = version + 1")


@pytest.mark.parametrize("poll_in_between", [False, True])
def test_what_is_made_of_a_lost_partition_is_not_committed(log: EmbeddedLog, poll_in_between: bool) -> None:
    log.append("orders", [{"id": 1}], partition=0)
    log.append("orders", [{"id": 2}], partition=1)
    with member(log, "a") as consumer:
        made = deliver(consumer)
        assert sorted(made) == [1, 2]
        take_away(log, 0)
        if poll_in_between:
            made += deliver(consumer)
        with pytest.raises(Fenced):
            make(log, consumer, made)
        assert ids(log, "totals") == []


def test_after_fencing_everything_uncommitted_is_delivered_again(log: EmbeddedLog) -> None:
    log.append("orders", [{"id": 1}], partition=0)
    log.append("orders", [{"id": 2}], partition=1)
    with member(log, "a") as consumer:
        deliver(consumer)
        take_away(log, 0)
        with pytest.raises(Fenced):
            make(log, consumer, [1, 2])
        made = deliver(consumer)
        assert sorted(made) == [1, 2]
        make(log, consumer, made)
        assert sorted(ids(log, "totals")) == [1, 2]
        assert deliver(consumer) == []
    assert [lag.records for lag in log.lag("billing")] == [0, 0]


def test_a_plain_commit_of_a_lost_partition_is_refused_and_delivered_again(log: EmbeddedLog) -> None:
    log.append("orders", [{"id": 1}], partition=0)
    log.append("orders", [{"id": 2}], partition=1)
    with member(log, "a") as consumer:
        deliver(consumer)
        take_away(log, 1)
        with pytest.raises(Fenced):
            consumer.commit()
        assert [lag.offset for lag in log.lag("billing")] == [0, 0]
        assert sorted(deliver(consumer)) == [1, 2]
        consumer.commit()
    assert [lag.records for lag in log.lag("billing")] == [0, 0]


def test_a_partition_that_was_lost_when_nothing_was_uncommitted_is_no_loss(log: EmbeddedLog) -> None:
    log.append("orders", [{"id": 1}], partition=0)
    with member(log, "a") as consumer:
        deliver(consumer)
        consumer.commit()
        take_away(log, 0)
        assert deliver(consumer) == []
        consumer.commit()


def test_a_rewound_consumer_delivers_again_what_was_not_committed(log: EmbeddedLog) -> None:
    log.append("orders", [{"id": 1}], partition=0)
    with member(log, "a") as consumer:
        deliver(consumer)
        consumer.commit()
        log.append("orders", [{"id": 2}], partition=0)
        assert deliver(consumer) == [2]
        consumer.rewind()
        assert consumer.moves() == []
        assert deliver(consumer) == [2]


def test_what_takes_longer_than_a_lease_goes_to_others_and_can_not_be_committed(log: EmbeddedLog) -> None:
    log.append("orders", [{"id": 1}], partition=0)
    log.append("orders", [{"id": 2}], partition=1)
    with member(log, "a", timedelta(milliseconds=50)) as slow:
        assert sorted(deliver(slow)) == [1, 2]
        with member(log, "b") as other:
            while len(slow.partitions) == 2:
                slow.poll(timedelta(milliseconds=10))
            with pytest.raises(Fenced):
                slow.commit()
            assert len(deliver(other)) == 1


def test_a_member_replaced_by_one_of_its_name_is_told(log: EmbeddedLog) -> None:
    with member(log, "a") as older, member(log, "a") as newer:
        with pytest.raises(Fenced):
            older.poll(AT_ONCE)
        assert len(newer.partitions) == 2
        older.close()
        log.append("orders", [{"id": 1}], partition=0)
        assert deliver(newer) == [1]
        newer.commit()


def test_new_partitions_are_taken_in_without_opening_again(log: EmbeddedLog) -> None:
    with member(log, "a") as consumer:
        log.alter("orders", partitions=3)
        log.append("orders", [{"id": 1}], partition=2)
        assert deliver(consumer) == [1]


def test_closing_the_log_first_is_no_error_and_leaves_no_thread(log: EmbeddedLog) -> None:
    consumer = member(log, "a", timedelta(milliseconds=3))
    log.close()
    consumer._renewer.join(20)
    assert not consumer._renewer.is_alive()
    consumer.close()
    consumer.close()
    with pytest.raises(UsageError):
        consumer.poll(AT_ONCE)
    assert not [thread for thread in threading.enumerate() if thread.name == "headwater-lease"]


def test_a_fork_that_closes_the_consumer_does_not_make_its_parent_leave(log: EmbeddedLog) -> None:
    log.append("orders", [{"id": 1}], partition=0)
    with member(log, "a") as consumer:
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                with pytest.raises(UsageError):
                    consumer.poll(AT_ONCE)
                consumer.close()
                status = 0
            finally:
                os._exit(status)
        assert os.waitpid(pid, 0)[1] == 0
        assert len(member(log, "b").partitions) == 0
        assert deliver(consumer) == [1]
        consumer.commit()


@pytest.mark.parametrize(
    "options",
    [
        {"start": "now"},
        {"on_gone": "skip"},
        {"lease": timedelta(0)},
        {"lease": timedelta(seconds=-1)},
        {"idle_timeout": timedelta(seconds=-1)},
        {"leese": timedelta(1)},
        {"member": "../a"},
    ],
)
def test_an_option_without_a_meaning_is_refused(log: EmbeddedLog, options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        log.consumer("orders", group="billing", **options)
    assert log.groups() == []


def test_a_consumer_of_nothing_is_refused(log: EmbeddedLog) -> None:
    with pytest.raises(UsageError):
        log.consumer([], group="billing")


def test_no_patience_is_none_at_all(log: EmbeddedLog) -> None:
    log.append("orders", [{"id": 1}], partition=0)
    with log.consumer("orders", group="billing", lease=LEASE, idle_timeout=timedelta(0)) as consumer:
        assert [batch.records["id"].to_pylist() for batch in consumer] == [[1]]


def test_threads_that_come_and_go_leave_no_connection_open(log: EmbeddedLog) -> None:
    def look() -> None:
        log.position()
        log.append("orders", [{"id": 1}])

    def run() -> None:
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()

    run()
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(20):
        run()
    assert len(list(Path("/proc/self/fd").iterdir())) <= before + 2


class TestMissedTombstones:
    """Compaction has dropped tombstones, over a topic's limit, that a group had not read."""

    @pytest.fixture
    def log(self, tmp_path: Path) -> Iterator[EmbeddedLog]:
        clock = ManualClock()
        with EmbeddedLog(tmp_path, durability="os", upkeep=False, clock=clock) as log:
            log.create("rows", "id bigint, v int", key="id", cleanup="compact")
            log.append("rows", [{"id": 1, "v": 1}, {"id": 2, "v": 1}, {"id": 3, "v": 1}])
            with log.consumer("rows", group="copy") as consumer:
                assert deliver(consumer) == [1, 2, 3]
                consumer.commit()
            log.append("rows", [{"id": 4, "v": 1}])
            log.delete("rows", [{"id": 1}, {"id": 2}])
            log.seal("rows")
            clock.advance(timedelta(days=9))
            log.compact("rows")
            assert [record.offset for record in log.read("rows")] == [2, 3]
            yield log

    def test_the_group_is_told_and_lag_raises_an_alarm(self, log: EmbeddedLog) -> None:
        (lag,) = log.lag("copy")
        assert (lag.offset, lag.gone) == (3, 2)
        assert "2 records were deleted before they were read" in lag.alarms(LagLimits())
        with log.consumer("rows", group="copy") as consumer:
            for _ in range(2):
                with pytest.raises(TombstonesGone, match=r"2 tombstones, offsets 4 to 5, .*hold_age_max is 7d") as told:
                    consumer.poll(AT_ONCE)
                assert (told.value.topic, told.value.partition, told.value.count) == ("rows", 0, 2)

    def test_it_can_continue_and_is_told_once(self, log: EmbeddedLog) -> None:
        with log.consumer("rows", group="copy", on_gone="earliest") as consumer:
            assert deliver(consumer) == [4]
            assert [(gone.first, gone.last) for gone in consumer.gone] == [(4, 5)]
            consumer.commit()
            log.append("rows", [{"id": 5, "v": 1}])
            assert deliver(consumer) == [5]
            assert len(consumer.gone) == 1
        assert log.lag("copy")[0].gone == 0

    def test_a_group_that_begins_again_or_is_new_missed_nothing(self, log: EmbeddedLog) -> None:
        with log.consumer("rows", group="new") as consumer:
            assert deliver(consumer) == [3, 4]
        log.reset_group("copy", "earliest")
        assert log.followers.missed() == []
        with log.consumer("rows", group="copy") as consumer:
            assert deliver(consumer) == [3, 4]

    def test_nothing_is_left_of_a_group_that_is_deleted(self, log: EmbeddedLog) -> None:
        assert [one.follower for one in log.followers.missed()] == ["copy"]
        log.delete_group("copy")
        assert log.followers.missed() == []

"""Consumer groups: partitions shared out, taken over, fenced; offsets that move together with output."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import timedelta

import pytest

from headwater.errors import Conflict, Fenced, RecordsGone, UsageError
from headwater.log.consumer import Consumer
from headwater.log.port import Log
from tests.contract.implementation import LEASE, RETENTION, Implementation
from tests.contract.looking import AT_ONCE, ORDERS, SOON, delivered, deliveries, ids, numbers, orders


@pytest.fixture(autouse=True)
def topics(log: Log) -> None:
    log.create("events", ORDERS, partitions=4, retention_age=RETENTION)
    log.create("results", ORDERS)


def send(log: Log, *values: int) -> None:
    """Each number to the partition of its last digit."""
    for value in values:
        log.append("events", orders(value), partition=value % 10)


def settle(*members: Consumer) -> None:
    """Lets members give and take until each has what is due to it."""
    for _ in range(2):
        for member in members:
            member.poll(AT_ONCE)


def shares(*members: Consumer) -> list[int]:
    return [len(member.partitions) for member in members]


def test_one_member_gets_everything_in_order(log: Log) -> None:
    send(log, 0, 1, 10, 20, 3)
    with log.consumer("events", group="billing", lease=LEASE) as consumer:
        assert consumer.partitions == [("events", partition) for partition in range(4)]
        found = list(deliveries(consumer))
        assert sorted(number for batch in found for number in ids(batch)) == [0, 1, 3, 10, 20]
        for batch in found:
            assert {batch.partition} == {number % 10 for number in ids(batch)}
            assert ids(batch) == sorted(ids(batch))
        send(log, 30)
        assert ids(consumer.poll(AT_ONCE)) == [30]
        assert consumer.poll(AT_ONCE) is None
    assert log.groups() == ["billing"]


def test_waiting_for_a_batch_ends_when_one_comes(log: Log, implementation: Implementation) -> None:
    with log.consumer("events", group="billing", lease=LEASE) as consumer, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(consumer.poll, SOON)
        send(implementation.open(), 1)
        assert ids(waiting.result()) == [1]


def test_a_consumer_is_iterated(log: Log) -> None:
    send(log, 0, 1, 2, 3)
    with log.consumer("events", group="billing", lease=LEASE, idle_timeout=timedelta(milliseconds=1)) as consumer:
        assert sorted(number for batch in consumer for number in ids(batch)) == [0, 1, 2, 3]


def test_what_was_committed_does_not_come_again_and_the_rest_does(log: Log) -> None:
    send(log, 0, 10)
    with log.consumer("events", group="billing", lease=LEASE) as consumer:
        assert delivered(consumer) == [0, 10]
        consumer.commit()
        send(log, 20, 1)
        assert sorted(delivered(consumer)) == [1, 20]
    with log.consumer("events", group="billing", lease=LEASE) as consumer:
        assert sorted(delivered(consumer)) == [1, 20]
        consumer.commit()
        consumer.commit()
    with log.consumer("events", group="billing", lease=LEASE) as consumer:
        assert delivered(consumer) == []


def test_groups_are_independent(log: Log) -> None:
    send(log, 0, 1)
    for group in ("billing", "search"):
        with log.consumer("events", group=group, lease=LEASE) as consumer:
            assert sorted(delivered(consumer)) == [0, 1]
            consumer.commit()
    send(log, 2)
    with log.consumer("events", group="search", lease=LEASE) as consumer:
        assert delivered(consumer) == [2]
    assert log.groups() == ["billing", "search"]


def test_a_group_reads_several_topics(log: Log) -> None:
    send(log, 0)
    log.append("results", orders(7))
    with log.consumer(["events", "results"], group="billing", lease=LEASE) as consumer:
        assert ("results", 0) in consumer.partitions
        assert {(batch.topic, *ids(batch)) for batch in deliveries(consumer)} == {("events", 0), ("results", 7)}


def test_partitions_are_divided_evenly_and_all_of_them(log: Log, implementation: Implementation) -> None:
    handles = [log, implementation.open()]
    with ExitStack() as stack:
        members: list[Consumer] = []
        for count in range(1, 6):
            joined = handles[count % 2].consumer("events", group="billing", lease=LEASE)
            members.append(stack.enter_context(joined))
            settle(*members)
            held = [place for member in members for place in member.partitions]
            assert sorted(held) == [("events", partition) for partition in range(4)]
            assert max(shares(*members)) - min(shares(*members)) <= 1
        send(log, 0, 1, 2, 3)
        found = [delivered(member) for member in members]
        assert sorted(number for part in found for number in part) == [0, 1, 2, 3]


def test_members_get_only_topics_that_they_asked_for(log: Log) -> None:
    with (
        log.consumer("events", group="billing", lease=LEASE) as one,
        log.consumer("results", group="billing", lease=LEASE) as two,
    ):
        settle(one, two)
        assert two.partitions == [("results", 0)]
        assert [topic for topic, _ in one.partitions] == ["events"] * 4


def test_a_partition_in_use_is_not_given_away(log: Log) -> None:
    send(log, 0, 1, 2, 3)
    with log.consumer("events", group="billing", lease=LEASE) as one:
        assert sorted(delivered(one)) == [0, 1, 2, 3]
        with log.consumer("events", group="billing", lease=LEASE) as two:
            settle(one, two)
            assert shares(one, two) == [4, 0]
            one.commit()
            settle(one, two)
            assert shares(one, two) == [2, 2]
            assert delivered(two) == []


def test_others_take_over_from_a_member_that_leaves(log: Log) -> None:
    send(log, 0, 1, 2, 3)
    one = log.consumer("events", group="billing", lease=LEASE)
    assert sorted(delivered(one)) == [0, 1, 2, 3]
    one.commit()
    send(log, 10, 11, 12, 13)
    assert sorted(delivered(one)) == [10, 11, 12, 13]
    with log.consumer("events", group="billing", lease=LEASE) as two:
        assert delivered(two) == []
        one.close()
        one.close()
        assert sorted(delivered(two)) == [10, 11, 12, 13]
        assert len(two.partitions) == 4
    with pytest.raises(UsageError):
        one.poll(AT_ONCE)


def test_others_take_over_from_a_member_that_is_silent(log: Log, implementation: Implementation) -> None:
    send(log, 0, 1)
    silent = log.consumer("events", group="billing", lease=LEASE)
    assert sorted(delivered(silent)) == [0, 1]
    with implementation.open().consumer("events", group="billing", lease=LEASE) as other:
        assert delivered(other) == []
        implementation.end_lease(silent, [other])
        assert sorted(delivered(other)) == [0, 1]
        other.commit()
        with pytest.raises(Fenced) as error:
            silent.commit()
        assert error.value.kind == "partition"
        send(log, 10)
        settle(silent, other)
        assert shares(silent, other) == [2, 2]
        other.commit()
    silent.close()


@pytest.mark.parametrize("noted", [False, True])
def test_output_of_a_member_that_was_replaced_is_not_committed(
    log: Log, implementation: Implementation, noted: bool
) -> None:
    send(log, 0)
    silent = log.consumer("events", group="billing", lease=LEASE)
    assert delivered(silent) == [0]
    other = log.consumer("events", group="billing", lease=LEASE)
    implementation.end_lease(silent, [other])
    assert delivered(other) == [0]
    if noted:
        silent.poll(AT_ONCE)
    with pytest.raises(Fenced), log.commit() as commit:  # noqa: PT012 (the error comes at its end)
        commit.append("results", orders(0))
        commit.offsets(silent)
    assert numbers(log, "results") == []
    other.close()
    assert delivered(silent) == [0]
    silent.close()


def test_a_fenced_member_goes_on_with_what_it_claims_then(log: Log, implementation: Implementation) -> None:
    send(log, 0)
    silent = log.consumer("events", group="billing", lease=LEASE)
    assert delivered(silent) == [0]
    with log.consumer("events", group="billing", lease=LEASE) as other:
        implementation.end_lease(silent, [other])
        assert delivered(other) == [0]
    with pytest.raises(Fenced):
        silent.commit()
    assert delivered(silent) == [0]
    silent.commit()
    silent.close()
    assert [lag.records for lag in log.lag("billing")] == [0, 0, 0, 0]


def test_a_member_that_opens_again_under_its_name_fences_its_former_self(log: Log) -> None:
    send(log, 0)
    former = log.consumer("events", group="billing", lease=LEASE, member="worker-1")
    assert delivered(former) == [0]
    with log.consumer("events", group="billing", lease=LEASE, member="worker-1") as later:
        assert delivered(later) == [0]
        with pytest.raises(Fenced):
            former.commit()
        later.commit()
        assert [lag.offset for lag in log.lag("billing")] == [1, 0, 0, 0]
    former.close()


def test_output_and_offsets_move_together(log: Log, implementation: Implementation) -> None:
    send(log, 0, 1, 2, 3)
    with log.consumer("events", group="double", lease=LEASE) as consumer:
        for batch in deliveries(consumer):
            with log.commit() as commit:
                commit.append("results", orders(*(2 * number for number in ids(batch))))
                commit.offsets(consumer)
    assert sorted(map(str, numbers(log, "results"))) == ["0", "2", "4", "6"]
    with implementation.open().consumer("events", group="double", lease=LEASE) as consumer:
        assert delivered(consumer) == []


def test_a_commit_that_does_not_happen_moves_no_offset_and_everything_is_delivered_again(log: Log) -> None:
    send(log, 0)
    with log.consumer("events", group="double", lease=LEASE) as consumer:
        assert delivered(consumer) == [0]
        with pytest.raises(ZeroDivisionError), log.commit() as commit:  # noqa: PT012 (what is done before counts)
            commit.offsets(consumer)
            raise ZeroDivisionError
        assert delivered(consumer) == [0]
        with pytest.raises(Conflict), log.commit() as commit:  # noqa: PT012 (what is done before counts)
            commit.offsets(consumer)
            commit.bookmark("place", 1, expect="something else")
        assert [lag.offset for lag in log.lag("double")] == [0, 0, 0, 0]
        assert delivered(consumer) == [0]
        consumer.commit()
        assert [lag.offset for lag in log.lag("double")] == [1, 0, 0, 0]


@pytest.mark.long_on_kafka
def test_exactly_once_over_members_that_come_and_go(log: Log, implementation: Implementation) -> None:
    """However often members are thought dead between delivery and commit, each record has one result."""
    with ExitStack() as stack:
        members = [stack.enter_context(log.consumer("events", group="copy", lease=LEASE)) for _ in range(3)]
        undone: dict[Consumer, list[int]] = {member: [] for member in members}

        def commit(member: Consumer) -> None:
            try:
                with log.commit() as commit:
                    commit.append("results", orders(*undone[member]))
                    commit.offsets(member)
            except Fenced:
                pass
            undone[member].clear()

        for number in range(30):
            send(log, *(10 * number + partition for partition in range(4)))
            for turn, member in enumerate([*members, *members]):
                batch = member.poll(AT_ONCE)
                undone[member] += ids(batch) if batch is not None else []
                if (turn + number) % 5 == 4:
                    implementation.end_lease(member, [other for other in members if other is not member])
                if (turn + number) % 3 == 0:
                    commit(member)
        for member in members * 100:
            batch = member.poll(AT_ONCE)
            undone[member] += ids(batch) if batch is not None else []
            commit(member)
    expected = [10 * number + partition for number in range(30) for partition in range(4)]
    assert sorted(log.scan("results")["id"].to_pylist()) == expected


def test_a_group_may_start_at_the_end(log: Log) -> None:
    send(log, 0, 1)
    with log.consumer("events", group="late", lease=LEASE, start="latest") as consumer:
        assert delivered(consumer) == []
        send(log, 10)
    with log.consumer("events", group="late", lease=LEASE, start="latest") as consumer:
        assert delivered(consumer) == [10]
        consumer.commit()
    send(log, 20)
    with log.consumer("events", group="late", lease=LEASE, start="earliest") as consumer:
        assert delivered(consumer) == [20]


def test_a_consumer_is_told_exactly_what_it_missed(log: Log, implementation: Implementation) -> None:
    send(log, 0, 10, 20)
    with log.consumer("events", group="slow", lease=LEASE) as consumer:
        assert delivered(consumer) == [0, 10, 20]
        consumer.commit()
        send(log, 30, 40)
        implementation.forget(log, "events")
        send(log, 50)
        with pytest.raises(RecordsGone) as error:
            consumer.poll(AT_ONCE)
        gone = error.value
        assert (gone.topic, gone.partition, gone.first, gone.last, gone.count) == ("events", 0, 3, 4, 2)
        with pytest.raises(RecordsGone):
            consumer.poll(AT_ONCE)
    with log.consumer("events", group="slow", lease=LEASE, on_gone="earliest") as consumer:
        assert delivered(consumer) == [50]
        assert [(gone.partition, gone.first, gone.last) for gone in consumer.gone] == [(0, 3, 4)]
        consumer.commit()
    assert log.lag("slow")[0].gone == 0


def test_a_group_takes_in_partitions_that_are_added(log: Log) -> None:
    with log.consumer("events", group="late", lease=LEASE, start="latest") as consumer:
        assert delivered(consumer) == []
        log.alter("events", partitions=6)
        log.append("events", orders(4), partition=4)
        log.append("events", orders(5), partition=5)
        assert sorted(delivered(consumer)) == [4, 5]
        assert len(consumer.partitions) == 6


@pytest.mark.parametrize("settled", [False, True])
def test_a_consumer_goes_on_over_an_alteration(log: Log, implementation: Implementation, settled: bool) -> None:
    send(log, 0)
    with log.consumer("events", group="billing", lease=LEASE) as consumer:
        assert delivered(consumer) == [0]
        log.alter("events", schema="id bigint, amount bigint, note string")
        log.append("events", [{"id": 10, "amount": 2**40, "note": "new"}], partition=0)
        if settled:
            implementation.settle(log, "events")
        batch = consumer.poll(AT_ONCE)
        assert batch is not None
        assert batch.records.select(["id", "amount"]).to_pylist() == [{"id": 10, "amount": 2**40}]


@pytest.mark.long_on_kafka
def test_members_in_threads_share_the_work(log: Log, implementation: Implementation) -> None:
    def work(_: int) -> list[int]:
        found: list[int] = []
        with implementation.open().consumer("events", group="busy", idle_timeout=timedelta(seconds=2)) as consumer:
            for batch in consumer:
                found += ids(batch)
                consumer.commit()
        return found

    with ThreadPoolExecutor(3) as pool:
        working = [pool.submit(work, number) for number in range(3)]
        for number in range(40):
            send(log, *(10 * number + partition for partition in range(4)))
        found = [number for one in working for number in one.result()]
    assert sorted(found) == [10 * number + partition for number in range(40) for partition in range(4)]

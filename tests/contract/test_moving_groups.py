"""Groups that are moved: where they begin, where a reset leads, what members see of it, and how groups are deleted."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from headwater.errors import Fenced, GroupActive, PositionGone, UnknownGroup, UnknownTopic, UsageError
from headwater.log.consumer import TOPICS_NOTICED_SECONDS, Consumer
from headwater.log.groups import OffsetReset
from headwater.log.port import Log, Start
from headwater.model.position import Position
from tests.contract.implementation import LEASE, RETENTION, Implementation
from tests.contract.looking import AT_ONCE, ORDERS, SOON, delivered, eventually, ids, numbers, orders


@pytest.fixture(autouse=True)
def topics(log: Log) -> None:
    log.create("events", ORDERS, partitions=3, retention_age=RETENTION)
    log.create("results", ORDERS)


def send(log: Log, *values: int) -> Position:
    """Each number to the partition of its last digit, all in one commit."""
    with log.commit() as commit:
        for value in values:
            commit.append("events", orders(value), partition=value % 10)
    return commit.position


def read_up(log: Log, group: str = "billing", *topics: str) -> list[int]:
    """What a member gets and commits that then leaves."""
    with log.consumer(topics or "events", group=group, lease=LEASE) as consumer:
        found = sorted(delivered(consumer))
        consumer.commit()
    return found


def offsets(log: Log, group: str = "billing") -> dict[tuple[str, int], int]:
    return {(lag.topic, lag.partition): lag.offset for lag in log.lag(group)}


def moment(log: Log, implementation: Implementation) -> datetime:
    """A time after everything that is there, and before everything that comes."""
    implementation.let_time_pass()
    at = list(log.read("events"))[-1].at + timedelta(microseconds=1)
    implementation.let_time_pass()
    return at


# Where a reset leads


@pytest.mark.parametrize("settled", [False, True])
def test_a_group_goes_back_to_the_earliest_and_on_to_the_latest(
    log: Log, implementation: Implementation, settled: bool
) -> None:
    send(log, 0, 1, 10, 20)
    if settled:
        implementation.settle(log, "events")
    assert read_up(log) == [0, 1, 10, 20]
    assert log.reset_group("billing", "earliest") == [
        OffsetReset("events", 0, 3, 0), OffsetReset("events", 1, 1, 0), OffsetReset("events", 2, 0, 0),
    ]  # fmt: skip
    assert read_up(log) == [0, 1, 10, 20]
    send(log, 30, 11)
    log.reset_group("billing", "latest")
    assert read_up(log) == []
    send(log, 40)
    assert read_up(log) == [40]


def test_the_earliest_is_the_first_record_that_is_kept(log: Log, implementation: Implementation) -> None:
    send(log, 0, 10)
    assert read_up(log) == [0, 10]
    implementation.forget(log, "events")
    send(log, 20)
    assert [move.after for move in log.reset_group("billing", "earliest")] == [2, 0, 0]
    assert read_up(log) == [20]


@pytest.mark.parametrize("settled", [False, True])
def test_a_group_goes_to_a_time(log: Log, implementation: Implementation, settled: bool) -> None:
    send(log, 0, 1)
    at = moment(log, implementation)
    send(log, 10, 2)
    if settled:
        implementation.settle(log, "events")
    assert read_up(log) == [0, 1, 2, 10]
    log.reset_group("billing", at)
    assert read_up(log) == [2, 10]
    log.reset_group("billing", datetime(2000, 1, 1, tzinfo=UTC))
    assert read_up(log) == [0, 1, 2, 10]
    log.reset_group("billing", datetime(2100, 1, 1, tzinfo=UTC))
    assert read_up(log) == []


@pytest.mark.parametrize("settled", [False, True])
def test_a_group_goes_behind_a_position_in_all_its_topics(
    log: Log, implementation: Implementation, settled: bool
) -> None:
    send(log, 0)
    position = log.append("results", orders(100))
    send(log, 10, 1)
    log.append("results", orders(200))
    if settled:
        implementation.settle(log, "events")
        implementation.settle(log, "results")
    assert read_up(log, "billing", "events", "results") == [0, 1, 10, 100, 200]
    log.reset_group("billing", position)
    assert read_up(log, "billing", "events", "results") == [1, 10, 200]


def test_a_group_goes_to_offsets_of_one_topic(log: Log) -> None:
    send(log, 0, 10, 20, 1, 11)
    log.append("results", orders(100))
    read_up(log, "billing", "events", "results")
    assert log.reset_group("billing", {0: 1}, topics="events") == [OffsetReset("events", 0, 3, 1)]
    assert read_up(log, "billing", "events", "results") == [10, 20]
    log.reset_group("billing", 0, topics=["events"])
    assert read_up(log, "billing", "events", "results") == [0, 1, 10, 11, 20]
    with pytest.raises(UsageError, match="belongs to one topic"):
        log.reset_group("billing", 0)


def test_only_the_topics_that_are_named_are_reset(log: Log) -> None:
    send(log, 0)
    log.append("results", orders(100))
    read_up(log, "billing", "events", "results")
    log.reset_group("billing", "earliest", topics="results")
    assert offsets(log) == {("events", 0): 1, ("events", 1): 0, ("events", 2): 0, ("results", 0): 0}


def test_other_groups_stay_where_they_are(log: Log) -> None:
    send(log, 0)
    assert read_up(log) == read_up(log, "search") == [0]
    log.reset_group("billing", "earliest")
    assert read_up(log, "search") == []
    assert read_up(log) == [0]


def test_a_dry_run_tells_and_moves_nothing_also_under_members(log: Log) -> None:
    send(log, 0, 10)
    with log.consumer("events", group="billing", lease=LEASE) as consumer:
        assert delivered(consumer) == [0, 10]
        consumer.commit()
        moves = log.reset_group("billing", {0: 1}, dry_run=True)
        assert moves == [OffsetReset("events", 0, 2, 1)]
        assert delivered(consumer) == []
        send(log, 20)
        assert delivered(consumer) == [20]
        consumer.commit()
    assert offsets(log)["events", 0] == 3


@pytest.mark.parametrize(
    ("target", "options", "words"),
    [
        ("newest", {}, "newest"),
        (-1, {"topics": "events"}, "-1"),
        (True, {"topics": "events"}, "True"),
        (1.5, {"topics": "events"}, "1.5"),
        (4, {"topics": "events"}, "offsets 0 to 3, not 4"),
        ({0: 4}, {"topics": "events"}, "offsets 0 to 3, not 4"),
        ({0: "a"}, {"topics": "events"}, "'a'"),
        ({7: 0}, {"topics": "events"}, "partitions 0 to 2"),
        (Position.parse("1000000"), {}, "not yet"),
        ("earliest", {"topics": "results"}, "does not read topic 'results'"),
        ("earliest", {"topics": ["events", "none"]}, "no topic 'none'"),
    ],
)
def test_a_place_where_a_group_cannot_go_is_refused(log: Log, target: Any, options: dict[str, Any], words: str) -> None:
    send(log, 0, 10, 20)
    read_up(log)
    before = offsets(log)
    for dry_run in (True, False):
        with pytest.raises(UsageError, match=words):
            log.reset_group("billing", target, dry_run=dry_run, **options)
    assert offsets(log) == before


def test_offsets_that_were_deleted_are_refused(log: Log, implementation: Implementation) -> None:
    send(log, 0, 10)
    position = send(log, 20)
    read_up(log)
    implementation.forget(log, "events")
    send(log, 30)
    with pytest.raises(UsageError, match="offsets 3 to 4, not 2"):
        log.reset_group("billing", {0: 2})
    with pytest.raises(PositionGone):
        log.reset_group("billing", Position())
    log.reset_group("billing", position)
    assert read_up(log) == [30]


def test_a_group_that_there_is_not_is_named(log: Log) -> None:
    for use in (
        lambda: log.reset_group("nobody", "earliest"),
        lambda: log.reset_group("nobody", "earliest", dry_run=True, force=True),
        lambda: log.delete_group("nobody"),
        lambda: log.members("nobody"),
    ):
        with pytest.raises(UnknownGroup):
            use()


def test_partitions_that_nobody_has_taken_yet_are_reset_too(log: Log) -> None:
    read_up(log)
    log.create("more", ORDERS)
    with log.consumer(["events", "more"], group="billing", lease=LEASE, start="latest"):
        pass
    log.append("more", orders(7))
    log.reset_group("billing", "earliest", topics="more")
    assert read_up(log, "billing", "more") == [7]


# What members see of it


def test_a_reset_under_members_is_refused_and_names_them(log: Log, implementation: Implementation) -> None:
    send(log, 0)
    with log.consumer("events", group="billing", lease=LEASE, member="one") as one:
        assert delivered(one) == [0]
        one.commit()
        for use in (lambda: log.reset_group("billing", "earliest"), lambda: log.delete_group("billing")):
            with pytest.raises(GroupActive) as error:
                use()
            assert error.value.members == ("one",)
        assert [(member.name, member.topics) for member in log.members("billing")] == [("one", ("events",))]
        assert delivered(one) == []
        silent = log.consumer("events", group="other", lease=LEASE)
        awake = log.consumer("events", group="other", lease=LEASE, member="awake")
        implementation.end_lease(silent, [awake, one])
        assert [member.name for member in log.members("other")] == ["awake"]
        silent.close()
        awake.close()
    assert log.members("billing") == []
    log.reset_group("billing", "earliest")


def test_members_of_a_group_that_is_forced_continue_from_there(log: Log, implementation: Implementation) -> None:
    send(log, 0, 1, 2)
    with (
        log.consumer("events", group="billing", lease=LEASE) as one,
        implementation.open().consumer("events", group="billing", lease=LEASE) as two,
    ):
        for _ in range(2):
            for member in (one, two):
                member.poll(AT_ONCE)
                member.commit()
        send(log, 10, 11, 12)
        seen = [delivered(member) for member in (one, two)]
        assert sorted(seen[0] + seen[1]) == [10, 11, 12]
        one.commit()
        log.reset_group("billing", "earliest", force=True)
        # One had committed, two had not: what it made of them must not count.
        with pytest.raises(Fenced), log.commit() as commit:  # noqa: PT012 (the error comes at its end)
            commit.offsets(two)
            commit.append("results", orders(*seen[1]))
        again = delivered(one) + delivered(two)
        assert sorted(again) == [0, 1, 2, 10, 11, 12]
        one.commit()
        two.commit()
    assert numbers(log, "results") == []
    assert read_up(log) == []


@pytest.mark.parametrize("noticed", [False, True])
def test_what_was_delivered_before_a_forced_reset_cannot_be_committed(log: Log, noticed: bool) -> None:
    send(log, 0, 10)
    with log.consumer("events", group="billing", lease=LEASE) as consumer:
        assert delivered(consumer) == [0, 10]
        log.reset_group("billing", {0: 1}, force=True)
        if noticed:
            assert delivered(consumer) == [10]
        with pytest.raises(Fenced):
            consumer.commit()
        assert offsets(log)["events", 0] == 1
        assert delivered(consumer) == [10]
        consumer.commit()
    assert offsets(log)["events", 0] == 2


def test_a_member_that_waits_wakes_up_for_a_reset(log: Log, implementation: Implementation) -> None:
    send(log, 1)
    with log.consumer("events", group="billing", lease=LEASE) as consumer, ThreadPoolExecutor(1) as pool:
        assert delivered(consumer) == [1]
        consumer.commit()
        waiting = pool.submit(consumer.poll, SOON)
        implementation.open().reset_group("billing", "earliest", force=True)
        assert ids(waiting.result()) == [1]


def test_a_takeover_after_a_reset_begins_where_the_reset_led(log: Log, implementation: Implementation) -> None:
    send(log, 0, 10, 20)
    silent = log.consumer("events", group="billing", lease=LEASE)
    assert delivered(silent) == [0, 10, 20]
    with log.consumer("events", group="billing", lease=LEASE) as other:
        log.reset_group("billing", {0: 2}, force=True)
        implementation.end_lease(silent, [other])
        assert delivered(other) == [20]
        with pytest.raises(Fenced):
            silent.commit()
        other.commit()
    assert delivered(silent) == []
    silent.close()
    assert offsets(log)["events", 0] == 3


def test_output_follows_each_user_from_where_the_last_reset_led(log: Log, implementation: Implementation) -> None:
    """Whoever reads, whatever was uncommitted and who was taken for dead: nothing is skipped, nothing comes twice."""
    log.create("clicks", "user_id bigint, n bigint", partitions=3, partition_by="user_id")
    log.create("copies", "partition int, offset bigint, user_id bigint, n bigint")
    at, resets = dict.fromkeys(range(3), 0), 0
    with ExitStack() as stack:
        handles = [log, implementation.open()]
        members = [
            stack.enter_context(handles[number % 2].consumer("clicks", group="g", lease=LEASE)) for number in range(3)
        ]
        held: dict[Consumer, list[dict[str, Any]]] = {member: [] for member in members}
        for number in range(60):
            log.append("clicks", [{"user_id": user, "n": number} for user in range(9)])
            for turn, member in enumerate(members):
                while (batch := member.poll(AT_ONCE)) is not None:
                    held[member] += batch.records.select(["_partition", "_offset", "user_id", "n"]).to_pylist()
                if (number + turn) % 11 == 5:
                    implementation.end_lease(member, [other for other in members if other is not member])
                if (number + turn) % 7 == 3:
                    partition = number % 3
                    at[partition] = number % 5
                    log.reset_group("g", {partition: at[partition]}, topics="clicks", force=True)
                    resets += 1
                if (number + turn) % 4:
                    _copy(log, member, held[member], at)
        for member in members * 3:
            while (batch := member.poll(AT_ONCE)) is not None:
                held[member] += batch.records.select(["_partition", "_offset", "user_id", "n"]).to_pylist()
            _copy(log, member, held[member], at)
    assert resets > 10
    assert at == {partition: end for partition, (_, end) in log.offsets("clicks").items()}


def _copy(log: Log, member: Consumer, held: list[dict[str, Any]], at: dict[int, int]) -> None:
    """Commits what a member has made of what it was given; what is committed continues where the group is."""
    rows = [{name.removeprefix("_"): value for name, value in row.items()} for row in held]
    held.clear()
    try:
        with log.commit() as commit:
            commit.offsets(member)
            commit.append("copies", rows)
    except Fenced:
        return
    for row in rows:
        assert row["offset"] == at[row["partition"]], "a record was skipped, or came twice"
        at[row["partition"]] += 1


# Deletion


def test_a_deleted_group_is_gone_and_begins_again(log: Log) -> None:
    send(log, 0, 1)
    assert read_up(log) == [0, 1]
    log.delete_group("billing")
    assert log.groups() == []
    assert log.lag() == []
    with pytest.raises(UnknownGroup):
        log.lag("billing")
    assert read_up(log) == [0, 1]


def test_members_of_a_deleted_group_are_told(log: Log) -> None:
    send(log, 0)
    with log.consumer("events", group="billing", lease=LEASE) as consumer:
        assert delivered(consumer) == [0]
        log.delete_group("billing", force=True)
        with pytest.raises(Fenced):
            consumer.commit()
        for _ in range(2):
            with pytest.raises(UnknownGroup) as error:
                consumer.poll(AT_ONCE)
            assert error.value.deleted
    assert log.groups() == []


def test_a_group_that_begins_again_does_not_take_its_former_self_for_a_member(log: Log) -> None:
    """Also if everything happens to it as it did before, under the same names."""
    send(log, 0)
    former = log.consumer("events", group="billing", lease=LEASE, member="worker")
    assert delivered(former) == [0]
    log.delete_group("billing", force=True)
    with log.consumer("events", group="billing", lease=LEASE, member="worker") as later:
        assert delivered(later) == [0]
        with pytest.raises(Fenced):
            former.commit()
        with pytest.raises(Fenced):
            former.poll(AT_ONCE)
        former.close()
        later.commit()
        assert [member.name for member in log.members("billing")] == ["worker"]
    assert read_up(log) == []


# Where a group begins


@pytest.mark.parametrize("settled", [False, True])
def test_a_group_begins_at_a_time_or_behind_a_position(log: Log, implementation: Implementation, settled: bool) -> None:
    position = send(log, 0, 1)
    at = moment(log, implementation)
    send(log, 10, 2)
    if settled:
        implementation.settle(log, "events")
    starts: list[Start] = [position, at]
    for name, start in enumerate(starts):
        group = f"group-{name}"
        with log.consumer("events", group=group, lease=LEASE, start=start) as consumer:  # type: ignore[arg-type]
            assert sorted(delivered(consumer)) == [2, 10]
        # It was decided when the group began: what another member says later counts for nothing.
        with log.consumer("events", group=group, lease=LEASE, start="latest") as consumer:
            assert sorted(delivered(consumer)) == [2, 10]


def test_a_group_cannot_begin_where_the_log_is_not_or_is_no_more(log: Log, implementation: Implementation) -> None:
    send(log, 0)
    with pytest.raises(UsageError, match="not yet"):
        log.consumer("events", group="billing", start=Position.parse("1000000"))
    implementation.forget(log, "events")
    send(log, 10)
    with pytest.raises(PositionGone):
        log.consumer("events", group="billing", start=Position())
    with pytest.raises(UsageError, match="start cannot be 7"):
        log.consumer("events", group="billing", start=7)  # type: ignore[arg-type]
    assert log.groups() == []
    at = datetime(2000, 1, 1, tzinfo=UTC)
    with log.consumer("events", group="billing", start=at, lease=LEASE) as consumer:
        assert delivered(consumer) == [10]


# Patterns


def test_a_pattern_stands_for_the_topics_whose_names_fit(log: Log) -> None:
    for name in ("orders.de", "orders.fr", "orders", "Orders.us"):
        log.create(name, ORDERS)
        log.append(name, orders(len(log.topics())))
    with log.consumer("orders.*", group="billing", lease=LEASE) as consumer:
        assert consumer.partitions == [("orders.de", 0), ("orders.fr", 0)]
        assert sorted(delivered(consumer)) == [3, 4]
        [member] = log.members("billing")
        assert member.topics == ("orders.de", "orders.fr")
    with log.consumer(["results", "orders.[df]?"], group="mixed", lease=LEASE) as consumer:
        assert {topic for topic, _ in consumer.partitions} == {"results", "orders.de", "orders.fr"}
    with log.consumer("*", group="all", lease=LEASE) as consumer:
        assert {topic for topic, _ in consumer.partitions} == {topic.name for topic in log.topics()}


@pytest.mark.parametrize("start", ["earliest", "latest"])
def test_topics_that_come_are_read_from_their_first_record(log: Log, start: Any) -> None:
    log.create("orders.de", ORDERS)
    log.append("orders.de", orders(1))
    with log.consumer("orders.*", group="billing", lease=LEASE, start=start) as consumer:
        assert delivered(consumer) == ([1] if start == "earliest" else [])
        consumer.commit()
        log.create("orders.fr", ORDERS)
        log.append("orders.fr", orders(2))
        assert delivered(consumer) == [2]
        consumer.commit()
    # Nor are records left out of a topic that came while no member was there.
    log.create("orders.us", ORDERS)
    log.append("orders.us", orders(3))
    with log.consumer("orders.*", group="billing", lease=LEASE, start=start) as consumer:
        assert delivered(consumer) == [3]


def test_a_member_that_waits_notices_a_topic_in_time(log: Log, implementation: Implementation) -> None:
    with log.consumer("orders.*", group="billing", lease=LEASE) as consumer, ThreadPoolExecutor(1) as pool:
        assert consumer.partitions == []
        waiting = pool.submit(consumer.poll, SOON)
        other = implementation.open()
        other.create("orders.de", ORDERS)
        created = time.monotonic()
        eventually(lambda: consumer.partitions == [("orders.de", 0)])
        # It looks that often; the rest is for a machine that is busy.
        assert time.monotonic() - created < TOPICS_NOTICED_SECONDS + SOON.total_seconds() / 4
        other.append("orders.de", orders(1))
        assert ids(waiting.result()) == [1]


def test_topics_that_are_dropped_are_left(log: Log) -> None:
    for name in ("orders.de", "orders.fr"):
        log.create(name, ORDERS)
        log.append(name, orders(len(name)))
    with log.consumer("orders.*", group="billing", lease=LEASE) as consumer:
        assert len(delivered(consumer)) == 2
        log.drop("orders.fr")
        log.append("orders.de", orders(7))
        assert delivered(consumer) == [7]
        assert consumer.partitions == [("orders.de", 0)]
        consumer.commit()
        log.create("orders.fr", "id string")
        log.append("orders.fr", [{"id": "new"}])
        batch = consumer.poll(AT_ONCE)
        assert batch is not None
        assert batch.records["id"].to_pylist() == ["new"]
    with pytest.raises(UnknownTopic):
        log.consumer(["orders.*", "none"], group="billing")


def test_members_by_pattern_and_by_name_share_what_both_read(log: Log) -> None:
    log.create("orders.de", ORDERS, partitions=2)
    with (
        log.consumer("orders.*", group="billing", lease=LEASE) as one,
        log.consumer("orders.de", group="billing", lease=LEASE) as two,
    ):
        for member in (one, two, one, two):
            member.poll(AT_ONCE)
        assert [len(member.partitions) for member in (one, two)] == [1, 1]
        log.create("orders.fr", ORDERS, partitions=2)
        for member in (one, two, one, two):
            member.poll(AT_ONCE)
        assert sorted(one.partitions)[-2:] == [("orders.fr", 0), ("orders.fr", 1)]
        assert {topic for topic, _ in two.partitions} == {"orders.de"}

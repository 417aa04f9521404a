"""Reading: from and to every kind of place, several topics cut at one commit, ending or following."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from itertools import islice

import pytest

from headwater.errors import PositionGone, RecordsGone, UsageError
from headwater.log.embedded.position import commit_of, commit_position
from headwater.log.port import End, Log, Start
from headwater.model.position import START
from headwater.model.record import Record
from tests.contract.implementation import RETENTION, Implementation
from tests.contract.looking import AT_ONCE, ORDERS, SOON, numbers, orders, values


@pytest.fixture(params=["unsettled", "settled", "half settled"])
def events(request: pytest.FixtureRequest, log: Log, implementation: Implementation) -> list[Record]:
    """Six commits, a second apart, into two partitions: 0 1 0 1 0 1, two records each."""
    log.create("events", ORDERS, partitions=2)
    for number in range(6):
        implementation.let_time_pass()
        log.append("events", orders(2 * number, 2 * number + 1), partition=number % 2)
        if request.param == "half settled" and number == 2:
            implementation.settle(log, "events")
    if request.param == "settled":
        implementation.settle(log, "events")
    return list(log.read("events"))


def test_records_come_in_commit_order(events: list[Record]) -> None:
    assert [r.value for r in events] == orders(*range(12))
    assert [(r.partition, r.offset) for r in events] == [
        (number // 2 % 2, number // 4 * 2 + number % 2) for number in range(12)
    ]
    assert [r.position for r in events] == sorted(r.position for r in events)
    assert len({r.position for r in events}) == len({r.at for r in events}) == 6


def test_where_reading_starts(log: Log, events: list[Record]) -> None:
    instant = timedelta(microseconds=1)
    cases: list[tuple[Start, list[int]]] = [
        ("earliest", list(range(12))),
        ("latest", []),
        (0, list(range(12))),
        (3, [5, 7, 8, 9, 10, 11]),
        (6, []),
        (99, []),
        ({0: 5, 1: 3}, [7, 9, 10, 11]),
        ({1: 4}, [0, 1, 4, 5, 8, 9, 10, 11]),
        (START, list(range(12))),
        (events[0].position, list(range(2, 12))),
        (events[5].position, list(range(6, 12))),
        (events[-1].position, []),
        (commit_position(commit_of(events[-1].position) + 9), []),
        (events[4].at, list(range(4, 12))),
        (events[4].at + instant, list(range(6, 12))),
        (events[4].at - instant, list(range(4, 12))),
        (events[4].at.replace(tzinfo=None), list(range(4, 12))),
        (datetime(1990, 1, 1, tzinfo=UTC), list(range(12))),
        (datetime(2100, 1, 1, tzinfo=UTC), []),
    ]
    for start, expected in cases:
        assert numbers(log, "events", start=start) == expected, start


def test_where_reading_ends(log: Log, events: list[Record]) -> None:
    instant = timedelta(microseconds=1)
    cases: list[tuple[End, list[int]]] = [
        (0, []),
        (3, [0, 1, 2, 3, 4, 6]),
        (99, list(range(12))),
        ({0: 1, 1: 5}, [0, 2, 3, 6, 7, 10]),
        ({0: 1}, [0, 2, 3, 6, 7, 10, 11]),
        (START, []),
        (events[0].position, [0, 1]),
        (events[5].position, list(range(6))),
        (events[-1].position, list(range(12))),
        (events[4].at, list(range(4))),
        (events[4].at + instant, list(range(6))),
        (datetime(1990, 1, 1, tzinfo=UTC), []),
        (datetime(2100, 1, 1, tzinfo=UTC), list(range(12))),
    ]
    for end, expected in cases:
        assert numbers(log, "events", end=end) == expected, end


def test_start_and_end_together(log: Log, events: list[Record]) -> None:
    assert numbers(log, "events", start=events[1].position, end=events[8].position) == list(range(2, 10))
    assert numbers(log, "events", start=events[2].at, end=events[8].at) == list(range(2, 8))
    assert numbers(log, "events", start=2, end=4) == [4, 5, 6, 7]
    assert numbers(log, "events", start=4, end=2) == []
    assert numbers(log, "events", start=events[8].position, end=events[1].position) == []
    assert numbers(log, "events", start=events[2].position, end=4) == [4, 5, 6, 7]
    assert numbers(log, "events", start="latest", end=events[2].position) == []


def test_batches_are_the_same_records_per_partition(log: Log, events: list[Record]) -> None:
    for start in (START, events[3].position, 3, events[7].at):
        found: dict[int, list[object]] = {0: [], 1: []}
        for batch in log.batches("events", start=start):
            assert batch.topic == "events"
            assert set(batch.records["_partition"].to_pylist()) == {batch.partition}
            assert batch.next_offset == batch.records["_offset"][-1].as_py() + 1
            found[batch.partition] += batch.records["id"].to_pylist()
        expected = list(log.read("events", start=start))
        assert found == {p: [r.value["id"] for r in expected if r.partition == p and r.value] for p in (0, 1)}


def test_one_partition_can_be_read_alone(log: Log, events: list[Record]) -> None:
    for partition in (0, 1):
        found = [number for batch in log.batches("events", partition=partition) for number in batch.records["id"]]
        expected = [r.value["id"] for r in events if r.value and r.partition == partition]
        assert [number.as_py() for number in found] == expected
    with pytest.raises(UsageError, match="partitions 0 to 1"):
        log.batches("events", partition=2)


def test_a_place_that_is_none_is_refused(log: Log, events: list[Record]) -> None:
    with pytest.raises(UsageError):
        log.read("events", start="first")  # type: ignore[arg-type]
    with pytest.raises(UsageError):
        log.batches("events", columns=["nothing"])


def test_system_columns_tell_where_a_record_is(log: Log, events: list[Record]) -> None:
    rows = log.scan("events").to_pylist()
    assert list(rows[0]) == ["id", "amount", "_partition", "_offset", "_commit", "_received_at", "_deleted", "_headers"]
    found = {(r["_partition"], r["_offset"]): (r["id"], r["_received_at"], r["_deleted"]) for r in rows}
    assert found == {(r.partition, r.offset): (r.value["id"], r.at, False) for r in events if r.value}


def test_several_topics_are_read_in_commit_order(log: Log) -> None:
    log.create("orders", ORDERS, key="id", partitions=3)
    log.create("payments", ORDERS)
    positions = []
    for number in range(10):
        with log.commit() as commit:
            commit.append("payments", orders(number))
            commit.append("orders", orders(number, number + 100))
        positions.append(commit.position)
    records = list(log.read(["orders", "payments"]))
    assert [r.position for r in records] == sorted([*positions, *positions, *positions])
    cut = list(log.read(["orders", "payments"], start=positions[2], end=positions[5]))
    assert [r.position for r in cut] == [p for p in positions[3:6] for _ in range(3)]
    assert numbers(log, "payments", "payments") == list(range(10))


def test_a_reading_ends_with_what_was_there_when_it_began(log: Log) -> None:
    log.create("orders", ORDERS, partitions=2)
    log.create("payments", ORDERS)
    for number in range(3):
        log.append("orders", orders(number))
    reading = log.read(["orders", "payments"])
    first = next(reading)
    with log.commit() as commit:
        commit.append("orders", orders(9))
        commit.append("payments", orders(9))
    assert [r.value for r in [first, *reading]] == orders(0, 1, 2)


def test_a_cut_over_topics_never_splits_a_commit(log: Log, implementation: Implementation) -> None:
    """While a writer moves money to and fro, every reading sees the same sum in both topics."""
    log.create("orders", ORDERS, partitions=2)
    log.create("payments", ORDERS, partitions=2)

    def write() -> None:
        writer = implementation.open()
        for number in range(60):
            with writer.commit() as commit:
                commit.append("orders", orders(number), partition=number % 2)
                commit.append("payments", orders(number), partition=1 - number % 2)

    with ThreadPoolExecutor(1) as pool:
        written = pool.submit(write)
        while not written.done():
            records = list(log.read(["orders", "payments"]))
            seen = {name: sorted(str(r.value) for r in records if r.topic == name) for name in ("orders", "payments")}
            assert seen["orders"] == seen["payments"]
        written.result()
    assert len(list(log.read(["orders", "payments"]))) == 120


def test_following_gets_what_was_there_and_what_comes(log: Log, implementation: Implementation) -> None:
    log.create("orders", ORDERS, partitions=2)
    log.append("orders", orders(0, 1))
    other = implementation.open()
    reading = log.read("orders", follow=True)
    assert [r.value for r in islice(reading, 2)] == orders(0, 1)
    with ThreadPoolExecutor(1) as pool:
        for number in range(2, 6):
            pool.submit(other.append, "orders", orders(number))
            assert next(reading).value == orders(number)[0]


def test_following_from_the_end_gets_only_what_comes(log: Log) -> None:
    log.create("orders", ORDERS, partitions=2)
    log.append("orders", orders(0))
    reading = log.read("orders", start="latest", follow=True)
    log.append("orders", orders(1))
    assert next(reading).value == orders(1)[0]


def test_following_may_begin_at_an_offset_that_is_still_to_come(log: Log) -> None:
    log.create("orders", ORDERS)
    reading = log.read("orders", start=2, follow=True, idle_timeout=SOON)
    for number in range(4):
        log.append("orders", orders(number))
    assert [r.value for r in islice(reading, 2)] == orders(2, 3)


def test_patience_ends_following_when_nothing_comes(log: Log) -> None:
    log.create("orders", ORDERS)
    log.append("orders", orders(1))
    assert [r.value for r in log.read("orders", follow=True, idle_timeout=AT_ONCE)] == orders(1)
    assert list(log.batches("orders", start="latest", follow=True, idle_timeout=timedelta(milliseconds=1))) == []


def test_following_ends_at_its_end(log: Log) -> None:
    log.create("orders", ORDERS, partitions=2)
    log.append("orders", orders(0, 1), partition=0)
    position = log.append("orders", orders(2, 3), partition=1)
    log.append("orders", orders(4), partition=0)
    assert [r.value for r in log.read("orders", end=position, follow=True)] == orders(0, 1, 2, 3)
    assert [r.value for r in log.read("orders", end=2, follow=True)] == orders(0, 1, 2, 3)
    later = commit_position(commit_of(log.position()) + 1)
    reading = log.read("orders", end=later, follow=True)
    assert len(list(islice(reading, 5))) == 5
    log.append("orders", orders(5), partition=0)
    log.append("orders", orders(6), partition=0)
    assert [r.value for r in reading] == orders(5)


def test_following_ends_at_a_time_that_is_still_to_come(log: Log, implementation: Implementation) -> None:
    log.create("orders", ORDERS, partitions=2)
    log.append("orders", orders(0), partition=0)
    [record] = log.read("orders")
    reading = log.read("orders", end=record.at + timedelta(seconds=3), follow=True, idle_timeout=SOON)
    assert next(reading).value == orders(0)[0]
    implementation.let_time_pass()
    log.append("orders", orders(1), partition=1)
    assert next(reading).value == orders(1)[0]
    for _ in range(3):
        implementation.let_time_pass()
    log.append("orders", orders(2), partition=1)
    assert list(reading) == []


def test_followers_in_many_threads_see_everything(log: Log, implementation: Implementation) -> None:
    log.create("orders", ORDERS, key="id", partitions=3)

    def follow(number: int) -> list[object]:
        reader = log if number % 2 else implementation.open()
        found: list[object] = []
        for batch in reader.batches("orders", follow=True, idle_timeout=SOON):
            found += batch.records["id"].to_pylist()
            if len(found) == 100:
                break
        return found

    with ThreadPoolExecutor(4) as pool:
        followers = [pool.submit(follow, number) for number in range(4)]
        for number in range(0, 100, 5):
            log.append("orders", orders(*range(number, number + 5)))
        for follower in followers:
            assert sorted(map(str, follower.result())) == sorted(map(str, range(100)))


def test_waiting_ends_with_a_commit_or_in_time(log: Log, implementation: Implementation) -> None:
    log.create("orders", ORDERS)
    before = log.position()
    assert log.wait(before, AT_ONCE) == before
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(log.wait, before, SOON)
        after = implementation.open().append("orders", orders(1))
        assert waiting.result() == after
    assert log.wait(before, SOON) == after


@pytest.mark.parametrize("settled", [False, True])
def test_a_reading_goes_on_over_an_alteration(log: Log, implementation: Implementation, settled: bool) -> None:
    log.create("orders", "id int, amount int")
    log.append("orders", orders(1))
    reading = log.read("orders", follow=True, idle_timeout=SOON)
    batches = log.batches("orders", follow=True, idle_timeout=SOON)
    assert next(reading).value == {"id": 1, "amount": None}
    assert next(batches).records["id"].to_pylist() == [1]
    log.alter("orders", schema="id bigint, amount int, note string")
    log.append("orders", [{"id": 2**40, "note": "new"}])
    if settled:
        implementation.settle(log, "orders")
    assert next(reading).value == {"id": 2**40, "amount": None, "note": "new"}
    assert next(batches).records["id"].to_pylist() == [2**40]


def test_following_takes_in_partitions_that_are_added(log: Log) -> None:
    log.create("events", ORDERS)
    log.append("events", orders(1))
    reading = log.read("events", follow=True, idle_timeout=SOON)
    assert next(reading).value == orders(1)[0]
    log.alter("events", partitions=2)
    log.append("events", orders(2), partition=1)
    log.append("events", orders(3), partition=0)
    assert [r.value for r in islice(reading, 2)] == orders(2, 3)


def test_what_was_deleted_is_told(log: Log, implementation: Implementation) -> None:
    log.create("events", ORDERS, partitions=2, retention_age=RETENTION)
    first = log.append("events", orders(0, 1, 2), partition=0)
    log.append("events", orders(3), partition=1)
    implementation.forget(log, "events")
    second = log.append("events", orders(4), partition=0)
    assert numbers(log, "events") == numbers(log, "events", start=datetime(1990, 1, 1, tzinfo=UTC)) == [4]
    with pytest.raises(RecordsGone) as gone:
        values(log, "events", start={0: 1, 1: 1})
    assert (gone.value.topic, gone.value.partition) == ("events", 0)
    assert (gone.value.first, gone.value.last, gone.value.count) == (1, 2, 2)
    for position in (START, first):
        with pytest.raises(PositionGone) as lost:
            log.read("events", start=position)
        assert lost.value.topic == "events"
    assert numbers(log, "events", start=second) == []
    assert [(r.partition, r.offset) for r in log.read("events", start={0: 3, 1: 1})] == [(0, 3)]
    assert [(r.partition, r.offset) for r in log.read("events", start={0: 3})] == [(0, 3)]


def test_a_closed_log_says_so(log: Log) -> None:
    log.create("orders", ORDERS, key="id")
    log.close()
    log.close()
    for use in (
        log.position, log.topics, log.groups, lambda: log.append("orders", orders(1)), lambda: log.read("orders"),
        lambda: log.table("orders"), log.lag, lambda: log.bookmark("a"), log.commit,
        lambda: log.consumer("orders", group="billing"), lambda: log.producer("orders"),
    ):  # fmt: skip
        with pytest.raises(UsageError):
            use()

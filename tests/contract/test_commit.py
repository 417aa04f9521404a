"""Commits: one atomic unit over topics, bookmarks and offsets, on condition, and recognised when repeated."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from headwater.errors import Conflict, Fenced, InvalidRecords, OutOfSequence, UsageError
from headwater.log.port import Log
from tests.contract.implementation import Implementation
from tests.contract.looking import ORDERS, numbers, orders


@pytest.fixture(autouse=True)
def topics(log: Log) -> None:
    log.create("orders", ORDERS, key="id", partitions=2)
    log.create("payments", ORDERS)


def test_a_commit_is_one_position_in_all_topics(log: Log, implementation: Implementation) -> None:
    before = log.position()
    with log.commit() as commit:
        commit.append("orders", orders(*range(20)))
        commit.append("payments", orders(1, 2))
        commit.append("orders", orders(20))
        commit.delete("orders", [{"id": 3}])
    other = implementation.open()
    assert commit.position == other.position() > before
    records = list(other.read(["orders", "payments"]))
    assert len(records) == 24
    assert {record.position for record in records} == {commit.position}


def test_a_commit_tells_the_offsets_it_gave(log: Log) -> None:
    log.append("payments", orders(0))
    with log.commit() as commit:
        commit.append("payments", orders(1, 2))
        commit.append("payments", orders(3))
        commit.append("orders", orders(1))
    assert commit.result.offsets["payments", 0] == (1, 4)
    [(topic, partition)] = [place for place in commit.result.offsets if place[0] == "orders"]
    assert commit.result.offsets[topic, partition] == (0, 1)
    assert not commit.result.duplicate


def test_nothing_is_seen_before_the_end_and_nothing_after_an_error(log: Log, implementation: Implementation) -> None:
    other = implementation.open()
    before = log.position()
    with pytest.raises(ZeroDivisionError), log.commit() as commit:  # noqa: PT012 (what is done before counts)
        commit.append("orders", orders(1))
        commit.bookmark("place", 1)
        assert numbers(other, "orders") == numbers(log, "orders") == []
        raise ZeroDivisionError
    assert log.position() == before
    assert numbers(log, "orders") == []
    assert log.bookmark("place") is None
    with pytest.raises(UsageError):
        _ = commit.result


def test_records_that_do_not_fit_stop_the_whole_commit(log: Log) -> None:
    with pytest.raises(InvalidRecords), log.commit() as commit:  # noqa: PT012 (what is done before counts)
        commit.append("orders", orders(1))
        commit.append("payments", [{"id": "x"}])
    assert numbers(log, "orders", "payments") == []


def test_an_empty_commit_is_no_commit(log: Log) -> None:
    before = log.append("payments", orders(1))
    with log.commit() as commit:
        pass
    assert commit.position == log.position() == before


def test_the_result_is_there_only_after_the_block(log: Log) -> None:
    with log.commit() as commit, pytest.raises(UsageError):
        _ = commit.position


@pytest.mark.parametrize("value", [1, "text", 1.5, True, False, [1, [2]], {"b": 1, "a": None}, "", 0, "Ünï"])
def test_a_bookmark_keeps_any_json(log: Log, implementation: Implementation, value: object) -> None:
    assert log.bookmark("place") is None
    with log.commit() as commit:
        commit.bookmark("place", value)
    assert implementation.open().bookmark("place") == value
    with log.commit() as commit:
        commit.bookmark("place", "next", expect=value)
    assert log.bookmark("place") == "next"


@pytest.mark.parametrize("value", [None, object(), float("nan"), {1, 2}, b"x", "x" * (1 << 21)])
def test_what_can_not_be_a_bookmark(log: Log, value: object) -> None:
    with pytest.raises(UsageError), log.commit() as commit:
        commit.bookmark("place", value)
    assert log.bookmark("place") is None


def parts(conflict: Conflict | None) -> tuple[str, object, object]:
    assert conflict is not None
    return conflict.bookmark, conflict.expected, conflict.actual


def test_a_condition_that_does_not_hold_raises(log: Log) -> None:
    with log.commit() as first:
        first.append("orders", orders(1))
        first.bookmark("place", {"line": 1}, expect=None)
    assert first.conflict is None
    with pytest.raises(Conflict) as error, log.commit() as second:  # noqa: PT012 (what is done before counts)
        second.append("orders", orders(2))
        second.bookmark("other", 1)
        second.bookmark("place", {"line": 2}, expect={"line": 7})
    assert parts(error.value) == ("place", {"line": 7}, {"line": 1})
    assert second.conflict is error.value
    with pytest.raises(Conflict):
        _ = second.position
    assert numbers(log, "orders") == [1]
    assert log.bookmark("other") is None
    assert log.position() == first.position
    with pytest.raises(Conflict) as error, log.commit() as third:
        third.bookmark("place", {"line": 2}, expect=None)
    assert parts(error.value) == ("place", None, {"line": 1})
    with pytest.raises(Conflict) as error, log.commit() as fourth:
        fourth.bookmark("missing", 1, expect="x")
    assert parts(error.value) == ("missing", "x", None)


def test_a_conflict_is_a_value_on_request(log: Log) -> None:
    with log.commit(on_conflict="return") as first:
        first.append("orders", orders(1))
        first.bookmark("place", 1, expect=None)
        with pytest.raises(UsageError):
            _ = first.conflict
    assert first.conflict is None
    with log.commit(on_conflict="return") as second:
        second.append("orders", orders(2))
        second.bookmark("place", 2, expect=7)
    assert parts(second.conflict) == ("place", 7, 1)
    for asked in ("position", "result"):
        with pytest.raises(Conflict):
            getattr(second, asked)
    assert numbers(log, "orders") == [1]
    with pytest.raises(ZeroDivisionError), log.commit(on_conflict="return") as third:  # noqa: PT012 (as above)
        third.bookmark("place", 2, expect=7)
        raise ZeroDivisionError


def test_several_conditions_must_all_hold(log: Log) -> None:
    with log.commit() as commit:
        commit.bookmark("a", 1)
        commit.bookmark("b", 1)
    with pytest.raises(Conflict), log.commit() as commit:  # noqa: PT012 (what is done before counts)
        commit.bookmark("a", 2, expect=1)
        commit.bookmark("b", 2, expect=9)
    assert (log.bookmark("a"), log.bookmark("b")) == (1, 1)
    with log.commit() as commit:
        commit.bookmark("a", 2, expect=1)
        commit.bookmark("b", 2, expect=1)
    assert (log.bookmark("a"), log.bookmark("b")) == (2, 2)


def test_of_racing_writers_one_wins_each_version(log: Log, implementation: Implementation) -> None:
    handles = [log, implementation.open()]

    def count_up(writer: int) -> int:
        won = 0
        while (version := int(str(log.bookmark("version") or 0))) < 40:
            with handles[writer % 2].commit(on_conflict="return") as commit:
                commit.append("payments", orders(version + 1))
                commit.bookmark("version", version + 1, expect=version or None)
            won += commit.conflict is None
        return won

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(count_up, range(4))) == 40
    assert numbers(log, "payments") == list(range(1, 41))


def test_a_repeated_commit_is_recognised(log: Log, implementation: Implementation) -> None:
    producer = log.producer(name="import")
    assert producer.next_sequence() == 1
    with log.commit(producer=producer, sequence=1) as first:
        first.append("orders", orders(1))
        first.bookmark("place", 1)
    with log.commit(producer=producer, sequence=1) as again:
        again.append("orders", orders(1))
        again.bookmark("place", "wrong")
    assert again.result.duplicate
    assert again.position == first.position == log.position()
    assert implementation.open().bookmark("place") == 1
    assert numbers(log, "orders") == [1]
    with log.commit(producer=producer, sequence=2) as second:
        second.append("orders", orders(2))
    assert second.position > first.position


def test_a_skipped_number_is_refused_and_can_be_made_good(log: Log) -> None:
    producer = log.producer(name="import")
    with pytest.raises(OutOfSequence) as error, log.commit(producer=producer, sequence=2) as commit:
        commit.append("orders", orders(2))
    assert (error.value.producer, error.value.sequence, error.value.expected) == ("import", 2, 1)
    assert numbers(log, "orders") == []
    for number in (1, 2):
        with log.commit(producer=producer, sequence=number) as commit:
            commit.append("payments", orders(number))
    assert numbers(log, "payments") == [1, 2]


def test_a_new_holder_of_a_name_fences_the_old_one(log: Log, implementation: Implementation) -> None:
    old = log.producer(name="import")
    with log.commit(producer=old, sequence=1) as commit:
        commit.append("orders", orders(1))
    other = implementation.open()
    new = other.producer(name="import")
    assert new.epoch > old.epoch
    assert new.next_sequence() == 2
    for number in (1, 2):
        with pytest.raises(Fenced) as error, log.commit(producer=old, sequence=number) as commit:
            commit.append("orders", orders(9))
        assert (error.value.kind, error.value.name) == ("producer", "import")
        assert (error.value.epoch, error.value.current) == (old.epoch, new.epoch)
    with other.commit(producer=new, sequence=2) as commit:
        commit.append("payments", orders(2))
    assert numbers(log, "orders", "payments") == [1, 2]


def test_producers_of_other_names_are_independent(log: Log) -> None:
    one, two = log.producer(name="one"), log.producer(name="two")
    for producer in (one, two):
        with log.commit(producer=producer, sequence=1) as commit:
            commit.append("payments", orders(1))
        assert not commit.result.duplicate
    assert numbers(log, "payments") == [1, 1]


def test_only_a_named_producer_numbers_commits(log: Log) -> None:
    with pytest.raises(UsageError):
        log.commit(producer=log.producer("orders"), sequence=1)
    with pytest.raises(UsageError):
        log.commit(sequence=1)
    with pytest.raises(UsageError):
        log.commit(producer=log.producer(name="import"))


def test_a_conflict_uses_up_no_number(log: Log) -> None:
    producer = log.producer(name="import")
    with pytest.raises(Conflict), log.commit(producer=producer, sequence=1) as commit:
        commit.bookmark("place", 1, expect="something else")
    with log.commit(producer=producer, sequence=1) as commit:
        commit.bookmark("place", 1, expect=None)
    assert not commit.result.duplicate

"""What the layers above ask of a log: positions in between, ends, sizes, times, cuts, bookmarks and addresses."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.errors import HeadwaterError
from headwater.log.cutting import OffsetRange
from headwater.log.port import Log
from headwater.model.position import START, Position
from tests.contract.implementation import Implementation

TOPICS = ["orders", "clicks"]


@pytest.fixture
def filled(log: Log) -> Log:
    """Thirty commits over two topics, some of them of one topic alone."""
    dice = random.Random(5)
    log.create("orders", "id bigint, note string", key="id", partitions=2)
    log.create("clicks", "n bigint", partitions=3)
    for number in range(30):
        with log.commit() as commit:
            commit.append("orders", [{"id": dice.randrange(9), "note": "x"} for _ in range(dice.randrange(1, 4))])
            if number % 3:
                commit.append("clicks", [{"n": dice.randrange(9)} for _ in range(dice.randrange(1, 4))])
    return log


def positions(log: Log) -> list[Position]:
    """Those of all commits, in order."""
    return list(dict.fromkeys(record.position for record in log.read(TOPICS)))


def places(log: Log, start: Position, end: Position) -> set[tuple[str, int, int]]:
    return {(r.topic, int(r.partition), int(r.offset)) for r in log.read(TOPICS, start=start, end=end)}


def covered(ranges: Iterator[OffsetRange]) -> set[tuple[str, int, int]]:
    return {(one.topic, one.partition, offset) for one in ranges for offset in range(one.first, one.end)}


def test_halving_a_range_finds_every_commit(filled: Log) -> None:
    found, open_ranges = set[Position](), [(START, filled.position())]
    while open_ranges:
        start, end = open_ranges.pop()
        middle = filled.between(start, end)
        if middle is None:
            found.add(end)
            continue
        assert start < middle < end
        open_ranges += [(start, middle), (middle, end)]
    assert found >= set(positions(filled))


def test_nothing_is_between_a_position_and_itself(filled: Log) -> None:
    assert filled.between(filled.position(), filled.position()) is None
    assert filled.between(START, START) is None


@pytest.mark.parametrize("settled", [False, True])
def test_ends_at_a_position_are_those_of_records(filled: Log, implementation: Implementation, settled: bool) -> None:
    if settled:
        implementation.settle(filled, "orders")
    for at in (START, *positions(filled)):
        ends = {(topic, part): end for topic in TOPICS for part, (_, end) in filled.offsets(topic, at=at).items()}
        assert places(filled, START, at) == {(*key, offset) for key, end in ends.items() for offset in range(end)}
    assert filled.offsets("orders", at=filled.position()) == filled.offsets("orders")


def test_a_table_of_records_has_their_positions(filled: Log) -> None:
    for topic in TOPICS:
        expected = {(int(r.partition), int(r.offset)): r.position for r in filled.read(topic)}
        table = filled.scan(topic)
        keys = zip(table["_partition"].to_pylist(), table["_offset"].to_pylist(), strict=True)
        assert [expected[key] for key in keys] == filled.positions(table)


def test_sizes_count_what_is_kept(filled: Log, implementation: Implementation) -> None:
    filled.create("empty", "id bigint", partitions=2)
    for _ in range(2):
        for topic in TOPICS:
            counts = {part: end - first for part, (first, end) in filled.offsets(topic).items()}
            sizes = filled.sizes(topic)
            assert {size.partition: size.records for size in sizes} == counts
            assert all(size.bytes > 0 and size.segments > 0 for size in sizes)
            times = [record.at for record in filled.read(topic)]
            assert (min(s.first_at for s in sizes if s.first_at), max(s.last_at for s in sizes if s.last_at)) == (
                min(times), max(times),
            )  # fmt: skip
        implementation.settle(filled, "orders")
    assert [(size.records, size.bytes, size.first_at, size.last_at) for size in filled.sizes("empty")] == [
        (0, 0, None, None)
    ] * 2


def test_the_first_record_after_a_position_has_a_time(log: Log, implementation: Implementation) -> None:
    log.create("orders", "id bigint", partitions=2)
    reached = [START]
    for number in range(4):
        reached.append(log.append("orders", [{"id": number}]))
        implementation.let_time_pass()
    times = [record.at for record in log.read("orders")]
    for _ in range(2):
        assert [log.first_after("orders", position) for position in reached] == [*times, None]
        implementation.settle(log, "orders")


@pytest.mark.long_on_kafka
def test_batches_cover_every_record_once_and_split_no_commit(filled: Log) -> None:
    cutter, position, seen = filled.cutter(TOPICS), START, 0
    while position != filled.position():
        cut = cutter.cut(position, filled.position(), 10)
        assert covered(iter(cut.ranges)) == places(filled, position, cut.end)
        assert cut.records == len(covered(iter(cut.ranges)))
        assert cut.records >= 10 or cut.end == filled.position()
        assert cut.end in positions(filled)
        position, seen = cut.end, seen + cut.records
    assert seen == sum(end - first for topic in TOPICS for first, end in filled.offsets(topic).values())


def test_a_cut_with_nothing_to_cut(filled: Log) -> None:
    cut = filled.cutter(TOPICS).cut(filled.position(), filled.position(), 10)
    assert (cut.end, cut.records, cut.committed_at, list(cut.ranges)) == (filled.position(), 0, None, [])


def test_bookmarks_are_found_listed_and_forgotten(log: Log) -> None:
    log.create("orders", "id bigint")
    for number, name in enumerate(["a.1", "a.2", "b.1"]):
        with log.commit() as commit:
            commit.append("orders", [{"id": number}])
            commit.bookmark(name, {"n": number})
    found = log.bookmarks.find("a.2")
    assert found is not None
    assert (found.name, found.value, found.position) == ("a.2", {"n": 1}, positions_of(log)[1])
    assert (log.bookmarks.find("c"), log.bookmarks.value("c"), log.bookmark("c")) == (None, None, None)
    assert [one.name for one in log.bookmarks.beginning("a.")] == ["a.1", "a.2"]
    log.bookmarks.forget(["a.1", "c"])
    assert [one.name for one in log.bookmarks.beginning("")] == ["a.2", "b.1"]
    with log.commit() as commit:
        commit.bookmark("a.1", 7, expect=None)
    assert log.bookmark("a.1") == 7


def positions_of(log: Log) -> list[Position]:
    return [record.position for record in log.read("orders")]


def test_two_handles_of_one_log_agree_on_where_it_is(log: Log, implementation: Implementation) -> None:
    other = implementation.open()
    assert (other.url, other.identity, other.state_directory) == (log.url, log.identity, log.state_directory)
    assert isinstance(log.state_directory, Path)
    assert log.state_directory.is_dir()


def test_upkeep_has_not_failed(log: Log) -> None:
    assert (log.upkeep_failure, log.upkeep_failures) == (None, 0)


def test_a_position_of_another_log_is_refused_where_it_is_read_from(filled: Log) -> None:
    strange = Position.parse("elsewhere/0:3,elsewhere/1:4")
    for use in (lambda: filled.offsets("orders", at=strange), lambda: list(filled.read("orders", start=strange))):
        with pytest.raises(HeadwaterError):
            use()

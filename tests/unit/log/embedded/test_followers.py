"""Followers: what is kept for them, for how long, and how they learn what they have missed."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from headwater.errors import RecordsGone
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.followers import Followers, NoFollowers
from headwater.log.topic import Memory
from headwater.model.position import START, Position
from headwater.testing.clock import ManualClock

HOUR, DAY = timedelta(hours=1), timedelta(days=1)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def log(tmp_path: Path, clock: ManualClock) -> Iterator[EmbeddedLog]:
    with EmbeddedLog(tmp_path, durability="os", upkeep=False, clock=clock) as log:
        yield log


def fill(log: EmbeddedLog, *ids: int, topic: str = "t") -> Position:
    """A segment with a commit per record; where the log is then."""
    for number in ids:
        log.append(topic, [{"id": number}])
    log.seal(topic)
    return log.position()


def first(log: EmbeddedLog, topic: str = "t") -> int:
    return log.offsets(topic)[0][0]


def age(log: EmbeddedLog, clock: ManualClock, time: timedelta = DAY + HOUR) -> None:
    clock.advance(time)
    log.upkeep()


@pytest.mark.parametrize("views", ["forget", "keep"])
def test_what_a_follower_has_not_read_stays(log: EmbeddedLog, clock: ManualClock, views: Memory) -> None:
    log.create("t", "id bigint", retention_age=DAY, views=views)
    read = fill(log, 1, 2)
    fill(log, 3, 4)
    log.followers.hold("app/1", "pipeline", START, ["t"])
    log.followers.hold("app/1", "pipeline", read, ["t"])
    age(log, clock)
    assert first(log) == (0 if views == "forget" else 2)
    log.followers.hold("app/1", "pipeline", log.position(), ["t"])
    log.upkeep()
    assert first(log) == 4
    assert log.followers.missed() == []


def test_a_group_is_a_follower(log: EmbeddedLog, clock: ManualClock) -> None:
    log.create("t", "id bigint", retention_age=DAY)
    fill(log, 1, 2)
    with log.consumer("t", group="g") as consumer:
        consumer.poll(0)
        age(log, clock)
        assert first(log) == 0
        assert [(one.name, one.kind, one.position) for one in log.followers.all()] == [("g", "group", None)]
        consumer.commit()
    log.upkeep()
    assert first(log) == 2


def test_records_that_a_follower_never_wanted_do_not_wait_for_it(log: EmbeddedLog, clock: ManualClock) -> None:
    log.create("t", "id bigint", retention_age=DAY)
    fill(log, 1, 2)
    age(log, clock)
    assert first(log) == 2, "nobody follows"
    fill(log, 3)
    log.followers.hold("app/1", "pipeline", START, ["t"])
    assert log.followers.all()[0].since == {"t": {0: 2}}
    age(log, clock)
    assert first(log) == 2
    log.followers.release(["app/1", "unknown"])
    log.upkeep()
    assert first(log) == 3


def test_beyond_an_age_it_is_deleted_and_the_follower_is_told(log: EmbeddedLog, clock: ManualClock) -> None:
    log.create("t", "id bigint", retention_age=DAY, hold_age_max=2 * DAY)
    log.followers.hold("app/1", "sink", START, ["t"])
    fill(log, 1, 2, 3)
    read = log.append("t", [{"id": 4}])
    log.append("t", [{"id": 5}])
    log.seal("t")
    log.followers.hold("app/1", "sink", read, ["t"])
    log.followers.hold("app/2", "sink", log.position(), ["t"])
    age(log, clock, 3 * DAY - HOUR)
    assert first(log) == 3
    age(log, clock, 2 * HOUR)
    assert first(log) == 5
    (missed,) = log.followers.missed()
    assert (missed.follower, missed.topic, missed.partition, missed.first, missed.last) == ("app/1", "t", 0, 4, 4)
    assert str(missed) == ("topic 't', partition 0: offsets 4 to 4 (1 records), deleted because hold_age_max is 2d")
    assert [one.gone for one in log.followers.lag()] == [1, 0]
    log.followers.hold("app/1", "sink", START, ["t"])
    assert log.followers.missed() == [], "it begins again"


def test_beyond_a_number_of_bytes_the_oldest_go(log: EmbeddedLog, clock: ManualClock) -> None:
    log.create("t", "id bigint", retention_age=DAY)
    log.followers.hold("app/1", "capture", START, ["t"])
    for number in range(4):
        fill(log, number)
        clock.advance(HOUR)
    sizes = [segment.bytes for segment in log.segments("t")]
    log.alter("t", hold_bytes_max=sizes[2] + sizes[3])
    age(log, clock)
    assert first(log) == 2
    (missed,) = log.followers.missed("app/1")
    assert (missed.first, missed.last) == (0, 1)
    assert "hold_bytes_max" in missed.reason


def test_the_cap_of_the_log_spares_followers_a_little_and_tables(log: EmbeddedLog) -> None:
    log.create("t", "id bigint")
    log.create("table", "id bigint, text string", key="id")
    log.append("table", [{"id": 1, "text": "x" * 100_000}])
    log.seal("table")
    log.followers.hold("app/1", "sink", START, ["t", "table"])
    for number in range(3):
        fill(log, number)
    total = sum(segment.bytes for topic in ("t", "table") for segment in log.segments(topic))
    log.set_max_bytes(total - 1)
    log.upkeep()
    assert (first(log), first(log, "table")) == (0, 0), "a follower needs it, and it is little"
    log.set_max_bytes(total // 10)
    log.upkeep()
    assert (first(log), first(log, "table")) == (3, 0), "a row that has not changed lately is no less true"
    assert {one.reason for one in log.followers.missed()} == {f"the log's cap is {total // 10} bytes"}


def test_a_topic_that_views_forget_is_trimmed_by_a_commit_first(log: EmbeddedLog, clock: ManualClock) -> None:
    log.create("t", "id bigint", retention_age=DAY)
    log.followers.hold("app/1", "pipeline", START, ["t"])
    before = fill(log, 1, 2)
    log.followers.hold("app/1", "pipeline", before, ["t"])
    age(log, clock)
    trimmed = log.position()
    assert trimmed.behind(trimmed) == 0
    assert not trimmed <= before
    assert log.followers.trimmed("t", before) == {}
    assert log.followers.trimmed("t", trimmed) == {0: 2}
    assert [record.offset for record in log.read("t")] == [0, 1], "they are there to be retracted"
    log.upkeep()
    assert log.position() == trimmed, "once is enough"
    log.followers.hold("app/1", "pipeline", trimmed, ["t"])
    log.upkeep()
    assert (first(log), log.position()) == (2, trimmed)
    with pytest.raises(RecordsGone):
        list(log.read("t", start=0))


def test_batches_forget_what_was_trimmed_after_they_have_read_the_rest(log: EmbeddedLog, clock: ManualClock) -> None:
    log.create("t", "id bigint", retention_age=DAY)
    log.followers.hold("app/1", "pipeline", START, ["t"])
    fill(log, 1, 2)
    age(log, clock)
    fill(log, 3)
    cutter, batches = log.cutter(["t"]), []
    position = START
    while position != log.position():
        cut = cutter.cut(position, log.position(), 1000)
        batches.append(([(one.first, one.end) for one in cut.ranges], [(one.first, one.end) for one in cut.forgotten]))
        position = cut.end
    assert batches == [([(0, 2)], []), ([], [(0, 2)]), ([(2, 3)], [])]
    again = log.cutter(["t"]).cut(Position.parse("2"), log.position(), 1000)
    assert [(one.first, one.end) for one in again.forgotten] == [(0, 2)], "also without a memory of batches before"


def test_a_log_that_asks_nobody_has_no_followers() -> None:
    followers: Followers = NoFollowers()
    followers.hold("app/1", "pipeline", START, ["t"])
    followers.release(["app/1"])
    assert (followers.all(), followers.find("app/1"), followers.missed(), followers.lag()) == ([], None, [], [])
    assert followers.trimmed("t", START) == {}


def test_a_follower_does_not_go_back_and_an_heir_has_what_others_have(log: EmbeddedLog, clock: ManualClock) -> None:
    log.create("t", "id bigint", retention_age=DAY, hold_age_max=0, views="keep")
    log.followers.hold("app/1", "pipeline", START, ["t"])
    fill(log, 1, 2)
    age(log, clock)
    fill(log, 3)
    log.followers.hold("app/2", "pipeline", START, ["t"])
    log.followers.hold("app/2", "pipeline", log.position(), ["t"])
    log.followers.hold("app/2", "pipeline", Position.parse("1"), ["t"])
    second = log.followers.find("app/2")
    assert second is not None
    assert (second.position, second.since) == (log.position(), {"t": {0: 2}})
    log.followers.hold("app/3", "pipeline", log.position(), ["t"], heir_of=["app/2"])
    log.followers.hold("app/2", "pipeline", log.position(), ["t"], heir_of=["app/1"])
    found = {one.name: one.since["t"][0] for one in log.followers.all()}
    assert found == {"app/1": 0, "app/2": 0, "app/3": 2}
    assert [(one.follower, one.first, one.last) for one in log.followers.missed()] == [
        ("app/1", 0, 1),
        ("app/2", 0, 1),
    ]

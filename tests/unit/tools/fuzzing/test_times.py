"""Time in the fuzzer: it moves, never goes back, and the oracle asks about the moments of a position."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from headwater.log.embedded.log import EmbeddedLog
from headwater.model.position import START
from headwater.testing.disk import seeded
from tools.fuzzing.changes import Change, Changes, append
from tools.fuzzing.plans import create_topics
from tools.fuzzing.times import MOMENTS, Times, begin, is_source, moments_at, sources_of
from tools.fuzzing.topics import TopicPlan, random_topics

TOPIC = TopicPlan("T0", (("id", "bigint"), ("at", "timestamp")), ("id",))


def test_moments_are_in_their_order() -> None:
    moments = [datetime.fromisoformat(moment) for moment in MOMENTS]
    assert moments == sorted(set(moments))


@pytest.mark.parametrize("seed", range(10))
def test_no_source_goes_back_and_each_moves(seed: int) -> None:
    times = Times(seeded(seed), ["T0", "t1"])
    reached = dict(times.first())
    assert reached.keys() == {"now()", "watermark('T0')", "watermark('t1')"} == set(sources_of(["T0", "t1"]))
    began = dict(reached)
    for _ in range(60):
        source, moment = times.next()
        assert MOMENTS.index(moment) >= MOMENTS.index(reached[source])
        reached[source] = moment
    assert all(reached[source] != began[source] for source in reached)


def test_commits_move_time_only_if_they_are_to() -> None:
    topics = random_topics(seeded(2))
    for timed in (False, True):
        changes = Changes(seeded(1), topics, timed=timed)
        made = [*changes.first_moments(), *(changes.commit() for _ in range(60))]
        assert any(is_source(change.topic) for commit in made for change in commit) is timed


def test_a_log_takes_the_moments_and_knows_them_at_each_position(tmp_path: Path) -> None:
    with EmbeddedLog(tmp_path) as log:
        create_topics(log.create, [TOPIC])
        begin(log, ["T0"])
        before = log.position()
        append(log, (Change("now()", ({"at": MOMENTS[2]},)),))
        append(log, (Change("watermark('T0')", ({"at": MOMENTS[4]},)),))
        moved = moments_at(log, ["T0"], log.position())
        assert moved == {
            "clock": datetime.fromisoformat(MOMENTS[2]),
            "watermark.T0": datetime.fromisoformat(MOMENTS[4]),
        }
        assert moments_at(log, ["T0"], before).keys() == {"watermark.T0"}
        assert moments_at(log, ["T0"], START) == {}
        begin(log, ["T0"])
        assert moments_at(log, ["T0"], log.position()) == moved

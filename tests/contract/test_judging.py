"""Every log says enough about its records to tell which of them were late, in pieces as well as in one go."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

from headwater.engine.judging import Judged, Judging, judged_through
from headwater.engine.lateness import Lateness, LateRule
from headwater.engine.watermarks import WatermarkRule
from headwater.log.port import Log
from headwater.model.position import START
from tests.property.engine.lateness_model import Committed, Event, Model

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
RULE = LateRule(WatermarkRule("clicks", "at", timedelta(seconds=10), "device", timedelta(minutes=1)))
SECOND = 1_000_000


def test_late_records_are_those_of_the_model_in_pieces_and_in_one_go(log: Log) -> None:
    log.create("clicks", "device string, at timestamp", partitions=3)
    positions, commits = [START], list[Committed]()
    for number in range(12):
        times = {"a": 20 * number, "b": 19 * number if number < 5 else None, "c": 20 * number - 45}
        log.append("clicks", [{"device": name, "at": _at(seconds)} for name, seconds in times.items()])
        events = [Event(name, None if seconds is None else seconds * SECOND) for name, seconds in times.items()]
        commits.append(Committed(len(commits), events=events))
        positions.append(log.position())
        if number == 7:
            log.amend("clicks", [{"device": "a", "at": NOON}])
            commits.append(Committed(len(commits), events=[Event("a", 0, amended=True)]))
        if number % 3 == 1:
            log.tick(NOON + timedelta(seconds=20 * number))
            commits.append(Committed(len(commits), tick=20 * number * SECOND))
        if number == 8:
            log.watermark("clicks", NOON + timedelta(seconds=170))
            commits.append(Committed(len(commits), mark=170 * SECOND))
    positions.append(log.position())
    expected = sum(late for *_, late in Model(10 * SECOND, 60 * SECOND).judge(commits))
    judging, judged, found = Judging(log, {"clicks": RULE}, {}), dict[str, Judged](), 0
    for start, end in pairwise(positions):
        cut = log.cutter(["clicks"]).cut(start, end, 1_000_000)
        after, late = judging.judge(start, end, cut.ranges)
        judging.keep(judged := dict(after))
        for batch in log.batches("clicks", start=start, end=end, columns=[*RULE.columns, "_received_at"]):
            found += int(late["clicks"].found(batch.records).flags.sum())
    assert found == expected > 0
    assert judged["clicks"].lateness.late == found
    assert judged_through(log, RULE, Lateness(), START, positions[-1]) == judged["clicks"].lateness


def _at(seconds: int | None) -> datetime | None:
    return None if seconds is None else NOON + timedelta(seconds=seconds)

"""What is known of a topic's records follows from the log, whether it was kept or is made again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from headwater.engine import judging
from headwater.engine.books import books_of
from headwater.engine.judging import Judged, Judging
from headwater.engine.lateness import LateRecords, LateRule
from headwater.engine.watermarks import WatermarkRule
from headwater.errors import UsageError
from headwater.log.cutting import OffsetRange
from headwater.log.embedded.log import EmbeddedLog
from headwater.model.position import START, Position

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
RULE = LateRule(WatermarkRule("clicks", "at", timedelta(seconds=10), "device", timedelta(minutes=1)))


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EmbeddedLog]:
    with EmbeddedLog(tmp_path / "log") as log:
        log.create("clicks", "device string, at timestamp", partitions=2)
        yield log


def fill(log: EmbeddedLog) -> list[Position]:
    """Commits with some late records, ticks and watermarks; the position after each."""
    found = [START]
    for number in range(30):
        at = NOON + timedelta(seconds=20 * number)
        rows = [{"device": "a", "at": at}, {"device": "b", "at": at - timedelta(seconds=number)}]
        log.append("clicks", [*rows, {"device": "b", "at": at - timedelta(seconds=3 * number)}])
        if number % 7 == 3:
            log.tick(at)
        if number % 11 == 5:
            log.watermark("clicks", at)
        found.append(log.position())
    return found


def judged_by(
    judging: Judging, log: EmbeddedLog, start: Position, end: Position
) -> tuple[Mapping[str, Judged], Mapping[str, LateRecords]]:
    return judging.judge(start, end, log.cutter(["clicks"]).cut(start, end, 1_000_000).ranges)


def test_pieces_are_the_whole(log: EmbeddedLog) -> None:
    positions = fill(log)
    whole, _ = judged_by(Judging(log, {"clicks": RULE}, {}), log, START, positions[-1])
    assert whole["clicks"].lateness.late > 0
    stepwise, late = Judging(log, {"clicks": RULE}, {}), 0
    for start, end in pairwise(positions):
        judged, records = judged_by(stepwise, log, start, end)
        stepwise.keep(judged)
        late += len(records["clicks"].commits)
    assert judged_by(stepwise, log, positions[-1], positions[-1])[0] == whole
    assert late == len(judged_by(Judging(log, {"clicks": RULE}, {}), log, START, positions[-1])[1]["clicks"].commits)


def test_what_was_kept_of_another_place_or_rule_is_made_again(
    log: EmbeddedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    positions = fill(log)
    middle, end = positions[13], positions[-1]
    whole, _ = judged_by(Judging(log, {"clicks": RULE}, {}), log, START, end)
    right = judged_by(Judging(log, {"clicks": RULE}, {}), log, START, middle)[0]["clicks"]
    wrong = replace(right, lateness=replace(right.lateness, late=1000))
    monkeypatch.setattr(judging, "ROWS_MAX", 5)
    for known, expected in (
        ({"clicks": right}, whole["clicks"].lateness.late),
        ({}, whole["clicks"].lateness.late),
        # What is kept is believed where it belongs, and nowhere else.
        ({"clicks": wrong}, whole["clicks"].lateness.late - right.lateness.late + 1000),
        ({"clicks": replace(wrong, position=positions[12])}, whole["clicks"].lateness.late),
        ({"clicks": replace(wrong, rule=replace(RULE, allowance=timedelta(1)))}, whole["clicks"].lateness.late),
    ):
        judged, _ = judged_by(Judging(log, {"clicks": RULE}, known), log, middle, end)
        assert judged["clicks"].lateness.late == expected


def test_it_comes_back_as_it_was_kept_and_balances(log: EmbeddedLog) -> None:
    fill(log)
    judged, _ = judged_by(Judging(log, {"clicks": RULE}, {}), log, START, log.position())
    assert {topic: Judged.from_json(topic, one.to_json()) for topic, one in judged.items()} == judged
    (books,) = books_of(judged)
    assert books.records == sum(end for _, end in log.offsets("clicks").values()) == books.out + books.late
    assert books.late_by >= timedelta(seconds=1)


def test_records_that_are_gone_are_not_missed(log: EmbeddedLog) -> None:
    """Of a topic whose views keep what they made of it, a pipeline may be told to continue with what there is."""
    log.alter("clicks", segment_bytes_max=1, views="keep")
    middle = fill(log)[13]
    known, _ = judged_by(Judging(log, {"clicks": RULE}, {}), log, START, middle)
    log.alter("clicks", retention_bytes=1)
    log.upkeep()
    offsets = log.offsets("clicks")
    ranges = [OffsetRange("clicks", part, first, end) for part, (first, end) in offsets.items()]
    assert sum(one.end - one.first for one in ranges) < 30
    judged, _ = Judging(log, {"clicks": RULE}, known).judge(middle, log.position(), ranges)
    before = known["clicks"].lateness.records
    assert judged["clicks"].lateness.records == before + sum(one.end - one.first for one in ranges)


def test_records_cannot_be_forgotten_by_which_others_are_judged(log: EmbeddedLog) -> None:
    Judging(log, {"clicks": RULE}, {}).check([OffsetRange("other", 0, 0, 1)])
    with pytest.raises(UsageError, match="Retention deletes records of topic 'clicks'"):
        Judging(log, {"clicks": RULE}, {}).check([OffsetRange("clicks", 0, 0, 1)])

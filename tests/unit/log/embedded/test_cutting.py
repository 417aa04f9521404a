"""Cutting the log into batches: at commits, of about this many records, and never before compaction has been."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.log.cutting import Cut, OffsetRange
from headwater.log.embedded import cutting
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.embedded.position import commit_position
from headwater.model.position import START, Position

TOPICS = ["orders", "clicks"]


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EmbeddedLog]:
    with EmbeddedLog(tmp_path / "log") as log:
        log.create("orders", "id bigint", key="id", cleanup="compact", partitions=2)
        log.create("clicks", "n bigint", partitions=3)
        yield log


def fill(log: EmbeddedLog, commits: int) -> None:
    dice = random.Random(3)
    for _ in range(commits):
        with log.commit() as commit:
            commit.append("orders", [{"id": dice.randrange(5)} for _ in range(dice.randrange(1, 4))])
            commit.append("clicks", [{"n": dice.randrange(5)} for _ in range(dice.randrange(1, 4))])


def offsets(log: EmbeddedLog, cut: Cut, start: Position) -> set[tuple[str, int, int]]:
    """The records between two positions, by the log itself."""
    return {(r.topic, int(r.partition), int(r.offset)) for r in log.read(TOPICS, start=start, end=cut.end)}


def covered(ranges: list[OffsetRange]) -> set[tuple[str, int, int]]:
    return {(p.topic, p.partition, offset) for p in ranges for offset in range(p.first, p.end)}


@pytest.mark.parametrize("remembers", [True, False])
def test_batches_cover_every_record_once_and_end_at_commits(log: EmbeddedLog, remembers: bool) -> None:
    fill(log, 30)
    cutter, position, seen = log.cutter(TOPICS), START, 0
    while position < log.position():
        cut = (cutter if remembers else log.cutter(TOPICS)).cut(position, log.position(), 10)
        assert covered(list(cut.ranges)) == offsets(log, cut, position)
        assert cut.records == len(covered(list(cut.ranges)))
        assert cut.records >= 10 or cut.end == log.position()
        position, seen = cut.end, seen + cut.records
    assert seen == sum(end - first for topic in TOPICS for first, end in log.offsets(topic).values())


def test_a_batch_reaches_as_far_as_compaction_has_been(log: EmbeddedLog) -> None:
    fill(log, 10)
    log.seal("orders")
    log.compact("orders")
    compacted = log.compacted(TOPICS)
    assert compacted > commit_position(2)
    cut = log.cutter(TOPICS).cut(START, commit_position(2), 3)
    assert cut.end >= compacted
    assert covered(list(cut.ranges)) >= offsets(log, cut, START)


def test_large_records_make_small_batches(log: EmbeddedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cutting, "SMALL_ROWS", 5)
    monkeypatch.setattr(cutting, "BATCH_BYTES_MAX", 1)
    fill(log, 10)
    assert 5 <= log.cutter(TOPICS).cut(START, log.position(), 1_000_000).records < 12


def test_tasks_share_a_range_without_gap_or_overlap() -> None:
    one = OffsetRange("clicks", 1, 10, 27)
    for tasks in (1, 2, 3, 20):
        shares = [one.share(task, tasks) for task in range(tasks)]
        assert [offset for share in shares for offset in range(share.first, share.end)] == list(range(10, 27))

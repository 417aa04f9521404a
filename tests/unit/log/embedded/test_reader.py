"""A reader continues where it was: what it has read once is not read again."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

import headwater as hw
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.embedded.reader import PartitionReader
from headwater.log.maintenance import Segment

RECORDS = 200
PATIENCE = timedelta(seconds=10)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EmbeddedLog]:
    with EmbeddedLog(tmp_path, durability="os", upkeep=False) as opened:
        opened.create("numbers", "number bigint")
        yield opened


@pytest.fixture
def bytes_read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many bytes each look at a segment's file has read, so far."""
    sizes: list[int] = []
    content_of = PartitionReader._content

    def counting(self: PartitionReader, segment: Segment, byte: int, size: int) -> bytes:
        content = content_of(self, segment, byte, size)
        sizes.append(len(content))
        return content

    monkeypatch.setattr(PartitionReader, "_content", counting)
    return sizes


def numbers(batch: hw.Batch) -> list[int]:
    values: list[int] = batch.records["number"].to_pylist()
    return values


def test_a_follower_that_is_overtaken_reads_every_byte_once(log: EmbeddedLog, bytes_read: list[int]) -> None:
    log.append("numbers", [{"number": 0}])
    following = log.batches("numbers", follow=True, idle_timeout=PATIENCE)
    seen = numbers(next(following))
    for number in range(1, RECORDS):
        # It comes after the follower's last look at the log, and before its last look at the segment.
        log.append("numbers", [{"number": number}])
        seen += numbers(next(following))
    assert seen == list(range(RECORDS))
    assert sum(bytes_read) == log.segments("numbers")[0].bytes


def test_a_reader_that_was_cut_short_goes_on_in_what_it_has(log: EmbeddedLog, bytes_read: list[int]) -> None:
    for number in range(10):
        log.append("numbers", [{"number": number}])
    with log._reader(log.topic("numbers"), 0) as partition:
        first = partition.read(0, until_commit=3)
        rest = partition.read(3)
        again = partition.read(0)
    assert first is not None
    assert rest is not None
    assert again is not None
    assert (numbers(first), numbers(rest), numbers(again)) == ([0, 1, 2], [3, 4, 5, 6, 7, 8, 9], list(range(10)))
    assert (first.next_offset, rest.next_offset) == (3, 10)
    assert len(bytes_read) == 1


def test_a_reader_sees_what_came_after_what_it_has(log: EmbeddedLog) -> None:
    log.append("numbers", [{"number": 0}, {"number": 1}])
    with log._reader(log.topic("numbers"), 0) as partition:
        first = partition.read(0)
        log.append("numbers", [{"number": 2}])
        rest = partition.read(2)
    assert first is not None
    assert rest is not None
    assert (numbers(first), numbers(rest)) == ([0, 1], [2])

"""Where a reading of several topics begins: at one commit in all of them, whatever is committed meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.log.embedded import follow
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.embedded.reader import PartitionReader


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EmbeddedLog]:
    with EmbeddedLog(tmp_path, durability="os", upkeep=False) as log:
        for topic in ("orders", "payments"):
            log.create(topic, "id bigint")
        yield log


def append_to_both(log: EmbeddedLog, number: int) -> None:
    with log.commit() as commit:
        commit.append("orders", [{"id": number}])
        commit.append("payments", [{"id": number}])


def test_from_now_on_is_one_moment_in_all_topics(log: EmbeddedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    append_to_both(log, 1)
    begin = follow.first_offset
    committed: list[int] = []

    def begin_and_commit(*arguments: object) -> int:
        found: int = begin(*arguments)  # type: ignore[arg-type]
        if not committed:
            committed.append(2)
            append_to_both(log, 2)
        return found

    monkeypatch.setattr(follow, "first_offset", begin_and_commit)
    reading = log.read(["orders", "payments"], start="latest")
    assert [record.value for record in reading] == [{"id": 2}, {"id": 2}]
    assert committed == [2]


def test_from_now_on_shows_nothing_older(log: EmbeddedLog) -> None:
    append_to_both(log, 1)
    reading = log.read(["orders", "payments"], start="latest")
    append_to_both(log, 2)
    assert [record.value for record in reading] == [{"id": 2}, {"id": 2}]


def test_a_segment_that_is_sealed_while_a_reading_begins_is_found_again(
    log: EmbeddedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    append_to_both(log, 1)
    position = log.position()
    append_to_both(log, 2)
    read_frames = PartitionReader._read_frames
    sealed: list[str] = []

    def seal_and_read(self: PartitionReader, *arguments: object) -> object:
        if not sealed:
            sealed.append("orders")
            log.seal("orders")
        return read_frames(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(PartitionReader, "_read_frames", seal_and_read)
    assert [record.value for record in log.read(["orders", "payments"], start=position)] == [{"id": 2}, {"id": 2}]
    assert sealed == ["orders"]

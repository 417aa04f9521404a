"""Finding the record that makes a view fail: the batch is tried again with less and less of it, and nothing is kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from headwater.engine.batch import Batch
from headwater.errors import ViewFailed
from headwater.log.embedded import EmbeddedLog
from headwater.model.position import Position
from headwater.model.types import CommitNumber

if TYPE_CHECKING:
    from headwater.engine.pipeline import Program


@dataclass(frozen=True, slots=True)
class Suspect:
    """The first record with which a batch fails, the commit it belongs to, and the last position that is still good."""

    good: Position
    commit: Position
    topic: str
    partition: int
    offset: int
    failure: ViewFailed


def isolate(log: EmbeddedLog, program: Program, batch: Batch, failure: ViewFailed) -> Suspect:
    """Halves a batch that fails until one record is left. It takes about as many runs as its size has binary digits."""
    start, end = Position.parse(batch.start).commit, Position.parse(batch.end).commit
    latest = failure

    def fails(candidate: Batch) -> bool:
        nonlocal latest
        try:
            program.run(candidate)
        except ViewFailed as found:
            latest = found
            return True
        return False

    commit = _first(start + 1, end, lambda number: fails(replace(batch, end=str(number))))
    good, bad = Position(CommitNumber(commit - 1)), Position(CommitNumber(commit))
    places = _places(log, program, good, bad, batch)
    alone = replace(batch, start=str(good), end=str(bad)) if batch.start == str(good) else None
    if alone is None or not places:
        topic, partition, offset = places[-1] if places else ("", 0, 0)
        return Suspect(good, bad, topic, partition, offset, latest)

    def fails_with(count: int) -> bool:
        return fails(replace(alone, excluded=[*batch.excluded, *_ranges(places[count:])]))

    count = _first(1, len(places), fails_with)
    topic, partition, offset = places[count - 1]
    return Suspect(good, bad, topic, partition, offset, latest)


def _places(
    log: EmbeddedLog, program: Program, good: Position, bad: Position, batch: Batch
) -> list[tuple[str, int, int]]:
    """The records of one commit that are not excluded already."""
    gone = {(topic, partition, offset) for topic, partition, offset, _ in batch.excluded}
    found = [
        (record.topic, int(record.partition), int(record.offset))
        for record in log.read(program.topics, start=good, end=bad)
    ]
    return [place for place in found if place not in gone]


def _ranges(places: Sequence[tuple[str, int, int]]) -> list[tuple[str, int, int, int]]:
    """The same records as ranges of offsets."""
    ranges: list[tuple[str, int, int, int]] = []
    for topic, partition, offset in sorted(places):
        if ranges and ranges[-1][:2] == (topic, partition) and ranges[-1][3] == offset - 1:
            ranges[-1] = (topic, partition, ranges[-1][2], offset)
        else:
            ranges.append((topic, partition, offset, offset))
    return ranges


def _first(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """The first number for which something holds, which it does for the last one."""
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return low

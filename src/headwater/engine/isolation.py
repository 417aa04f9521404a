"""Finding the records that make a view fail: the batch is tried again with less and less of it, and nothing is kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from headwater.engine.batch import Batch
from headwater.engine.frontiers import frontier_at
from headwater.errors import ViewFailed
from headwater.log.port import Log
from headwater.model.position import Position

if TYPE_CHECKING:
    from headwater.engine.pipeline import Program

NAMED_MAX = 16
"""How many records of a commit are looked for if they are not going to be set aside, but reported."""

_Place = tuple[str, int, int]


@dataclass(frozen=True, slots=True)
class Suspect:
    """A record without which a commit does not fail, and what it makes of a view."""

    topic: str
    partition: int
    offset: int
    failure: ViewFailed

    @property
    def place(self) -> _Place:
        return self.topic, self.partition, self.offset


@dataclass(frozen=True, slots=True)
class Isolated:
    """The first commit found with which a batch fails, the last position before it, and the records that are to blame.

    Without these records the commit does not fail, and it needs all of them to be gone. They are looked for only if the
    batch begins with the commit.
    """

    good: Position
    commit: Position
    records: Sequence[Suspect] = ()


def isolate(
    log: Log, program: Program, batch: Batch, failure: ViewFailed, set_aside: Callable[[ViewFailed], bool]
) -> Isolated:
    """Halves a batch that fails until one commit is left, and finds its records that fail.

    It takes about as many runs as the batch's size has binary digits, for each record. Raises `ViewFailed` if it is no
    record's fault.
    """
    good, bad = Position.parse(batch.start), Position.parse(batch.end)
    trial = _Trial(program, failure)
    while (middle := log.between(good, bad)) is not None:
        if trial.fails(shortened(batch, log, middle)):
            bad = middle
        else:
            good = middle
    if batch.first or batch.start != str(good):
        return Isolated(good, bad)
    one = shortened(batch, log, bad)
    places = _places(log, program, good, bad, batch)
    found: list[Suspect] = []
    while not found or trial.fails(_without(one, [suspect.place for suspect in found])):
        if len(found) >= NAMED_MAX and not all(set_aside(suspect.failure) for suspect in found):
            return Isolated(good, bad, found)
        if len(found) == len(places):
            raise trial.failure
        found.append(_suspect(trial, one, places, [suspect.place for suspect in found]))
    return Isolated(good, bad, _needed(trial, one, found))


def shortened(batch: Batch, log: Log, end: Position) -> Batch:
    """The part of a batch up to a position."""
    ends = {topic: log.offsets(topic, at=end) for topic in {one.topic for one in batch.ranges}}
    cut = [replace(one, end=min(one.end, ends[one.topic][one.partition][1])) for one in batch.ranges]
    # What a batch forgets, it forgets with its last commit.
    forgotten = batch.forgotten if str(end) == batch.end else ()
    ranges = [one for one in cut if one.first < one.end]
    frontier = frontier_at(log, batch.frontier, end)
    return replace(batch, end=str(end), ranges=ranges, forgotten=forgotten, frontier=frontier)


def _suspect(trial: _Trial, one: Batch, places: Sequence[_Place], gone: Sequence[_Place]) -> Suspect:
    """The record with which a commit fails, if it is read from its beginning up to there."""
    left = [place for place in places if place not in set(gone)]
    count = _first(1, len(left), lambda count: trial.fails(_without(one, [*gone, *left[count:]])))
    return Suspect(*left[count - 1], trial.failure)


def _needed(trial: _Trial, one: Batch, found: Sequence[Suspect]) -> Sequence[Suspect]:
    """Those that really have to go.

    A part of a commit may fail where the whole does not: a newer record in it takes the place of the one that fails.
    """
    if len(found) == 1:
        return found
    for suspect in found:
        others = [other for other in found if other is not suspect]
        if not trial.fails(_without(one, [other.place for other in others])):
            found = others
    return found


class _Trial:
    """Runs batches of which nothing is kept."""

    def __init__(self, program: Program, failure: ViewFailed) -> None:
        self._program = program
        self.failure = failure
        """The last one."""

    def fails(self, batch: Batch) -> bool:
        try:
            self._program.run(batch)
        except ViewFailed as failure:
            self.failure = failure
            return True
        return False


def _places(log: Log, program: Program, good: Position, bad: Position, batch: Batch) -> list[_Place]:
    """The records of one commit that are not excluded already."""
    gone = {(topic, partition, offset) for topic, partition, offset, _ in batch.excluded}
    found = [
        (record.topic, int(record.partition), int(record.offset))
        for record in log.read(program.topics, start=good, end=bad)
    ]
    return [place for place in found if place not in gone]


def _without(batch: Batch, places: Sequence[_Place]) -> Batch:
    """The batch without some records, which are named by ranges of offsets."""
    ranges: list[tuple[str, int, int, int]] = []
    for topic, partition, offset in sorted(places):
        if ranges and ranges[-1][:2] == (topic, partition) and ranges[-1][3] == offset - 1:
            ranges[-1] = (topic, partition, ranges[-1][2], offset)
        else:
            ranges.append((topic, partition, offset, offset))
    return replace(batch, excluded=[*batch.excluded, *ranges])


def _first(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """A number for which something holds, and not for the one before it. It holds for the last one."""
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return low

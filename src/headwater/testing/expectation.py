"""What a log must hold: a pure model of acknowledged commits, and the comparison of a log with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field

from headwater.log.embedded.log import EmbeddedLog
from headwater.log.embedded.position import commit_of
from headwater.model.record import Record

STEP = "step"
"""The header that names the step a record came from; with the record's `id` it tells all records apart."""

Identity = tuple[str, int]
Removable = dict[str, frozenset[Identity]]


class Violated(Exception):
    """A log does not hold what it must."""


def require(condition: object, text: str) -> None:
    """Raises `Violated` with the text unless the condition holds."""
    if not condition:
        raise Violated(text)


@dataclass(frozen=True, slots=True)
class Entry:
    """One record that was acknowledged; `value` is None for a tombstone."""

    commit: int
    value: Mapping[str, object] | None


@dataclass(slots=True)
class Expectation:
    """Everything that was acknowledged and not removed since. `compacted` topics may have holes in their offsets."""

    position: int = 0
    topics: dict[str, dict[Identity, Entry]] = field(default_factory=dict)
    compacted: set[str] = field(default_factory=set)
    bookmarks: dict[str, object] = field(default_factory=dict)
    offsets: dict[tuple[str, str, int], int] = field(default_factory=dict)
    sequences: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class InFlight:
    """A step that was not acknowledged yet.

    Where `happened` says that it did, `change` makes the expectation agree; it did as a whole, or not at all. What is
    `removable` may be there or not: retention and compaction continue segment by segment.
    """

    change: Callable[[Expectation], None]
    happened: Callable[[EmbeddedLog], bool]
    removable: Removable = field(default_factory=dict)


def settled(expected: Expectation, in_flight: InFlight | None, log: EmbeddedLog) -> tuple[Expectation, Removable]:
    """What this very log must hold, and what it may still hold, given what came of the step that was in flight."""
    outcome = deepcopy(expected)
    if in_flight is None:
        return outcome, {}
    if in_flight.happened(log):
        in_flight.change(outcome)
    return outcome, in_flight.removable


def compare(log: EmbeddedLog, expected: Expectation, removable: Removable) -> None:
    """Raises `Violated` unless the log holds exactly what it must."""
    require(
        commit_of(log.position()) == expected.position, f"the position is {log.position()}, not {expected.position}"
    )
    names = sorted(topic.name for topic in log.topics())
    require(names == sorted(expected.topics), f"the topics are {names}, not {sorted(expected.topics)}")
    for name, entries in expected.topics.items():
        records = list(log.read(name))
        compare_entries(name, records, entries, removable.get(name, frozenset()))
        compare_order(name, records, dense=name not in expected.compacted)
    for bookmark, value in expected.bookmarks.items():
        require(log.bookmark(bookmark) == value, f"bookmark {bookmark} is {log.bookmark(bookmark)!r}, not {value!r}")
    found = {(lag.group, lag.topic, lag.partition): lag.offset for lag in log.lag()}
    for place in {*found, *expected.offsets}:
        offset, wanted = found.get(place, 0), expected.offsets.get(place, 0)
        require(offset == wanted, f"the offset of {place} is {offset}, not {wanted}")


def compare_entries(
    topic: str, records: Iterable[Record], entries: Mapping[Identity, Entry], removable: frozenset[Identity]
) -> None:
    """Nothing lost, nothing twice, nothing that was never acknowledged, and every value as it was."""
    seen: set[Identity] = set()
    for record in records:
        identity = identity_of(record)
        require(identity in entries, f"{topic} has a record {identity} that was never acknowledged")
        require(identity not in seen, f"{topic} has {identity} twice")
        seen.add(identity)
        found = Entry(commit_of(record.position), record.value)
        require(found == entries[identity], f"{topic} {identity} is {found}, not {entries[identity]}")
    lost = set(entries) - seen - removable
    require(not lost, f"{topic} has lost {sorted(lost)}")


def compare_order(topic: str, records: Iterable[Record], *, dense: bool) -> None:
    """Inside a partition offsets grow, by one if nothing was compacted, and so do commits and ids."""
    last: dict[int, tuple[int, int, int]] = {}
    for record in records:
        place = (int(record.offset), commit_of(record.position), identity_of(record)[1])
        before = last.get(record.partition)
        if before is not None:
            gap = place[0] - before[0]
            require(gap == 1 if dense else gap >= 1, f"{topic}/{record.partition}: offset {place[0]} after {before[0]}")
            require(place[1:] > before[1:], f"{topic}/{record.partition}: {place} after {before}")
        last[record.partition] = place


def identity_of(record: Record) -> Identity:
    """Which record of which step this is."""
    number = record.key if record.value is None else record.value["id"]
    assert isinstance(number, int)
    return record.headers.get(STEP, ""), number

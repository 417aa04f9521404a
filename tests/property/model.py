"""What a log is, in plain lists and dicts: every record ever appended, and which of them are still there.

Nothing here is clever. A partition is the list of all its records; retention is a number below which they are gone,
compaction a set of offsets that are. Tables, reads and ranges are comprehensions over what is left.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time
from typing import Literal

import pyarrow as pa
import pyarrow.types as pat

from tests.property.group_model import GroupModel, Place

Row = Mapping[str, object]
Start = Literal["earliest", "latest"] | tuple[Literal["offset", "position", "time"], int]
End = tuple[Literal["offset", "position", "time"], int] | None


class Gone(Exception):
    """What was asked for needs records that are not there any more."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One record as it was appended. `row` has the values that were given, in whatever schema was current then."""

    offset: int
    commit: int
    at: int
    row: Row
    deleted: bool
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Addition:
    """A record that a commit appends to a partition."""

    topic: str
    partition: int
    row: Row
    deleted: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass
class PartitionModel:
    """Every record ever, and which are gone: those before `start`, and those in `removed`."""

    history: list[Entry] = field(default_factory=list)
    start: int = 0
    removed: set[int] = field(default_factory=set)
    compacted_commit: int = 0

    @property
    def end(self) -> int:
        return len(self.history)

    @property
    def deleted_commit(self) -> int:
        """The commit of the newest record that retention deleted."""
        return self.history[self.start - 1].commit if self.start else 0

    def kept(self) -> list[Entry]:
        return [entry for entry in self.history[self.start :] if entry.offset not in self.removed]


@dataclass
class TopicModel:
    """`serial` tells a topic from an earlier one of the same name."""

    serial: int
    name: str
    schema: pa.Schema
    key: tuple[str, ...]
    partitions: list[PartitionModel]
    cleanup: str
    retention_age: int | None
    tombstone_grace: int

    def places(self) -> list[Place]:
        return [(self.serial, number) for number in range(len(self.partitions))]

    def key_of(self, row: Row) -> tuple[object, ...]:
        return tuple(plain(shown(row.get(name), self.schema.field(name).type)) for name in self.key)

    def value_of(self, row: Row) -> dict[str, object]:
        return {column.name: plain(shown(row.get(column.name), column.type)) for column in self.schema}

    def table(self, commit: int) -> dict[tuple[object, ...], dict[str, object]]:
        """The newest row per key at a commit. Compaction changes nothing of it, so it does not occur here."""
        if max(partition.compacted_commit for partition in self.partitions) > commit:
            raise Gone
        rows: dict[tuple[object, ...], dict[str, object]] = {}
        for partition in self.partitions:
            for entry in partition.history[partition.start :]:
                if entry.commit <= commit:
                    rows.pop(self.key_of(entry.row), None)
                    if not entry.deleted:
                        rows[self.key_of(entry.row)] = self.value_of(entry.row)
        return rows

    def outdated(self, number: int, sealed_end: int, now: int) -> set[int]:
        """What a compaction of everything before `sealed_end` removes."""
        entries = [entry for entry in self.partitions[number].kept() if entry.offset < sealed_end]
        newest = {self.key_of(entry.row): entry.offset for entry in entries}
        return {
            entry.offset
            for entry in entries
            if newest[self.key_of(entry.row)] != entry.offset
            or (entry.deleted and entry.at < now - self.tombstone_grace)
        }

    def remove(self, number: int, offsets: set[int], sealed_end: int) -> None:
        partition = self.partitions[number]
        partition.removed |= offsets
        if offsets:
            horizon = partition.history[sealed_end - 1].commit
            partition.compacted_commit = max(partition.compacted_commit, horizon)


@dataclass
class ProducerModel:
    """The newest holder of a name, and its last send."""

    epoch: int = 0
    sequence: int = 0
    commit: int = 0


@dataclass
class LogModel:
    """All of it."""

    topics: dict[str, TopicModel] = field(default_factory=dict)
    bookmarks: dict[str, object] = field(default_factory=dict)
    producers: dict[str, ProducerModel] = field(default_factory=dict)
    groups: dict[str, GroupModel] = field(default_factory=dict)
    commit: int = 0
    at: int = 0
    serials: int = 0

    def create(self, name: str, schema: pa.Schema, **definition: object) -> None:
        self.serials += 1
        self.topics[name] = TopicModel(self.serials, name, schema, **definition)  # type: ignore[arg-type]

    def drop(self, name: str) -> None:
        topic = self.topics.pop(name)
        for group in self.groups.values():
            group.forget(topic.serial)

    def add_partition(self, name: str) -> None:
        topic = self.topics[name]
        for group in self.groups.values():
            if any(place in group.offsets for place in topic.places()):
                group.offsets[topic.serial, len(topic.partitions)] = 0
        topic.partitions.append(PartitionModel())

    def begin(self, now: int) -> None:
        """A new commit; time never goes back from one to the next."""
        self.commit += 1
        self.at = max(self.at, now)

    def append(self, now: int, additions: Iterable[Addition], bookmarks: Mapping[str, object] | None = None) -> None:
        """One commit of records and bookmarks, if there are any."""
        additions = list(additions)
        if not additions and not bookmarks:
            return
        self.begin(now)
        self.add(additions)
        self.bookmarks.update(bookmarks or {})

    def add(self, additions: Iterable[Addition]) -> None:
        for one in additions:
            history = self.topics[one.topic].partitions[one.partition].history
            history.append(Entry(len(history), self.commit, self.at, one.row, one.deleted, one.headers))

    def place(self, place: Place) -> PartitionModel | None:
        for topic in self.topics.values():
            if topic.serial == place[0]:
                return topic.partitions[place[1]]
        return None

    def read(self, names: Sequence[str], start: Start, end: End) -> list[tuple[str, int, Entry]]:
        """The records of a range in commit order, each with its topic and partition. Raises `Gone`."""
        found = [self._read(self.topics[name], number, start, end) for name, number in self._all(names)]
        merged = [
            (entry.commit, index, entry.offset, entry) for index, entries in enumerate(found) for entry in entries
        ]
        places = self._all(names)
        return [(*places[index], entry) for _, index, _, entry in sorted(merged, key=lambda item: item[:3])]

    def _all(self, names: Sequence[str]) -> list[tuple[str, int]]:
        return [(name, number) for name in names for number in range(len(self.topics[name].partitions))]

    def _read(self, topic: TopicModel, number: int, start: Start, end: End) -> list[Entry]:
        partition = topic.partitions[number]
        entries = list(_until(partition.kept(), end))
        if end is not None and end[0] == "position" and max(p.compacted_commit for p in topic.partitions) > end[1]:
            raise Gone
        if start == "earliest":
            return entries
        if start == "latest":
            return []
        kind, value = start
        if kind == "position":
            if partition.deleted_commit > value:
                raise Gone
            return [entry for entry in entries if entry.commit > value]
        if kind == "time":
            return [entry for entry in entries if entry.at >= value]
        assert kind == "offset"
        if value < partition.start and (end is None or _end_offset(partition, end) > value):
            raise Gone
        return [entry for entry in entries if entry.offset >= value]


def _until(entries: Iterable[Entry], end: End) -> Iterator[Entry]:
    for entry in entries:
        if end is None:
            yield entry
            continue
        kind, value = end
        inside = {"offset": entry.offset < value, "position": entry.commit <= value, "time": entry.at < value}
        if inside[kind]:
            yield entry


def _end_offset(partition: PartitionModel, end: tuple[str, int]) -> float:
    """The offset at which an end lies; an end in commits lies nowhere, it only cuts."""
    kind, value = end
    if kind == "offset":
        return value
    if kind == "time":
        later = [entry.offset for entry in partition.kept() if entry.at >= value]
        return later[0] if later else partition.end
    return math.inf


def shown(value: object, arrow: pa.DataType) -> object:
    """A value that was given for a column of an older type, as a reader of the column's type sees it."""
    if value is None:
        return None
    if pat.is_struct(arrow):
        assert isinstance(value, Mapping)
        return {column.name: shown(value.get(column.name), column.type) for column in arrow}
    if pat.is_map(arrow):
        assert isinstance(value, Mapping)
        return [(name, shown(item, arrow.item_type)) for name, item in value.items()]
    if pat.is_list(arrow):
        assert isinstance(value, Sequence)
        return [shown(item, arrow.value_type) for item in value]
    if pat.is_timestamp(arrow) and isinstance(value, date) and not isinstance(value, datetime):
        return datetime.combine(value, time())
    return value


def plain(value: object) -> object:
    """The same value in a form that can be compared: NaN is equal to NaN, and a number to one of another type."""
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    if isinstance(value, Mapping):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, tuple):
        return tuple(plain(item) for item in value)
    return value

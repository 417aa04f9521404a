"""Random changes of topics: inserts, updates, deletes, key moves, duplicates, of several topics; and of time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from random import Random
from typing import TypeAlias

from headwater.log.port import Log
from tools.fuzzing.times import Times, is_source, move
from tools.fuzzing.topics import MAP, TopicPlan

Row: TypeAlias = Mapping[str, object]
IDLE = "idle"
"""A topic that no view reads: a commit to it moves the log, and nothing else."""

_TIMED = 0.2
"""The share of commits that move time."""


@dataclass(frozen=True, slots=True)
class Change:
    """Rows that are appended to a topic, or keys of a table that are deleted.

    Instead of a topic it may have a time source, by what queries call it, and a row with the moment `at` which it is.
    """

    topic: str
    rows: tuple[Row, ...]
    delete: bool = False


Commit: TypeAlias = tuple[Change, ...]


def append(log: Log, commit: Commit) -> None:
    """Makes a commit in a log, or moves time, which is a commit, too."""
    moves = [change for change in commit if is_source(change.topic)]
    for change in moves:
        move(log, change.topic, str(change.rows[-1]["at"]))
    if moves:
        return
    with log.commit() as made:
        for change in commit:
            if change.delete:
                made.delete(change.topic, list(change.rows))
            else:
                made.append(change.topic, list(change.rows))


class Changes:
    """Makes commits one after the other. It knows what the tables hold, so that it can change and delete that.

    `timed`: some of them move time.
    """

    def __init__(self, dice: Random, topics: Sequence[TopicPlan], *, timed: bool = False) -> None:
        self._dice, self._topics = dice, topics
        self._times = Times(dice, [topic.name for topic in topics]) if timed else None
        self._rows: dict[str, dict[tuple[object, ...], Row]] = {topic.name: {} for topic in topics}
        self._sent: dict[str, list[Row]] = {topic.name: [] for topic in topics}

    def commit(self) -> Commit:
        """One commit: of one topic or several, now and then of none that counts."""
        if self._dice.random() < 0.06:
            return (Change(IDLE, ({"id": 1},)),)
        if self._times is not None and self._dice.random() < _TIMED:
            return (_moved(*self._times.next()),)
        chosen = self._dice.sample(self._topics, min(len(self._topics), self._dice.choice((1, 1, 2, 2, 3))))
        return tuple(change for topic in chosen for change in self._of(topic))

    def shift(self) -> Commit:
        """All rows of all tables change in one commit, and their numbers by the same amount.

        By an amount, if there is one, that makes the old `a` of a row equal to the new `b` of its partner.
        """
        by = self._dice.choice(self._differences() or (1, 2, 3))
        made = []
        for topic in self._topics:
            rows = [
                {**row, "a": _shifted(row["a"], by), "b": _shifted(row["b"], by)}
                for row in self._rows[topic.name].values()
            ]
            made += [self._append(topic, rows)] if rows else []
        return tuple(made) or self.commit()

    def _differences(self) -> list[int]:
        """By how much `a` in the first table and `b` of the row with the same key in the second one differ."""
        one, other = [self._rows[topic.name] for topic in self._topics if topic.key][:2]
        numbers = [(one[key]["a"], other[key]["b"]) for key in one.keys() & other.keys()]
        return sorted(a - b for a, b in numbers if isinstance(a, int) and isinstance(b, int) and a != b)

    def first_rows(self) -> Commit:
        """A row for every key of every table, and some for other topics, so that rows have partners."""
        rows = {topic: [self._new(topic) for _ in range(self._dice.randint(4, 14))] for topic in self._topics}
        for topic, found in rows.items():
            if topic.key:
                keys = product(*(topic.domain(name) for name in topic.key))
                found[:] = [{**self._new(topic), **dict(zip(topic.key, key, strict=True))} for key in keys]
        return tuple(self._append(topic, found) for topic, found in rows.items())

    def first_moments(self) -> tuple[Commit, ...]:
        """Commits that say how far time is at first."""
        return () if self._times is None else tuple((_moved(*one),) for one in self._times.first())

    def filling(self) -> Commit:
        """Rows for all topics, so that most views have some; among their maps are those that have nulls inside."""
        rows = {topic: [self._new(topic) for _ in range(self._dice.randint(4, 14))] for topic in self._topics}
        for topic, found in rows.items():
            for name in (name for name, kind in topic.columns if kind == MAP):
                # From the last row on, which no other row of the same key replaces.
                maps = topic.domain(name)
                found[:] = [{**row, name: maps[(place - len(found)) % len(maps)]} for place, row in enumerate(found)]
        return tuple(self._append(topic, found) for topic, found in rows.items())

    def _of(self, topic: TopicPlan) -> list[Change]:
        if not topic.key:
            return [self._append(topic, [self._new(topic) for _ in range(self._dice.randint(1, 4))])]
        chance = self._dice.random()
        held = list(self._rows[topic.name].values())
        if held and chance < 0.22:
            return [self._delete(topic, self._dice.sample(held, self._dice.randint(1, min(3, len(held)))))]
        if held and chance < 0.34:
            return self._move(topic, self._dice.choice(held))
        if held and chance < 0.38:
            return [self._delete(topic, held)]
        if chance < 0.44:
            return [self._delete(topic, [self._new(topic)])]
        return [self._append(topic, [self._new(topic) for _ in range(self._dice.randint(1, 4))])]

    def _new(self, topic: TopicPlan) -> Row:
        sent = self._sent[topic.name]
        if sent and self._dice.random() < 0.25:
            row = dict(self._dice.choice(sent))
            if self._dice.random() < 0.5:
                name = self._dice.choice([name for name, _ in topic.columns])
                row[name] = self._dice.choice(topic.domain(name))
        else:
            row = {name: self._dice.choice(topic.domain(name)) for name, _ in topic.columns}
        sent.append(row)
        return row

    def _append(self, topic: TopicPlan, rows: Sequence[Row]) -> Change:
        if topic.key:
            self._rows[topic.name] |= {_key(topic, row): row for row in rows}
        return Change(topic.name, tuple(rows))

    def _delete(self, topic: TopicPlan, rows: Sequence[Row]) -> Change:
        keys = [{name: row[name] for name in topic.key} for row in rows]
        for row in rows:
            self._rows[topic.name].pop(_key(topic, row), None)
        return Change(topic.name, tuple(keys), delete=True)

    def _move(self, topic: TopicPlan, row: Row) -> list[Change]:
        """The same row under another key, in one commit."""
        other = {**row, **{name: self._dice.choice(topic.domain(name)) for name in topic.key}}
        return [self._delete(topic, [row]), self._append(topic, [other])]


def _moved(source: str, moment: str) -> Change:
    return Change(source, ({"at": moment},))


def _key(topic: TopicPlan, row: Row) -> tuple[object, ...]:
    return tuple(row[name] for name in topic.key)


def _shifted(number: object, by: int) -> object:
    return number + by if isinstance(number, int) else number

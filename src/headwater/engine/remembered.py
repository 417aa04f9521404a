"""What a view remembers of topics: which records it is made of, and whether the log still has all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from headwater.engine.definition import Definition
from headwater.engine.following import follower_of
from headwater.errors import HistoryGone
from headwater.log.port import Log
from headwater.model.position import Position

T = TypeVar("T")
TRIES_MAX = 3
Since = Mapping[str, Mapping[int, int]]
"""The first offset that counts, by topic and partition; 0 is left out."""


@dataclass(frozen=True, slots=True)
class Remembered:
    """Which records the views of a generation are made of."""

    log: Log
    pipeline: str
    generation: int
    definition: Definition

    def since(self, view: str, topics: Iterable[str], position: Position) -> Since:
        """From where on records of topics count in a view at a position.

        Raises `HistoryGone` if the view is made of records that the log has deleted, or if it has missed some.
        """
        found: dict[str, Mapping[int, int]] = {}
        reasons: list[str] = []
        for topic in topics:
            first = self._first(topic, position)
            found[topic] = {partition: offset for partition, offset in first.items() if offset}
            for partition, (kept, _) in self.log.offsets(topic).items():
                if kept > first.get(partition, 0):
                    reasons.append(_gone(topic, partition, first.get(partition, 0), kept - 1))
            reasons += self._missed(topic, first)
        if reasons:
            raise HistoryGone(view, reasons)
        return {topic: first for topic, first in found.items() if first}

    def _first(self, topic: str, position: Position) -> dict[int, int]:
        """From where on records of a topic count."""
        follower = self.log.followers.find(follower_of(self.pipeline, self.generation))
        began = {} if follower is None else follower.since.get(topic, {})
        defined = self.definition.topics.get(topic)
        forgets = defined is None or defined.views == "forget"
        trimmed = self.log.followers.trimmed(topic, position) if forgets else {}
        return {part: max(began.get(part, 0), trimmed.get(part, 0)) for part in {*began, *trimmed}}

    def _missed(self, topic: str, first: Mapping[int, int]) -> Sequence[str]:
        name = follower_of(self.pipeline, self.generation)
        return [
            str(one)
            for one in self.log.followers.missed(name)
            if one.topic == topic and one.last >= first.get(one.partition, 0)
        ]


def tried_again(verify: Callable[[], T]) -> T:
    """What a verification gives that may be overtaken: once a pipeline has left a position, retention may delete what
    that position needs."""
    for _ in range(TRIES_MAX - 1):
        with suppress(HistoryGone):
            return verify()
    return verify()


def lost(log: Log, topics: Iterable[str]) -> list[str]:
    """What views of these topics will not see if they are built now, although views that are there remember it."""
    found = []
    for topic in topics:
        first = {part: first for part, (first, _) in log.offsets(topic).items() if first}
        if first and log.topic(topic).keeps_in_views:
            offsets = ", ".join(f"{offset} in partition {part}" for part, offset in first.items())
            found.append(
                f"Topic {topic!r} is kept from offset {offsets}: changed views are made of what is kept, "
                "and the older records that they remember now are gone."
            )
    return found


def _gone(topic: str, partition: int, first: int, last: int) -> str:
    return f"topic {topic!r}, partition {partition}: offsets {first} to {last}"

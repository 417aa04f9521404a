"""Bases: state that a pipeline keeps by reference, so that views that remember deleted records can still be verified.

What a view has made of deleted records cannot be recomputed. But its state at some position, which never changes, and
the records after that position give its content now; so what came after a base can be proved, by replaying it from
there. For that the log has to have every record after the base. So the newest base is a separate follower, and a
pipeline takes the next one before too many records depend on it. Where it retracts records of other topics, which are
deleted then, it takes the next one at once.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Protocol

from headwater.engine.following import HOLD_SECONDS, base_follower_of
from headwater.engine.publication import Base, Generation
from headwater.errors import Determinate, UnknownTopic
from headwater.log.port import Log
from headwater.log.topic import Topic
from headwater.model.position import START, Position

BASES_MAX = 3
"""At most this many bases are kept of a generation: the oldest that can be replayed, the next, and the newest."""

BASE_SHARE = 2
"""A base is taken as soon as more than 1 / BASE_SHARE of the records that a topic keeps came after the newest base."""


class BaseStore(Protocol):
    """What keeps bases: see `ViewStore`."""

    def bases(self, generation: int) -> list[Base]: ...

    def take_base(
        self, generation: int, epoch: int, offsets: Mapping[str, Mapping[int, int]], kept: Collection[int] = ()
    ) -> Base: ...


class Bases:
    """Takes the bases of a pipeline's current generation, if views remember records of its topics."""

    def __init__(self, log: Log, store: BaseStore, epoch: int, pipeline: str, topics: Sequence[str]) -> None:
        self._log, self._store, self._epoch = log, store, epoch
        self._pipeline, self._topics = pipeline, list(topics)
        self._looked_at, self._holds = 0.0, False

    def keep(self, generation: Generation, *, now: bool = False) -> None:
        """Takes a base of a generation, if it is time to; looks once in a while, or `now`."""
        if generation.status != "current" or generation.position == START:
            return
        if not now and time.monotonic() - self._looked_at < HOLD_SECONDS:
            return
        self._looked_at = time.monotonic()
        # What cannot be looked at now can be the next time.
        with suppress(Determinate, UnknownTopic):
            self._keep(generation)

    def _keep(self, generation: Generation) -> None:
        topics = [self._log.topic(name) for name in self._topics]
        remembered = [topic for topic in topics if remembers(self._log, topic)]
        if not remembered:
            if self._holds:
                # A topic was altered: its views do not remember any more.
                self._log.followers.release([base_follower_of(self._pipeline, generation.id)])
                self._holds = False
            return
        good = [one for one in self._store.bases(generation.id) if self._reaches(one, generation.position)]
        if good and not self._is_due(good[-1], generation.position, remembered):
            return
        offsets = {topic: _ends(self._log, topic, generation.position) for topic in self._topics}
        kept = [one.batch for one in good[: BASES_MAX - 1]]
        self._hold(self._store.take_base(generation.id, self._epoch, offsets, kept), topics)

    def _hold(self, base: Base, topics: Sequence[Topic]) -> None:
        name = base_follower_of(self._pipeline, base.generation)
        if self._log.followers.missed(name):
            # It did not reach any more; this one does.
            self._log.followers.release([name])
        # What views forget is deleted after a commit that no base from before reaches over.
        held = [topic.name for topic in topics if not (topic.deletes and topic.settings.views == "forget")]
        self._log.followers.hold(name, "base", base.position, held)
        self._holds = True

    def _reaches(self, base: Base, position: Position) -> bool:
        return reaches(self._log, self._topics, base, position)

    def _is_due(self, newest: Base, position: Position, remembered: Sequence[Topic]) -> bool:
        for topic in remembered:
            kept = since = 0
            before = newest.offsets[topic.name]
            for partition, (first, end) in self._log.offsets(topic.name, at=position).items():
                kept += end - min(first, end)
                since += end - max(min(first, end), before.get(partition, 0))
            if since * BASE_SHARE > kept:
                return True
        return False


def remembers(log: Log, topic: Topic) -> bool:
    """Whether views keep what they made of records of a topic that retention, or the log's cap, deletes."""
    if not topic.keeps_in_views:
        return False
    return topic.history == "keep" or any(first for first, _ in log.offsets(topic.name).values())


def reaches(log: Log, topics: Iterable[str], base: Base, position: Position) -> bool:
    """Whether the log has all records between a base and a position, and none are to be retracted between."""
    for topic in topics:
        after, kept = base.offsets.get(topic), log.offsets(topic)
        if after is None or any(first > after.get(partition, 0) for partition, (first, _) in kept.items()):
            return False
        trims = log.followers.trimmed
        if trims(topic, position) != trims(topic, base.position):
            return False
    return True


def _ends(log: Log, topic: str, position: Position) -> dict[int, int]:
    return {partition: end for partition, (_, end) in log.offsets(topic, at=position).items()}

"""A pipeline as a follower of the log: each of its generations holds what it has still to read, or to forget."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Literal

from headwater.engine.publication import Generation
from headwater.errors import Determinate, PositionGone, RecordsGone, RecordsMissed
from headwater.log.cutting import Cut, Cutter, OffsetRange
from headwater.log.followers import Follower, Missed
from headwater.log.port import Log
from headwater.model.position import START, Position

OnGone = Literal["fail", "earliest", "rebuild"]
"""What a pipeline does about records that were deleted before it had read them: stop, continue with what is kept, or
build its views again from what is kept."""

HOLD_SECONDS = 1.0
"""How often a pipeline says how far it has come, at most: what is kept for it may be a little more than it needs."""


def follower_of(pipeline: str, generation: int) -> str:
    """What a generation of a pipeline is called as a follower."""
    return f"{pipeline}/{generation}"


def base_follower_of(pipeline: str, generation: int) -> str:
    """What the newest base of a generation is called as a follower."""
    return f"{follower_of(pipeline, generation)}/base"


class Following:
    """What the log keeps for a pipeline's generations."""

    def __init__(self, log: Log, pipeline: str, topics: Sequence[str], on_gone: OnGone | None) -> None:
        self._log, self._pipeline, self._topics, self._on_gone = log, pipeline, list(topics), on_gone
        self._followers = log.followers
        self._said: tuple[int, Position] | None = None
        self._said_at = 0.0
        self._since: dict[tuple[str, int], int] = {}

    def adopt(self, generation: Generation, former: int) -> None:
        """Lets a generation have what a former one has: some of its state is from there."""
        self.hold(generation, now=True, heir_of=[follower_of(self._pipeline, former)])

    def hold(self, generation: Generation, *, now: bool = False, heir_of: Sequence[str] = ()) -> None:
        """Keeps what comes after a generation's position; it is said now and then, or `now`."""
        place = (generation.id, generation.position)
        due = now or time.monotonic() - self._said_at >= HOLD_SECONDS
        if not due or (place == self._said and not heir_of):
            return
        name = follower_of(self._pipeline, generation.id)
        begins = self._said is None or self._said[0] != generation.id
        # A generation that begins in the middle has its state from former ones.
        unknown = begins and generation.position != START and self._followers.find(name) is None
        others = self._former(generation.id) if unknown else heir_of
        try:
            self._followers.hold(name, "pipeline", generation.position, self._topics, heir_of=others)
        except Determinate:
            # The log keeps more than it has to until it can be told.
            self._said_at = time.monotonic()
            if now:
                raise
            return
        if begins or heir_of:
            found = self._followers.find(name)
            since = {} if found is None else found.since
            self._since = {(topic, part): first for topic, by in since.items() for part, first in by.items()}
        self._said, self._said_at = place, time.monotonic()

    def begin(self, cutter: Cutter, generation: Generation) -> None:
        """Lets a generation that has read nothing begin with what was there when it began to hold."""
        if generation.position == START and self._since:
            cutter.begin(START, self._since)

    def skip_gone(self, cutter: Cutter, start: Position) -> None:
        """Lets the next batch pass over records that are not there any more."""
        begin = {}
        for topic in self._topics:
            kept, read = self._log.offsets(topic), self._log.offsets(topic, at=start)
            begin.update({(topic, part): max(first, read[part][1]) for part, (first, _) in kept.items()})
        cutter.begin(start, begin)

    def keep_only(self, generations: Collection[int]) -> None:
        """Keeps nothing any longer for other generations of this pipeline."""
        kept = {name(self._pipeline, number) for number in generations for name in (follower_of, base_follower_of)}
        self._followers.release([one.name for one in self._mine() if one.name not in kept])

    def _former(self, generation: int) -> list[str]:
        """The generations before one that hold something."""
        mine = [one.name for one in self._mine() if one.kind == "pipeline"]
        return [name for name in mine if int(name.rpartition("/")[2]) < generation]

    def _mine(self) -> list[Follower]:
        """The generations of this pipeline that hold something, and their bases."""
        begins = f"{self._pipeline}/"
        kinds = ("pipeline", "base")
        return [one for one in self._followers.all() if one.kind in kinds and one.name.startswith(begins)]

    def check(self, cut: Cut) -> Cut:
        """The cut without records to forget that were never read. Raises `RecordsGone` if others are deleted."""
        found = []
        for one in cut.forgotten:
            first = max(one.first, self._since.get((one.topic, one.partition), 0))
            kept = self._log.offsets(one.topic)[one.partition][0]
            if first < min(one.end, kept):
                if self._on_gone != "earliest":
                    raise RecordsGone(one.topic, one.partition, first, min(one.end, kept) - 1)
                first = kept
            if first < one.end:
                found.append(OffsetRange(one.topic, one.partition, first, one.end))
        return replace(cut, forgotten=found)

    def policy(self, gone: RecordsGone | PositionGone) -> OnGone:
        """What to do about records that are gone: what was asked for, or to rebuild if that makes the views right."""
        if self._on_gone is not None:
            return self._on_gone
        # Views that forget, and tables of which the newest records are kept, are what their SQL gives over what there
        # is. What a view has kept of a stream is gone for good if it is built again.
        topics = {gone.topic, *(one.topic for one in self.missed(self._said[0] if self._said else 0))}
        return "fail" if any(self._log.topic(name).keeps_in_views for name in topics) else "rebuild"

    def missed(self, generation: int) -> list[Missed]:
        """What a generation has missed."""
        return self._followers.missed(follower_of(self._pipeline, generation))

    def failure(self, generation: int, gone: RecordsGone | PositionGone) -> RecordsMissed:
        """Says exactly what a generation has missed."""
        missed = [str(one) for one in self.missed(generation)] or [gone.message]
        return RecordsMissed(self._pipeline, missed)


def release_all(log: Log, pipeline: str) -> None:
    """Keeps nothing any longer for a pipeline whose state is deleted."""
    Following(log, pipeline, (), None).keep_only(())

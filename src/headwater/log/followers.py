"""Followers: who reads topics and how far they have come, so that a log deletes nothing that they still need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol

from headwater.log.lag import Lag
from headwater.model.position import Position

FollowerKind = Literal["pipeline", "base", "sink", "group", "capture"]
"""A `base` is state that a pipeline has kept: what comes after it is held, so that views can be verified from there."""


@dataclass(frozen=True, slots=True)
class Follower:
    """Something that reads topics and has registered how far it has come.

    It has every record up to `position`; a group has its own offsets instead. `since` is the first offset that was
    there to be read when it began, by topic and partition.
    """

    name: str
    kind: FollowerKind
    position: Position | None
    since: Mapping[str, Mapping[int, int]]
    moved_at: datetime | None


@dataclass(frozen=True, slots=True)
class Missed:
    """Records `first` to `last` (both included) that were deleted although a follower still needed them, and why."""

    follower: str
    kind: FollowerKind
    topic: str
    partition: int
    first: int
    last: int
    reason: str
    at: datetime

    @property
    def records(self) -> int:
        return self.last - self.first + 1

    def __str__(self) -> str:
        return (
            f"topic {self.topic!r}, partition {self.partition}: offsets {self.first} to {self.last} "
            f"({self.records} records), deleted because {self.reason}"
        )


class Followers(Protocol):
    """The followers of a log."""

    def hold(
        self, name: str, kind: FollowerKind, position: Position, topics: Sequence[str], *, heir_of: Sequence[str] = ()
    ) -> None:
        """From now on the log keeps what comes after a position in these topics, up to the topics' limits.

        It takes the place of what the follower held before. At the start of the log it begins again: what it had missed
        is forgotten, and `since` is what is there now. The heir of others has what they have: it began where the first
        of them did, and has missed what they have missed.
        """

    def release(self, names: Sequence[str]) -> None:
        """Keeps nothing for these followers any longer. Names that are not known are ignored."""

    def all(self) -> list[Follower]:
        """All followers, groups included, by kind and name."""

    def find(self, name: str) -> Follower | None:
        """A follower that is not a group; None if it does not exist."""

    def missed(self, name: str | None = None) -> list[Missed]:
        """What followers have missed, or one of them, in order."""

    def lag(self) -> list[Lag]:
        """How far followers that are not groups are behind, per partition; `Log.lag` has the groups."""

    def trimmed(self, topic: str, at: Position) -> dict[int, int]:
        """From which offset on each partition counts for views at a position; partitions that were never trimmed are
        left out.

        Before retention deletes records of a topic whose views forget them, a commit trims it: from that position on
        the records do not count any more. Pipelines retract them, and then they are deleted.
        """


class NoFollowers:
    """The followers of a log that deletes by its own rules and asks nobody: it has no followers."""

    def hold(
        self, name: str, kind: FollowerKind, position: Position, topics: Sequence[str], *, heir_of: Sequence[str] = ()
    ) -> None:
        """See `Followers`. Nothing is kept."""

    def release(self, names: Sequence[str]) -> None:
        """See `Followers`. There is nothing to release."""

    def all(self) -> list[Follower]:
        return []

    def find(self, name: str) -> Follower | None:
        del name
        return None

    def missed(self, name: str | None = None) -> list[Missed]:
        del name
        return []

    def lag(self) -> list[Lag]:
        return []

    def trimmed(self, topic: str, at: Position) -> dict[int, int]:
        del topic, at
        return {}

"""Membership: what a consumer needs of its group, whatever keeps the group."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from headwater.errors import TombstonesGone
from headwater.log.topic import Topic

Place = tuple[int, int]
"""A topic's id and a partition's number."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A partition that a member may read and move the group's offset of, as of one epoch."""

    topic: Topic
    partition: int
    epoch: int
    offset: int

    @property
    def place(self) -> Place:
        return self.topic.id, self.partition


class Membership(Protocol):
    """One member of one group. A newer one of the same name replaces it: it is fenced from then on."""

    group: str
    member: str

    @property
    def topics(self) -> Collection[int]:
        """The ids of the topics that it wants, as of the last `renew`."""

    def version(self) -> tuple[int, int]:
        """Changes whenever the division of the group's partitions may have to: with the group, and with the topics."""

    def renew(self, in_use: Collection[Place] = ()) -> tuple[list[Claim], tuple[int, int]]:
        """Joins or stays, and settles what this member claims from now on; that, and the group's version.

        What is `in_use` is not given back. Raises `Fenced`, `UnknownTopic` once a topic that it wants by name was
        dropped, and `UnknownGroup` once the group was deleted.
        """

    def offsets(self) -> Mapping[Place, int]:
        """Up to where each partition that this member claims is committed."""

    def missed(self, place: Place, first: int, end: int) -> Sequence[TombstonesGone]:
        """Tombstones of a partition that were dropped before the group had read them, from an offset on up to another.

        None for a log that does not know.
        """

    def keep(self) -> bool:
        """Prolongs the lease, and ends the leases that are over; whether there were any."""

    def leave(self) -> None:
        """Gives everything back."""

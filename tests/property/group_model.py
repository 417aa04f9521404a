"""What a consumer group is, in plain dicts: one offset per partition, and who may move it.

How a group divides its partitions is not in here: the model watches what each member says it claims, and only knows
what must hold whatever the division is. A partition has one holder at a time; who takes one begins at the group's
offset; who holds something uncommitted keeps it; who lost it cannot commit.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

Place = tuple[int, int]
"""A partition: its topic's serial number and its own number."""


@dataclass
class ClaimModel:
    """Up to where a member has read a partition, and up to where it has committed it."""

    next: int
    committed: int


@dataclass
class MemberModel:
    """`lost` means that something delivered and uncommitted went to somebody else: its next commit must fail."""

    name: str
    topics: tuple[str, ...]
    start: str
    on_gone: str
    claims: dict[Place, ClaimModel] = field(default_factory=dict)
    lost: bool = False

    def uncommitted(self) -> list[Place]:
        return [place for place, claim in self.claims.items() if claim.next != claim.committed]

    def rewind(self) -> None:
        self.lost = False
        for claim in self.claims.values():
            claim.next = claim.committed


@dataclass
class GroupModel:
    """`offsets` has every partition that the group knows; None where nobody has taken it yet."""

    offsets: dict[Place, int | None] = field(default_factory=dict)
    holders: dict[Place, str] = field(default_factory=dict)
    ended: set[str] = field(default_factory=set)

    def know(self, places: Iterable[Place]) -> None:
        for place in places:
            self.offsets.setdefault(place, None)

    def forget(self, serial: int) -> None:
        """The topic was dropped."""
        self.offsets = {place: offset for place, offset in self.offsets.items() if place[0] != serial}
        self.holders = {place: holder for place, holder in self.holders.items() if place[0] != serial}

    def release(self, names: Collection[str]) -> None:
        """These members left, or their leases ended."""
        self.holders = {place: holder for place, holder in self.holders.items() if holder not in names}
        self.ended -= set(names)

    def reset(self, members: Iterable[MemberModel], offsets: Mapping[Place, int]) -> None:
        """The group continues from these offsets, and so do the members that hold the partitions."""
        for place, offset in offsets.items():
            self.offsets[place] = offset
            for member in members:
                claim = member.claims.get(place)
                if claim is not None and self.holders.get(place) == member.name:
                    member.lost |= claim.next != claim.committed
                    member.claims[place] = ClaimModel(offset, offset)

    def watch(self, member: MemberModel, claimed: Collection[Place], begin: Callable[[Place], int]) -> None:
        """Takes note of what a member says it claims now, and checks that it may."""
        uncommitted = set(member.uncommitted())
        for place, claim in list(member.claims.items()):
            if self.holders.get(place) == member.name and place not in claimed:
                assert place not in uncommitted, f"{member.name} gave {place} away though it is in use"
                del self.holders[place]
            if self.holders.get(place) != member.name:
                member.lost |= claim.next != claim.committed
                del member.claims[place]
        for place in claimed:
            if place not in member.claims:
                assert place not in self.holders, f"{place} is claimed by {self.holders.get(place)}, too"
                self.holders[place] = member.name
                if self.offsets[place] is None:
                    self.offsets[place] = begin(place)
                offset = self.offsets[place]
                assert offset is not None
                member.claims[place] = ClaimModel(offset, offset)

    def may_commit(self, member: MemberModel) -> bool:
        held = all(self.holders.get(place) == member.name for place in member.uncommitted())
        return held and not member.lost

    def commit(self, member: MemberModel) -> None:
        for place in member.uncommitted():
            claim = member.claims[place]
            self.offsets[place] = claim.committed = claim.next

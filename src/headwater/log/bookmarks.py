"""Bookmarks: named values that move with commits, and the port that looks them up, lists them and forgets them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from headwater.model.position import Position


@dataclass(frozen=True, slots=True)
class Bookmark:
    """A named value, and the position of the commit that gave it this value."""

    name: str
    value: object
    position: Position


class Bookmarks(Protocol):
    """The bookmarks of one log."""

    def find(self, name: str) -> Bookmark | None:
        """None if it does not exist."""

    def value(self, name: str) -> object:
        """What the last commit gave it; None if it does not exist."""

    def beginning(self, prefix: str) -> list[Bookmark]:
        """Those whose names begin with a text, by name."""

    def forget(self, names: Iterable[str]) -> None:
        """Deletes bookmarks: a commit that expects there to be none of a name succeeds again."""

"""A place in a database's own log: all that code for every database knows of it is its order and its text."""

from __future__ import annotations

from typing import Protocol, Self, runtime_checkable


@runtime_checkable
class Place(Protocol):
    """A value with an order, whose text is what bookmarks and headers hold."""

    def __lt__(self, other: Self, /) -> bool:
        """Whether everything up to here lies before the other place."""
        ...

    def __str__(self) -> str:
        """The database's own way to write it."""
        ...

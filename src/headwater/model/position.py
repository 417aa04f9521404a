"""A position: a point in the log, handed out by every write and accepted by every read."""

from __future__ import annotations

from dataclasses import dataclass

from headwater.errors import UsageError
from headwater.model.types import CommitNumber


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """Everything up to and including one commit. Positions of one log are totally ordered.

    Outside the process a position is its text, which is opaque: keep it, compare it, hand it back.
    """

    commit: CommitNumber

    def __str__(self) -> str:
        return str(self.commit)

    @classmethod
    def parse(cls, text: str) -> Position:
        """The position that `str` gave. Raises `UsageError`."""
        if not text.isascii() or not text.isdigit():
            raise UsageError(
                f"{text!r} is not a position.", hint="A position is what an append, a commit or a read returned."
            )
        return cls(CommitNumber(int(text)))


START = Position(CommitNumber(0))
"""Before the first commit."""


def check_position(given: object) -> None:
    """Raises `UsageError` unless it is a position, or none is given."""
    if given is not None and not isinstance(given, Position):
        raise UsageError(
            f"A position is a Position, not {given!r}.",
            hint=f"Write headwater.Position.parse({str(given)!r}); str(position) is what it takes.",
        )

"""A position: a point in the log, handed out by every write and accepted by every read."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from headwater.errors import UsageError

UNNAMED: Final = ""
"""The name of the one counter of a log that orders all of its commits."""

_DIGITS_MAX = 18
_COUNTER = re.compile(rf"(?P<name>[A-Za-z0-9][A-Za-z0-9._/-]*):(?P<number>[0-9]{{1,{_DIGITS_MAX}}})", re.ASCII)
_NUMBER = re.compile(rf"[0-9]{{1,{_DIGITS_MAX}}}", re.ASCII)


@dataclass(frozen=True, slots=True, eq=False)
class Position:
    """Everything up to and including one commit: a vector of counters, which only the log that made it looks into.

    Outside the process a position is its text: keep it, compare it, hand it back. Positions are ordered counter by
    counter, and a counter that is missing is 0. All positions of an embedded log are comparable; of two positions of
    another log neither may be before the other.
    """

    counters: tuple[tuple[str, int], ...] = ()
    """Sorted by name, without zeros: `of` makes it so. For the log's implementation."""

    @classmethod
    def of(cls, counters: Iterable[tuple[str, int]]) -> Position:
        """The position with these counters, in any order. For the log's implementation."""
        return cls(tuple(sorted((name, number) for name, number in counters if number)))

    @classmethod
    def parse(cls, text: str) -> Position:
        """The position that `str` gave. Raises `UsageError`."""
        if _NUMBER.fullmatch(text):
            return cls.of([(UNNAMED, int(text))])
        found = [_COUNTER.fullmatch(part) for part in text.split(",")]
        counters = {part["name"]: int(part["number"]) for part in found if part is not None}
        if len(counters) != len(found):
            raise UsageError(
                f"{text!r} is not a position.", hint="A position is what an append, a commit or a read returned."
            )
        return cls.of(counters.items())

    def __eq__(self, other: object) -> bool:
        # Also to one that knows more than where it is.
        return self.counters == other.counters if isinstance(other, Position) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.counters)

    def __str__(self) -> str:
        return ",".join(f"{name}:{number}" if name else str(number) for name, number in self.counters) or "0"

    # None of these may use the operator of another: of two positions Python asks that of a subclass first.

    def __le__(self, other: Position) -> bool:
        return _is_reached(self.counters, other.counters)

    def __lt__(self, other: Position) -> bool:
        return self.counters != other.counters and _is_reached(self.counters, other.counters)

    def __ge__(self, other: Position) -> bool:
        return _is_reached(other.counters, self.counters)

    def __gt__(self, other: Position) -> bool:
        return self.counters != other.counters and _is_reached(other.counters, self.counters)

    def behind(self, other: Position) -> int:
        """How many steps this position is behind the other one; 0 if it is not."""
        reached = dict(self.counters)
        return sum(max(0, number - reached.get(name, 0)) for name, number in other.counters)

    def joined(self, other: Position) -> Position:
        """The first position that is not before either of the two."""
        reached = dict(self.counters)
        return Position.of({**reached, **{n: max(v, reached.get(n, 0)) for n, v in other.counters}}.items())


def _is_reached(mine: tuple[tuple[str, int], ...], theirs: tuple[tuple[str, int], ...]) -> bool:
    """Whether no counter of mine is beyond the same one of theirs."""
    if len(mine) == len(theirs) == 1 and mine[0][0] == theirs[0][0]:
        return mine[0][1] <= theirs[0][1]
    reached = dict(theirs)
    return all(number <= reached.get(name, 0) for name, number in mine)


START: Final = Position()
"""Before the first commit."""


def check_position(given: object) -> None:
    """Raises `UsageError` unless it is a position, or none is given."""
    if given is not None and not isinstance(given, Position):
        raise UsageError(
            f"A position is a Position, not {given!r}.",
            hint=f"Write headwater.Position.parse({str(given)!r}); str(position) is what it takes.",
        )

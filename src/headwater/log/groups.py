"""Consumer groups as seen from outside: who is in one, which topics it follows, and where it is moved to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from fnmatch import fnmatchcase

_WILD = frozenset("*?[")


@dataclass(frozen=True, slots=True)
class Member:
    """One member of a group. Its lease ends after `lease_left` unless it is heard of; until then it is active."""

    group: str
    name: str
    topics: tuple[str, ...]
    lease_left: timedelta


@dataclass(frozen=True, slots=True)
class OffsetReset:
    """A group's next offset in one partition, before and after a reset. `before` is None where it had none yet."""

    topic: str
    partition: int
    before: int | None
    after: int


def is_pattern(name: str) -> bool:
    """Whether this stands for all topics whose names fit (`orders.*`, `*`), rather than for the topic of this name."""
    return not _WILD.isdisjoint(name)


def matching(wanted: Sequence[str], topics: Iterable[str]) -> list[str]:
    """The topics that one of the patterns fits, in their order: shell patterns, in which case counts."""
    patterns = [each for each in wanted if is_pattern(each)]
    return [name for name in topics if any(fnmatchcase(name, pattern) for pattern in patterns)]

"""The frontier: how far time has come, as an operator sees it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime


class Frontier(Mapping[str, datetime]):
    """For each time source (a clock, the watermark of a topic) the moment up to which it has come; it never moves back.

    A source that has not said anything yet is not in it. Frontiers do not change.
    """

    __slots__ = ("_times",)

    def __init__(self, times: Mapping[str, datetime] | None = None) -> None:
        self._times = dict(times or {})

    def __getitem__(self, source: str) -> datetime:
        return self._times[source]

    def __iter__(self) -> Iterator[str]:
        return iter(self._times)

    def __len__(self) -> int:
        return len(self._times)

    def __hash__(self) -> int:
        return hash(frozenset(self._times.items()))

    def __repr__(self) -> str:
        return f"Frontier({self._times})"

    def moved_since(self, earlier: Frontier) -> frozenset[str]:
        """The sources whose time has advanced since."""
        return frozenset(source for source, time in self.items() if earlier.get(source) != time)

    def to_json(self) -> dict[str, str]:
        return {source: time.isoformat() for source, time in self.items()}

    @classmethod
    def from_json(cls, value: Mapping[str, str]) -> Frontier:
        return cls({source: datetime.fromisoformat(time) for source, time in value.items()})


NO_TIME = Frontier()
"""The frontier before any source has said anything."""

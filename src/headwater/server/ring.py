"""A ring of events: the newest changes of a view, shared by all who follow it, and bounded."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from dataclasses import dataclass

from headwater.server.sse import Mark


@dataclass(frozen=True, slots=True)
class Change:
    """A change as it goes over the wire."""

    mark: Mark
    frame: bytes


class Ring:
    """All changes after `start`, as many as fit. Followers keep their own place in it, so that nobody holds it up."""

    def __init__(self, start: Mark, *, events_max: int, bytes_max: int) -> None:
        self.start = self.end = start
        self._events_max, self._bytes_max = events_max, bytes_max
        self._changes: deque[Change] = deque()
        self._bytes = 0

    def add(self, change: Change) -> None:
        """Adds the newest change; the oldest go to make room."""
        self._changes.append(change)
        self._bytes += len(change.frame)
        self.end = change.mark
        while len(self._changes) > self._events_max or self._bytes > self._bytes_max:
            gone = self._changes.popleft()
            self._bytes -= len(gone.frame)
            self.start = gone.mark

    def skip(self, mark: Mark) -> None:
        """A change that is too large to be kept: who has not seen it has to get it elsewhere."""
        self._changes.clear()
        self._bytes = 0
        self.start = self.end = mark

    def covers(self, mark: Mark) -> bool:
        """Whether all changes after a mark are here."""
        return self.start <= mark

    def after(self, mark: Mark) -> Change | None:
        """The first change after a mark, of those that are here."""
        place = bisect_right(self._changes, mark, key=lambda change: change.mark)
        return self._changes[place] if place < len(self._changes) else None

"""A budget of bytes in flight: what waits for its client longest gives way when there are too many."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self


class Budget:
    """Bytes that all requests together hold in memory for their clients. Belongs to one event loop."""

    def __init__(self, bytes_max: int, patience_seconds: float) -> None:
        self.bytes = self.peak = 0
        self._bytes_max, self._patience_seconds = bytes_max, patience_seconds
        self._holds: set[Hold] = set()

    def hold(self) -> Hold:
        """A hold on nothing yet."""
        return Hold(self)

    def add(self, hold: Hold) -> None:
        self._holds.add(hold)

    def discard(self, hold: Hold) -> None:
        self._holds.discard(hold)

    def change(self, size: int, hold: Hold) -> bool:
        """Counts more bytes of a hold, or fewer; False if there are too many, although all has given way that can.

        What has waited for less than the patience does not give way: it may be as good as done.
        """
        self.bytes += size
        if size > 0 and self.bytes > self._bytes_max:
            self._make_room(hold)
        self.peak = max(self.peak, self.bytes)
        return self.bytes <= self._bytes_max

    def _make_room(self, taking: Hold) -> None:
        before = time.monotonic() - self._patience_seconds
        slow = [one for one in self._holds if one is not taking and one.can_give_way(before)]
        for one in sorted(slow, key=lambda one: one.since):
            if self.bytes <= self._bytes_max:
                return
            one.give_way()


class Hold:
    """Bytes that one request holds, until the end of a `with` block."""

    def __init__(self, budget: Budget) -> None:
        self.since = time.monotonic()
        self.gave_way = False
        self._budget, self._bytes = budget, 0
        self._timer: asyncio.Timeout | None = None

    def __enter__(self) -> Self:
        self._budget.add(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._budget.discard(self)
        self.free(self._bytes)

    def take(self, size: int) -> bool:
        """Holds more; False if the budget is exceeded then."""
        self._bytes += size
        return self._budget.change(size, self)

    def free(self, size: int) -> None:
        """Holds less, or nothing, if it had to give way meanwhile."""
        size = min(size, self._bytes)
        self._bytes -= size
        self._budget.change(-size, self)

    @contextmanager
    def waiting(self, timer: asyncio.Timeout) -> Iterator[None]:
        """Within it, the hold waits for its client. If it has to give way, the timer ends, which has been entered."""
        self._timer = timer
        try:
            yield
        finally:
            self._timer = None

    def moved(self) -> None:
        """The client has done something: others have waited for longer now."""
        self.since = time.monotonic()

    def can_give_way(self, before: float) -> bool:
        return self._timer is not None and not self.gave_way and bool(self._bytes) and self.since <= before

    def give_way(self) -> None:
        """Ends the wait, and with it what is held."""
        assert self._timer is not None, "it waits"
        self.gave_way = True
        self._timer.reschedule(asyncio.get_running_loop().time())
        self.free(self._bytes)

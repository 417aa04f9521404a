"""What lets the clock of a log tick while an application runs."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from headwater.engine.parts import Part, Report, Stop
from headwater.errors import UsageError
from headwater.log.port import Log
from headwater.log.times import CLOCK, advance, records_of
from headwater.system.clock import Clock, instant

NAME = "clock"
LOOK_SECONDS = 0.2
"""How often it is looked whether a view reads the clock, as long as none does."""


class Ticking(Part):
    """Appends a tick whenever `every` has passed since the last one, for as long as a view `reads` the clock.

    Several applications may share a log: the first one ticks, and the others see that it was done.
    """

    def __init__(self, log: Log, every: timedelta, reads: Callable[[], bool], clock: Clock | None = None) -> None:
        self._log, self._every, self._reads, self._clock = log, every, reads, clock or Clock()

    @property
    def name(self) -> str:
        return NAME

    def run(self, stop: Stop, report: Report) -> None:
        del report
        while not stop.is_set():
            stop.wait(self.tick() if self._reads() else LOOK_SECONDS)

    def tick(self) -> float:
        """Ticks if it is time; for how many seconds nothing is to be done."""
        every, last, now = self._every // timedelta(microseconds=1), self._last(), self._clock.now()
        # Ticks are at multiples of the interval, so that two applications mean the same ones.
        due = now // every * every
        if last is None or last < due:
            try:
                advance(self._log, CLOCK, instant(due))
            except UsageError:
                # Another application was faster.
                if (self._last() or 0) < due:
                    raise
        return (due + every - now) / 1e6

    def _last(self) -> int | None:
        found = self._log.bookmark(records_of(CLOCK))
        return found if isinstance(found, int) else None

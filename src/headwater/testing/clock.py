"""A clock that stands still until it is told to continue, for tests of everything that depends on time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from headwater.system.clock import Clock

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


class ManualClock(Clock):
    """Wall time and time since boot continue together by `advance`, and apart by `set_back` and `reboot`.

    Several logs may share one, as the processes of one machine share its clocks.
    """

    def __init__(self, at: datetime = BEGIN) -> None:
        self._now = int(at.timestamp()) * 1_000_000 + at.microsecond
        self._since_boot = 0.0
        self._boots = 1

    def now(self) -> int:
        return self._now

    def monotonic(self) -> float:
        return self._since_boot

    def boot(self) -> str:
        return f"boot-{self._boots}"

    def advance(self, by: timedelta) -> None:
        """Lets time pass."""
        self._now += by // timedelta(microseconds=1)
        self._since_boot += by.total_seconds()

    def set_back(self, by: timedelta) -> None:
        """Sets the wall clock back, as an operator may; the time since boot continues unmoved."""
        self._now -= by // timedelta(microseconds=1)

    def reboot(self) -> None:
        """The machine restarts: the time since boot begins again, under a new name."""
        self._since_boot = 0.0
        self._boots += 1

"""How often, and for how long, a delivery that has failed is tried again."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from headwater.errors import TargetFailed


@dataclass(frozen=True, slots=True)
class Patience:
    """Pauses that double, some of each left to chance, and when to give up until the next run."""

    first: timedelta = timedelta(seconds=1)
    longest: timedelta = timedelta(minutes=5)
    passing: timedelta = timedelta(days=1)
    """After so long it pauses, if nobody answers or the target says that it cannot now."""
    refusals_max: int = 8
    """After this many refusals in a row (about two minutes of them) it pauses."""

    def delay(self, attempts: int, failure: TargetFailed, chance: float) -> float:
        """Seconds before the next attempt; `chance` is from 0 to 1."""
        doubled = self.first.total_seconds() * 2.0 ** min(attempts - 1, 30)
        longest = self.longest.total_seconds()
        pause = min(doubled, longest) * (0.5 + chance / 2)
        return max(pause, min(failure.retry_after or 0.0, longest))

    def is_over(self, refusals: int, seconds: float, failure: TargetFailed) -> bool:
        """Whether there is no further attempt, after this many refusals in a row, and so long."""
        if failure.kind == "gone":
            return True
        if failure.kind == "refused":
            return refusals >= self.refusals_max
        return seconds >= self.passing.total_seconds()

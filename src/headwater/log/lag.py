"""Lag: how far each group is behind the log, and how close it is to losing records to retention."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

RISK_ALARM = 0.8


@dataclass(frozen=True, slots=True)
class LagLimits:
    """When to raise the alarm. `risk` is the part of the retention that a group has used up by being late."""

    records: int | None = None
    bytes: int | None = None
    age: timedelta | None = None
    risk: float = RISK_ALARM


@dataclass(frozen=True, slots=True)
class Lag:
    """One group, or another follower, in one partition.

    `seconds` is how long ago the oldest unread record was received (to the precision of a segment once that is
    sealed). `gone` counts unread records that retention has deleted. `risk` is 1 when the next unread record is about
    to be deleted, None where nothing is ever deleted. `kind` is that of the follower, whose name is in `group`; `held`
    counts the bytes that retention would delete if this follower, or others with it, did not need them.
    """

    group: str
    topic: str
    partition: int
    member: str | None
    offset: int
    end: int
    records: int
    bytes: int
    seconds: float
    gone: int
    risk: float | None
    kind: str = "group"
    held: int = 0

    def alarms(self, limits: LagLimits) -> list[str]:
        """Why somebody should look, in words; empty if all is well, and for a base, which is behind by design."""
        if self.kind == "base":
            return []
        found = []
        if self.gone:
            found.append(f"{self.gone} records were deleted before they were read")
        if limits.records is not None and self.records > limits.records:
            found.append(f"{self.records} records behind (limit {limits.records})")
        if limits.bytes is not None and self.bytes > limits.bytes:
            found.append(f"{self.bytes} bytes behind (limit {limits.bytes})")
        if limits.age is not None and self.seconds > limits.age.total_seconds():
            found.append(f"{self.seconds:.0f} s behind (limit {limits.age.total_seconds():.0f} s)")
        if self.risk is not None and self.risk >= limits.risk:
            found.append(f"{self.risk:.0%} of the retention used up")
        return found

"""Two clocks: wall time for records, and time since boot for leases."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path


class Clock:
    """The machine's clocks. Tests use a manual one with the same three methods."""

    def now(self) -> int:
        """Microseconds since 1970 (UTC)."""
        return time.time_ns() // 1000

    def monotonic(self) -> float:
        """Seconds since boot: the same in all processes of the machine, and never set back."""
        return time.monotonic()

    def boot(self) -> str:
        """Names this run of the machine: a lease of an earlier run has ended, whatever its time says."""
        return _boot_id()


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def instant(microseconds: int) -> datetime:
    """The instant that is this many microseconds after 1970 (UTC)."""
    return _EPOCH + timedelta(microseconds=microseconds)


def microseconds(at: datetime) -> int:
    """Since 1970; a time without a zone is UTC."""
    zoned = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    return (zoned - _EPOCH) // timedelta(microseconds=1)


@cache
def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return "unknown"

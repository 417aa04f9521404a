"""What callers may give where a number or a duration is meant, checked when the program runs."""

from __future__ import annotations

from datetime import timedelta

from headwater.errors import UsageError


def is_whole(value: object, least: int) -> bool:
    """Whether it is a whole number that is not less than another; True and False are none."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def is_duration(value: object) -> bool:
    """Whether it is a timedelta that is not negative."""
    return isinstance(value, timedelta) and value >= timedelta(0)


def seconds_of(name: str, duration: timedelta) -> float:
    """A duration in seconds. Raises `UsageError` for anything else."""
    if not is_duration(duration):
        raise UsageError(f"{name} must be a timedelta, not {duration!r}.", hint=f"{name}=timedelta(seconds=…)")
    return duration.total_seconds()

"""Durations as people write them, such as 1h30m and "10 minutes", read and written."""

from __future__ import annotations

import math
import re
from datetime import timedelta
from typing import TypeAlias

from headwater.errors import UsageError

Duration: TypeAlias = timedelta | float | str
"""A `timedelta`, a number of seconds, or text such as "10 minutes" or "1h30m"."""

_NAMES = {
    timedelta(microseconds=1): ("us", "µs", "microsecond", "microseconds"),
    timedelta(milliseconds=1): ("ms", "millisecond", "milliseconds"),
    timedelta(seconds=1): ("s", "sec", "second", "seconds"),
    timedelta(minutes=1): ("m", "min", "minute", "minutes"),
    timedelta(hours=1): ("h", "hour", "hours"),
    timedelta(days=1): ("d", "day", "days"),
    timedelta(weeks=1): ("w", "week", "weeks"),
}
_UNITS = {name: unit for unit, names in _NAMES.items() for name in names}
_PART = re.compile(rf"(\d+(?:\.\d+)?)\s*({'|'.join(sorted(_UNITS, key=len, reverse=True))})\s*", re.ASCII)
_TEXT_HINT = 'Write it as 500ms, 30s, 5m, 12h, 7d, 2w, 1h30m or "10 minutes".'
_HINT = 'Give a timedelta, a number of seconds, or text such as "10 minutes" or "1h30m".'
_WRITTEN = ("d", "h", "m", "s", "ms", "us")


def is_duration(text: str) -> bool:
    """Whether the text reads as a duration."""
    return re.fullmatch(f"(?:{_PART.pattern})+", text.strip().lower(), re.ASCII) is not None


def parse_duration(text: str) -> timedelta:
    """The duration that a text stands for. Raises `UsageError` if it stands for none, or for one that is too long."""
    if not is_duration(text):
        raise UsageError(f"{text!r} is not a duration.", hint=_TEXT_HINT)
    try:
        parts = (_times(number, _UNITS[unit]) for number, unit in _PART.findall(text.strip().lower()))
        return sum(parts, timedelta(0))
    except OverflowError:
        raise UsageError(f"The duration {text!r} is too long.", hint="A duration is less than 999,999,999d.") from None


def _times(number: str, unit: timedelta) -> timedelta:
    return float(number) * unit if "." in number else int(number) * unit


def duration_of(name: str, value: Duration) -> timedelta:
    """The duration that a caller gave as an argument called `name`.

    Raises `UsageError` if it is no duration, negative, or too long.
    """
    if isinstance(value, str):
        try:
            return parse_duration(value)
        except UsageError as error:
            raise UsageError(f"Invalid {name}: {error.message}", hint=error.hint) from None
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        try:
            value = timedelta(seconds=value)
        except OverflowError:
            raise UsageError(f"Invalid {name}: {value:g} seconds is too long.", hint=_HINT) from None
    if not isinstance(value, timedelta):
        raise UsageError(f"Invalid {name}: {value!r} is not a duration.", hint=_HINT)
    if value < timedelta(0):
        raise UsageError(f"Invalid {name}: a duration cannot be negative, as {value} is.", hint=_HINT)
    return value


def seconds_of(name: str, value: Duration) -> float:
    """The duration that a caller gave, in seconds; see `duration_of`."""
    return duration_of(name, value).total_seconds()


def format_duration(duration: timedelta) -> str:
    """The shortest text that `parse_duration` reads back."""
    left, parts = duration // timedelta.resolution, []
    for unit in _WRITTEN:
        count, left = divmod(left, _UNITS[unit] // timedelta.resolution)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"

"""The rule of an alert: when a row fires, how often people are reminded, and when they are left alone."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from headwater.errors import UsageError

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")
_HINT = 'Write it as quiet=("22:00", "07:00"), with time_zone="Europe/Berlin".'


@dataclass(frozen=True, slots=True)
class QuietHours:
    """A part of each day, in a time zone, in which nobody is told anything. It may span midnight."""

    begin: time
    end: time
    zone: ZoneInfo

    def covers(self, at: datetime) -> bool:
        """Whether an instant is in it, by the clocks of the time zone."""
        local = at.astimezone(self.zone).time()
        if self.begin <= self.end:
            return self.begin <= local < self.end
        return local >= self.begin or local < self.end

    def __str__(self) -> str:
        return f"{self.begin:%H:%M}-{self.end:%H:%M} {self.zone.key}"


@dataclass(frozen=True, slots=True)
class Rule:
    """An alert: a row of `view` fires when it has been there for `after`, and clears when it is gone."""

    name: str
    view: str
    key: tuple[str, ...]
    after: timedelta = timedelta(0)
    repeat: timedelta | None = None
    quiet: QuietHours | None = None
    digest: timedelta | None = None

    @property
    def sink(self) -> str:
        """What the alert is called where names have no spaces: as a sink, in ids, and in files."""
        return _NOT_IN_NAMES.sub("-", self.name).strip("-._")

    def is_quiet(self, at: datetime) -> bool:
        """Whether nobody is told anything at an instant."""
        return self.quiet is not None and self.quiet.covers(at)


def quiet_hours(given: Sequence[str] | None, time_zone: str) -> QuietHours | None:
    """The quiet hours that a caller gave. Raises `UsageError`."""
    try:
        zone = ZoneInfo(time_zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise UsageError(f"Unknown time zone {time_zone!r}.", hint="Use a name such as Europe/Berlin.") from None
    if given is None:
        return None
    if isinstance(given, str) or len(given) != 2:
        raise UsageError(f"Invalid quiet={given!r}.", hint=_HINT)
    try:
        begin, end = (time.fromisoformat(each) for each in given)
    except (ValueError, TypeError):
        raise UsageError(f"Invalid quiet={given!r}.", hint=_HINT) from None
    if begin == end or begin.tzinfo is not None or end.tzinfo is not None:
        raise UsageError(f"Invalid quiet={given!r}: quiet hours are part of a day.", hint=_HINT)
    return QuietHours(begin, end, zone)

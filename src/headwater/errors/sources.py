"""What can go wrong with a database that is captured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headwater.errors.kinds import Determinate, ExternalError, UsageError


@dataclass(frozen=True, slots=True)
class Missing:
    """Something that a database lacks to be captured: what, and the SQL (or the setting) that provides it."""

    what: str
    remedy: str


class CaptureRefused(UsageError):
    """A database, or the way that it is asked to be captured, has to change first; nothing was changed."""

    code = "capture_refused"

    def __init__(self, source: str, missing: Sequence[Missing]) -> None:
        count = f"{len(missing)} things are" if len(missing) > 1 else "something is"
        listed = "\n".join(f"  - {each.what}\n      {each.remedy}" for each in missing)
        super().__init__(
            f"{source} cannot be captured yet, {count} missing:\n{listed}",
            hint="Nothing was changed. Fix this, and run it again.",
        )
        self.source, self.missing = source, tuple(missing)


class SourceUnavailable(Determinate):
    code = "source_unavailable"

    def __init__(self, source: str, reason: str) -> None:
        super().__init__(
            f"{source} does not answer: {reason}.",
            hint="Nothing is lost: capture continues where it was as soon as the database answers.",
        )
        self.source, self.reason = source, reason


class QueryFailed(Determinate):
    code = "query_failed"

    def __init__(self, source: str, reason: str) -> None:
        super().__init__(f"{source} refuses a query: {reason}.", hint="Check the table and the condition.")
        self.source, self.reason = source, reason


class SlotLost(ExternalError):
    """The replication slot does not lead on from what was captured: changes in between are gone from the WAL."""

    code = "slot_lost"

    def __init__(self, slot: str, captured: str, reason: str) -> None:
        super().__init__(
            f"The replication slot {slot!r} does not continue from {captured}: {reason}.",
            hint="The next run of `headwater capture` creates a new one and compares every table.",
        )
        self.slot, self.captured, self.reason = slot, captured, reason


class CaptureOvertaken(UsageError):
    """Another process captures the same source into the same log; what this one tried did not happen."""

    code = "capture_overtaken"

    def __init__(self, source: str, expected: str, actual: str) -> None:
        super().__init__(
            f"Another process captures source {source!r}: the log is at {actual}, not at {expected}.",
            hint="Stop one of the two.",
        )
        self.source, self.expected, self.actual = source, expected, actual


class CaptureDropped(UsageError):
    """Slot and publications of a source were removed while it was captured."""

    code = "capture_dropped"

    def __init__(self, source: str) -> None:
        super().__init__(
            f"Source {source!r} was dropped while it was captured.", hint="Run it again to start over, or take it out."
        )
        self.source = source

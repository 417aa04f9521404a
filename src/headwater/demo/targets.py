"""The demo's targets after an incident: whether their sinks have caught up, and what audits of them find."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import NamedTuple

from headwater.engine.reading import Reader
from headwater.engine.sinks.audit import SinkAudit
from headwater.engine.sinks.feed import Feed
from headwater.model.position import Position


class Audited(NamedTuple):
    """What one audit has found: equal, repaired or different; and how long it took."""

    sink: str
    verdict: str
    seconds: float
    found: SinkAudit

    def __str__(self) -> str:
        """What it has found, as a sentence."""
        found, took = self.found, f"in {self.seconds:.1f} s"
        if found.equal:
            return f"Audited {self.sink} {took}: all {found.rows_in_view:,} rows are equal."
        differ = f"{found.missing.count} missing, {found.different.count} different, {found.extra.count} extra"
        outcome = "exactly these were repaired" if self.verdict == "repaired" else "they differ"
        return f"Audited {self.sink} {took}: {differ} of {found.rows_in_view:,} rows; {outcome}."


class Targets:
    """The sinks of an application that hold content, except those that somebody has paused."""

    def __init__(self, feeds: Mapping[str, Feed], reader: Reader) -> None:
        self._feeds, self._reader = feeds, reader

    def names(self) -> list[str]:
        return [name for name, feed in self._feeds.items() if feed.sink.holds_content and not feed.control.is_paused]

    def have(self, position: Position) -> bool:
        """Whether all targets have everything up to a position. A sink that waits to retry is told to do so now."""
        behind = [self._feeds[name] for name in self.names() if not self._feeds[name].has(self._reader, position)]
        for feed in behind:
            if feed.status(self._reader).status != "running":
                feed.resume()
        return not behind

    def audit(self, name: str, *, repair: bool) -> Audited:
        """Audits one of them; what differs is repaired if `repair` says so. Raises `HeadwaterError`."""
        began = time.monotonic()
        found = self._feeds[name].audit(repair=repair)
        verdict = "equal" if found.equal else "repaired" if found.repaired else "different"
        return Audited(name, verdict, time.monotonic() - began, found)

"""The demo's targets after an incident: whether their sinks have caught up, and what audits of them find."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

from headwater.engine.reading import Reader
from headwater.engine.sinks.audit import SinkAudit
from headwater.engine.sinks.feed import Feed
from headwater.errors import HeadwaterError
from headwater.model.position import Position

ATTEMPTS_MAX = 3
"""How often an audit is asked for that fails, for instance because the target was restored a moment ago."""
RETRY_SECONDS = 1.0


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

    def audit(self, *, repair: frozenset[str] = frozenset()) -> Iterator[Audited]:
        """Audits one after the other; what differs in those of `repair` is repaired. Raises `HeadwaterError`."""
        for name in self.names():
            began = time.monotonic()
            found = self._audited(name, repair=name in repair)
            verdict = "equal" if found.equal else "repaired" if found.repaired else "different"
            yield Audited(name, verdict, time.monotonic() - began, found)

    def _audited(self, name: str, *, repair: bool) -> SinkAudit:
        for _ in range(ATTEMPTS_MAX - 1):
            with suppress(HeadwaterError):
                return self._feeds[name].audit(repair=repair)
            time.sleep(RETRY_SECONDS)
        return self._feeds[name].audit(repair=repair)

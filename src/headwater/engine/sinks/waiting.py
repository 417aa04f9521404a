"""Waiting until sinks have a position: a write that was acknowledged is in the systems that are derived from it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from datetime import timedelta

from headwater.engine.reading import Reader
from headwater.engine.sinks.feed import Feed
from headwater.errors import SinksBehind, UnknownSink
from headwater.model.position import Position

LOOK_SECONDS = 0.01
"""How often it is looked whether a sink has moved, while somebody waits."""
ASK_SECONDS = 0.1
"""How often it is looked whether a view has, too: a sink whose view did not change is where the views are."""


class Waiting:
    """Feeds that a caller waits for; ask `is_over` again and again."""

    def __init__(self, feeds: Mapping[str, Feed], position: Position) -> None:
        self._feeds, self._position = dict(feeds), position
        self._seen: dict[str, int] = {}
        self._asked_at = 0.0

    def is_over(self, reader: Reader) -> bool:
        """Whether all of them have everything up to the position."""
        now = time.monotonic()
        again = now - self._asked_at >= ASK_SECONDS
        self._asked_at = now if again else self._asked_at
        for name, feed in list(self._feeds.items()):
            moved_at = feed.moved_at()
            if not again and self._seen.get(name) == moved_at:
                continue
            self._seen[name] = moved_at
            if feed.has(reader, self._position):
                del self._feeds[name]
        return not self._feeds

    def behind(self, seconds: float) -> SinksBehind:
        """What to raise when they have not come so far within this time."""
        found = {name: feed.position() for name, feed in self._feeds.items()}
        return SinksBehind(str(self._position), {name: _text(at) for name, at in found.items()}, seconds)


def wait_for(reader: Reader, feeds: Mapping[str, Feed], position: Position, timeout: timedelta) -> None:
    """Returns when all feeds have everything up to a position. Raises `SinksBehind`."""
    waiting, deadline = Waiting(feeds, position), time.monotonic() + timeout.total_seconds()
    while not waiting.is_over(reader):
        if time.monotonic() >= deadline:
            raise waiting.behind(timeout.total_seconds())
        time.sleep(LOOK_SECONDS)


def names_of(text: str) -> list[str]:
    """The names in a list with commas."""
    return [name for part in text.split(",") if (name := part.strip())]


def _text(position: Position | None) -> str | None:
    return None if position is None else str(position)


def chosen(feeds: Mapping[str, Feed], names: Iterable[str]) -> dict[str, Feed]:
    """Feeds by their names. Raises `UnknownSink`."""
    return {name: found(feeds, name) for name in names}


def found(feeds: Mapping[str, Feed], name: str) -> Feed:
    """One feed. Raises `UnknownSink`."""
    if name not in feeds:
        raise UnknownSink(name, list(feeds))
    return feeds[name]

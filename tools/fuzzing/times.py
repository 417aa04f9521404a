"""Time in a round: commits that move the log's clock or the watermark of a topic, and what queries call both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from random import Random

from headwater.log.port import Log
from headwater.log.times import CLOCK, watermark_of
from headwater.model.position import START, Position
from headwater.spark.time_calls import called_as, time_calls

MOMENTS: Sequence[str] = (
    "1970-01-01T00:00:00Z",
    "2024-02-29T23:00:00Z",
    "2024-02-29T23:30:00Z",
    "2024-02-29T23:30:00.000001Z",
    "2024-03-01T00:00:00Z",
    "2024-03-01T00:00:00.000001Z",
    "2024-03-01T00:30:00Z",
    "2024-03-01T00:45:00.5Z",
    "2024-03-01T01:15:00.5Z",
    "2024-03-02T00:00:00Z",
    "2025-01-01T00:00:00Z",
    "2025-01-02T00:00:00Z",
)
"""Where time may be, in its order: at the moments that rows have, around them, and an interval away from them."""
INTERVALS = ("INTERVAL 30 MINUTES", "INTERVAL 1 DAY", "INTERVAL 1 MICROSECOND")
"""How far from a time source queries look."""
_CLOCK = called_as(CLOCK)


def sources_of(topics: Sequence[str]) -> tuple[str, ...]:
    """What queries call the time sources of a log."""
    return (_CLOCK, *(called_as(watermark_of(topic)) for topic in topics))


def is_source(name: str) -> bool:
    """Whether something is not a topic, but a time source by what queries call it."""
    return bool(time_calls(name))


def move(log: Log, source: str, moment: str) -> None:
    """Moves a time source."""
    at = datetime.fromisoformat(moment)
    if source == _CLOCK:
        log.tick(at)
    else:
        log.watermark(_topic(source), at)


def begin(log: Log, topics: Sequence[str]) -> None:
    """Gives each topic a watermark, which views that read it need to be planned."""
    for topic in topics:
        if log.watermark_at(topic) is None:
            log.watermark(topic, datetime.fromisoformat(MOMENTS[0]) - timedelta(days=1))


def moments_at(log: Log, topics: Sequence[str], position: Position) -> Mapping[str, datetime]:
    """How far the time sources are at a position, by their names in the log."""
    if position == START:
        return {}
    found = {
        CLOCK: log.now(at=position),
        **{watermark_of(name): log.watermark_at(name, at=position) for name in topics},
    }
    return {source: moment for source, moment in found.items() if moment is not None}


class Times:
    """Chooses where time is next. No source goes back."""

    def __init__(self, dice: Random, topics: Sequence[str]) -> None:
        self._dice = dice
        self._places = dict.fromkeys(sources_of(topics), 0)

    def first(self) -> list[tuple[str, str]]:
        """A moment for each source, among those that rows have, so that some rows are on either side of it."""
        return [self._moved(source, self._dice.randint(1, 6)) for source in self._places]

    def next(self) -> tuple[str, str]:
        """Another moment for one source, mostly the clock; now and then the same."""
        clock, *others = self._places
        source = clock if self._dice.random() < 0.6 else self._dice.choice(others)
        return self._moved(source, self._dice.choice((0, 1, 1, 1, 2, 3)))

    def _moved(self, source: str, by: int) -> tuple[str, str]:
        self._places[source] = min(self._places[source] + by, len(MOMENTS) - 1)
        return source, MOMENTS[self._places[source]]


def _topic(source: str) -> str:
    return source.split("'")[1]

"""The frontier of a position: how far the time sources that views read have come there."""

from __future__ import annotations

from collections.abc import Iterable

from headwater.log.port import Log
from headwater.log.times import time_of
from headwater.model.position import Position
from headwater.views.frontier import Frontier


def frontier_at(log: Log, sources: Iterable[str], position: Position) -> Frontier:
    """How far each of these sources has come at a position: a function of the log up to there."""
    found = {source: time_of(log, source, position) for source in sources}
    return Frontier({source: moment for source, moment in found.items() if moment is not None})

"""The keyword options of reading, in one place for types and for both clients."""

from __future__ import annotations

from typing import TypedDict

from headwater.model.durations import Duration
from headwater.model.position import Position


class Reading(TypedDict, total=False):
    """`at_least`: a position that the views must have reached. `timeout`: how long to wait for it, 30 s by default."""

    at_least: Position | None
    timeout: Duration

"""Changes of views and records of topics as events, none of them so large that it holds up others."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from headwater.engine.subscription import Changes
from headwater.model.encoding import json_rows
from headwater.server import sse

EVENT_ROWS_MAX = 1000
"""Rows of one event. What has more comes as several, of which only the last has an id to continue from."""


def mark_of(changes: Changes) -> sse.Mark:
    return sse.Mark(changes.position, changes.generation)


def frames(changes: Changes) -> Iterator[bytes]:
    """The events of a change of a view, or of its whole content."""
    rows = changes.rows.num_rows
    for start in range(0, max(rows, 1), EVENT_ROWS_MAX):
        complete = start + EVENT_ROWS_MAX >= rows
        body = {
            "position": str(changes.position),
            "complete": complete,
            "changes": _weighted(changes, start),
        }
        name = "snapshot" if changes.snapshot else "change"
        yield sse.event(body, name=name, mark=mark_of(changes) if complete else None)


def _weighted(changes: Changes, start: int) -> list[dict[str, object]]:
    table: pa.Table = changes.rows.slice(start, EVENT_ROWS_MAX)
    weights = changes.weights.slice(start, EVENT_ROWS_MAX).to_pylist()
    if not table.num_columns:
        return [{"weight": weight, "row": {}} for weight in weights]
    return [{"weight": weight, "row": row} for weight, row in zip(weights, json_rows(table), strict=True)]

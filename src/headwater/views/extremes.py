"""The least and the greatest value of each group, in Spark's order."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from headwater.views.grouped import Grouped
from headwater.views.ordering import ranks, sortable, unsortable


def extreme(rows: Grouped, column: str, kind: str) -> pa.ChunkedArray:
    """For each group the `min` or `max` of a column without nulls; null for a group without rows."""
    values = rows.table[column]
    if pat.is_nested(values.type):
        return _extreme_place(rows, column, kind)
    if pat.is_floating(values.type):
        return unsortable(_extreme(rows, sortable(values), kind), values.type)
    if pat.is_duration(values.type):
        # Arrow compares durations, but not in groups.
        longs = pa.chunked_array([chunk.view(pa.int64()) for chunk in values.chunks], pa.int64())
        return _extreme(rows, longs, kind).cast(values.type)
    return _extreme(rows, values, kind)


def _extreme(rows: Grouped, values: pa.ChunkedArray, kind: str) -> pa.ChunkedArray:
    table = pa.table({"group": pa.array(rows.numbers), "value": values})
    found = table.group_by(["group"], use_threads=False).aggregate([("value", kind)])
    return rows.spread(found, found["group"].to_numpy(), f"value_{kind}")


def _extreme_place(rows: Grouped, column: str, kind: str) -> pa.ChunkedArray:
    order = ranks(rows.table[column], zeros_apart=True)
    places = np.lexsort((order if kind == "max" else -order, rows.numbers))
    # The last of each group in this order stays.
    chosen = np.full(rows.count, -1, dtype=np.int64)
    chosen[rows.numbers[places]] = places
    return rows.table[column].take(pa.array(chosen, mask=chosen < 0))

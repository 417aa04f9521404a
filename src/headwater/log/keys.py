"""Keys as values that can be compared: which records of a table have the same key, and which is the newest."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def newest_rows(table: pa.Table, key: Sequence[str], order: str) -> np.ndarray:
    """For each key, the largest value of the `order` column among its rows; sorted."""
    columns = {name: _comparable(table[name]) for name in key}
    grouped = pa.table({**columns, order: table[order]}).group_by(list(key)).aggregate([(order, "max")])
    return np.sort(grouped[f"{order}_max"].to_numpy())


def _comparable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """-0.0 is 0.0 and every NaN is the same key, as in the partition hash."""
    if not pa.types.is_floating(column.type):
        return column
    zero = pa.scalar(0.0, column.type)
    same_zero = pc.if_else(pc.equal(column, zero), zero, column)
    return pc.if_else(pc.is_nan(same_zero), pa.scalar(float("nan"), column.type), same_zero)

"""A history of changes as rows: each row of a view with the weight, the delivery and the position it changed at."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from headwater.connectors.lake.table import DataFile, LakeTable
from headwater.engine.sinks.target import Delivery
from headwater.views.zset import WEIGHT, consolidate, negate, with_weights

WEIGHTS, DELIVERY, POSITION = "_weight", "_delivery", "_position"
COLUMNS = pa.schema([pa.field(WEIGHTS, pa.int64()), pa.field(DELIVERY, pa.int64()), pa.field(POSITION, pa.string())])


def with_columns(columns: pa.Schema) -> pa.Schema:
    """The columns of a history of a view with these."""
    return pa.schema([*columns, *COLUMNS])


def as_history(changes: pa.Table, number: int, position: str) -> pa.Table:
    """The changes of one delivery as rows of a history; `changes` is a Z-set."""
    length = changes.num_rows
    described = pa.table(
        [changes[WEIGHT], pa.array(np.full(length, number)), pa.array([position] * length, pa.string())],
        schema=COLUMNS,
    )
    rows = changes.drop_columns([WEIGHT])
    for name in COLUMNS.names:
        rows = rows.append_column(COLUMNS.field(name), described[name])
    return rows


def content_of(table: LakeTable, files: Sequence[DataFile], columns: pa.Schema) -> pa.Table:
    """The Z-set that a history adds up to."""
    names = [*columns.names, WEIGHTS]
    wanted = pa.schema([*columns, pa.field(WEIGHT, pa.int64())])
    parts = [table.read(file, names).select(names).rename_columns(wanted.names).cast(wanted) for file in files]
    return consolidate(pa.concat_tables([wanted.empty_table(), *parts]))


def changes_of(delivery: Delivery, held: pa.Table | None) -> pa.Table:
    """The Z-set that a delivery adds to a history, of which `held` is the sum if the delivery is a content."""
    after = with_weights(delivery.rows, delivery.weights)
    if held is None or not held.num_rows:
        return after
    return consolidate(pa.concat_tables([negate(held).cast(after.schema), after]))

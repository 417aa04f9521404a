"""Finding rows by the values of some columns: an index per run, kept in memory, so that one key costs by its rows.

A run never changes, so its index never does either, and is kept as long as the run is open. It has 16 bytes a row: the
hash of the columns, sorted, and where each row is. Rows with the right hash are compared, so that a collision shows
nothing that was not asked for.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from headwater.engine.blobs import Blobs
from headwater.engine.runs import OpenRun, Run, is_open, open_run
from headwater.errors import UsageError
from headwater.model import hashing
from headwater.views.zset import WEIGHT, consolidate, with_weights

INDEXED_ROWS_MAX = 20_000_000
"""Rows whose indexes a process keeps; those of runs that were not used for longest go first."""

FEW_ROWS = 32

_indexes: OrderedDict[tuple[str, str, int, tuple[str, ...]], _Index] = OrderedDict()


@dataclass(frozen=True, slots=True)
class _Index:
    """The hashes of all rows of a section, sorted, and the number of each row."""

    hashes: npt.NDArray[np.uint64]
    rows: npt.NDArray[np.int64]


def find(blobs: Blobs, runs: Sequence[Run], schema: pa.Schema, key: Mapping[str, pa.Array]) -> pa.Table:
    """All rows of these runs whose columns have these values, each an array of one value; not consolidated.

    Raises `UsageError` for a column that is nested or not there, `StateCorrupt`.
    """
    for name in key:
        if name not in schema.names or pat.is_nested(schema.field(name).type):
            raise UsageError(f"Rows cannot be found by {name!r}.", hint="Name a column of a plain type.")
    wanted = hashing.hash_columns(list(key.values()))[0]
    found: list[pa.Table] = []
    for run in runs:
        opened = open_run(blobs, run)
        rows = _rows(_index(blobs, run, opened, tuple(key)), wanted)
        if rows is not None:
            start, stop = opened.bounds(run.low, run.high)
            table = opened.table.take(pa.array(rows[(rows >= start) & (rows < stop)]))
            found.append(table if table.schema == schema else table.cast(schema))
    if not found:
        return schema.empty_table()
    table = pa.concat_tables(found)
    for name, value in key.items():
        table = table.filter(pc.equal(table[name], value[0]))
    return table


def consolidate_few(rows: pa.Table) -> pa.Table:
    """As `consolidate`; a handful of rows is added up one by one, which is ten times as fast."""
    if rows.num_rows > FEW_ROWS:
        return consolidate(rows)
    weights: list[int] = rows[WEIGHT].to_pylist()
    if rows.num_rows <= 1:
        return rows if weights != [0] else rows.slice(0, 0)
    try:
        columns = [rows[name].to_pylist() for name in rows.column_names if name != WEIGHT]
    except (ValueError, OverflowError):
        return consolidate(rows)  # values that Python has no type for
    places: dict[str, int] = {}
    totals: dict[str, int] = {}
    for place, row in enumerate(zip(*columns, strict=True)):
        # What is written alike is the same: all NaN are, and 0.0 and -0.0 are not.
        text = repr(row)
        places.setdefault(text, place)
        totals[text] = totals.get(text, 0) + weights[place]
    kept = [text for text, total in totals.items() if total]
    chosen = rows.take(pa.array([places[text] for text in kept], pa.int64()))
    return with_weights(chosen, np.array([totals[text] for text in kept], dtype=np.int64))


def _rows(index: _Index, wanted: np.uint64) -> npt.NDArray[np.int64] | None:
    """The numbers of the rows with a hash, None if there is none."""
    first = int(index.hashes.searchsorted(wanted))
    if first == len(index.hashes) or index.hashes[first] != wanted:
        return None
    return index.rows[first : int(index.hashes.searchsorted(wanted, "right"))]


def _index(blobs: Blobs, run: Run, opened: OpenRun, columns: tuple[str, ...]) -> _Index:
    key = (blobs.address, run.file, run.index, columns)
    found = _indexes.get(key)
    if found is None:
        hashes = hashing.hash_columns([opened.table[name] for name in columns])
        order = np.argsort(hashes)
        found = _indexes[key] = _Index(hashes[order], order)
        _forget_some()
        return found
    # Another thread may have dropped it meanwhile; what we hold stays good.
    with suppress(KeyError):
        _indexes.move_to_end(key)
    return found


def _forget_some() -> None:
    """Lets go of the indexes of runs that are not open any more, and of the oldest if there are too many."""
    for key in list(_indexes):
        if not is_open(*key[:3]):
            _indexes.pop(key, None)
    with suppress(KeyError, RuntimeError):
        while len(_indexes) > 1 and sum(len(index.rows) for index in list(_indexes.values())) > INDEXED_ROWS_MAX:
            _indexes.popitem(last=False)

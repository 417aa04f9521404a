"""Finding rows by the values of some columns: an index per run, kept in memory, so that one key costs by its rows.

A run never changes, so its index never does either. It has 16 bytes a row: the hash of the columns, sorted, and where
each row is. Rows with the right hash are compared, so that a collision shows nothing that was not asked for.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from headwater.engine.runs import OpenRun, Run, open_run
from headwater.errors import UsageError
from headwater.model import hashing

INDEXED_ROWS_MAX = 20_000_000
"""Rows whose indexes a process keeps; those of runs that were not used for longest go first."""

_indexes: OrderedDict[tuple[str, str, int, tuple[str, ...]], _Index] = OrderedDict()


@dataclass(frozen=True, slots=True)
class _Index:
    """The hashes of all rows of a section, sorted, and the number of each row."""

    hashes: npt.NDArray[np.uint64]
    rows: npt.NDArray[np.int64]


def find(directory: Path, runs: Sequence[Run], schema: pa.Schema, key: Mapping[str, pa.Array]) -> pa.Table:
    """All rows of these runs whose columns have these values, each an array of one value; not consolidated.

    Raises `UsageError` for a column that is nested or not there, `StateCorrupt`.
    """
    for name in key:
        if name not in schema.names or pat.is_nested(schema.field(name).type):
            raise UsageError(f"Rows can not be found by {name!r}.", hint="Name a column of a plain type.")
    wanted = hashing.hash_columns(list(key.values()))[0]
    found = [schema.empty_table()]
    for run in runs:
        opened = open_run(directory, run)
        rows = _rows(_index(directory, run, opened, tuple(key)), wanted)
        start, stop = opened.bounds(run.low, run.high)
        rows = rows[(rows >= start) & (rows < stop)]
        if len(rows):
            found.append(opened.table.take(pa.array(rows)).cast(schema))
    table = pa.concat_tables(found)
    for name, value in key.items():
        table = table.filter(pc.equal(table[name], value[0]))
    return table


def _rows(index: _Index, wanted: np.uint64) -> npt.NDArray[np.int64]:
    first = int(np.searchsorted(index.hashes, wanted, "left"))
    last = int(np.searchsorted(index.hashes, wanted, "right"))
    return np.sort(index.rows[first:last])


def _index(directory: Path, run: Run, opened: OpenRun, columns: tuple[str, ...]) -> _Index:
    key = (str(directory), run.file, run.index, columns)
    found = _indexes.get(key)
    if found is None:
        hashes = hashing.hash_columns([opened.table[name] for name in columns])
        order = np.argsort(hashes)
        found = _indexes[key] = _Index(hashes[order], order)
        _forget_oldest()
        return found
    # Another thread may have dropped it meanwhile; what we hold stays good.
    with suppress(KeyError):
        _indexes.move_to_end(key)
    return found


def _forget_oldest() -> None:
    with suppress(KeyError, RuntimeError):
        while len(_indexes) > 1 and sum(len(index.rows) for index in list(_indexes.values())) > INDEXED_ROWS_MAX:
            _indexes.popitem(last=False)

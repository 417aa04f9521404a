"""Rewriting: which files a delivery replaces, and with which rows. Copy on write, for all formats.

A file that holds a row which changes is replaced by its other rows. New rows come with them, and small files are joined
as soon as there are several, so that a table which changes often does not end up in crumbs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.connectors.lake.table import DataFile, LakeTable
from headwater.views.identity import number_keys
from headwater.views.zset import WEIGHT, consolidate, negate, rows_at, weights_of, with_weights

FILE_BYTES = 128 << 20
"""About how many bytes the rows of a file have in memory; in the file they have fewer."""
SMALL_FILE_BYTES = 8 << 20
SMALL_FILES_MAX = 8
"""How many files may be smaller than that; with one more they are joined."""


@dataclass(frozen=True, slots=True)
class Rewrite:
    """Rows for new files, and the files that these replace."""

    rows: pa.Table
    removed: Sequence[DataFile]


def without_keys(table: LakeTable, files: Sequence[DataFile], keys: pa.Table) -> Rewrite:
    """Takes the rows of some keys out of the files."""
    if not keys.num_rows:
        return Rewrite(keys.slice(0, 0).select([]), [])
    names, kept, removed = keys.column_names, [], []
    for file in files:
        there = table.read(file, names).select(names).cast(keys.schema)
        hit = _among(there, keys)
        if hit.any():
            rows = table.read(file)
            kept.append(rows.filter(pa.array(~hit)))
            removed.append(file)
    return Rewrite(_joined(kept), removed)


def without_rows(table: LakeTable, files: Sequence[DataFile], gone: pa.Table) -> Rewrite:
    """Takes rows of a view without a key out of the files: those of the Z-set `gone`, each as often as it says."""
    kept, removed = [], []
    for file in files:
        if not gone.num_rows:
            break
        rows = table.read(file).select(gone.column_names[:-1])
        held = with_weights(rows.cast(pa.schema([gone.schema.field(name) for name in rows.column_names])), _ones(rows))
        left = consolidate(pa.concat_tables([held, negate(gone)]))
        weights = weights_of(left)
        missing = left.filter(pa.array(weights < 0))
        if int(weights_of(missing).sum()) == -int(weights_of(gone).sum()):
            continue
        gone = negate(missing)
        kept.append(repeated(left.filter(pa.array(weights > 0))))
        removed.append(file)
    return Rewrite(_joined(kept), removed)


def with_small_files(table: LakeTable, files: Sequence[DataFile], change: Rewrite) -> Rewrite:
    """The same, and small files are joined with what is written anyway, if there are several."""
    gone = {file.path for file in change.removed}
    small = [file for file in files if file.size < SMALL_FILE_BYTES and file.path not in gone]
    if len(small) < SMALL_FILES_MAX:
        return change
    return Rewrite(_joined([change.rows, *(table.read(file) for file in small)]), [*change.removed, *small])


def write_all(
    table: LakeTable, rows: pa.Table, position: str, progress: Callable[[int, int], None] | None = None
) -> list[DataFile]:
    """Writes rows into files of about the same size."""
    written: list[DataFile] = []
    done = 0
    for part in pieces(rows):
        written += table.write(part, position)
        done += part.num_rows
        if progress is not None:
            progress(done, rows.num_rows)
    return written


def pieces(rows: pa.Table) -> Iterator[pa.Table]:
    """The rows in parts of about `FILE_BYTES`."""
    if not rows.num_rows:
        return
    count = max(1, round(rows.nbytes / FILE_BYTES))
    length = -(-rows.num_rows // count)
    for first in range(0, rows.num_rows, length):
        yield rows.slice(first, length)


def repeated(zset: pa.Table) -> pa.Table:
    """The rows of a Z-set without negative weights, each as often as its weight says."""
    weights, rows = weights_of(zset), zset.drop_columns([WEIGHT])
    if (weights == 1).all():
        return rows
    return rows_at(rows, np.repeat(np.arange(len(weights)), weights))


def _among(rows: pa.Table, keys: pa.Table) -> npt.NDArray[np.bool_]:
    """Which rows have one of the keys."""
    names = keys.column_names
    wanted, there = number_keys([keys, rows], [names, names])
    hit: npt.NDArray[np.bool_] = there <= wanted.max(initial=-1)
    return hit


def _joined(tables: Sequence[pa.Table]) -> pa.Table:
    """Rows of files that may differ in the order of their columns; tables without columns do not count."""
    some = [each for each in tables if each.column_names]
    if not some:
        return pa.table({})
    schema = some[0].schema
    return pa.concat_tables([each.select(schema.names).cast(schema) for each in some])


def _ones(rows: pa.Table) -> npt.NDArray[np.int64]:
    return np.ones(rows.num_rows, np.int64)

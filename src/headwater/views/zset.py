"""Z-sets: collections of changes, each a row with a weight. +1: the row appeared; -1: it was retracted.

A Z-set is an Arrow table whose last column `_w` has the weights. The same row may stand in it several times; what
counts is the sum of its weights. Views, states and streams of changes are all Z-sets, and adding two is concatenation.
A state may have more measures than the weight; they add up in the same way. Tables that a kernel is given begin with
`_hash`, a number that is equal for equal keys, by which state is looked up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headwater.errors import InternalError
from headwater.views.identity import HASH, identities, same
from headwater.views.placing import Hashes, hashes_of_keys

__all__ = [
    "HASH",
    "WEIGHT",
    "add",
    "added_up",
    "changed",
    "consolidate",
    "empty",
    "identities",
    "negate",
    "nonnegative",
    "rows_at",
    "weights_of",
    "with_measures",
    "with_weights",
]

WEIGHT = "_w"
_ROW = "_row"


def consolidate(changes: pa.Table, measures: Sequence[str] = (WEIGHT,)) -> pa.Table:
    """The same Z-set with every row once and none whose measures are all 0. The order of rows is not promised."""
    if changes.num_rows == 0:
        return changes
    columns = [name for name in changes.column_names if name not in measures]
    if not columns:
        totals = pa.table({name: pa.array([pc.sum(changes[name]).as_py()], pa.int64()) for name in measures})
        return _without_zeros(totals.select(changes.column_names), measures)
    hashes = hashes_of_keys(changes, [name for name in columns if name != HASH] or columns)
    changes = changes.combine_chunks()
    found = added_up(changes, hashes, np.argsort(hashes), measures)
    if found is None:
        return _grouped(changes, columns, measures)
    places, totals = found
    if len(places) == changes.num_rows:
        return changes
    # In the order in which they stand: what lies side by side in memory is copied several times as fast.
    ascending = np.argsort(places)
    totals = {name: total[ascending] for name, total in totals.items()}
    return with_measures(rows_at(changes, places[ascending]), totals)


def added_up(
    rows: pa.Table, hashes: Hashes, order: Hashes, measures: Sequence[str]
) -> tuple[Hashes, dict[str, Hashes]] | None:
    """The places of the rows that are left once all are added up, in the order given, and their measures.

    `rows` are in one piece, and `order` puts those of the same hash side by side. None if the hashes do not tell rows
    apart.
    """
    again = np.flatnonzero(hashes[order[1:]] == hashes[order[:-1]])
    columns = [name for name in rows.column_names if name not in measures]
    if len(again) and not _all_same(rows.select(columns), order[again], order[again + 1]):
        return None
    begins = np.ones(len(order), dtype=bool)
    begins[again + 1] = False
    starts = np.flatnonzero(begins)
    sums = {name: np.add.reduceat(rows[name].to_numpy()[order], starts) for name in measures}
    kept = np.logical_or.reduce([total != 0 for total in sums.values()])
    return order[starts[kept]], {name: total[kept] for name, total in sums.items()}


def _all_same(rows: pa.Table, places: Hashes, others: Hashes) -> bool:
    """Whether each of these rows is the same as the other one."""
    pairs = pa.array(places), pa.array(others)
    # The smallest columns first: they are likely to tell.
    columns = sorted(rows.columns, key=lambda column: column.nbytes)
    return all(same(column.take(pairs[0]), column.take(pairs[1])).all() for column in columns)


def _grouped(changes: pa.Table, columns: Sequence[str], measures: Sequence[str]) -> pa.Table:
    """Consolidates by comparing rows, whatever their hashes are."""
    alike = identities(changes, columns)
    keys = alike.column_names
    for name in measures:
        alike = alike.append_column(name, changes[name])
    alike = alike.append_column(_ROW, pa.array(np.arange(changes.num_rows)))
    found = alike.group_by(keys, use_threads=False).aggregate([*((name, "sum") for name in measures), (_ROW, "min")])
    rows = rows_at(changes, found[f"{_ROW}_min"].to_numpy())
    return _without_zeros(with_measures(rows, {name: found[f"{name}_sum"] for name in measures}), measures)


def add(*sets: pa.Table) -> pa.Table:
    """The sum of Z-sets of the same columns, not consolidated."""
    schema = sets[0].schema
    if all(other.schema.equals(schema) for other in sets):
        return pa.concat_tables(sets)
    # What is read back from files may differ in the order of columns and in what it says about nulls.
    schema = pa.schema([pa.field(field.name, field.type) for field in schema])
    if any(set(other.column_names) != set(schema.names) for other in sets):
        raise InternalError(f"Z-sets of different columns cannot be added: {[each.column_names for each in sets]}.")
    return pa.concat_tables([other.select(schema.names).cast(schema) for other in sets])


def rows_at(rows: pa.Table, places: npt.NDArray[np.int64]) -> pa.Table:
    """The rows at these places, in their order."""
    # From a table in several pieces, choosing rows takes several times as long as putting it together.
    return rows.combine_chunks().take(pa.array(places, pa.int64()))


def negate(changes: pa.Table) -> pa.Table:
    """The Z-set that adds up to nothing with this one."""
    return with_weights(changes, pc.negate(changes[WEIGHT]))


def with_weights(changes: pa.Table, weights: pa.Array | pa.ChunkedArray | npt.NDArray[np.int64]) -> pa.Table:
    """The same rows with other weights."""
    column = pa.array(weights, pa.int64()) if isinstance(weights, np.ndarray) else weights
    if WEIGHT in changes.column_names:
        return changes.set_column(changes.column_names.index(WEIGHT), WEIGHT, column)
    if not changes.column_names:
        return pa.table({WEIGHT: column})
    return changes.append_column(WEIGHT, column)


def weights_of(changes: pa.Table) -> npt.NDArray[np.int64]:
    """The weights as numbers."""
    weights: npt.NDArray[np.int64] = changes[WEIGHT].to_numpy()
    return weights


def empty(schema: pa.Schema, *, hashed: bool = False) -> pa.Table:
    """The Z-set of these columns without any row."""
    columns = [pa.field(field.name, field.type) for field in schema]
    first = [pa.field(HASH, pa.int64())] if hashed else []
    return pa.schema([*first, *columns, pa.field(WEIGHT, pa.int64())]).empty_table()


def nonnegative(rows: pa.Table, kernel: str) -> pa.Table:
    """The same Z-set; a collection in which a row is less than absent is a bug."""
    if rows.num_rows and pc.min(rows[WEIGHT]).as_py() < 0:
        first = rows.filter(pc.less(rows[WEIGHT], 0)).slice(0, 1).to_pylist()[0]
        shown = {name: value for name, value in first.items() if name not in (HASH, WEIGHT)}
        raise InternalError(f"The {kernel} kernel was told to retract a row that it does not hold: {shown}.")
    return rows


def changed(held: pa.Table, delta: pa.Table, kernel: str, *, once: bool = False) -> pa.Table:
    """What is held after a change, of consolidated tables; all its weights are above 0.

    A row may stand in it several times, unless it has to be there `once`.
    """
    total = add(held, delta)
    if not delta.num_rows or (not once and pc.min(delta[WEIGHT]).as_py() > 0):
        return total
    return nonnegative(consolidate(total), kernel)


def with_measures(rows: pa.Table, measures: Mapping[str, pa.ChunkedArray | Hashes]) -> pa.Table:
    """The same rows with other measures."""
    for name, values in measures.items():
        column = pa.chunked_array([values]) if isinstance(values, np.ndarray) else values
        rows = rows.set_column(rows.column_names.index(name), rows.schema.field(name), column)
    return rows


def _without_zeros(rows: pa.Table, measures: Sequence[str]) -> pa.Table:
    some = np.logical_or.reduce([rows[name].to_numpy() != 0 for name in measures])
    return rows if some.all() else rows.filter(pa.array(some))

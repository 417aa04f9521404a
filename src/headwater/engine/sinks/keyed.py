"""What changes of a view mean for a target with one row per key: rows to put there, and keys to delete."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headwater.views.identity import groupable, normal
from headwater.views.zset import WEIGHT, rows_at, weights_of

_PLACE, _ADDED, _FIRST = "_place", "_added", "_first"


@dataclass(frozen=True, slots=True)
class Net:
    """The net change of each key: its new row in `upserts`, or else the key in `deletes`.

    `repeated` are the keys of which the changes alone add more than one row; `keyless` the rows that are added and have
    null in a column of the key.
    """

    upserts: pa.Table
    deletes: pa.Table
    repeated: pa.Table
    keyless: pa.Table


def net_of(changes: pa.Table, key: Sequence[str]) -> Net:
    """The net change per key of a consolidated Z-set. Keys are equal as in SQL's GROUP BY."""
    names = list(key)
    complete = np.logical_and.reduce([pc.is_valid(changes[name]).to_numpy() for name in names])
    keyless = changes.filter(pa.array(~complete & (weights_of(changes) > 0))).drop_columns([WEIGHT])
    if not complete.all():
        changes = changes.filter(pa.array(complete))
    rows = changes.drop_columns([WEIGHT])
    upserts, deletes, repeated = _places(changes, names)
    keys = rows.select(names)
    # Of content, every row is put, each in its place.
    put = rows if len(upserts) == rows.num_rows else rows_at(rows, upserts)
    return Net(put, rows_at(keys, deletes), rows_at(keys, repeated), keyless)


_Places = npt.NDArray[np.int64]


def _places(changes: pa.Table, key: Sequence[str]) -> tuple[_Places, _Places, _Places]:
    """The places of the rows to put, of rows whose keys to delete, and of rows of keys that are added repeatedly."""
    weights, places = weights_of(changes), np.arange(changes.num_rows)
    alike = {f"k{number}": groupable(normal(changes[name])) for number, name in enumerate(key)}
    measures = {
        _PLACE: pa.array(np.where(weights > 0, places, -1)),
        _ADDED: pa.array(np.maximum(weights, 0)),
        _FIRST: pa.array(places),
    }
    found = (
        pa.table({**alike, **measures})
        .group_by(list(alike), use_threads=False)
        .aggregate([(_PLACE, "max"), (_ADDED, "sum"), (_FIRST, "min")])
    )
    put, added, first = (found[name].to_numpy() for name in (f"{_PLACE}_max", f"{_ADDED}_sum", f"{_FIRST}_min"))
    return np.sort(put[put >= 0]), np.sort(first[put < 0]), np.sort(first[added > 1])

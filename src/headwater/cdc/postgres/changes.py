"""The changes of one table in a stretch, as one Arrow table in the order of the stream.

An update is its new row; one that moves a row to another key is a tombstone of the old key before it. A delete is a
tombstone: the key, and nothing else. Of a table whose rows nothing identifies but their whole content, a tombstone is
the whole old row, and every update has one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headwater.cdc.digests import Digests, digests
from headwater.cdc.postgres.identity import row_texts
from headwater.cdc.postgres.relations import Relation
from headwater.cdc.postgres.stretch import DELETE, INSERT, UPDATE, Bytes, Positions, Stretch
from headwater.cdc.postgres.tuples import Cells, read_tuples
from headwater.cdc.postgres.values import convert

Mask = npt.NDArray[np.bool_]
CREATED, UPDATED, DELETED = (ord(operation) for operation in "cud")
_NEW, _OLD = ord("N"), ord("O")
# Where the tuple begins in a body: behind the relation's number and the mark that says which tuple it is.
_MARK, _TUPLE = 4, 5


@dataclass(frozen=True, slots=True)
class Changes:
    """Rows with the columns of their relation, and about each: which message it comes from, and what was done.

    `unchanged` has, for columns with values that were not sent, which rows lack theirs. `specials` are the texts of
    values that a column cannot hold: (row, column, text). `digests` are of whole rows, if they were asked for.
    """

    rows: pa.Table
    messages: Positions
    operations: Bytes
    deleted: Mask
    unchanged: dict[str, Mask]
    specials: list[tuple[int, str, str]]
    digests: Digests | None = None


@dataclass(frozen=True, slots=True)
class _Part:
    """Some rows, still as places in the data."""

    cells: list[Cells]
    messages: Positions
    operations: Bytes
    tombstone: bool


def read_changes(stretch: Stretch, messages: Positions, relation: Relation, key: Sequence[str]) -> Changes:
    """The changes that the messages with these numbers (all of this relation) make to a topic with this key."""
    kinds = stretch.kinds[messages]
    written = (kinds == INSERT) | (kinds == UPDATE)
    parts = _written(stretch, messages[written], relation, key)
    removed = messages[kinds == DELETE]
    if len(removed) and key:
        cells, _ = read_tuples(stretch.data, stretch.bodies[removed] + _TUPLE, len(relation.columns))
        parts.append(_Part(cells, removed, np.full(len(removed), DELETED, np.uint8), tombstone=True))
    return _assembled(parts, relation, key)


def read_whole_changes(stretch: Stretch, messages: Positions, relation: Relation) -> Changes | None:
    """The changes of a table whose rows are identified by all their values; None if an old row was not sent whole."""
    kinds, marks = stretch.kinds[messages], stretch.data[stretch.bodies[messages] + _MARK]
    if np.any((kinds != INSERT) & (marks != _OLD)):
        return None
    count, replaced = len(relation.columns), messages[kinds != INSERT]
    old, ends = read_tuples(stretch.data, stretch.bodies[replaced] + _TUPLE, count)
    updated = kinds[kinds != INSERT] == UPDATE
    at = stretch.bodies[messages] + _TUPLE
    at[kinds == UPDATE] = ends[updated] + 1
    written = kinds != DELETE
    new, _ = read_tuples(stretch.data, at[written], count)
    has_old = kinds[written] == UPDATE
    if has_old.any():
        new = [_with_old(fresh, _subset(former, updated), has_old) for fresh, former in zip(new, old, strict=True)]
    operations = np.where(kinds[written] == INSERT, CREATED, UPDATED).astype(np.uint8)
    parts = [
        _Part(old, replaced, np.full(len(replaced), DELETED, np.uint8), tombstone=True),
        _Part(new, messages[written], operations, tombstone=False),
    ]
    return _assembled(parts, relation, relation.names, digested=True)


def _written(stretch: Stretch, messages: Positions, relation: Relation, key: Sequence[str]) -> list[_Part]:
    """The new rows of inserts and updates, and the tombstones of keys that rows have left."""
    bodies, count = stretch.bodies[messages], len(relation.columns)
    operations = np.where(stretch.kinds[messages] == INSERT, CREATED, UPDATED).astype(np.uint8)
    has_old = stretch.data[bodies + _MARK] != _NEW
    at = bodies + _TUPLE
    if not has_old.any():
        return [_Part(read_tuples(stretch.data, at, count)[0], messages, operations, tombstone=False)]
    old, ends = read_tuples(stretch.data, at[has_old], count)
    at[has_old] = ends + 1
    new, _ = read_tuples(stretch.data, at, count)
    new = [_with_old(fresh, former, has_old) for fresh, former in zip(new, old, strict=True)]
    moved = _moved(new, old, has_old, [relation.names.index(name) for name in key])
    written = _Part(new, messages, operations, tombstone=False)
    if not moved.any():
        return [written]
    left = messages[has_old][moved]
    tombstones = [_subset(cells, moved) for cells in old]
    return [_Part(tombstones, left, np.full(len(left), DELETED, np.uint8), tombstone=True), written]


def _with_old(new: Cells, old: Cells, has_old: Mask) -> Cells:
    """Values that were not sent because they have not changed, taken from the old row where that is there."""
    places = np.flatnonzero(has_old)
    known = new.unchanged[places] & old.present
    if not known.any():
        return new
    to, copied = places[known], _subset(old, known)
    present, unchanged = new.present.copy(), new.unchanged.copy()
    starts, lengths = new.starts.copy(), new.lengths.copy()
    present[to], unchanged[to] = True, False
    starts[to], lengths[to] = copied.starts, copied.lengths
    return Cells(new.data, present, unchanged, starts, lengths)


def _moved(new: list[Cells], old: list[Cells], has_old: Mask, key: Sequence[int]) -> Mask:
    """Which of the updates with an old row have given it another key."""
    moved = np.zeros(int(has_old.sum()), np.bool_)
    for column in key:
        before, after = old[column].texts(), _subset(new[column], has_old).texts()
        moved |= pc.fill_null(pc.not_equal(before, after), False).to_numpy(zero_copy_only=False)
    return moved


def _subset(cells: Cells, which: Mask | Positions) -> Cells:
    return Cells(cells.data, cells.present[which], cells.unchanged[which], cells.starts[which], cells.lengths[which])


def _assembled(parts: list[_Part], relation: Relation, key: Sequence[str], *, digested: bool = False) -> Changes:
    messages = np.concatenate([part.messages for part in parts])
    operations = np.concatenate([part.operations for part in parts])
    tombstones = np.concatenate([np.full(len(part.messages), part.tombstone) for part in parts])
    # Stable: a tombstone of an old key stays before the new row of the same message.
    order = np.argsort(messages, kind="stable") if len(parts) > 1 else None
    columns: list[pa.Array] = []
    unchanged: dict[str, Mask] = {}
    specials: list[tuple[int, str, str]] = []
    written: list[pa.Array] = []
    for number, column in enumerate(relation.columns):
        cells = _joined([part.cells[number] for part in parts])
        if column.name not in key and tombstones.any():
            gone = Cells(cells.data, cells.present & ~tombstones, cells.unchanged & ~tombstones, cells.starts,
                         np.where(tombstones, 0, cells.lengths))  # fmt: skip
            cells = gone
        if order is not None:
            cells = _subset(cells, order)
        texts = cells.texts()
        if digested:
            written.append(texts)
        values, refused = convert(texts, column.arrow)
        columns.append(values)
        specials += [(row, column.name, text) for row, text in refused.items()]
        if cells.unchanged.any():
            unchanged[column.name] = cells.unchanged
    if order is not None:
        messages, operations, tombstones = messages[order], operations[order], tombstones[order]
    rows = pa.Table.from_arrays(columns, schema=relation.arrow)
    found = digests(row_texts(relation.names, written)) if digested else None
    return Changes(rows, messages, operations, tombstones, unchanged, specials, found)


def _joined(cells: list[Cells]) -> Cells:
    if len(cells) == 1:
        return cells[0]
    return Cells(
        cells[0].data,
        np.concatenate([each.present for each in cells]),
        np.concatenate([each.unchanged for each in cells]),
        np.concatenate([each.starts for each in cells]),
        np.concatenate([each.lengths for each in cells]),
    )

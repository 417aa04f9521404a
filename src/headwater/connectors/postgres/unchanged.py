"""Values that the stream leaves out because they have not changed (TOAST), put back from the last row that has them.

PostgreSQL does not send a large value that an update did not touch. With `REPLICA IDENTITY FULL` it is in the old row.
Otherwise it is in the newest row of that key: earlier in the same transaction, or in the log. A key that the log does
not have yet (its table is still being read) is asked for in the database itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.cdc.headers import HEADERS, SPECIAL
from headwater.cdc.postgres.changes import Changes
from headwater.connectors.postgres.tables import Table
from headwater.errors import RecordsGone
from headwater.log.port import Log
from headwater.model.hashing import hash_columns

Key = tuple[Any, ...]
Values = dict[str, Any]
FetchRows = Callable[[Table, Sequence[Key], Sequence[str]], Mapping[Key, Values]]

# Records that lie nearer to each other than this are read together.
GAP_MAX = 4096
_SYSTEM = ("_offset", "_deleted", HEADERS.name)


@dataclass(frozen=True, slots=True)
class Special:
    """The text of a value that its column cannot hold."""

    text: str


def values_of(row: Mapping[str, Any], columns: Sequence[str]) -> Values:
    """The values of some columns of a row; what the column cannot hold, from the row's headers."""
    headers = dict(row.get(HEADERS.name) or ())
    specials = json.loads(headers[SPECIAL]) if SPECIAL in headers else {}
    return {name: Special(specials[name]) if name in specials else row[name] for name in columns}


class Memory:
    """Where in the log the newest record of each key is, for topics that were asked about; 20 bytes per key."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._indexes: dict[str, _Index] = {}

    def find(self, topic: str, key: Sequence[str], keys: Sequence[Key], columns: Sequence[str]) -> dict[Key, Values]:
        """The values of some columns in the newest rows of these keys; keys without a row are not in it."""
        index = self._indexes.get(topic)
        if index is None:
            index = self._indexes[topic] = _Index(self._log, topic, key)
        index.catch_up()
        found: dict[Key, Values] = {}
        for record in index.records(keys, [*key, *columns]):
            found[tuple(record[name] for name in key)] = values_of(record, columns)
        return found

    def forget(self, topic: str) -> None:
        """The topic was recreated."""
        self._indexes.pop(topic, None)


class _Index:
    def __init__(self, log: Log, topic: str, key: Sequence[str]) -> None:
        self._log, self._topic, self._key = log, topic, list(key)
        self._next = dict.fromkeys(range(log.topic(topic).partitions), 0)
        self._hashes = np.empty(0, np.uint64)
        self._places = np.empty((0, 2), np.int64)

    def catch_up(self) -> None:
        """Takes in what was committed since."""
        hashes, places = [self._hashes], [self._places]
        columns = [*self._key, "_offset"]
        ends = {partition: end for partition, (_, end) in self._log.offsets(self._topic).items()}
        if ends == self._next:
            return
        starts = {part: max(at, self._log.offsets(self._topic)[part][0]) for part, at in self._next.items()}
        for batch in self._log.batches(self._topic, start=starts, columns=columns):
            offsets = batch.records["_offset"].to_numpy()
            hashes.append(_hashed([batch.records[name] for name in self._key]))
            places.append(np.column_stack([np.full(len(offsets), batch.partition), offsets]))
            self._next[batch.partition] = batch.next_offset
        together, where = np.concatenate(hashes), np.concatenate(places)
        # The last of equal hashes is the newest; two keys with one hash are told apart when the record is read.
        order = np.argsort(together, kind="stable")
        together, where = together[order], where[order]
        newest = np.append(together[1:] != together[:-1], True)[: len(together)]
        self._hashes, self._places = together[newest], where[newest]

    def records(self, keys: Sequence[Key], columns: Sequence[str]) -> Iterable[dict[str, Any]]:
        schema = self._log.topic(self._topic).schema
        arrays = [pa.array([key[at] for key in keys], schema.field(name).type) for at, name in enumerate(self._key)]
        wanted = _hashed([pa.chunked_array([array]) for array in arrays])
        last = np.searchsorted(self._hashes, wanted, side="right") - 1
        known = (last >= 0) & (self._hashes[np.maximum(last, 0)] == wanted) if len(self._hashes) else np.zeros(0, bool)
        places = self._places[np.unique(last[known])] if len(self._hashes) else self._places
        for partition in np.unique(places[:, 0]).tolist():
            offsets = np.sort(places[places[:, 0] == partition, 1])
            for run in np.split(offsets, np.flatnonzero(np.diff(offsets) > GAP_MAX) + 1):
                yield from self._read(partition, run, columns)

    def _read(self, partition: int, offsets: npt.NDArray[np.int64], columns: Sequence[str]) -> Iterable[dict[str, Any]]:
        ends = {part: end for part, (_, end) in self._log.offsets(self._topic).items()}
        start = {part: int(offsets[0]) if part == partition else end for part, end in ends.items()}
        stop = {part: int(offsets[-1]) + 1 if part == partition else end for part, end in ends.items()}
        try:
            rows = self._log.scan(self._topic, start=start, end=stop, columns=[*columns, *_SYSTEM])
        except RecordsGone:
            return []
        mine = rows.filter(pa.array(np.isin(rows["_offset"].to_numpy(), offsets)))
        return [row for row in mine.to_pylist() if not row["_deleted"]]


def _hashed(columns: Sequence[pa.ChunkedArray]) -> npt.NDArray[np.uint64]:
    return np.asarray(hash_columns(list(columns)), np.uint64)


def with_unchanged(
    changes: Changes, table: Table, earlier: Iterable[pa.Table], memory: Memory, fetch_rows: FetchRows
) -> Changes:
    """The changes with whole rows. `earlier` are rows of the same transaction, the newest first."""
    columns = list(changes.unchanged)
    if not columns:
        return changes
    keys = _keys(changes.rows, table.key)
    values: dict[str, list[Any]] = {name: changes.rows[name].to_pylist() for name in columns}
    for row, name, text in changes.specials:
        if name in values:
            values[name][row] = Special(text)
    former = _former(changes, keys)
    outside = _outside(changes, keys, former)
    known = _found(outside, table, columns, earlier, memory, fetch_rows)
    newest: dict[Key, int] = {}
    for row, key in enumerate(keys):
        asked = former.get(row, key)
        source = newest.get(asked)
        for name in columns:
            if changes.unchanged[name][row]:
                values[name][row] = values[name][source] if source is not None else known.get(asked, {}).get(name)
        if not changes.deleted[row]:
            newest[key] = row
    rows = changes.rows
    specials = [each for each in changes.specials if each[1] not in values]
    for name in columns:
        at = rows.schema.get_field_index(name)
        held = [None if isinstance(value, Special) else value for value in values[name]]
        specials += [(row, name, value.text) for row, value in enumerate(values[name]) if isinstance(value, Special)]
        rows = rows.set_column(at, rows.schema.field(at), pa.array(held, rows.schema.field(at).type))
    return replace(changes, rows=rows, specials=specials)


def _keys(rows: pa.Table, key: Sequence[str]) -> list[Key]:
    return list(zip(*(rows[name].to_pylist() for name in key), strict=True))


def _former(changes: Changes, keys: Sequence[Key]) -> dict[int, Key]:
    """For rows that were moved to another key, the key that they had: that of the tombstone before them."""
    moved = np.flatnonzero(changes.deleted[:-1] & (changes.messages[:-1] == changes.messages[1:]))
    return {int(row) + 1: keys[row] for row in moved.tolist()}


def _outside(changes: Changes, keys: Sequence[Key], former: Mapping[int, Key]) -> list[Key]:
    """The keys whose last complete row is not among these."""
    seen: set[Key] = set()
    wanted: dict[Key, None] = {}
    lacking = np.any(list(changes.unchanged.values()), axis=0)
    for row, key in enumerate(keys):
        asked = former.get(row, key)
        if lacking[row] and asked not in seen:
            wanted[asked] = None
        if not changes.deleted[row]:
            seen.add(key)
    return list(wanted)


def _found(
    keys: Sequence[Key],
    table: Table,
    columns: Sequence[str],
    earlier: Iterable[pa.Table],
    memory: Memory,
    fetch_rows: FetchRows,
) -> dict[Key, Values]:
    found: dict[Key, Values] = {}
    left = set(keys)
    for rows in earlier:
        if not left:
            break
        found |= _among(rows, left, table.key, columns)
        left -= found.keys()
    if left:
        found |= memory.find(table.topic, table.key, list(left), columns)
        left -= found.keys()
    if left:
        found |= fetch_rows(table, list(left), columns)
    return found


def _among(rows: pa.Table, keys: Collection[Key], key: Sequence[str], columns: Sequence[str]) -> dict[Key, Values]:
    """The values of those of the keys that are among rows, in the last row of each."""
    listed = list(keys)
    arrays = [pa.array([each[at] for each in listed], rows.schema.field(name).type) for at, name in enumerate(key)]
    wanted = _hashed([pa.chunked_array([array]) for array in arrays])
    places = np.flatnonzero(np.isin(_hashed([rows[name] for name in key]), wanted))
    if not len(places):
        return {}
    there = [name for name in columns if name in rows.column_names]
    chosen = rows.select(list(dict.fromkeys([*key, *there, HEADERS.name]))).take(pa.array(places))
    found = {tuple(row[name] for name in key): values_of(row, there) for row in chosen.to_pylist()}
    return {each: values for each, values in found.items() if each in keys}


def sliced(changes: Changes, rows_max: int) -> Iterator[Changes]:
    """The changes in pieces of about this many rows; a row stays with the tombstone of the key that it had."""
    first, count = 0, len(changes.messages)
    while first < count:
        end = min(first + rows_max, count)
        while end < count and changes.messages[end] == changes.messages[end - 1]:
            end += 1
        yield Changes(
            changes.rows.slice(first, end - first),
            changes.messages[first:end],
            changes.operations[first:end],
            changes.deleted[first:end],
            {name: mask[first:end] for name, mask in changes.unchanged.items() if mask[first:end].any()},
            [(row - first, column, text) for row, column, text in changes.specials if first <= row < end],
            None if changes.digests is None else changes.digests[first:end],
        )
        first = end

"""An operator's driver in small: keeps a kernel's state as the engine would, and adds up what comes out."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.views.due_order import microseconds
from headwater.views.frontier import NO_TIME, Frontier
from headwater.views.kernel import Due, Kernel
from headwater.views.time_order import Hashes, first_of_key, last_of_key
from headwater.views.zset import HASH, WEIGHT, add, consolidate
from tests.property.views.values import Row, identity, normal

Change = tuple[Row, int]
Changes = Mapping[str, Sequence[Change]]


class Driver:
    """A kernel with its state. `hashes` bounds the hashes of keys: with few of them different keys collide."""

    def __init__(self, kernel: Kernel, keys: Mapping[str, tuple[str, ...]], hashes: int = 2**31) -> None:
        self.kernel, self.keys, self.hashes = kernel, keys, hashes
        self.state = {name: self._empty(name) for name in kernel.parts}
        self._added = dict(self.state)
        self.content: Counter[Row] = Counter()
        self.out: list[Change] = []
        self.handed: list[Row] = []
        """The rows that the last step handed to a node of Spark's."""
        self.read: dict[str, int] = {}
        """How many rows the last step was handed of each part that lies in time order."""
        self.first = True
        self._before = self._frontier = NO_TIME
        self._known: dict[tuple[object, ...], int] = {}

    def step(self, changes: Changes, frontier: Frontier = NO_TIME) -> list[Change]:
        """Gives the changes, and the time, to the kernel and returns what came out."""
        tables = {port: self._table(port, changes.get(port, ())) for port in self.kernel.ports}
        held = {
            name: self._added[name] if part.adds_up else self.state[name] for name, part in self.kernel.parts.items()
        }
        moved, self._before, self._frontier = frontier.moved_since(self._frontier), self._frontier, frontier
        old = dict(self.kernel.lookup(tables, _Held(self._added)))
        assert old.keys() == {name for name, part in self.kernel.parts.items() if part.in_time}
        self.read = {name: rows.num_rows for name, rows in old.items()}
        old |= {name: self._touched(name, rows, tables, moved) for name, rows in held.items() if name not in old}
        result = self.kernel.step(old, tables, frontier, first=self.first)
        self.first = False
        assert result.state.keys() == self.kernel.parts.keys()
        for name, delta in result.state.items():
            assert set(delta.column_names) == set(self.state[name].column_names)
            assert delta.column_names[0] == HASH
            self.state[name] = consolidate(add(self.state[name], delta), self.kernel.parts[name].measures)
            self._added[name] = add(self._added[name], delta)
        assert result.out.column_names == [HASH, *self.kernel.output.names, WEIGHT]
        types = [pa.int64(), *(field.type for field in self.kernel.output), pa.int64()]
        assert [field.type for field in result.out.schema] == types
        self.out = changes_of(result.out.drop_columns([HASH]))
        self.handed = (
            [row for row, _ in changes_of(result.rows.drop_columns([HASH]))] if result.rows is not None else []
        )
        self._check_hashes(result.out[HASH].to_pylist())
        for row, weight in self.out:
            self.content[identity(row)] += weight
        return self.out

    def _touched(self, part: str, rows: pa.Table, changes: Mapping[str, pa.Table], moved: frozenset[str]) -> pa.Table:
        """What is held of the keys that are looked up, and what is due, and nothing else."""
        ports, due = self.kernel.parts[part].ports, self.kernel.parts[part].due
        if due is not None and due.in_order:
            return rows.filter(self._come(rows, due, moved))
        chunks = [chunk for port, table in changes.items() if ports is None or port in ports for chunk in
                  table[HASH].chunks]  # fmt: skip
        wanted = pc.is_in(rows[HASH], pc.unique(pa.chunked_array(chunks, pa.int64())))
        if due is not None and due.source in moved:
            come = pc.less_equal(rows[due.column], pa.scalar(self._frontier[due.source], rows[due.column].type))
            wanted = pc.or_(wanted, pc.fill_null(come, False))
        return rows.filter(wanted)

    def _come(self, rows: pa.Table, due: Due, moved: frozenset[str]) -> pa.Array:
        """Which rows have become due since the step before."""
        moments = rows[due.column].to_numpy()
        if due.source not in moved:
            return pa.array(np.zeros(len(moments), dtype=bool))
        come = moments <= microseconds(self._frontier[due.source])
        before = self._before.get(due.source)
        return pa.array(come if before is None else come & (moments > microseconds(before)))

    def _check_hashes(self, hashes: Sequence[int]) -> None:
        if self.kernel.hashed_by:
            places = [self.kernel.output.names.index(name) for name in self.kernel.hashed_by]
            for (row, _), found in zip(self.out, hashes, strict=True):
                assert self._known[_key(row, places)] == found

    def result(self) -> Counter[Row]:
        """What all that came out adds up to."""
        return Counter({row: weight for row, weight in self.content.items() if weight})

    def held(self) -> Mapping[str, Counter[Row]]:
        """The state, as something that can be compared."""
        return {
            name: Counter(identity(tuple(row.values())) for row in table.to_pylist())
            for name, table in self.state.items()
        }

    def _empty(self, part: str) -> pa.Table:
        definition = self.kernel.parts[part]
        numbers = [pa.field(name, pa.int64()) for name in definition.measures]
        assert definition.measures[-1] == WEIGHT
        return pa.schema([pa.field(HASH, pa.int64()), *definition.schema, *numbers]).empty_table()

    def _table(self, port: str, changes: Sequence[Change]) -> pa.Table:
        """The changes as a table that is cut into pieces and does not begin where its memory does."""
        schema = self.kernel.ports[port]
        key = [schema.names.index(name) for name in self.keys[port]]
        padded = [*changes[:1], *changes]
        columns = {HASH: pa.array([self._hash(row, key) for row, _ in padded], pa.int64())}
        for number, field in enumerate(schema):
            columns[field.name] = pa.array([row[number] for row, _ in padded], field.type)
        table = pa.table(columns | {WEIGHT: pa.array([weight for _, weight in padded], pa.int64())})
        middle = len(padded) // 2
        return pa.concat_tables([table.slice(1, middle), table.slice(1 + middle)])

    def _hash(self, row: Row, key: Sequence[int]) -> int:
        if not key:
            return 0
        # Hashes that differ do so in their upper halves, too.
        found = zlib.crc32(repr([identity(normal(row[number])) for number in key]).encode()) % self.hashes << 31
        return self._known.setdefault(_key(row, key), found)


class _Held:
    """The rows of a state as they were added, by stretches of their hashes, and by counting them."""

    def __init__(self, added: Mapping[str, pa.Table]) -> None:
        self._added = added

    def between(self, part: str, firsts: Hashes, lasts: Hashes) -> pa.Table:
        rows = self._added[part]
        hashes = rows[HASH].to_numpy()
        inside = np.zeros(len(hashes), dtype=bool)
        for first, last in zip(firsts, lasts, strict=True):
            inside |= (first <= hashes) & (hashes <= last)
        return consolidate(rows.filter(pa.array(inside)).combine_chunks())

    def back(self, part: str, hashes: Hashes, count: int) -> Hashes:
        ordered = np.sort(self._added[part][HASH].to_numpy())
        before = [
            ordered[(first <= ordered) & (ordered < one)]
            for first, one in zip(first_of_key(hashes), hashes, strict=True)
        ]
        found = [rows[-count] if len(rows) >= count else None for rows in before]
        return np.array(
            [first if one is None else one for one, first in zip(found, first_of_key(hashes), strict=True)], np.int64
        )

    def ahead(self, part: str, hashes: Hashes, count: int) -> Hashes:
        ordered = np.sort(self._added[part][HASH].to_numpy())
        after = [
            ordered[(one < ordered) & (ordered <= last)] for last, one in zip(last_of_key(hashes), hashes, strict=True)
        ]
        found = [rows[count - 1] if len(rows) >= count else None for rows in after]
        return np.array(
            [last if one is None else one for one, last in zip(found, last_of_key(hashes), strict=True)], np.int64
        )


def _key(row: Row, places: Sequence[int]) -> tuple[object, ...]:
    return tuple(identity(normal(row[place])) for place in places)


def changes_of(table: pa.Table) -> list[Change]:
    """The rows of a Z-set with their weights."""
    columns: list[list[Any]] = [column.to_pylist() for column in table.columns]
    return [(row[:-1], row[-1]) for row in zip(*columns, strict=True)]


def content(changes: Sequence[Change]) -> Counter[Row]:
    """What changes add up to; rows that are the same are one."""
    total: Counter[Row] = Counter()
    for row, weight in changes:
        total[identity(row)] += weight
    return Counter({row: weight for row, weight in total.items() if weight})


def expanded(changes: Sequence[Change]) -> list[Row]:
    """The rows that changes leave, each as often as it is there."""
    total: Counter[Row] = Counter()
    rows: dict[Row, Row] = {}
    for row, weight in changes:
        total[identity(row)] += weight
        rows[identity(row)] = row
    return [rows[same] for same, weight in total.items() for _ in range(weight)]

"""The join kernel: two inputs with equal keys, in all of SQL's ways, under changes of both."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.errors import TooManyRows
from headwater.views.frontier import Frontier
from headwater.views.identity import Numbers, number_keys, validity
from headwater.views.kernel import Kernel, Part, Step, Tables, Work
from headwater.views.zset import HASH, WEIGHT, add, consolidate, empty, rows_at, weights_of, with_weights

JoinKind = Literal["inner", "left", "right", "full", "semi", "anti", "existence"]
EXISTS = "_exists"


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of one side with the number of each row's key; -1 if it matches nothing."""

    table: pa.Table
    numbers: Numbers

    @property
    def weights(self) -> Numbers:
        return weights_of(self.table)

    def where(self, chosen: npt.NDArray[np.bool_]) -> Rows:
        return Rows(self.table.filter(pa.array(chosen)), self.numbers[chosen])


@dataclass(frozen=True, slots=True)
class Side:
    """What one side held before, what changes, and for each number of a key how many rows it has before and after."""

    old: Rows
    delta: Rows
    before: Numbers
    after: Numbers


@dataclass(frozen=True, slots=True)
class Join(Kernel):
    """Rows of `left` and `right` whose keys are equal; a key with a null in it equals none, unless `null_safe`.

    The output has the columns of left, then of right (their names differ). `left`, `right` and `full` fill rows without
    a partner up with nulls; `semi` and `anti` give the left rows that have or lack one; `existence` gives every left
    row with `_exists`. With `single`, a left row with more than one partner is an error. Without key columns all rows
    are partners. What comes out is not consolidated: who reads it adds it up, or need not.
    """

    kind: JoinKind
    left: pa.Schema
    right: pa.Schema
    left_key: tuple[str, ...]
    right_key: tuple[str, ...]
    null_safe: bool = False
    single: bool = False

    @property
    def ports(self) -> Mapping[str, pa.Schema]:
        return {"left": self.left, "right": self.right}

    @property
    def keys(self) -> Mapping[str, tuple[str, ...]]:
        return {"left": self.left_key, "right": self.right_key}

    @property
    def parts(self) -> Mapping[str, Part]:
        # Rows of one side meet changes of the other; which rows have no partner follows from what both sides hold.
        both = self.single or self.kind == "full"
        left = None if both or self.kind == "right" else ("right",)
        right = ("left",) if not both and self.kind in ("inner", "right") else None
        return {"left": Part(self.left, ports=left), "right": Part(self.right, ports=right)}

    @property
    def output(self) -> pa.Schema:
        if self.kind in ("semi", "anti"):
            return self.left
        if self.kind == "existence":
            return self.left.append(pa.field(EXISTS, pa.bool_()))
        return pa.schema([*self.left, *self.right])

    @property
    def hashed_by(self) -> tuple[str, ...] | None:
        return {"full": None, "right": self.right_key}.get(self.kind, self.left_key)

    @property
    def consolidated(self) -> bool:
        return False

    def work(self, shown: Callable[[str], str]) -> Work:
        del shown
        # A scalar subquery is one row.
        every = not self.left_key and not self.single
        return Work(added_up=["each changed row with all rows of the other side"] if every else [])

    def step(self, old: Tables, changes: Tables, frontier: Frontier, *, first: bool = False) -> Step:
        deltas = {
            side: consolidate(changes[side].select([HASH, *schema.names, WEIGHT]))
            for side, schema in self.ports.items()
        }
        left, right = self._sides(old, deltas)
        if self.single:
            self._check_single(left, right)
        out = empty(self.output, hashed=True)
        for piece in self._pieces(left, right):
            out = add(out, piece) if piece.num_rows else out
        return Step(deltas, out)

    def _sides(self, old: Tables, deltas: Tables) -> tuple[Side, Side]:
        tables = [deltas["left"], old["left"], deltas["right"], old["right"]]
        keys = [self.left_key, self.left_key, self.right_key, self.right_key]
        numbers = number_keys(tables, keys)
        count = max((int(each.max()) + 1 for each in numbers if len(each)), default=0)
        if not self.null_safe:
            for table, key, each in zip(tables, keys, numbers, strict=True):
                for name in key:
                    each[~validity(table[name])] = -1
        rows = [Rows(table, each) for table, each in zip(tables, numbers, strict=True)]
        return _side(rows[1], rows[0], count), _side(rows[3], rows[2], count)

    def _pieces(self, left: Side, right: Side) -> list[pa.Table]:
        if self.kind in ("semi", "anti", "existence"):
            return [self._chosen(rows, sign, exists=exists) for rows, sign, exists in _chosen(left, right)]
        # d(L x R) = dL x R + dL x dR + L x dR
        pieces = [
            self._pairs(left.delta, right.old),
            self._pairs(left.delta, right.delta),
            self._pairs(left.old, right.delta),
        ]
        if self.kind in ("left", "full"):
            pieces += [
                self._wide(rows, None, sign * rows.weights) for rows, sign, has in _chosen(left, right) if not has
            ]
        if self.kind in ("right", "full"):
            pieces += [
                self._wide(None, rows, sign * rows.weights) for rows, sign, has in _chosen(right, left) if not has
            ]
        return pieces

    def _chosen(self, rows: Rows, sign: int, *, exists: bool) -> pa.Table:
        weights = sign * rows.weights
        columns = rows.table.select([HASH, *self.left.names])
        if self.kind == "existence":
            flags = pa.repeat(pa.scalar(exists), rows.table.num_rows)
            return with_weights(columns.append_column(EXISTS, flags), weights)
        return with_weights(columns, weights) if exists == (self.kind == "semi") else empty(self.output, hashed=True)

    def _pairs(self, left: Rows, right: Rows) -> pa.Table:
        """All pairs with equal keys; weights multiply."""
        left_places, right_places = _matches(left.numbers, right.numbers)
        weights = left.weights[left_places] * right.weights[right_places]
        paired_left = Rows(rows_at(left.table, left_places), left_places)
        paired_right = Rows(rows_at(right.table, right_places), right_places)
        return self._wide(paired_left, paired_right, weights)

    def _wide(self, left: Rows | None, right: Rows | None, weights: Numbers) -> pa.Table:
        """Left columns, then right columns; nulls for a side that is not there."""
        given = left or right
        assert given is not None
        columns = {HASH: given.table[HASH]}
        for schema, rows in ((self.left, left), (self.right, right)):
            for field in schema:
                columns[field.name] = rows.table[field.name] if rows else pa.nulls(len(weights), field.type)
        return with_weights(pa.table(columns), weights)

    def _check_single(self, left: Side, right: Side) -> None:
        many = right.after > 1
        present = (left.after > 0) & many
        if present.any():
            raise TooManyRows(int(right.after[present].max()))


def _side(old: Rows, delta: Rows, count: int) -> Side:
    before = _sums(old, count)
    return Side(old, delta, before, before + _sums(delta, count))


def _sums(rows: Rows, count: int) -> Numbers:
    """The weights per number; those of rows that match nothing are left out."""
    sums = np.zeros(count, dtype=np.int64)
    matching = rows.numbers >= 0
    np.add.at(sums, rows.numbers[matching], rows.weights[matching])
    return sums


def _chosen(side: Side, other: Side) -> list[tuple[Rows, int, bool]]:
    """How the rows of a side that have a partner, and of those that have none, change: (rows, sign, have partner)."""
    # The last place, which -1 means, is that of rows that match nothing.
    before, after = np.append(other.before > 0, False), np.append(other.after > 0, False)
    new, old = side.delta.numbers, side.old.numbers
    found, lost = after & ~before, before & ~after
    return [
        (side.delta.where(after[new]), 1, True),
        (side.delta.where(~after[new]), 1, False),
        (side.old.where(found[old]), 1, True),
        (side.old.where(found[old]), -1, False),
        (side.old.where(lost[old]), 1, False),
        (side.old.where(lost[old]), -1, True),
    ]


def _matches(left: Numbers, right: Numbers) -> tuple[Numbers, Numbers]:
    """The places of all pairs with equal numbers."""
    if not len(left) or not len(right):
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    count = int(max(left.max(), right.max())) + 1
    order = np.argsort(right)
    # -1 comes first in the order and is no place to look at.
    skipped = int((right < 0).sum())
    sizes = np.bincount(right[right >= 0], minlength=count)
    starts = skipped + np.cumsum(sizes) - sizes
    matched = np.flatnonzero(left >= 0)
    partners = sizes[left[matched]]
    left_places = np.repeat(matched, partners)
    within = np.arange(len(left_places)) - np.repeat(np.cumsum(partners) - partners, partners)
    return left_places, order[starts[left[left_places]] + within]

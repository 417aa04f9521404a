"""The aggregate kernel: counts, sums, extremes and distinct values of groups, under changes of their rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headwater.errors import InternalError, Overflow
from headwater.views.exact import Flags
from headwater.views.extremes import extreme
from headwater.views.frontier import Frontier
from headwater.views.group_keys import FUNCTION, PLACE, GroupKeys
from headwater.views.grouped import Function, FunctionKind, Grouped
from headwater.views.identity import first_places, number_keys, same
from headwater.views.kernel import Kernel, Part, Step, Summation, Tables, Work
from headwater.views.linear import Linear, Places, Sums, no_places
from headwater.views.zset import HASH, WEIGHT, add, changed, consolidate, rows_at, weights_of, with_weights

__all__ = ["Aggregate", "Function", "FunctionKind"]

GROUPS, PLACES = "groups", "places"
_GROUP = "_group"
_LINEAR = ("count", "sum")


@dataclass(frozen=True, slots=True)
class Contents:
    """What the touched groups hold, before or after a step."""

    sums: Sums
    places: Mapping[int, Places]
    values: Mapping[str, Grouped]


@dataclass(frozen=True, slots=True)
class Aggregate(Kernel):
    """One row per group: its key, and a column for each function. Without a key all rows are one group, always there.

    All functions leave out rows in which an argument is null; without arguments `count` counts rows. Sums are exact: a
    double comes out as the one nearest to the true sum. Without functions it is DISTINCT.

    State: `groups` has for each group its number of rows as `_w`, and counts and limbs of sums as further measures;
    `places` has the limbs of sums of doubles; `values_0` and so on have the distinct arguments of functions that need
    them, with the number of rows that have them.

    `measured`: a step is given what `summed` makes of the rows, perhaps in several pieces. Not for sums of doubles.
    """

    key: tuple[str, ...]
    functions: tuple[Function, ...]
    schema: pa.Schema
    measured: bool = False

    @property
    def ports(self) -> Mapping[str, pa.Schema]:
        if not self.measured:
            return {"rows": self.schema}
        measures = [pa.field(name, pa.int64()) for name in self._measures if name != WEIGHT]
        return {"rows": pa.schema([*self._key_fields, *measures])}

    @property
    def brought(self) -> Mapping[str, pa.Schema]:
        return {"rows": self.schema}

    @property
    def summation(self) -> Summation | None:
        return self if self.measured else None

    @property
    def keys(self) -> Mapping[str, tuple[str, ...]]:
        return {"rows": self.key}

    @property
    def parts(self) -> Mapping[str, Part]:
        key = self._key_fields
        parts = {GROUPS: Part(pa.schema(key), self._measures, adds_up=True)}
        if any(linear.is_double for linear in self._linear.values()):
            place = [pa.field(FUNCTION, pa.int32()), pa.field(PLACE, pa.int32())]
            parts[PLACES] = Part(pa.schema([*key, *place]), adds_up=True)
        for arguments, name in self._values.items():
            types = (self.schema.field(argument).type for argument in arguments)
            columns = [pa.field(column, kind) for column, kind in zip(_names(arguments), types, strict=True)]
            parts[name] = Part(pa.schema([*key, *columns]))
        return parts

    @property
    def output(self) -> pa.Schema:
        functions = [
            pa.field(function.name, function.type, nullable=not function.kind.startswith("count"))
            for function in self.functions
        ]
        return pa.schema([*self._key_fields, *functions])

    @property
    def hashed_by(self) -> tuple[str, ...] | None:
        return self.key

    def work(self, shown: Callable[[str], str]) -> Work:
        texts = {
            f"{function.kind}({', '.join(map(shown, function.arguments)) or '*'})": function.kind
            for function in self.functions
        }
        return Work(
            [text for text, kind in texts.items() if kind in _LINEAR],
            [text for text, kind in texts.items() if kind not in _LINEAR],
        )

    def step(self, old: Tables, changes: Tables, frontier: Frontier, *, first: bool = False) -> Step:
        rows = changes["rows"]
        parts = list(self.parts)
        tables = [rows, *(old[part] for part in parts)]
        numbers, *held_numbers = number_keys(tables, [self.key] * len(tables))
        count = int(numbers.max()) + 1 if len(numbers) else int(first and not self.key)
        held = {part: Grouped.of(old[part], each, count) for part, each in zip(parts, held_numbers, strict=True)}
        before = self._contents(held)
        keys = GroupKeys.of(rows, self.key, numbers)
        state, after = self._added(before, Grouped(rows, numbers, weights_of(rows), count), keys)
        return Step(state, self._difference(before, after, keys, first=first))

    def summed(self, rows: pa.Table, *, apart: bool = False) -> pa.Table:
        """Changes added up by group: the measures of each, in place of arguments. `apart`: those of each change."""
        numbers = np.arange(rows.num_rows) if apart else number_keys([rows], [self.key])[0]
        count = int(numbers.max()) + 1 if len(numbers) else 0
        grouped = Grouped(rows, numbers, weights_of(rows), count)
        sums = {WEIGHT: grouped.total(grouped.weights)}
        for linear in self._linear.values():
            sums |= linear.sums(grouped)[0]
        table = rows_at(rows.select(self.key), first_places(numbers))
        return pa.table(
            [*table.columns, *(pa.array(sums[name], pa.int64()) for name in self._measures)],
            names=[*self.key, *self._measures],
        )

    @property
    def _key_fields(self) -> list[pa.Field]:
        return [self.schema.field(name) for name in self.key]

    @property
    def _linear(self) -> Mapping[int, Linear]:
        return {
            number: Linear(function, self._argument_type(function), number)
            for number, function in enumerate(self.functions)
            if function.kind in _LINEAR
        }

    @property
    def _measures(self) -> tuple[str, ...]:
        return (*(name for linear in self._linear.values() for name in linear.measures), WEIGHT)

    @property
    def _values(self) -> Mapping[tuple[str, ...], str]:
        """The part of the state in which the distinct values of these arguments are."""
        needed = [function.arguments for function in self.functions if function.kind not in _LINEAR]
        return {arguments: f"values_{number}" for number, arguments in enumerate(dict.fromkeys(needed))}

    def _argument_type(self, function: Function) -> pa.DataType | None:
        return self.schema.field(function.arguments[0]).type if function.arguments else None

    def _contents(self, held: Mapping[str, Grouped]) -> Contents:
        groups = held[GROUPS]
        sums = {}
        for name in self._measures:
            sums[name] = groups.total(groups.table[name].to_numpy())
        places = {}
        if PLACES in held:
            limbs = held[PLACES]
            functions, at = limbs.table[FUNCTION].to_numpy(), limbs.table[PLACE].to_numpy().astype(np.int64)
            for number in self._linear:
                mine = functions == number
                places[number] = Places(limbs.numbers[mine], at[mine], limbs.weights[mine])
        return Contents(sums, places, {part: held[part] for part in self._values.values()})

    def _added(self, before: Contents, rows: Grouped, keys: GroupKeys) -> tuple[dict[str, pa.Table], Contents]:
        """What the rows add to the state, and what the groups hold then."""
        delta = {WEIGHT: rows.total(rows.weights)}
        places = {}
        if self.measured:
            delta |= {name: rows.total(rows.table[name].to_numpy()) for name in self._measures if name != WEIGHT}
        for number, linear in self._linear.items() if not self.measured else ():
            sums, limbs = linear.sums(rows)
            delta.update(sums)
            if linear.is_double:
                places[number] = limbs
        state = {GROUPS: keys.groups(delta, self._measures)}
        if places:
            state[PLACES] = keys.limbs(places)
        values = {}
        for arguments, part in self._values.items():
            names = _names(arguments)
            delta_values = consolidate(_by_group(rows.with_all(arguments).renamed(arguments, names), names))
            state[part] = keys.values(_grouped(delta_values, rows.count), names)
            # A least or greatest value may be there twice, but not one that is counted.
            counted = any(each.arguments == arguments and each.kind.endswith("distinct") for each in self.functions)
            total = changed(_by_group(before.values[part], names), delta_values, "aggregate", once=counted)
            values[part] = _grouped(total, rows.count)
        after = {name: before.sums[name] + delta[name] for name in self._measures}
        if (after[WEIGHT] < 0).any():
            raise InternalError("The aggregate kernel was told to retract a row that it does not hold.")
        merged = {number: Places.joined([before.places[number], limbs]) for number, limbs in places.items()}
        return state, Contents(after, merged, values)

    def _difference(self, before: Contents, after: Contents, keys: GroupKeys, *, first: bool) -> pa.Table:
        """The old rows of the groups taken away and the new ones put in, where they differ."""
        had, has = before.sums[WEIGHT] > 0, after.sums[WEIGHT] > 0
        if not self.key:
            had, has = np.full(len(had), not first), np.ones(len(has), dtype=bool)
        functions = range(len(self.functions))
        old, new = ([self._result(number, each, keys) for number in functions] for each in (before, after))
        differs = had != has
        for old_column, new_column in zip(old, new, strict=True):
            differs |= ~same(old_column, new_column)
        return add(self._rows(keys, old, had & differs, -1), self._rows(keys, new, has & differs, 1))

    def _rows(self, keys: GroupKeys, results: list[pa.ChunkedArray], chosen: Flags, weight: int) -> pa.Table:
        """The rows of the chosen groups."""
        groups = np.flatnonzero(chosen)
        columns = {HASH: pa.array(np.zeros(len(groups), dtype=np.int64))}
        if self.key:
            shown = keys.take(groups)
            columns = {name: shown[name] for name in (HASH, *self.key)}
        places = pa.array(groups)
        for function, result in zip(self.functions, results, strict=True):
            columns[function.name] = result.take(places)
        return with_weights(pa.table(columns), np.full(len(groups), weight, dtype=np.int64))

    def _result(self, number: int, contents: Contents, keys: GroupKeys) -> pa.ChunkedArray:
        """The value of a function in every group."""
        function = self.functions[number]
        rows = contents.sums[WEIGHT]
        if function.kind in _LINEAR:
            linear = self._linear[number]
            values, fits = linear.result(contents.sums, contents.places.get(number, no_places()), rows)
            return _fitting(values, fits, function, keys)
        held, names = contents.values[self._values[function.arguments]], _names(function.arguments)
        if function.kind in ("min", "max"):
            return extreme(held, names[0], function.kind).cast(function.type)
        distinct = held.distinct(names)
        if function.kind == "count_distinct":
            return pa.chunked_array([pa.array(distinct.total(distinct.weights), pa.int64())])
        linear = Linear(Function("sum", names, function.name, function.type), self._argument_type(function), number)
        values, fits = linear.result(*linear.sums(distinct), rows)
        return _fitting(values, fits, function, keys)


def _names(arguments: tuple[str, ...]) -> tuple[str, ...]:
    """What the arguments are called in the state, where a key may have the same name."""
    return tuple(f"_argument_{place}" for place in range(len(arguments)))


def _by_group(rows: Grouped, names: tuple[str, ...]) -> pa.Table:
    """The Z-set of these columns and the number of the group."""
    columns = {_GROUP: pa.array(rows.numbers, pa.int64())} | {name: rows.table[name] for name in names}
    return with_weights(pa.table(columns), rows.weights)


def _grouped(rows: pa.Table, count: int) -> Grouped:
    return Grouped(rows, rows[_GROUP].to_numpy(), weights_of(rows), count)


def _fitting(values: pa.Array, fits: Flags, function: Function, keys: GroupKeys) -> pa.ChunkedArray:
    if not fits.all():
        group = int(np.flatnonzero(~fits)[0])
        raise Overflow(str(function), str(function.type), keys.shown(group))
    return pa.chunked_array([values])

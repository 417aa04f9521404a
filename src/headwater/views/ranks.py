"""The ranks kernel: all rows of each group with their ranks in an order, under changes of its rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.errors import InternalError
from headwater.views.frontier import Frontier
from headwater.views.identity import Numbers, number_keys
from headwater.views.kernel import KeyedKernel, Part, Step, Tables, Work
from headwater.views.ordering import Order, run_starts, sorted_places, stated_order, weights_before, whole_order
from headwater.views.zset import HASH, WEIGHT, add, consolidate, rows_at, with_weights

RankFunction = Literal["row_number", "rank", "dense_rank", "percent_rank", "cume_dist"]
RANK_TYPES: Mapping[RankFunction, pa.DataType] = {
    "row_number": pa.int32(),
    "rank": pa.int32(),
    "dense_rank": pa.int32(),
    "percent_rank": pa.float64(),
    "cume_dist": pa.float64(),
}
_BEFORE = "_before"


@dataclass(frozen=True, slots=True)
class Ranks(KeyedKernel):
    """The rows of each group with the results of rank functions, as in SQL; without a key all rows are one group.

    Rows that the first `stated` columns of the order leave equal are ties, which only `row_number` tells apart: by the
    rest of the order, then by all columns, ascending with nulls first. A row of weight 3 is three rows.

    What it gave is computed again from the kept rows, and only the rows whose results differ come out.
    """

    order: tuple[Order, ...]
    stated: int
    functions: tuple[RankFunction, ...]

    @property
    def parts(self) -> Mapping[str, Part]:
        return {"rows": Part(self.schema, adds_up=True)}

    @property
    def output(self) -> pa.Schema:
        names = [f"rank{number}" for number in range(len(self.functions))]
        made = [(name, RANK_TYPES[function]) for name, function in zip(names, self.functions, strict=True)]
        return pa.schema([*self.schema, *map(pa.field, *zip(*made, strict=True))])

    def work(self, shown: Callable[[str], str]) -> Work:
        return Work(recomputed=[f"{function}()" for function in self.functions])

    def step(self, old: Tables, changes: Tables, frontier: Frontier, *, first: bool = False) -> Step:
        columns = [HASH, *self.schema.names, WEIGHT]
        delta = consolidate(changes["rows"].select(columns))
        held = old["rows"].select(columns)
        # Groups of other hashes do not change.
        held = held.filter(pa.array(np.isin(held[HASH].to_numpy(), delta[HASH].to_numpy())))
        before = held[WEIGHT], pa.chunked_array([np.zeros(delta.num_rows, dtype=np.int64)])
        both = [rows.append_column(_BEFORE, weights) for rows, weights in zip((held, delta), before, strict=True)]
        return Step({"rows": delta}, self._changed(consolidate(add(*both), (WEIGHT, _BEFORE))))

    def _changed(self, rows: pa.Table) -> pa.Table:
        """The differences of the results, of rows with their weights before and after."""
        weights = [rows[name].to_numpy() for name in (_BEFORE, WEIGHT)]
        rows = rows.drop_columns([_BEFORE])
        if not rows.num_rows:
            return self._with_results(rows, [np.zeros(0, dtype=np.int64)] * len(self.functions))
        if weights[1].min() < 0:
            raise InternalError("The ranks kernel was told to retract a row that it does not hold.")
        order, group_starts, tie_starts = self._sorted(rows)
        sides = [_Side.of(one[order], group_starts, tie_starts) for one in weights]
        copied = "row_number" in self.functions and max(one.max() for one in weights) > 1
        if copied:
            # Each copy of a row has its own number.
            copies = np.maximum(*(side.weights for side in sides))
            order, sides = np.repeat(order, copies), [side.repeated(copies) for side in sides]
        results = [[side.result(function) for function in self.functions] for side in sides]
        same = np.logical_and.reduce([one == other for one, other in zip(*results, strict=True)])
        lost, gained = (np.where(same, 0, side.weights) for side in sides)
        kept = np.where(same, sides[1].weights - sides[0].weights, 0)
        pieces = [
            (np.flatnonzero(piece), sign * piece[piece != 0], side)
            for piece, sign, side in ((lost, -1, results[0]), (gained, 1, results[1]), (kept, 1, results[1]))
        ]
        places = np.concatenate([found for found, _, _ in pieces])
        found = with_weights(rows_at(rows, order[places]), np.concatenate([each for _, each, _ in pieces]))
        values = [np.concatenate([side[number][at] for at, _, side in pieces]) for number in range(len(self.functions))]
        made = self._with_results(found, values)
        # A copy may have the number now that another copy of the same row had before.
        return consolidate(made) if copied else made

    def _sorted(self, rows: pa.Table) -> tuple[Numbers, npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """The places of rows in order, and where groups and ties begin in it."""
        (groups,) = number_keys([rows], [self.key])
        ties = [groups, *stated_order(rows, self.order[: self.stated])]
        keys = ties
        if "row_number" in self.functions:
            keys = [*ties, *stated_order(rows, self.order[self.stated :]), *whole_order(rows, self.schema.names)]
        order = sorted_places(keys)
        return order, run_starts([groups[order]]), run_starts([key[order] for key in ties])

    def _with_results(self, rows: pa.Table, values: Sequence[npt.NDArray[np.generic]]) -> pa.Table:
        arrays = [pa.array(given).cast(RANK_TYPES[name]) for name, given in zip(self.functions, values, strict=True)]
        columns = [*rows.drop_columns([WEIGHT]).columns, *arrays, rows[WEIGHT]]
        return pa.table(columns, names=[HASH, *self.output.names, WEIGHT])


@dataclass(frozen=True, slots=True)
class _Side:
    """Sorted rows before or after a step: for each its weight, and how many rows of its group are where."""

    weights: Numbers
    before: Numbers
    """How many stand before it."""
    before_tie: Numbers
    """How many stand before all that are tied with it."""
    in_tie: Numbers
    ties_before: Numbers
    """How many ties, of which there is a row, stand before its own."""
    in_group: Numbers

    @classmethod
    def of(cls, weights: Numbers, group_starts: npt.NDArray[np.bool_], tie_starts: npt.NDArray[np.bool_]) -> _Side:
        ties, groups = np.cumsum(tie_starts) - 1, np.cumsum(group_starts) - 1
        before = weights_before(weights, group_starts)
        in_tie = np.add.reduceat(weights, np.flatnonzero(tie_starts))
        in_group = np.add.reduceat(weights, np.flatnonzero(group_starts))
        ties_before = weights_before((in_tie > 0).astype(np.int64), group_starts[tie_starts])
        return cls(weights, before, before[tie_starts][ties], in_tie[ties], ties_before[ties], in_group[groups])

    def repeated(self, copies: Numbers) -> _Side:
        """Each row `copies` times, one after the other: as many as its weight have weight 1, the others 0."""
        weights, before, *others = (
            np.repeat(one, copies)
            for one in (self.weights, self.before, self.before_tie, self.in_tie, self.ties_before, self.in_group)
        )
        number = np.arange(len(weights)) - np.repeat(np.cumsum(copies) - copies, copies)
        return _Side((number < weights).astype(np.int64), before + number, *others)

    def result(self, function: RankFunction) -> npt.NDArray[np.generic]:
        """What a function gives for each row; of rows that are not there it means nothing."""
        match function:
            case "row_number":
                return self.before + 1
            case "rank":
                return self.before_tie + 1
            case "dense_rank":
                return self.ties_before + 1
            case "percent_rank":
                return self.before_tie / np.maximum(self.in_group - 1, 1)
            case "cume_dist":
                return (self.before_tie + self.in_tie) / np.maximum(self.in_group, 1)

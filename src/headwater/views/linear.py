"""Counts and sums: aggregate functions whose state is a few whole numbers per group, to which changes are added."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pat

from headwater.views.exact import double_limbs, double_totals, whole_limbs, whole_places, whole_totals
from headwater.views.grouped import Function, Grouped
from headwater.views.identity import Numbers

Sums = Mapping[str, Numbers]
"""Per measure a number for each group."""

_WIDEST = pa.decimal128(38, 0)
_NAN, _INFINITE, _NEGATIVE_INFINITE = "nan", "infinite", "negative_infinite"
# With up to this many cells for each limb a table of all cells is faster than one of those that are used.
_CELLS_PER_LIMB = 8


@dataclass(frozen=True, slots=True)
class Places:
    """Limbs of sums of doubles: the group, the place and the limb of each."""

    groups: Numbers
    places: Numbers
    limbs: Numbers

    @classmethod
    def joined(cls, pieces: Sequence[Places]) -> Places:
        """All limbs of several."""
        return cls(
            np.concatenate([piece.groups for piece in pieces]),
            np.concatenate([piece.places for piece in pieces]),
            np.concatenate([piece.limbs for piece in pieces]),
        )

    def merged(self) -> Places:
        """Each place of a group once, without limbs of 0."""
        if not len(self.limbs):
            return self
        lowest = self.places.min()
        width = self.places.max() - lowest + 1
        cells = self.groups * width + (self.places - lowest)
        if cells.max() < _CELLS_PER_LIMB * len(cells):
            limbs = np.zeros(cells.max() + 1, dtype=np.int64)
            np.add.at(limbs, cells, self.limbs)
            cells = np.arange(len(limbs))
        else:
            encoded = pa.array(cells, pa.int64()).dictionary_encode()
            cells = encoded.dictionary.to_numpy()
            limbs = np.zeros(len(cells), dtype=np.int64)
            np.add.at(limbs, encoded.indices.to_numpy(), self.limbs)
        some = limbs != 0
        return Places(cells[some] // width, cells[some] % width + lowest, limbs[some])


@dataclass(frozen=True, slots=True)
class Linear:
    """A count or sum, the type of what it sums, and its number among the functions of its aggregate."""

    function: Function
    argument: pa.DataType | None
    number: int

    @property
    def is_double(self) -> bool:
        return self.function.kind.startswith("sum") and bool(pat.is_floating(self.argument))

    @property
    def measures(self) -> tuple[str, ...]:
        if not self.function.arguments:
            return ()
        if not self.function.kind.startswith("sum"):
            return (self._measure("count"),)
        kinds = (_NAN, _INFINITE, _NEGATIVE_INFINITE) if self.is_double else range(whole_places(self.argument))
        return (self._measure("count"), *(self._measure(kind) for kind in kinds))

    def sums(self, rows: Grouped) -> tuple[Sums, Places]:
        """What the rows add to the measures, and to the places of a sum of doubles."""
        if not self.function.arguments:
            return {}, no_places()
        present = rows.with_all(self.function.arguments)
        sums = {self._measure("count"): present.total(present.weights)}
        if not self.function.kind.startswith("sum"):
            return sums, no_places()
        column = present.array(self.function.arguments[0])
        if self.is_double:
            return self._double_sums(sums, present, column.cast(pa.float64()).to_numpy())
        for place, limbs in enumerate(whole_limbs(column)):
            sums[self._measure(place)] = present.total(limbs * present.weights)
        return sums, no_places()

    def result(self, sums: Sums, places: Places, rows: Numbers) -> tuple[pa.Array, npt.NDArray[np.bool_]]:
        """The function's value in each group, and whether it fits; `rows` are the numbers of rows of the groups."""
        everywhere = np.ones(len(rows), dtype=bool)
        if not self.function.kind.startswith("sum"):
            counts = sums[self._measure("count")] if self.function.arguments else rows
            return pa.array(counts, pa.int64()), everywhere
        valid = sums[self._measure("count")] != 0
        if self.is_double:
            return self._double_result(sums, places, valid), everywhere
        limbs = [sums[self._measure(place)] for place in range(whole_places(self.argument))]
        # The sum of whole numbers as a double, for an average.
        kind = _WIDEST if pat.is_floating(self.function.type) else self.function.type
        totals, fits = whole_totals(limbs, kind, valid)
        return totals.cast(self.function.type), fits | ~valid

    def _measure(self, kind: str | int) -> str:
        return f"_{self.number}_{kind}"

    def _double_sums(
        self, sums: dict[str, Numbers], rows: Grouped, values: npt.NDArray[np.float64]
    ) -> tuple[Sums, Places]:
        weights = rows.weights
        finite = np.isfinite(values)
        if finite.all():
            none = np.zeros(rows.count, dtype=np.int64)
            sums |= {self._measure(kind): none for kind in (_NAN, _INFINITE, _NEGATIVE_INFINITE)}
        else:
            sums[self._measure(_NAN)] = rows.total(weights * np.isnan(values))
            sums[self._measure(_INFINITE)] = rows.total(weights * np.isposinf(values))
            sums[self._measure(_NEGATIVE_INFINITE)] = rows.total(weights * np.isneginf(values))
        lowest, limbs = double_limbs(np.where(finite, values, 0.0))
        pieces = []
        for place, limb in enumerate(limbs):
            some = np.flatnonzero(limb)
            pieces.append(Places(rows.numbers[some], lowest[some] + place, limb[some] * weights[some]))
        return sums, Places.joined(pieces).merged()

    def _double_result(self, sums: Sums, places: Places, valid: npt.NDArray[np.bool_]) -> pa.Array:
        totals = double_totals(places.groups, places.places, places.limbs, len(valid))
        nan, infinite = sums[self._measure(_NAN)] != 0, sums[self._measure(_INFINITE)] != 0
        negative = sums[self._measure(_NEGATIVE_INFINITE)] != 0
        totals[infinite] = np.inf
        totals[negative] = -np.inf
        totals[nan | (infinite & negative)] = np.nan
        return pa.array(totals, mask=~valid).cast(self.function.type)


def no_places() -> Places:
    none = np.zeros(0, dtype=np.int64)
    return Places(none, none, none)

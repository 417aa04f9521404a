"""Comparing two tables as collections of rows: which rows one has and the other has not."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from headwater.views.zset import WEIGHT, add, consolidate, negate, weights_of, with_weights

DOUBLES_WITHIN = 1e-9
"""Two doubles that differ by less than this part of them count as equal: a batch query adds them up in any order."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A row, and how often the view has it more (or, below 0, less) often than it should."""

    row: dict[str, Any]
    surplus: int


def differences(content: pa.Table, expected: pa.Table) -> list[Difference]:
    """What the content has more or less of than expected."""
    ones = [with_weights(table, np.ones(table.num_rows, np.int64)) for table in (content, expected)]
    left = consolidate(add(ones[0], negate(ones[1])))
    rows = left.drop_columns([WEIGHT]).to_pylist()
    found = [Difference(row, int(weight)) for row, weight in zip(rows, weights_of(left), strict=True)]
    return _without_close(found) if any(_has_doubles(field.type) for field in content.schema) else found


def _without_close(found: Sequence[Difference]) -> list[Difference]:
    """Pairs of a surplus and a missing row that differ by little in doubles only are no differences."""
    missing = [one for one in found if one.surplus < 0]
    counts = [-one.surplus for one in missing]
    left = []
    for one in found:
        surplus = max(one.surplus, 0)
        for number, other in enumerate(missing):
            if surplus and counts[number] and _close(one.row, other.row):
                taken = min(surplus, counts[number])
                surplus, counts[number] = surplus - taken, counts[number] - taken
        if surplus:
            left.append(Difference(one.row, surplus))
    return [*left, *(Difference(one.row, -count) for one, count in zip(missing, counts, strict=True) if count)]


def _close(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        same = (math.isnan(one) and math.isnan(other)) or one == other
        return same or math.isclose(one, other, rel_tol=DOUBLES_WITHIN, abs_tol=DOUBLES_WITHIN)
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_close(one[name], other[name]) for name in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(_close(a, b) for a, b in zip(one, other, strict=True))
    return bool(one == other)


def _has_doubles(given: pa.DataType) -> bool:
    if pat.is_floating(given):
        return True
    return any(_has_doubles(given.field(number).type) for number in range(given.num_fields))

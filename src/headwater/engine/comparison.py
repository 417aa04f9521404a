"""Comparing two tables as collections of rows: which rows one has and the other has not."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from headwater.model.encoding import python_rows
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
    rows = python_rows(left.drop_columns([WEIGHT]))
    found = [Difference(row, int(weight)) for row, weight in zip(rows, weights_of(left), strict=True)]
    return _without_close(found) if any(has_doubles(field.type) for field in content.schema) else found


def unexplained(found: Sequence[Difference], content: pa.Table, answers: Sequence[pa.Table]) -> list[Difference]:
    """The differences that are not in the last bits of doubles.

    `answers` are those of the same query over the same rows in other orders. Where they differ among each other in a
    double, the order of additions decides, and a value among theirs is as right as they are.
    """
    if len(answers) < 2 or not any(has_doubles(field.type) for field in content.schema):
        return list(found)
    by_key: list[dict[str, list[dict[str, Any]]]] = []
    for answer in (content, *answers):
        rows: dict[str, list[dict[str, Any]]] = {}
        for row in python_rows(answer):
            rows.setdefault(_without_doubles(row), []).append(row)
        by_key.append(rows)
    left = []
    for one in found:
        alike = [rows.get(_without_doubles(one.row), []) for rows in by_key]
        if any(len(rows) != 1 for rows in alike) or not _among(alike[0][0], [rows[0] for rows in alike[1:]]):
            left.append(one)
    return left


def _without_doubles(value: Any) -> str:
    """All of a row but its doubles, as text."""
    if isinstance(value, float):
        return "double"
    if isinstance(value, dict):
        return str({name: _without_doubles(one) for name, one in value.items()})
    if isinstance(value, list | tuple):
        return str([_without_doubles(one) for one in value])
    return repr(value)


def _among(value: Any, others: Sequence[Any]) -> bool:
    """Whether every double is as far from the others' as these are from each other, at most."""
    if isinstance(value, float):
        if any(math.isnan(one) or math.isinf(one) for one in (value, *others)):
            return any(_close(value, one) for one in others)
        low, high = min(others), max(others)
        slack = (high - low) + DOUBLES_WITHIN * max(1.0, abs(low), abs(high))
        return bool(low - slack <= value <= high + slack)
    if isinstance(value, dict):
        return all(_among(one, [other[name] for other in others]) for name, one in value.items())
    if isinstance(value, list | tuple):
        return all(_among(one, [other[place] for other in others]) for place, one in enumerate(value))
    return True


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


def has_doubles(given: pa.DataType) -> bool:
    if pat.is_floating(given):
        return True
    return any(has_doubles(given.field(number).type) for number in range(given.num_fields))

"""Comparing a view with what raw Spark answers, also where the SQL leaves the answer open.

An answer is open if raw Spark itself gives different ones for the same rows in another order. Then a view may give any
of them, or the same with its arrays in another order, or doubles between those that Spark gives, or what the rules of
headwater settle.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import pyarrow as pa

from headwater.model.encoding import python_values

DOUBLES_WITHIN = 1e-9
_NEAR_ZERO = 1e-12
_SHOWN_MAX = 6

Outcome: TypeAlias = Literal["equal", "open", "different"]
Row: TypeAlias = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a view compares; `detail` says what differs, or why an open answer is accepted."""

    outcome: Outcome
    detail: str = ""


def judge(
    content: pa.Table,
    expected: pa.Table,
    shuffled: Callable[[], Sequence[pa.Table]],
    settled: Callable[[], bool],
    *,
    unordered: bool = False,
) -> Verdict:
    """Compares; `shuffled` asks raw Spark again with the rows in other orders, `settled` asks headwater's own rules.

    `unordered` says that Spark documents the order of arrays as open, whether or not it changes with the rows.
    """
    problem = _schema_problem(content.schema, expected.schema)
    if problem:
        return Verdict("different", problem)
    rows, wanted = _rows(content), _rows(expected)
    found = difference(rows, wanted)
    if not found:
        return Verdict("equal")
    if unordered and not difference([_sorted_arrays(row) for row in rows], [_sorted_arrays(row) for row in wanted]):
        return Verdict("open", "arrays in another order")
    answers = [wanted, *(_rows(answer) for answer in shuffled())]
    if not any(difference(wanted, answer) for answer in answers[1:]):
        return Verdict("different", found)
    reason = _accepted(rows, answers)
    if reason is None and settled():
        reason = "settled by the rules of headwater"
    return (
        Verdict("different", f"open, and none of the answers: {found}") if reason is None else Verdict("open", reason)
    )


def difference(rows: Sequence[Row], wanted: Sequence[Row]) -> str:
    """What one has and the other has not, in words; empty if they are equal, up to the last digits of doubles."""
    left, right = Counter(map(repr, rows)), Counter(map(repr, wanted))
    surplus, missing = left - right, right - left
    if not surplus and not missing:
        return ""
    more = [row for row in rows if _take(surplus, row)]
    less = [row for row in wanted if _take(missing, row)]
    unmatched = []
    for row in more:
        match = next((number for number, other in enumerate(less) if _close(row, other)), None)
        if match is None:
            unmatched.append(row)
        else:
            del less[match]
    if not unmatched and not less:
        return ""
    return f"surplus {_shown(unmatched)}, missing {_shown(less)}"


def _take(counts: Counter[str], row: Row) -> bool:
    key = repr(row)
    if counts[key] <= 0:
        return False
    counts[key] -= 1
    return True


def _shown(rows: Sequence[Row]) -> str:
    more = f" and {len(rows) - _SHOWN_MAX} more" if len(rows) > _SHOWN_MAX else ""
    return f"[{', '.join(repr(row)[:300] for row in rows[:_SHOWN_MAX])}]{more}"


def _schema_problem(content: pa.Schema, expected: pa.Schema) -> str:
    if [name.lower() for name in content.names] != [name.lower() for name in expected.names]:
        return f"columns {content.names}, expected {expected.names}"
    for mine, other in zip(content, expected, strict=True):
        if _plain_type(mine.type) != _plain_type(other.type):
            return f"column {mine.name!r} is {mine.type}, expected {other.type}"
    return ""


def _plain_type(given: pa.DataType) -> str:
    """The type without what is nullable, and with one name for each way to hold texts."""
    text = str(given)
    for word in (" not null", "large_", "_view", " ('item')", " ('entries')"):
        text = text.replace(word, "")
    return text


def _rows(table: pa.Table) -> list[Row]:
    """The rows as values that print alike if they are alike."""
    columns = [python_values(table.column(number)) for number in range(table.num_columns)]
    return [tuple(_value(value) for value in row) for row in zip(*columns, strict=True)] or [()] * (
        table.num_rows if not columns else 0
    )


def _value(value: Any) -> Any:
    if isinstance(value, dict):
        return tuple((name, _value(item)) for name, item in value.items())
    if isinstance(value, list):
        made = [_value(item) for item in value]
        # Only the entries of maps are tuples; they have no order.
        return frozen_map(made) if any(isinstance(item, tuple) for item in value) else made
    if isinstance(value, tuple):
        return tuple(_value(item) for item in value)
    return value


def frozen_map(entries: Sequence[Any]) -> list[Any]:
    return sorted(entries, key=repr)


def _close(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        if one == other:
            return math.copysign(1, one) == math.copysign(1, other)
        if math.isnan(one) or math.isnan(other):
            return math.isnan(one) and math.isnan(other)
        return math.isclose(one, other, rel_tol=DOUBLES_WITHIN, abs_tol=_NEAR_ZERO)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(_close(a, b) for a, b in zip(one, other, strict=True))
    return type(one) is type(other) and bool(one == other)


def _accepted(rows: Sequence[Row], answers: Sequence[Sequence[Row]]) -> str | None:
    """Why an answer is as good as those that raw Spark gives; None if it is not."""
    if any(not difference(rows, answer) for answer in answers):
        return "one of the answers of raw Spark"
    alike = [_sorted_arrays(row) for row in rows]
    if any(not difference(alike, [_sorted_arrays(row) for row in answer]) for answer in answers):
        return "arrays in another order"
    if _within(rows, answers):
        return "doubles between those of raw Spark"
    return None


def _sorted_arrays(value: Any) -> Any:
    if isinstance(value, list):
        return sorted((_sorted_arrays(item) for item in value), key=repr)
    return tuple(_sorted_arrays(item) for item in value) if isinstance(value, tuple) else value


def _within(rows: Sequence[Row], answers: Sequence[Sequence[Row]]) -> bool:
    """Whether all rows have a counterpart, by all but their doubles, and doubles no further off than raw Spark's."""
    ranges: dict[str, list[list[float]]] = {}
    counts: list[Counter[str]] = []
    for answer in answers:
        counts.append(Counter())
        for row in answer:
            key, doubles = _split(row)
            counts[-1][key] += 1
            known = ranges.setdefault(key, [[] for _ in doubles])
            for values, double in zip(known, doubles, strict=True):
                values.append(double)
    mine = Counter(_split(row)[0] for row in rows)
    if mine not in counts:
        return False
    for row in rows:
        key, doubles = _split(row)
        if not all(_in_range(double, values) for double, values in zip(doubles, ranges[key], strict=True)):
            return False
    return True


def _split(row: Row) -> tuple[str, list[float]]:
    """A row without its doubles, and its doubles."""
    doubles: list[float] = []

    def without(value: Any) -> Any:
        if isinstance(value, float):
            doubles.append(value)
            return "double"
        if isinstance(value, list | tuple):
            return [without(item) for item in value]
        return value

    return repr(without(row)), doubles


def _in_range(double: float, values: Sequence[float]) -> bool:
    if any(_close(double, value) or (math.isnan(double) and math.isnan(value)) for value in values):
        return True
    plain = [value for value in values if not math.isnan(value)]
    return bool(plain) and min(plain) <= double <= max(plain)

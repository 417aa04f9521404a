"""Doubles that depend on the order in which they were added up: which values are right, of several that Spark gives."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

_DIGITS = 9
_NOISY = "~"


def within(content: pa.Table, expected: pa.Table, others: Sequence[pa.Table]) -> bool:
    """Whether the content has the rows of the expected answer, up to doubles that other answers have otherwise.

    Such a double may lie in the range of the answers, or as far outside of it as the range is wide: a few orders of
    rows do not show the whole range.
    """
    answers = [expected, *others]
    noisy = [name for name in content.column_names if len({_values(table, name) for table in (*answers, content)}) > 1]
    rows = [_rows(table, noisy) for table in answers]
    mine = _rows(content, noisy)
    if _counted(mine) != _counted(rows[0]):
        return False
    ranges: dict[str, list[list[float]]] = {}
    for found in rows:
        for skeleton, numbers in found:
            ranges.setdefault(skeleton, [[] for _ in numbers])
            if len(ranges[skeleton]) != len(numbers):
                return False
            for seen, number in zip(ranges[skeleton], numbers, strict=True):
                seen.append(number)
    return all(
        _fits(seen, number)
        for skeleton, numbers in mine
        for seen, number in zip(ranges[skeleton], numbers, strict=True)
    )


def _values(table: pa.Table, name: str) -> str:
    """The values of a column, whatever their order, as text."""
    return "\n".join(sorted(_text(value) for value in table[name].to_pylist()))


def _rows(table: pa.Table, noisy: Sequence[str]) -> list[tuple[str, list[float]]]:
    """Each row as text with its noisy doubles left out, and these."""
    found = []
    for row in table.to_pylist():
        numbers = [number for name in noisy for number in _floats(row[name])]
        parts = [_text(value, hidden=name in noisy) for name, value in row.items()]
        found.append(("|".join(parts), numbers))
    return found


def _counted(rows: Sequence[tuple[str, list[float]]]) -> Counter[str]:
    return Counter(skeleton for skeleton, _ in rows)


def _floats(value: Any) -> Iterator[float]:
    if isinstance(value, float):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _floats(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _floats(item)


def _text(value: Any, *, hidden: bool = False) -> str:
    if isinstance(value, float):
        return _NOISY if hidden else format(value + 0.0, f".{_DIGITS}g")
    if isinstance(value, dict):
        return "{" + ",".join(f"{name}:{_text(item, hidden=hidden)}" for name, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(_text(item, hidden=hidden) for item in value) + "]"
    return repr(value)


def _fits(seen: Sequence[float], number: float) -> bool:
    if math.isnan(number) or math.isinf(number):
        return any(math.isnan(other) if math.isnan(number) else other == number for other in seen)
    finite = [other for other in seen if math.isfinite(other)]
    if not finite:
        return False
    low, high = min(finite), max(finite)
    slack = (high - low) + 1e-9 * max(abs(low), abs(high), 1.0)
    return low - slack <= number <= high + slack

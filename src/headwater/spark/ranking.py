"""Recognizing rank functions, and the first rows of each group: row_number() only compared with numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headwater.spark.catalyst import Expression, conjuncts, plans, unaliased
from headwater.views.ranks import RankFunction

_TURNED = {
    "LessThan": "GreaterThan",
    "LessThanOrEqual": "GreaterThanOrEqual",
    "GreaterThan": "LessThan",
    "GreaterThanOrEqual": "LessThanOrEqual",
    "EqualTo": "EqualTo",
}

_RANK_FUNCTIONS: Mapping[str, RankFunction] = {
    "RowNumber": "row_number",
    "Rank": "rank",
    "DenseRank": "dense_rank",
    "PercentRank": "percent_rank",
    "CumeDist": "cume_dist",
}


@dataclass(frozen=True, slots=True)
class Ranking:
    """Rows `first` to `last` (None: all) of each partition of a window's child, and what else is asked of them."""

    window: plans.Window
    first: int
    last: int | None
    conditions: Sequence[Expression]


def ranking(plan: plans.Project) -> Ranking | None:
    """What a projection over a filter over a window stands for, if it is that."""
    below = plan.child
    if not isinstance(below, plans.Filter) or not isinstance(below.child, plans.Window):
        return None
    window = below.child
    # Spark may add columns of its own that are taken as they are.
    named = [column for column in window.columns if column.is_alias]
    if len(named) != 1 or not is_row_number(named[0]):
        return None
    number = named[0].identity
    if any(number in column.references for column in plan.columns):
        return None
    first, last, others = 1, None, []
    for condition in conjuncts(below.condition):
        bounds = _bounds(condition, number)
        if bounds is not None:
            first = max(first, bounds[0])
            last = bounds[1] if last is None else min(last, bounds[1] if bounds[1] is not None else last)
        elif number in condition.references:
            return None
        else:
            others.append(condition)
    return None if last is None and first == 1 else Ranking(window, first, last, others)


def rank_functions(window: plans.Window) -> tuple[RankFunction, ...] | None:
    """The functions of a window, if all of them are rank functions."""
    functions = [unaliased(named).window_function for named in window.columns]
    found = [_RANK_FUNCTIONS.get(function.kind) for function in functions if function is not None]
    known = tuple(one for one in found if one is not None)
    return known if len(known) == len(functions) else None


def is_row_number(named: Expression) -> bool:
    """Whether a column of a window is row_number()."""
    function = unaliased(named).window_function
    return function is not None and function.kind == "RowNumber"


def _bounds(condition: Expression, number: int) -> tuple[int, int | None] | None:
    """The first and the last number that a comparison of the row number allows."""
    name = condition.kind
    if name not in _TURNED:
        return None
    left, right = condition.children
    if left.is_literal:
        left, right, name = right, left, _TURNED[name]
    if not left.is_attribute or left.identity != number or not right.is_literal or right.value is None:
        return None
    value = int(str(right.value))
    return {
        "LessThan": (1, value - 1),
        "LessThanOrEqual": (1, value),
        "GreaterThan": (value + 1, None),
        "GreaterThanOrEqual": (value, None),
        "EqualTo": (value, value),
    }[name]

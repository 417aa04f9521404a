"""Recognising the first rows of each group: row_number() compared with numbers, and used for nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headwater.spark.catalyst import Expression, Node, children, conjuncts, identity, items, kind, unaliased

_TURNED = {
    "LessThan": "GreaterThan",
    "LessThanOrEqual": "GreaterThanOrEqual",
    "GreaterThan": "LessThan",
    "GreaterThanOrEqual": "LessThanOrEqual",
    "EqualTo": "EqualTo",
}


@dataclass(frozen=True, slots=True)
class Ranking:
    """Rows `first` to `last` (None: all) of each partition of a window's child, and what else is asked of them."""

    window: Node
    first: int
    last: int | None
    conditions: Sequence[Expression]


def ranking(node: Node) -> Ranking | None:
    """What a projection over a filter over a window stands for, if it is that."""
    below = node.child()
    if kind(below) != "Filter" or kind(below.child()) != "Window":
        return None
    window = below.child()
    # Spark may add columns of its own that are taken as they are.
    named = [one for one in items(window.windowExpressions()) if kind(one) == "Alias"]
    if len(named) != 1 or not is_row_number(named[0]):
        return None
    number = identity(named[0])
    if any(_refers(expression, number) for expression in items(node.projectList())):
        return None
    first, last, others = 1, None, []
    for condition in conjuncts(below.condition()):
        bounds = _bounds(condition, number)
        if bounds is not None:
            first = max(first, bounds[0])
            last = bounds[1] if last is None else min(last, bounds[1] if bounds[1] is not None else last)
        elif _refers(condition, number):
            return None
        else:
            others.append(condition)
    return None if last is None and first == 1 else Ranking(window, first, last, others)


def is_row_number(named: Expression) -> bool:
    """Whether a column of a window is row_number()."""
    given = unaliased(named)
    return kind(given) == "WindowExpression" and kind(given.windowFunction()) == "RowNumber"


def _bounds(condition: Expression, number: int) -> tuple[int, int | None] | None:
    """The first and the last number that a comparison of the row number allows."""
    name = kind(condition)
    if name not in _TURNED:
        return None
    left, right = children(condition)
    if kind(left) == "Literal":
        left, right, name = right, left, _TURNED[name]
    if kind(left) != "AttributeReference" or identity(left) != number or kind(right) != "Literal":
        return None
    if right.value() is None:
        return None
    value = int(right.value())
    return {
        "LessThan": (1, value - 1),
        "LessThanOrEqual": (1, value),
        "GreaterThan": (value + 1, None),
        "GreaterThanOrEqual": (value, None),
        "EqualTo": (value, value),
    }[name]


def _refers(expression: Expression, number: int) -> bool:
    return any(identity(attribute) == number for attribute in items(expression.references().toSeq()))

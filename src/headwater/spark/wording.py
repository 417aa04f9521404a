"""Operators and expressions in short words, for people."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from headwater.spark.catalyst import Expression, conjuncts, walk
from headwater.spark.flow import Operator

EXPRESSION_LENGTH_MAX = 80
"""Longer expressions are cut."""

_CLUTTER = (
    (re.compile(r"`|spark_catalog\.|__auto_generated_subquery_name\."), ""),
    # Keys are grouped by as Spark does it: one NaN, one zero.
    (re.compile(r"knownfloatingpointnormalized\(normalizenanandzero\(([^()]*)\)\)"), r"\1"),
    (re.compile(r"\b(\d+(?:\.\d+)?)[DL]\b"), r"\1"),
    # What an order means if nothing is said.
    (re.compile(r" ASC NULLS FIRST| (?<=DESC )NULLS LAST"), ""),
)


def label(operator: Operator) -> str:
    """What an operator is, in a few words, with its key."""
    detail = shortened(operator.detail)
    if not detail or operator.title in ("table", "changes", "versions", "publish"):
        return f"{operator.title} {detail}".strip()
    if operator.title == "temporal filter":
        return f"temporal filter: {detail}"
    if "join" in operator.title:
        return f"{operator.title} of every pair" if detail == "every pair" else f"{operator.title} on {detail}"
    if detail == "everything":
        return f"{operator.title} of everything".replace("by group of", "of")
    return f"{operator.title}{':' if operator.title.endswith('by group') else ' by'} {detail}"


def short(expression: Expression) -> str:
    """An expression in one line, without what only Spark needs to know."""
    return shortened(expression.sql)


def shortened(text: str) -> str:
    for clutter, instead in _CLUTTER:
        text = clutter.sub(instead, text)
    text = _unwrapped(" ".join(text.split()))
    return text if len(text) <= EXPRESSION_LENGTH_MAX else f"{text[: EXPRESSION_LENGTH_MAX - 1]}…"


def condition(given: Expression, keys: Sequence[Expression] = ()) -> str:
    """A condition, without the tests for null that Spark adds where the rest implies them; nothing if that is all."""
    parts = list(conjuncts(given))
    telling = [part for part in parts if part.kind != "IsNotNull"]
    implied = _attributes([*telling, *keys])
    return " AND ".join(short(part) for part in parts if part in telling or not _attributes(part.children) <= implied)


def _attributes(expressions: Iterable[Expression]) -> set[int]:
    return {part.identity for expression in expressions for part in walk(expression) if part.is_attribute}


def _unwrapped(text: str) -> str:
    """Without a pair of parentheses around all of it."""
    depth = 0
    for place, sign in enumerate(text):
        depth += (sign == "(") - (sign == ")")
        if depth == 0 and place < len(text) - 1:
            return text
    return text[1:-1] if text.startswith("(") and text.endswith(")") else text

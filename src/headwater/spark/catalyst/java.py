"""Objects of Java's as they come from py4j, and what is asked of all of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

Java: TypeAlias = Any
"""An object of Java's. No other package holds one that is not inside a `Node` or an `Expression`."""


@dataclass(frozen=True, slots=True)
class Node:
    """A logical plan of Spark's, which only this package looks into."""

    java: Java


def kind(value: Java) -> str:
    """The class of a node or an expression, without its package; asked once, as a call to Java takes some 100 µs."""
    known: dict[str, str] = value.__dict__
    if "_kind" not in known:
        known["_kind"] = str(value.getClass().getSimpleName()).removesuffix("$")
    return known["_kind"]


def items(sequence: Java) -> list[Java]:
    """The items of a Scala sequence."""
    return [sequence.apply(number) for number in range(sequence.size())]


def option(value: Java) -> Java | None:
    return value.get() if value.isDefined() else None

"""What a class of expressions depends on beside its arguments: the kind that decides whether a view may hold it."""

from __future__ import annotations

from enum import Enum
from typing import Final

from headwater.spark.vocabulary import tables

EXPRESSIONS: Final = "org.apache.spark.sql.catalyst.expressions."
_NORMALIZED: Final = "org.apache.spark.sql.catalyst.optimizer.NormalizeNaNAndZero"
"""No SQL names it, but a view that is settled may have it, and be read by another one."""
_RELATIONS: Final = "org.apache.spark.sql.catalyst.plans.logical."
_BUILDERS = ("ExpressionBuilder", "GeneratorBuilder", "Builder")


class Kind(Enum):
    """What the value of an expression depends on."""

    DETERMINISTIC = "its arguments"
    SETTLED = "the order of rows, which is settled here"
    ORDER = "the order of rows"
    CLOCK = "the time at which it is run"
    CHANCE = "chance"
    ENVIRONMENT = "the session, its catalog or its machine"
    UNSTABLE = "the order of rows or chance, in its last bits or in all of them"
    COLLATION = "which of several equal values comes first"


def _classified() -> dict[str, Kind]:
    accepted = " ".join((*tables.SCALARS.values(), tables.AGGREGATES, tables.PEERS)).split()
    by_kind = {
        Kind.DETERMINISTIC: accepted,
        Kind.SETTLED: tables.SETTLED,
        Kind.ORDER: tables.ORDER,
        Kind.CLOCK: tables.CLOCK,
        Kind.CHANCE: tables.CHANCE,
        Kind.ENVIRONMENT: tables.ENVIRONMENT,
        Kind.UNSTABLE: tables.UNSTABLE,
        Kind.COLLATION: tables.COLLATION,
    }
    return {name: kind for kind, names in by_kind.items() for name in names}


_KINDS: Final = _classified()


def names() -> frozenset[str]:
    """The classes that are classified."""
    return frozenset(EXPRESSIONS + name for name in _KINDS)


def classify(class_name: str) -> Kind | None:
    """The kind of an expression by the full name of its class; None if nobody has said what it depends on."""
    if class_name == _NORMALIZED:
        return Kind.DETERMINISTIC
    return _KINDS.get(relative(class_name)) if class_name.startswith(EXPRESSIONS) else None


def classify_registered(class_name: str) -> Kind | None:
    """The kind of a function by the class that Spark's registry names, which may be one that builds an expression."""
    if class_name.startswith(_RELATIONS):
        accepted = tables.RELATIONS.get(class_name.removeprefix(_RELATIONS))
        return None if accepted is None else Kind.DETERMINISTIC if accepted else Kind.ENVIRONMENT
    kind = classify(class_name)
    if kind is not None:
        return kind
    for ending in _BUILDERS:
        if class_name.endswith(ending):
            built = relative(class_name).removesuffix(ending)
            built = tables.BUILDERS.get(built, built)
            return Kind.ORDER if built in tables.IN_TEXT else _built(built)
    return None


def _built(name: str) -> Kind | None:
    return _KINDS.get(name) or _KINDS.get(f"aggregate.{name}")


def relative(class_name: str) -> str:
    """The name of a class below that of all expressions."""
    return class_name.removeprefix(EXPRESSIONS)

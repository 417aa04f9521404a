"""What an optimized plan of Spark's says, as values: one class for each kind of node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from headwater.spark.catalyst.expressions import Expression
from headwater.spark.catalyst.java import Node


@dataclass(frozen=True, slots=True)
class Scan:
    """The rows of a registered relation, which goes by a number."""

    relation: int
    output: Sequence[Expression]


@dataclass(frozen=True, slots=True)
class Constant:
    """Rows that are part of the query."""

    output: Sequence[Expression]
    node: Node


@dataclass(frozen=True, slots=True)
class OneRow:
    """A row without columns."""


@dataclass(frozen=True, slots=True)
class Project:
    columns: Sequence[Expression]
    child: Plan


@dataclass(frozen=True, slots=True)
class Filter:
    condition: Expression
    child: Plan


@dataclass(frozen=True, slots=True)
class Join:
    """`kind` is what Spark calls it. Rows match if the keys are equal and what is left of the condition holds.

    `exists` is the column that an existence join gives to rows of the left side.
    """

    kind: str
    left: Plan
    right: Plan
    left_key: Sequence[Expression]
    right_key: Sequence[Expression]
    condition: Expression | None
    exists: Expression | None


@dataclass(frozen=True, slots=True)
class AsOfJoin:
    """`kind` is what Spark calls it. Of the rows with equal keys the nearest one for which `match` holds is joined.

    `match` compares a moment of the left side with one of the right side. Only rows for which `conditions` hold count.
    """

    kind: str
    left: Plan
    right: Plan
    left_key: Sequence[Expression]
    right_key: Sequence[Expression]
    match: Expression
    conditions: Sequence[Expression]


@dataclass(frozen=True, slots=True)
class Aggregate:
    """Groups by keys. `calls` are the aggregate functions, and `results` what is computed of their results and keys.

    Both are None if Spark does not take them apart. `keys` and `named` are as they stand in the query, `grouping` has
    the keys with a name each.
    """

    keys: Sequence[Expression]
    named: Sequence[Expression]
    grouping: Sequence[Expression]
    calls: Sequence[Expression] | None
    results: Sequence[Expression]
    child: Plan
    node: Node


@dataclass(frozen=True, slots=True)
class Window:
    columns: Sequence[Expression]
    partition: Sequence[Expression]
    order: Sequence[Expression]
    child: Plan
    node: Node


@dataclass(frozen=True, slots=True)
class Union:
    output: Sequence[Expression]
    children: Sequence[Plan]


@dataclass(frozen=True, slots=True)
class Expand:
    """Every row becomes one row per list of expressions."""

    rows: Sequence[Sequence[Expression]]
    output: Sequence[Expression]
    child: Plan


@dataclass(frozen=True, slots=True)
class Generate:
    """Every row becomes as many as a generator makes of it, with the columns `made`; `outer`: at least one."""

    generator: Expression
    outer: bool
    made: Sequence[Expression]
    output: Sequence[Expression]
    child: Plan


@dataclass(frozen=True, slots=True)
class PythonFunctions:
    """Functions in Python, which Spark has taken out of their expressions."""

    functions: Sequence[Expression]
    results: Sequence[Expression]
    child: Plan


@dataclass(frozen=True, slots=True)
class Limit:
    count: int
    child: Plan


@dataclass(frozen=True, slots=True)
class Offset:
    count: int
    child: Plan


@dataclass(frozen=True, slots=True)
class LocalLimit:
    """The part of a limit that each task can do."""

    child: Plan


@dataclass(frozen=True, slots=True)
class Sort:
    order: Sequence[Expression]
    child: Plan


@dataclass(frozen=True, slots=True)
class Repartition:
    """Rows divided in another way."""

    child: Plan


@dataclass(frozen=True, slots=True)
class Renamed:
    """Rows that go by another name."""

    child: Plan


@dataclass(frozen=True, slots=True)
class Annotated:
    """Rows with something said about them that changes nothing."""

    child: Plan


@dataclass(frozen=True, slots=True)
class Unknown:
    """A node of another class, with the beginning of what Spark says about it."""

    kind: str
    text: str


Plan: TypeAlias = (
    Scan | Constant | OneRow | Project | Filter | Join | AsOfJoin | Aggregate | Window | Union | Expand | Generate
    | PythonFunctions | Limit | Offset | LocalLimit | Sort | Repartition | Renamed | Annotated | Unknown
)  # fmt: skip

"""The flow of a pipeline: producers, operators, and the edges of scalar expressions between them.

What keeps no state (projections, filters, unions, generators) is not an operator: it is a step on an edge, and Spark
runs it. A relation is what a plan's node stands for: some branches, each a producer's rows taken through some steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import pyarrow as pa
from pyspark.sql.types import DataType

from headwater.spark.catalyst import Expression, Node, identity, kind
from headwater.views.aggregate import Aggregate
from headwater.views.kernel import Kernel


@dataclass(frozen=True, slots=True)
class Filter:
    condition: Expression


@dataclass(frozen=True, slots=True)
class Project:
    """Columns computed from others; columns that are not named here can still be used after it."""

    columns: Sequence[Expression]


@dataclass(frozen=True, slots=True)
class Expand:
    """Every row becomes one row per list of expressions."""

    rows: Sequence[Sequence[Expression]]
    outputs: Sequence[Expression]


@dataclass(frozen=True, slots=True)
class Generate:
    """Every row becomes as many as a generator makes of it; `outer`: at least one."""

    generator: Expression
    outer: bool
    outputs: Sequence[Expression]


LinearStep: TypeAlias = Filter | Project | Expand | Generate


@dataclass(frozen=True, slots=True)
class Branch:
    """The rows of a producer, its columns bound to attributes (None: not used), and the steps that they take."""

    producer: int
    binding: Sequence[Expression | None]
    steps: tuple[LinearStep, ...] = ()

    def then(self, *steps: LinearStep) -> Branch:
        return replace(self, steps=self.steps + steps)

    def origins(self, columns: Sequence[Expression]) -> tuple[int, ...] | None:
        """Which columns of the producer these are, if the steps only choose and rename."""
        places = {identity(attribute): place for place, attribute in enumerate(self.binding) if attribute is not None}
        for step in self.steps:
            if not isinstance(step, Project):
                return None
            made = [column for column in step.columns if kind(column) == "Alias"]
            renamed = {
                identity(column): places[identity(column.child())]
                for column in made
                if _is_attribute(column.child()) and identity(column.child()) in places
            }
            # A union gives what is computed in one branch the number of another one's column.
            hidden = {identity(column) for column in made}
            places = {number: place for number, place in places.items() if number not in hidden} | renamed
        found = [places.get(identity(column)) if _is_attribute(column) else None for column in columns]
        return None if None in found else tuple(place for place in found if place is not None)


@dataclass(frozen=True, slots=True)
class Relation:
    """The rows of a plan's node: all rows of all branches, with these attributes as columns."""

    branches: tuple[Branch, ...]
    output: Sequence[Expression]

    def then(self, *steps: LinearStep, output: Sequence[Expression] | None = None) -> Relation:
        branches = tuple(branch.then(*steps) for branch in self.branches)
        return Relation(branches, self.output if output is None else output)


@dataclass(frozen=True, slots=True)
class Source:
    """A producer that reads records of a topic, or the rows of a constant, which come once."""

    number: int
    topic: str | None
    constant: pa.Table | None
    columns: Sequence[str]
    types: Sequence[DataType]
    sums: Aggregate | None = None
    """Adds its records up as this aggregate would have them measured."""


@dataclass(frozen=True, slots=True)
class Native:
    """A node of Spark's own that is run over all rows of the touched groups: `build(child, tag)` makes it."""

    inputs: Sequence[Expression]
    build: Any
    outputs: Sequence[Expression]
    types: Sequence[DataType]
    empty: pa.Table | None
    """What it gives for no rows at all, where that is something: an aggregate without a key."""
    rows: int
    """The producer number of the rows for the node; what it gives has the operator's own number."""
    functions: Sequence[Expression] = ()
    """What the node works out, for those who want to know."""


@dataclass(frozen=True, slots=True)
class Operator:
    """A producer with state: what its kernel makes of the rows that reach its ports."""

    number: int
    level: int
    title: str
    detail: str
    kernel: Kernel
    types: Sequence[DataType]
    native: Native | None = None
    view: str | None = None

    @property
    def name(self) -> str:
        """What its state is called."""
        return f"view/{self.view}" if self.view else str(self.number)


@dataclass(frozen=True, slots=True)
class Summing:
    """What the measures of an edge are sums of: an aggregate of the unmeasured rows, and their columns."""

    aggregate: Aggregate
    columns: Sequence[Expression]


@dataclass(frozen=True, slots=True)
class Edge:
    """What a branch's rows become for a port of an operator: its columns, and the key they are partitioned by."""

    number: int
    branch: Branch
    operator: int
    port: str
    columns: Sequence[Expression]
    key: Sequence[Expression]
    measures: Sequence[Expression] = ()
    """Whole numbers that come, times the weight, after the columns."""
    summing: Summing | None = None
    is_summed: bool = False
    """Whether the measures are sums already, and not to be multiplied by the weight."""
    shown: tuple[int, ...] | None = None
    """The producer's columns that these are, if it hands them on in its own stage."""


@dataclass(slots=True)
class Flow:
    """All producers and edges of a pipeline."""

    sources: dict[int, Source] = field(default_factory=dict)
    operators: dict[int, Operator] = field(default_factory=dict)
    edges: list[Edge] = field(default_factory=list)
    _numbers: int = 0

    def number(self) -> int:
        self._numbers += 1
        return self._numbers

    def level(self, producer: int) -> int:
        """How many stages come before its rows are there."""
        return self.operators[producer].level if producer in self.operators else 0

    @property
    def levels(self) -> int:
        return max((operator.level for operator in self.operators.values()), default=0)

    @property
    def projected(self) -> list[Edge]:
        """The edges on which Spark computes."""
        return [edge for edge in self.edges if edge.shown is None]

    def connect(
        self,
        relation: Relation,
        operator: int,
        port: str,
        columns: Sequence[Expression],
        key: Sequence[Expression],
        measures: Sequence[Expression] = (),
        summing: Summing | None = None,
    ) -> None:
        for branch in relation.branches:
            self.edges.append(Edge(len(self.edges), branch, operator, port, columns, key, measures, summing))

    def above(self, *relations: Relation) -> int:
        """The level of an operator that reads these."""
        return 1 + max(
            (self.level(branch.producer) for relation in relations for branch in relation.branches), default=0
        )


def _is_attribute(expression: Expression) -> bool:
    return kind(expression) == "AttributeReference"


def node_text(node: Node) -> str:
    """One line about a node of a plan."""
    return str(node.simpleString(100))

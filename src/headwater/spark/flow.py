"""The flow of a pipeline: producers, operators, and the edges of scalar expressions between them.

What keeps no state (projections, filters, unions, generators) is not an operator: it is a step on an edge, and Spark
runs it. A relation is what a plan's node stands for: some branches, each a producer's rows taken through some steps.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeAlias

import pyarrow as pa
from pyspark.sql.types import DataType

from headwater.engine.arrangements import arrangement_of
from headwater.engine.lateness import LateRule
from headwater.spark.catalyst import Expression, Node, Substitution, conjuncts
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
class Choice:
    """Columns of a producer that are taken as they are: their places, and the places of those that must not be null."""

    places: tuple[int, ...]
    present: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Branch:
    """The rows of a producer, its columns bound to attributes (None: not used), and the steps that they take."""

    producer: int
    binding: Sequence[Expression | None]
    steps: tuple[LinearStep, ...] = ()

    def then(self, *steps: LinearStep) -> Branch:
        return replace(self, steps=self.steps + steps)

    def choice(self, columns: Sequence[Expression]) -> Choice | None:
        """Which columns of the producer these are, if the steps only choose, rename and leave out nulls."""
        places = {attribute.identity: place for place, attribute in enumerate(self.binding) if attribute is not None}
        present: list[int | None] = []
        for step in self.steps:
            if isinstance(step, Filter):
                conditions = list(conjuncts(step.condition))
                if any(condition.kind != "IsNotNull" for condition in conditions):
                    return None
                present += [_place(condition.child, places) for condition in conditions]
            elif isinstance(step, Project):
                made = [column for column in step.columns if column.is_alias]
                renamed = {
                    column.identity: place for column in made if (place := _place(column.child, places)) is not None
                }
                # A union gives what is computed in one branch the number of another one's column.
                hidden = {column.identity for column in made}
                places = {number: place for number, place in places.items() if number not in hidden} | renamed
            else:
                return None
        found = [*(_place(column, places) for column in columns), *present]
        known = tuple(place for place in found if place is not None)
        if len(known) != len(found):
            return None
        return Choice(known[: len(columns)], tuple(dict.fromkeys(known[len(columns) :])))


@dataclass(frozen=True, slots=True)
class Relation:
    """The rows of a plan's node: all rows of all branches, with these attributes as columns."""

    branches: tuple[Branch, ...]
    output: Sequence[Expression]

    def then(self, *steps: LinearStep, output: Sequence[Expression] | None = None) -> Relation:
        branches = tuple(branch.then(*steps) for branch in self.branches)
        return Relation(branches, self.output if output is None else output)

    def known_as(self, output: Sequence[Expression], alias: Callable[[Expression, Expression], Expression]) -> Relation:
        """The same rows, with these attributes as columns. `alias` gives an expression the id of an attribute."""
        if [one.identity for one in self.output] == [other.identity for other in output]:
            return self
        if all(branch.binding is self.output and not branch.steps for branch in self.branches):
            # Nothing has been computed yet: the producer's columns can go by other ids at once.
            return Relation(tuple(replace(branch, binding=output) for branch in self.branches), output)
        renamed = [alias(old, new) for old, new in zip(self.output, output, strict=True)]
        return self.then(Project(renamed), output=output)


@dataclass(frozen=True, slots=True)
class Source:
    """A producer that reads records of a topic, or the rows of a constant, which come once.

    `late` is the rule by which late records of the topic are dropped, if there is one; `dropped`: it reads those.
    """

    number: int
    topic: str | None
    constant: pa.Table | None
    columns: Sequence[str]
    types: Sequence[DataType]
    late: LateRule | None = None
    dropped: bool = False


class Build(Protocol):
    """Makes a node of Spark's own over a plan; `now` puts the plan's columns in the place of attributes."""

    def __call__(self, below: Node, now: Substitution, tasks: int) -> Node: ...


@dataclass(frozen=True, slots=True)
class Native:
    """A node of Spark's own that is run over all rows of the touched groups.

    `rows` is the producer number of the rows for it, whose columns are `inputs`; `results` that of what it gives.
    `functions` are what it computes, for explanations.
    """

    inputs: Sequence[Expression]
    build: Build
    outputs: Sequence[Expression]
    rows: int
    results: int
    functions: Sequence[Expression] = ()


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
    layout: str = ""
    """What its state means: see `layout`. `state` is what its state is called, unless it is the content of a view."""
    state: str = ""

    @property
    def name(self) -> str:
        """What its state is called."""
        return arrangement_of(self.view) if self.view else self.state or str(self.number)


@dataclass(frozen=True, slots=True)
class Edge:
    """What a branch's rows become for a port of an operator: its columns."""

    number: int
    branch: Branch
    operator: int
    port: str
    columns: Sequence[Expression]
    choice: Choice | None = None
    """The producer's columns that these are, if nothing has to be computed: then Spark does not see the rows."""
    stays: bool = False
    """Whether the rows go to an operator of the same stage, where they are."""
    once: bool = False
    """Whether every row comes once."""


@dataclass(frozen=True, slots=True)
class Flow:
    """All producers and edges of a pipeline. `results` says whose node of Spark's a producer's rows come from."""

    sources: Mapping[int, Source] = field(default_factory=dict)
    operators: Mapping[int, Operator] = field(default_factory=dict)
    edges: tuple[Edge, ...] = ()
    results: Mapping[int, int] = field(default_factory=dict)

    def level(self, producer: int) -> int:
        """How many stages come before its rows are there."""
        operator = self.operators.get(self.results.get(producer, producer))
        return operator.level if operator else 0

    @property
    def levels(self) -> int:
        return max((operator.level for operator in self.operators.values()), default=0)

    @property
    def projected(self) -> list[Edge]:
        """The edges on which Spark computes."""
        return [edge for edge in self.edges if edge.choice is None]

    def key(self, edge: Edge) -> list[Expression]:
        """What the rows of an edge are placed by."""
        kernel = self.operators[edge.operator].kernel
        places = {name: place for place, name in enumerate(kernel.brought[edge.port].names)}
        return [edge.columns[places[name]] for name in kernel.keys[edge.port]]

    def below(self, operators: Collection[int]) -> Flow:
        """The part of the flow that some operators need."""
        needed: set[int] = set()
        left = list(operators)
        while left:
            number = self.results.get(left[-1], left[-1])
            left.pop()
            if number not in needed:
                needed.add(number)
                left += [edge.branch.producer for edge in self.edges if edge.operator == number]
        return replace(
            self,
            sources={number: one for number, one in self.sources.items() if number in needed},
            operators={number: one for number, one in self.operators.items() if number in needed},
            edges=tuple(edge for edge in self.edges if edge.operator in needed),
            results={rows: number for rows, number in self.results.items() if number in needed},
        )

    def above(self, *relations: Relation) -> int:
        """The level of an operator that reads these."""
        return 1 + max(
            (self.level(branch.producer) for relation in relations for branch in relation.branches), default=0
        )


def _place(expression: Expression, places: Mapping[int, int]) -> int | None:
    """Where a column is found, if it is one."""
    return places.get(expression.identity) if expression.is_attribute else None

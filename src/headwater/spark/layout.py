"""The layout of a program: what its operators keep, as text that is the same for the same state.

Spark may plan the same SQL in another way another time: which of two columns comes first can depend on the numbers that
it gives them. State that was kept by another layout means something else, and must not be taken for this one's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from headwater.spark.catalyst import Catalyst, Expression, Substitution, identity, kind
from headwater.spark.flow import Edge, Expand, Filter, Flow, Generate, LinearStep, Operator


def layout(catalyst: Catalyst, flow: Flow) -> list[str]:
    """A line for each operator and each edge, in which columns go by where they come from, not by Spark's numbers."""
    operators = [line for operator in flow.operators.values() for line in _operator(catalyst, operator)]
    return [*operators, *(" | ".join(_edge(catalyst, edge)) for edge in flow.edges)]


def _operator(catalyst: Catalyst, operator: Operator) -> Iterator[str]:
    yield f"{operator.number} {operator.name} {operator.kernel}"
    if operator.native is not None:
        columns = _Columns(catalyst)
        columns.add(operator.native.inputs)
        yield " | ".join(columns.text(function) for function in operator.native.functions)


def _edge(catalyst: Catalyst, edge: Edge) -> Iterator[str]:
    columns = _Columns(catalyst)
    columns.add(edge.branch.binding)
    yield f"{edge.branch.producer} -> {edge.operator} {edge.port} {edge.stays}"
    for step in edge.branch.steps:
        yield from _step(step, columns)
    yield ", ".join(columns.text(expression) for expression in edge.columns)


def _step(step: LinearStep, columns: _Columns) -> Iterator[str]:
    match step:
        case Filter():
            yield columns.text(step.condition)
        case Expand():
            yield "; ".join(", ".join(columns.text(one) for one in row) for row in step.rows)
            columns.add(step.outputs)
        case Generate():
            yield columns.text(step.generator)
            columns.add(step.outputs)
        case _:
            made = [column for column in step.columns if kind(column) == "Alias"]
            yield ", ".join(columns.text(column.child()) for column in made)
            columns.add([column.toAttribute() for column in made])


class _Columns:
    """The columns on an edge, numbered in the order in which they come to be, not as Spark has numbered them."""

    def __init__(self, catalyst: Catalyst) -> None:
        self._catalyst = catalyst
        self._values: dict[int, tuple[Expression, Expression]] = {}
        self._count = 0
        self._now: Substitution | None = None

    def add(self, attributes: Sequence[Expression | None]) -> None:
        for attribute in attributes:
            self._count += 1
            if attribute is not None:
                self._values[identity(attribute)] = (attribute, self._catalyst.numbered(attribute, self._count))
        self._now = None

    def text(self, expression: Expression) -> str:
        if self._now is None:
            self._now = self._catalyst.substitution(self._values)
        return str(self._now(expression).canonicalized().toString())

"""The layout of a program: what its operators keep, as text that is the same for the same state.

Spark may plan the same SQL in another way another time: which of two columns comes first can depend on the numbers that
it gives them. State that was kept by another layout means something else, and must not be taken for this one's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from headwater.spark.catalyst import Catalyst, Expression, unaliased
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
        yield " | ".join(columns.text(unaliased(function)) for function in operator.native.functions)


def _edge(catalyst: Catalyst, edge: Edge) -> Iterator[str]:
    columns = _Columns(catalyst)
    columns.add(edge.branch.binding)
    places = [place for place, attribute in enumerate(edge.branch.binding) if attribute is not None]
    yield f"{edge.branch.producer} {places} -> {edge.operator} {edge.port} {edge.stays}"
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
            made = [column for column in step.columns if column.is_alias]
            yield ", ".join(columns.text(column.child) for column in made)
            columns.add([column.attribute for column in made])


class _Columns:
    """The columns on an edge, by their place in the order in which they come to be."""

    def __init__(self, catalyst: Catalyst) -> None:
        self._catalyst = catalyst
        self._attributes: dict[int, Expression] = {}
        self._bound: Callable[[Expression], str] | None = None

    def add(self, attributes: Sequence[Expression | None]) -> None:
        for attribute in attributes:
            if attribute is not None:
                # A later column may have the id of an earlier one, and hides it.
                self._attributes.pop(attribute.identity, None)
                self._attributes[attribute.identity] = attribute
        self._bound = None

    def text(self, expression: Expression) -> str:
        if self._bound is None:
            self._bound = self._catalyst.bound(self._attributes.values())
        return self._bound(expression)

"""The layout of a program: what its operators keep, as text that is the same for the same state.

Spark may plan the same SQL in another way another time: which of two columns comes first can depend on the numbers that
it gives them. State that was kept by another layout means something else, and must not be taken for this one's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from headwater.spark.catalyst import Expression, identity, kind
from headwater.spark.flow import Edge, Expand, Filter, Flow, Generate, LinearStep, Operator

_NUMBER = re.compile(r"#(\d+)")


def layout(flow: Flow) -> list[str]:
    """A line for each operator and each edge, in which columns go by where they come from, not by Spark's numbers."""
    operators = [line for operator in flow.operators.values() for line in _operator(operator)]
    return [*operators, *(" | ".join(_edge(edge)) for edge in flow.edges)]


def _operator(operator: Operator) -> Iterator[str]:
    yield f"{operator.number} {operator.name} {operator.kernel}"
    if operator.native is not None:
        columns = _Columns()
        columns.add("in", operator.native.inputs)
        yield " | ".join(columns.text(function) for function in operator.native.functions)


def _edge(edge: Edge) -> Iterator[str]:
    columns = _Columns()
    columns.add("from", edge.branch.binding)
    yield f"{edge.branch.producer} -> {edge.operator} {edge.port} {edge.stays}"
    for number, step in enumerate(edge.branch.steps):
        yield from _step(step, number, columns)
    yield ", ".join(columns.text(expression) for expression in edge.columns)


def _step(step: LinearStep, number: int, columns: _Columns) -> Iterator[str]:
    match step:
        case Filter():
            yield columns.text(step.condition)
        case Expand():
            yield "; ".join(", ".join(columns.text(one) for one in row) for row in step.rows)
            columns.add(f"step{number}", step.outputs)
        case Generate():
            yield columns.text(step.generator)
            columns.add(f"step{number}", step.outputs)
        case _:
            made = [column for column in step.columns if kind(column) == "Alias"]
            yield ", ".join(columns.text(column.child()) for column in made)
            columns.add(f"step{number}", made)


class _Columns:
    """Where the columns on an edge come from, by the numbers that Spark has given them."""

    def __init__(self) -> None:
        self._origins: dict[int, str] = {}

    def add(self, origin: str, attributes: Sequence[Expression | None]) -> None:
        for place, attribute in enumerate(attributes):
            if attribute is not None:
                self._origins[identity(attribute)] = f"{origin}.{place}"

    def text(self, expression: Expression) -> str:
        return _NUMBER.sub(lambda found: f"#{self._origins.get(int(found[1]), '')}", str(expression.toString()))

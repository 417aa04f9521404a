"""Building a flow: sources, operators with the columns of their ports, and the edges that lead to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import DataType

from headwater.engine.lateness import LateRule
from headwater.spark.catalyst import Catalyst, Expression
from headwater.spark.flow import Edge, Flow, Native, Operator, Relation, Source
from headwater.spark.vocabulary import check_type
from headwater.views.kernel import Kernel


@dataclass(frozen=True, slots=True)
class Input:
    """One port of an operator: which rows reach it, as which columns."""

    relation: Relation
    columns: Sequence[Expression]


class FlowBuilder:
    """A flow in the making."""

    def __init__(self, catalyst: Catalyst) -> None:
        self.catalyst = catalyst
        self.flow = Flow()
        self._numbers = 0

    def number(self) -> int:
        """A number for a producer."""
        self._numbers += 1
        return self._numbers

    def add_source(
        self,
        topic: str | None,
        constant: pa.Table | None,
        columns: Sequence[str],
        types: Sequence[DataType],
        *,
        late: LateRule | None = None,
        dropped: bool = False,
    ) -> Source:
        source = Source(self.number(), topic, constant, columns, types, late, dropped)
        self.flow = replace(self.flow, sources={**self.flow.sources, source.number: source})
        return source

    def add(
        self,
        title: str,
        detail: str,
        kernel: Kernel,
        inputs: Mapping[str, Input],
        types: Sequence[DataType],
        *,
        native: Native | None = None,
        view: str | None = None,
    ) -> Operator:
        """An operator, and the edges that lead to it."""
        flow, number = self.flow, self.number()
        level = flow.above(*(given.relation for given in inputs.values()))
        operator = Operator(number, level, title, detail, kernel, types, native, view)
        branches = [(port, given, branch) for port, given in inputs.items() for branch in given.relation.branches]
        edges = [
            Edge(place, branch, number, port, given.columns)
            for place, (port, given, branch) in enumerate(branches, start=len(flow.edges))
        ]
        results = {native.results: number} if native else {}
        self.flow = replace(
            flow,
            operators={**flow.operators, number: operator},
            edges=(*flow.edges, *edges),
            results={**flow.results, **results},
        )
        return operator


def port_schema(prefix: str, columns: Sequence[Expression]) -> pa.Schema:
    """The columns of a port, by number."""
    return pa.schema([(f"{prefix}{number}", arrow_type(column.type)) for number, column in enumerate(columns)])


def arrow_type(given: DataType) -> pa.DataType:
    """The Arrow type of a column. Raises `UnsupportedQuery` if it has none that means the same."""
    check_type(given)
    return to_arrow_type(given, timezone="UTC")

"""Building operators: the columns of their ports, their place in the flow, and the edges that lead to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import DataType

from headwater.spark.catalyst import Catalyst, Expression, data_type
from headwater.spark.flow import Flow, Native, Operator, Relation
from headwater.spark.vocabulary import check_type
from headwater.views.kernel import Kernel


@dataclass(frozen=True, slots=True)
class Input:
    """One port of an operator: which rows reach it, as which columns."""

    relation: Relation
    columns: Sequence[Expression]


class Operators:
    """The operators of a flow in the making."""

    def __init__(self, catalyst: Catalyst) -> None:
        self.catalyst = catalyst
        self.flow = Flow()

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
        number = self.flow.number()
        level = self.flow.above(*(given.relation for given in inputs.values()))
        operator = Operator(number, level, title, detail, kernel, types, native, view)
        self.flow.operators[number] = operator
        for port, given in inputs.items():
            self.flow.connect(given.relation, number, port, given.columns)
        return operator


def port_schema(prefix: str, columns: Sequence[Expression]) -> pa.Schema:
    """The columns of a port, by number."""
    return pa.schema([(f"{prefix}{number}", arrow_type(data_type(column))) for number, column in enumerate(columns)])


def arrow_type(given: DataType) -> pa.DataType:
    """The Arrow type of a column. Raises `UnsupportedQuery` if it has none that means the same."""
    check_type(given)
    return to_arrow_type(given, timezone="UTC")

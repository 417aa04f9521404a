"""The layout of each operator: what its state means, as text that is the same for the same state.

The state of an operator follows from what is computed below it, down to the topics, and from the position. So an
operator of another program that has the same layout can take the state over. Spark may plan the same SQL in another way
another time: which of two columns comes first can depend on the numbers that it gives them. State that was kept by
another layout means something else, and must not be taken for this one's.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import pyarrow as pa

from headwater.engine.functions import Function
from headwater.spark.catalyst import Catalyst, Expression, unaliased
from headwater.spark.flow import Edge, Expand, Filter, Flow, Generate, LinearStep, Operator, Source
from headwater.spark.pruning import expressions_of

_DIGITS = 24
_VARYING = re.compile(r'"(exprId|resultId|jvmId)":(\{[^{}]*\}|[^,{}\]]*)')
"""What an expression as JSON has that is another number whenever it is planned."""


def laid_out(catalyst: Catalyst, flow: Flow, functions: Sequence[Function], version: int) -> Flow:
    """The flow with the layout of each operator, and the name of its state.

    `version` is that of the planner: what another one has kept is never taken over.
    """
    layouts = _Layouts(catalyst, flow, functions, version)
    seen: Counter[str] = Counter()
    operators: dict[int, Operator] = {}
    for number, operator in flow.operators.items():
        layout = layouts.of(operator)
        seen[layout] += 1
        # Views may compute the same, and each keeps it for itself.
        state = layout if seen[layout] == 1 else f"{layout}.{seen[layout]}"
        operators[number] = replace(operator, layout=layout, state=state)
    return replace(flow, operators=operators)


class _Layouts:
    """The layouts of a flow's operators."""

    def __init__(self, catalyst: Catalyst, flow: Flow, functions: Sequence[Function], version: int) -> None:
        self._catalyst, self._flow, self._version = catalyst, flow, version
        self._functions = {function.name.lower(): function.fingerprint for function in functions}
        self._meanings: dict[int, str] = {}
        self._edges: dict[int, list[Edge]] = {}
        for edge in flow.edges:
            self._edges.setdefault(edge.operator, []).append(edge)

    def of(self, operator: Operator) -> str:
        """What the state of an operator means, and in which columns it is kept."""
        return _digest(self._meaning(operator.number), repr(operator.kernel))

    def _meaning(self, producer: int) -> str:
        """What the rows of a producer mean, whichever of its columns are used."""
        if producer not in self._meanings:
            self._meanings[producer] = _digest(*self._described(producer))
        return self._meanings[producer]

    def _described(self, producer: int) -> Iterator[str]:
        if producer in self._flow.sources:
            yield from _source(self._flow.sources[producer])
            return
        if producer in self._flow.results:
            yield from ("results", self._meaning(self._flow.results[producer]))
            return
        operator = self._flow.operators[producer]
        edges = self._edges[producer]
        yield from (str(self._version), type(operator.kernel).__name__)
        if self._reads_records(edges):
            # Which columns of a topic are kept depends on what all views use, and changes nothing about each of them.
            yield from (self._meaning(edges[0].branch.producer), *map(str, operator.kernel.keys["records"]))
            return
        yield repr(operator.kernel)
        if operator.native is not None:
            columns = _Columns(self._catalyst)
            columns.add(operator.native.inputs)
            yield from self._with_functions(columns.text(unaliased(one)) for one in operator.native.functions)
        for edge in edges:
            yield from self._with_functions(self._edge(edge))

    def _reads_records(self, edges: Sequence[Edge]) -> bool:
        return [edge.port for edge in edges] == ["records"] and edges[0].branch.producer in self._flow.sources

    def _edge(self, edge: Edge) -> Iterator[str]:
        branch = edge.branch
        used = {identity for expression in expressions_of(edge) for identity in expression.references}
        places = [
            place
            for place, attribute in enumerate(branch.binding)
            if attribute is not None and attribute.identity in used
        ]
        columns = _Columns(self._catalyst)
        columns.add([branch.binding[place] for place in places])
        yield f"{self._meaning(branch.producer)} -> {edge.port} {edge.stays} {edge.once}"
        yield from (self._column(branch.producer, place) for place in places)
        for step in branch.steps:
            yield from _step(step, columns)
        yield from (columns.text(expression) for expression in edge.columns)

    def _column(self, producer: int, place: int) -> str:
        """A column of a producer, by what it is called there."""
        if producer in self._flow.sources:
            source = self._flow.sources[producer]
            return f"{source.columns[place]} {source.types[place].json()}"
        operator = self._flow.operators.get(producer)
        if operator is None or not self._reads_records(self._edges[producer]):
            return str(place)
        return str(operator.kernel.output.field(place))

    def _with_functions(self, texts: Iterable[str]) -> Iterator[str]:
        """The texts, and the fingerprints of the functions in Python that they name."""
        for text in texts:
            yield text
            folded = text.lower()
            yield from (fingerprint for name, fingerprint in self._functions.items() if name in folded)


def _source(source: Source) -> Iterator[str]:
    yield from ("topic", str(source.topic))
    if source.late is not None:
        yield f"{'late' if source.dropped else 'on time'} by {source.late.to_json()}"
    if source.constant is not None:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, source.constant.schema) as writer:
            writer.write_table(source.constant.combine_chunks())
        yield hashlib.sha256(sink.getvalue()).hexdigest()


def _step(step: LinearStep, columns: _Columns) -> Iterator[str]:
    match step:
        case Filter():
            yield columns.text(step.condition)
        case Expand():
            yield "; ".join(", ".join(columns.text(one) for one in row) for row in step.rows)
            columns.add(step.outputs)
        case Generate():
            yield f"outer {step.outer} {columns.text(step.generator)}"
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

    def add(self, attributes: Sequence[Expression | None]) -> None:
        for attribute in attributes:
            if attribute is not None:
                # A later column may have the id of an earlier one, and hides it.
                self._attributes.pop(attribute.identity, None)
                self._attributes[attribute.identity] = attribute
        self.__dict__.pop("_bound", None)

    def text(self, expression: Expression) -> str:
        """What an expression computes, with everything that is in it: its name for people leaves out quotes."""
        return "\n".join(_VARYING.sub(r'"\1":0', one) for one in self._bound(expression))

    @cached_property
    def _bound(self) -> Callable[[Expression], Sequence[str]]:
        return self._catalyst.bound(self._attributes.values())


def _digest(*parts: str) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:_DIGITS]


def layouts_of(flow: Flow) -> Mapping[str, str]:
    """The layout of each operator's state, by its name."""
    return {operator.name: operator.layout for operator in flow.operators.values()}

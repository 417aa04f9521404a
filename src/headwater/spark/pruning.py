"""Pruning: columns that no view uses are not read and not kept, and rows take the shortest way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from headwater.spark.catalyst import Expression, identity, items
from headwater.spark.flow import Branch, Edge, Expand, Filter, Flow, Generate, LinearStep
from headwater.views.upsert import Upsert


def prune(flow: Flow) -> None:
    """Narrows the tables and the sources of a flow to the columns that are used."""
    for number, operator in list(flow.operators.items()):
        kernel = operator.kernel
        if isinstance(kernel, Upsert):
            used = _used(flow, number)
            names = kernel.schema.names
            kept = [index for index, name in enumerate(names) if index in used or name in kernel.key]
            _narrow_outputs(flow, number, kept)
            schema = pa.schema([kernel.schema.field(index) for index in kept])
            flow.operators[number] = replace(
                operator, kernel=Upsert(schema, kernel.key), types=[operator.types[index] for index in kept]
            )
            ports = [*kept, *range(len(names), len(names) + 3)]
            flow.edges = [
                replace(edge, columns=[edge.columns[index] for index in ports]) if edge.operator == number else edge
                for edge in flow.edges
            ]
    for number, source in list(flow.sources.items()):
        used = _used(flow, number)
        kept = [index for index in range(len(source.columns)) if index in used]
        _narrow_outputs(flow, number, kept)
        flow.sources[number] = replace(
            source,
            constant=None if source.constant is None else _narrowed(source.constant, kept),
            columns=[source.columns[index] for index in kept],
            types=[source.types[index] for index in kept],
        )


def _narrowed(constant: pa.Table, kept: Sequence[int]) -> pa.Table:
    """The constant with these columns. A table without any would arrive at the tasks without rows."""
    if not kept:
        return pa.table({"_": pa.nulls(constant.num_rows, pa.bool_())})
    return constant.select(kept)


def _used(flow: Flow, producer: int) -> set[int]:
    """Which of a producer's columns some edge uses."""
    used: set[int] = set()
    for edge in flow.edges:
        if edge.branch.producer == producer:
            wanted = _references(edge)
            used |= {
                index
                for index, attribute in enumerate(edge.branch.binding)
                if attribute is not None and identity(attribute) in wanted
            }
    return used


def choose(flow: Flow) -> None:
    """Finds the edges on which nothing is computed. What Spark's own nodes give, Spark has in its hands anyway."""
    for place, edge in enumerate(flow.edges):
        if edge.branch.producer not in flow.results:
            flow.edges[place] = replace(edge, choice=edge.branch.choice(edge.columns))


def _narrow_outputs(flow: Flow, producer: int, kept: Sequence[int]) -> None:
    def narrowed(branch: Branch) -> Branch:
        if branch.producer != producer:
            return branch
        return replace(branch, binding=[branch.binding[index] for index in kept])

    flow.edges = [replace(edge, branch=narrowed(edge.branch)) for edge in flow.edges]


def _references(edge: Edge) -> set[int]:
    """The ids of all attributes that an edge's expressions name."""
    found: set[int] = set()
    for expression in expressions_of(edge):
        found |= {identity(attribute) for attribute in items(expression.references().toSeq())}
    return found


def expressions_of(edge: Edge) -> Iterator[Expression]:
    """All expressions of an edge."""
    yield from edge.columns
    for step in edge.branch.steps:
        yield from _parts(step)


def _parts(step: LinearStep) -> Iterator[Expression]:
    if isinstance(step, Filter):
        yield step.condition
    elif isinstance(step, Expand):
        for row in step.rows:
            yield from row
    elif isinstance(step, Generate):
        yield step.generator
    else:
        yield from step.columns

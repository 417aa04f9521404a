"""Pruning: columns that no view uses are not read and not kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from headwater.spark.catalyst import Expression
from headwater.spark.flow import Branch, Edge, Expand, Filter, Flow, Generate, LinearStep, Operator, Project, Source


def prune_projections(flow: Flow) -> Flow:
    """Drops columns of projections that nothing after them uses, so that what they are made of need not be there."""
    return replace(flow, edges=tuple(_with_used_projections(edge) for edge in flow.edges))


def prune_operators(flow: Flow) -> Flow:
    """Narrows kernels to the columns that are used, as far as they can be narrowed."""
    for operator in flow.operators.values():
        flow = _narrowed_operator(flow, operator)
    return flow


def prune_sources(flow: Flow) -> Flow:
    """Narrows sources to the columns that are used."""
    for source in flow.sources.values():
        flow = _narrowed_source(flow, source)
    return flow


def expressions_of(edge: Edge) -> Iterator[Expression]:
    """All expressions of an edge."""
    yield from edge.columns
    for step in edge.branch.steps:
        yield from _parts(step)


def _with_used_projections(edge: Edge) -> Edge:
    used = {identity for column in edge.columns for identity in column.references}
    steps: list[LinearStep] = []
    for step in reversed(edge.branch.steps):
        kept = step
        if isinstance(step, Project):
            kept = Project([column for column in step.columns if column.identity in used])
        used.update(identity for part in _parts(kept) for identity in part.references)
        steps.append(kept)
    return replace(edge, branch=replace(edge.branch, steps=tuple(reversed(steps))))


def _narrowed_operator(flow: Flow, operator: Operator) -> Flow:
    narrowing = operator.kernel.narrowing
    if narrowing is None:
        return flow
    narrowed = narrowing.narrowed(_used(flow, operator.number))
    types = [operator.types[place] for place in narrowed.output]
    edges = [
        replace(edge, columns=[edge.columns[place] for place in narrowed.ports[edge.port]])
        if edge.operator == operator.number
        else edge
        for edge in _with_outputs(flow, operator.number, narrowed.output)
    ]
    made = replace(operator, kernel=narrowed.kernel, types=types)
    return replace(flow, operators={**flow.operators, operator.number: made}, edges=tuple(edges))


def _narrowed_source(flow: Flow, source: Source) -> Flow:
    used = _used(flow, source.number)
    kept = [place for place in range(len(source.columns)) if place in used]
    made = replace(
        source,
        constant=None if source.constant is None else _narrowed_constant(source.constant, kept),
        columns=[source.columns[place] for place in kept],
        types=[source.types[place] for place in kept],
    )
    edges = _with_outputs(flow, source.number, kept)
    return replace(flow, sources={**flow.sources, source.number: made}, edges=tuple(edges))


def _narrowed_constant(constant: pa.Table, kept: Sequence[int]) -> pa.Table:
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
                place
                for place, attribute in enumerate(edge.branch.binding)
                if attribute is not None and attribute.identity in wanted
            }
    return used


def _with_outputs(flow: Flow, producer: int, kept: Sequence[int]) -> list[Edge]:
    """The edges of a flow in which a producer has these columns left."""

    def narrowed(branch: Branch) -> Branch:
        if branch.producer != producer:
            return branch
        return replace(branch, binding=[branch.binding[place] for place in kept])

    return [replace(edge, branch=narrowed(edge.branch)) for edge in flow.edges]


def _references(edge: Edge) -> set[int]:
    """The ids of all attributes that an edge's expressions name."""
    found: set[int] = set()
    for expression in expressions_of(edge):
        found |= expression.references
    return found


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

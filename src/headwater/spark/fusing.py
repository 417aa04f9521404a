"""Fusing: a view that shows an operator's rows as they are is published by that operator's own stage."""

from __future__ import annotations

from dataclasses import replace

from headwater.spark.catalyst import identity, kind
from headwater.spark.flow import Edge, Flow, Operator, Project


def fuse(flow: Flow) -> None:
    """Lets views share the stage of the operator that they show, where nothing has to be computed in between."""
    for place, edge in enumerate(flow.edges):
        view, producer = flow.operators[edge.operator], flow.operators.get(edge.branch.producer)
        alone = sum(other.operator == edge.operator for other in flow.edges) == 1
        if view.view is None or producer is None or producer.native is not None or not alone:
            continue
        shown = _shown(edge)
        if shown is not None and _places_rows(producer, shown):
            flow.edges[place] = replace(edge, shown=shown)
            flow.operators[edge.operator] = replace(view, level=producer.level)


def _shown(edge: Edge) -> tuple[int, ...] | None:
    """The producer's columns that an edge hands on, if it only chooses and renames."""
    places = {
        identity(attribute): place for place, attribute in enumerate(edge.branch.binding) if attribute is not None
    }
    for step in edge.branch.steps:
        if not isinstance(step, Project):
            return None
        named = [(column, column.child()) for column in step.columns if kind(column) == "Alias"]
        chosen = {identity(column): places.get(identity(child)) for column, child in named if _is_attribute(child)}
        places |= {made: place for made, place in chosen.items() if place is not None}
    found = [places.get(identity(column)) for column in edge.columns]
    return None if None in found else tuple(place for place in found if place is not None)


def _is_attribute(expression: object) -> bool:
    return kind(expression) == "AttributeReference"


def _places_rows(producer: Operator, shown: tuple[int, ...]) -> bool:
    """Whether a row's hash follows from the columns that are shown, so that equal rows are kept in one place."""
    hashed_by = producer.kernel.hashed_by
    return hashed_by is not None and {producer.kernel.output.names.index(name) for name in hashed_by} <= set(shown)

"""Fusing: a view that shows an operator's rows as they are is published by that operator's own stage."""

from __future__ import annotations

from dataclasses import replace

from headwater.spark.flow import Flow, Operator


def fuse(flow: Flow) -> None:
    """Lets views share the stage of the operator that they show, where nothing has to be computed in between."""
    for place, edge in enumerate(flow.edges):
        view, producer = flow.operators[edge.operator], flow.operators.get(edge.branch.producer)
        alone = sum(other.operator == edge.operator for other in flow.edges) == 1
        if view.view is None or producer is None or not alone:
            continue
        choice = edge.choice
        if choice is not None and not choice.present and _places_rows(producer, choice.places):
            whole = len(set(choice.places)) == len(producer.kernel.output) and producer.kernel.consolidated
            flow.edges[place] = replace(edge, stays=True, once=whole)
            flow.operators[edge.operator] = replace(view, level=producer.level)


def _places_rows(producer: Operator, shown: tuple[int, ...]) -> bool:
    """Whether a row's hash follows from the columns that are shown, so that equal rows are kept in one place."""
    hashed_by = producer.kernel.hashed_by
    return hashed_by is not None and {producer.kernel.output.names.index(name) for name in hashed_by} <= set(shown)

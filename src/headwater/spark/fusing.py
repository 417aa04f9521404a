"""Fusing: a view that shows an operator's rows as they are is published by that operator's own stage."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from headwater.spark.flow import Flow, Operator


def fuse(flow: Flow) -> Flow:
    """Lets views share the stage of the operator that they show, where nothing has to be computed in between."""
    operators, edges = dict(flow.operators), list(flow.edges)
    inputs = Counter(edge.operator for edge in flow.edges)
    for place, edge in enumerate(flow.edges):
        view, producer, choice = operators[edge.operator], operators.get(edge.branch.producer), edge.choice
        if view.view is None or producer is None or choice is None or inputs[view.number] > 1:
            continue
        if not choice.present and _places_rows(producer, choice.places):
            whole = len(set(choice.places)) == len(producer.kernel.output) and producer.kernel.consolidated
            edges[place] = replace(edge, stays=True, once=whole)
            operators[view.number] = replace(view, level=producer.level)
    return replace(flow, operators=operators, edges=tuple(edges))


def _places_rows(producer: Operator, shown: tuple[int, ...]) -> bool:
    """Whether a row's hash follows from the columns that are shown, so that equal rows are kept in one place."""
    hashed_by = producer.kernel.hashed_by
    return hashed_by is not None and {producer.kernel.output.names.index(name) for name in hashed_by} <= set(shown)

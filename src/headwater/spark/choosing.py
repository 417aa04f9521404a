"""Choosing: edges on which nothing is computed are told from the others, so that their rows need not go to Spark."""

from __future__ import annotations

from dataclasses import replace

from headwater.spark.flow import Edge, Flow


def choose(flow: Flow) -> Flow:
    """Finds the edges on which nothing is computed. What Spark's own nodes give, Spark has in its hands anyway."""

    def chosen(edge: Edge) -> Edge:
        if edge.branch.producer in flow.results:
            return edge
        return replace(edge, choice=edge.branch.choice(edge.columns))

    return replace(flow, edges=tuple(map(chosen, flow.edges)))

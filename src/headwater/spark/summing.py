"""Summing at the source: a stream's records are added up where they are read, for aggregates of plain columns."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql.types import LongType, StructField, StructType

from headwater.spark.catalyst import Catalyst, analyzed, items
from headwater.spark.flow import Branch, Edge, Flow, Source
from headwater.views.identity import holds_floats


def sum_at_sources(catalyst: Catalyst, flow: Flow) -> None:
    """Gives each such aggregate a source of its own; a source that nobody reads any more goes."""
    for place, edge in enumerate(flow.edges):
        made = _source(flow, edge)
        if made is not None:
            flow.sources[made.number] = made
            flow.edges[place] = _summed(catalyst, edge, made)
    read = {edge.branch.producer for edge in flow.edges}
    flow.sources = {number: source for number, source in flow.sources.items() if number in read}


def _source(flow: Flow, edge: Edge) -> Source | None:
    source = flow.sources.get(edge.branch.producer)
    if source is None or source.topic is None or edge.summing is None:
        return None
    origins = edge.branch.origins(edge.summing.columns)
    aggregate = edge.summing.aggregate
    # Without a column a table does not know how many rows it has; keys with floating-point numbers are brought into
    # one form by Spark.
    if not origins or any(holds_floats(aggregate.schema.field(name).type) for name in aggregate.key):
        return None
    types = [source.types[place] for place in origins[: len(aggregate.key)]]
    columns = [source.columns[place] for place in origins]
    return Source(flow.number(), source.topic, None, columns, [*types, *(LongType() for _ in edge.measures)], aggregate)


def _summed(catalyst: Catalyst, edge: Edge, source: Source) -> Edge:
    schema = StructType([StructField(f"m{number}", LongType()) for number in range(len(edge.measures))])
    measures = items(analyzed(catalyst.session.createDataFrame([], schema)).output()) if edge.measures else []
    branch = Branch(source.number, [*edge.columns, *measures])
    return replace(edge, branch=branch, measures=measures, is_summed=True)

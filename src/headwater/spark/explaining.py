"""Explains a program: what its flow looks like to those who wrote the views."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headwater.engine.explanation import Explanation, Input, Operator, Origin
from headwater.log.topic import History, Topic
from headwater.spark import flow
from headwater.spark.catalyst import Expression
from headwater.spark.wording import condition, label, short
from headwater.views.kernel import Work

HISTORY_SHOWN: Mapping[History, str] = {
    "all": "",
    "archive": "",
    "newest": "",
    "forget": "forgets what retention deletes",
    "keep": "keeps what it made of records that retention deletes; verified from a base",
}
"""What views see of a topic's past, where that is not everything that a query sees."""


def explain(given: flow.Flow, topics: Mapping[str, Topic]) -> Explanation:
    """The operators of all views, without the size of their state."""
    operators = {number: _operator(given, one) for number, one in given.operators.items()}
    views = {one.view: number for number, one in given.operators.items() if one.view is not None}
    origins = {number: _origin(source, topics) for number, source in given.sources.items()}
    return Explanation(views, origins, operators)


def _origin(source: flow.Source, topics: Mapping[str, Topic]) -> Origin:
    if source.topic is not None:
        if source.dropped:
            return Origin(source.number, f"late records of topic {source.topic}")
        notes = [HISTORY_SHOWN[topics[source.topic].history], "without late records" if source.late else ""]
        shown = ", ".join(note for note in notes if note)
        return Origin(source.number, f"topic {source.topic}{f' ({shown})' if shown else ''}")
    rows = 0 if source.constant is None else source.constant.num_rows
    return Origin(source.number, f"{rows} constant {'row' if rows == 1 else 'rows'}")


def _operator(given: flow.Flow, operator: flow.Operator) -> Operator:
    edges = [edge for edge in given.edges if edge.operator == operator.number]
    work = _work(operator, edges)
    return Operator(
        number=operator.number,
        level=operator.level,
        label=label(operator),
        # Which groups have new results comes from the same operator as the results.
        inputs=[_input(given, edge) for edge in edges if edge.port != "groups"],
        linear=list(work.added_up),
        recomputed=list(work.recomputed),
        view=operator.view,
        state=None,
        name=operator.name,
        layout=operator.layout,
    )


def _input(given: flow.Flow, edge: flow.Edge) -> Input:
    key = given.key(edge)
    steps = [text for step in edge.branch.steps for text in _step(step, key)]
    producer = given.results.get(edge.branch.producer, edge.branch.producer)
    return Input(edge.port, producer, steps[::-1], [short(column) for column in key])


def _step(step: flow.LinearStep, key: Sequence[Expression]) -> list[str]:
    """A step on an edge; none for one that only renames or drops columns."""
    match step:
        case flow.Filter():
            text = condition(step.condition, key)
            return [f"where {text}"] if text else []
        case flow.Project():
            computed = [short(column) for column in step.columns if _computes(column)]
            return [f"computes {', '.join(computed)}"] if computed else []
        case flow.Generate():
            return [f"{'outer ' if step.outer else ''}rows of {short(step.generator)}"]
        case flow.Expand():
            return [f"each row {len(step.rows)} times, for grouping sets"]


def _computes(column: Expression) -> bool:
    if not column.is_alias:
        return not column.is_attribute
    return not column.child.is_attribute and not column.child.is_literal


def _work(operator: flow.Operator, edges: Sequence[flow.Edge]) -> Work:
    kernel = operator.kernel
    if operator.native is not None:
        return Work(recomputed=[short(function) for function in operator.native.functions if _computes(function)])
    columns = dict(zip(kernel.brought[edges[0].port].names, edges[0].columns, strict=True))
    return kernel.work(lambda name: short(columns[name]))

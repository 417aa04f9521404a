"""Plans as JSON, made by hand."""

from __future__ import annotations

import json
from typing import Any

EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions."
PLANS = "org.apache.spark.sql.catalyst.plans.logical."

Nodes = list[dict[str, Any]]


def expression(name: str, /, *children: Nodes, **fields: Any) -> Nodes:
    """An expression as the list of its nodes."""
    return _nodes(EXPRESSIONS + name, children, fields)


def node(name: str, /, *children: Nodes, **fields: Any) -> Nodes:
    """A plan node with its expressions as fields."""
    return _nodes(PLANS + name, children, fields)


def column(name: str = "x", data_type: str = "string") -> Nodes:
    return expression("AttributeReference", name=name, dataType=data_type)


def literal(value: str, data_type: str = "string") -> Nodes:
    return expression("Literal", value=value, dataType=data_type)


def aggregate(name: str, /, *children: Nodes, **fields: Any) -> Nodes:
    """An aggregate function in the expression that makes it one."""
    function = expression(name, *(children or (column(),)), **fields)
    return expression("aggregate.AggregateExpression", function, aggregateFunction=0)


def over_window(function: Nodes) -> Nodes:
    return expression("WindowExpression", function, expression("WindowSpecDefinition"), windowFunction=0, windowSpec=1)


def select(*expressions: Nodes) -> str:
    """The JSON of a plan that projects expressions."""
    return json.dumps(node("Project", node("OneRowRelation"), projectList=list(expressions), child=0))


def _nodes(class_name: str, children: tuple[Nodes, ...], fields: dict[str, Any]) -> Nodes:
    return [
        {"class": class_name, "num-children": len(children), **fields},
        *(one for child in children for one in child),
    ]

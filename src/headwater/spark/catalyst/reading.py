"""The reader: an optimized plan of Spark's as values."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from headwater.spark.catalyst.expressions import Expression, conjuncts, expressions
from headwater.spark.catalyst.java import Java, Node, items, kind, option
from headwater.spark.catalyst.plans import (
    Aggregate,
    Annotated,
    AsOfJoin,
    Constant,
    Expand,
    Filter,
    Generate,
    Join,
    Limit,
    LocalLimit,
    Offset,
    OneRow,
    Plan,
    Project,
    PythonFunctions,
    Renamed,
    Repartition,
    Scan,
    Sort,
    Union,
    Unknown,
    Window,
)
from headwater.spark.catalyst.session import Catalyst

_TEXT_LENGTH = 100


def read(catalyst: Catalyst, plan: Node) -> Plan:
    """What an optimized plan says."""
    return _read(catalyst, plan.java)


def read_subquery(catalyst: Catalyst, subquery: Expression) -> Plan:
    """What the plan of a subquery inside an expression says."""
    return _read(catalyst, subquery.java.plan())


def _read(catalyst: Catalyst, node: Java) -> Plan:
    name = kind(node)
    if name in _LEAVES:
        return _LEAVES[name](node)
    if name in _OVER_ONE:
        return _OVER_ONE[name](node, _read(catalyst, node.child()))
    if name == "Join":
        return _join(catalyst, node)
    if name == "AsOfJoin":
        return _as_of_join(catalyst, node)
    if name == "Aggregate":
        return _aggregate(catalyst, node)
    if name == "Union":
        return Union(expressions(node.output()), [_read(catalyst, child) for child in items(node.children())])
    return Unknown(name, str(node.simpleString(_TEXT_LENGTH)))


def _join(catalyst: Catalyst, node: Java) -> Join:
    how = node.joinType()
    name = kind(how)
    found = catalyst.unapply("ExtractEquiJoinKeys", node)
    left_key, right_key = (expressions(found[1]), expressions(found[2])) if found else ([], [])
    condition = option(found[3] if found else node.condition())
    return Join(
        name,
        _read(catalyst, node.left()),
        _read(catalyst, node.right()),
        left_key,
        right_key,
        None if condition is None else Expression(condition),
        Expression(how.exists()) if name == "ExistenceJoin" else None,
    )


def _as_of_join(catalyst: Catalyst, node: Java) -> AsOfJoin:
    left_key, right_key, conditions = equal_keys(catalyst, node)
    return AsOfJoin(
        kind(node.joinType()),
        _read(catalyst, node.left()),
        _read(catalyst, node.right()),
        left_key,
        right_key,
        Expression(node.asOfCondition()),
        conditions,
    )


def equal_keys(catalyst: Catalyst, node: Java) -> tuple[list[Expression], list[Expression], list[Expression]]:
    """The keys of both sides that the condition of an as-of join compares, and the other conditions in it."""
    found = catalyst.unapply("ExtractEquiJoinKeys", catalyst.join_like(node))
    rest = option(found[3] if found else node.condition())
    left_key, right_key = (expressions(found[1]), expressions(found[2])) if found else ([], [])
    return left_key, right_key, [] if rest is None else list(conjuncts(Expression(rest)))


def _aggregate(catalyst: Catalyst, node: Java) -> Aggregate:
    found = catalyst.unapply("PhysicalAggregation", node)
    return Aggregate(
        expressions(node.groupingExpressions()),
        expressions(node.aggregateExpressions()),
        expressions(found[0]) if found else [],
        expressions(found[1]) if found else None,
        expressions(found[2]) if found else [],
        _read(catalyst, node.child()),
        Node(node),
    )


def _constant(node: Java) -> Constant:
    return Constant(expressions(node.output()), Node(node))


def _window(node: Java, child: Plan) -> Window:
    columns, partition = expressions(node.windowExpressions()), expressions(node.partitionSpec())
    return Window(columns, partition, expressions(node.orderSpec()), child, Node(node))


def _expand(node: Java, child: Plan) -> Expand:
    return Expand([expressions(row) for row in items(node.projections())], expressions(node.output()), child)


def _generate(node: Java, child: Plan) -> Generate:
    made, output = expressions(node.generatorOutput()), expressions(node.output())
    return Generate(Expression(node.generator()), bool(node.outer()), made, output, child)


def _python(node: Java, child: Plan) -> PythonFunctions:
    return PythonFunctions(expressions(node.udfs()), expressions(node.resultAttrs()), child)


_LEAVES: Mapping[str, Callable[[Java], Plan]] = {
    "LogicalRDD": lambda node: Scan(int(node.rdd().id()), expressions(node.output())),
    "LocalRelation": _constant,
    "Range": _constant,
    "OneRowRelation": lambda _: OneRow(),
}
_OVER_ONE: Mapping[str, Callable[[Java, Plan], Plan]] = {
    "Project": lambda node, child: Project(expressions(node.projectList()), child),
    "Filter": lambda node, child: Filter(Expression(node.condition()), child),
    "Window": _window,
    "Expand": _expand,
    "Generate": _generate,
    "ArrowEvalPython": _python,
    "BatchEvalPython": _python,
    "GlobalLimit": lambda node, child: Limit(int(node.limitExpr().eval(None)), child),
    "Offset": lambda node, child: Offset(int(node.offsetExpr().eval(None)), child),
    "LocalLimit": lambda _, child: LocalLimit(child),
    "Sort": lambda node, child: Sort(expressions(node.order()), child),
    "Repartition": lambda _, child: Repartition(child),
    "RepartitionByExpression": lambda _, child: Repartition(child),
    "SubqueryAlias": lambda _, child: Renamed(child),
    "View": lambda _, child: Annotated(child),
    "RebalancePartitions": lambda _, child: Annotated(child),
    "ReturnAnswer": lambda _, child: Annotated(child),
    "ResolvedHint": lambda _, child: Annotated(child),
}

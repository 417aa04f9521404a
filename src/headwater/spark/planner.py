"""The planner: from an optimized plan of Spark's to operators and the edges between them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.errors import PySparkTypeError
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import BooleanType, DataType, LongType, StructField, StructType

from headwater.errors import UnsupportedQuery
from headwater.log.topic import Topic
from headwater.spark.aggregates import plan_aggregates
from headwater.spark.catalyst import (
    Catalyst,
    Expression,
    Node,
    Substitution,
    analyzed,
    children,
    data_type,
    identity,
    items,
    kind,
    option,
    walk,
)
from headwater.spark.flow import Branch, Expand, Filter, Flow, Generate, Native, Operator, Project, Relation, Source
from headwater.spark.projection import GENERATORS
from headwater.views.aggregate import Aggregate
from headwater.views.join import Join, JoinKind
from headwater.views.kernel import Kernel
from headwater.views.publish import Publish
from headwater.views.rows import Rows
from headwater.views.topk import Order, TopK
from headwater.views.upsert import Upsert

_JOINS: Mapping[str, JoinKind] = {
    "Inner": "inner",
    "Cross": "inner",
    "LeftOuter": "left",
    "LeftSingle": "left",
    "RightOuter": "right",
    "FullOuter": "full",
    "LeftSemi": "semi",
    "LeftAnti": "anti",
    "ExistenceJoin": "existence",
}
_LIMIT_MAX = 2**31 - 1
_ORDER = (("_commit", LongType()), ("_offset", LongType()), ("_deleted", BooleanType()))
_CONSTRUCTS = {"UnionLoop": "WITH RECURSIVE"}
"""What a node that is not supported is called in SQL."""
_TRANSPARENT = frozenset({
    "Sort", "LocalLimit", "SubqueryAlias", "View", "Repartition", "RepartitionByExpression", "RebalancePartitions",
    "ReturnAnswer", "ResolvedHint",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Input:
    """One port of an operator: which rows reach it, as which columns, partitioned by which key."""

    relation: Relation
    columns: Sequence[Expression]
    key: Sequence[Expression]
    measures: Sequence[Expression] = ()


class Planner:
    """Adds views to a flow. `leaf` says which relation a leaf of a plan stands for."""

    def __init__(self, catalyst: Catalyst, leaf: Callable[[Node], Relation | None]) -> None:
        self.catalyst, self._leaf = catalyst, leaf
        self.flow = Flow()
        self._handlers: dict[str, Callable[[Node], Relation]] = {
            "Project": self._project,
            "Filter": self._filter,
            "Join": self._join,
            "Aggregate": self._aggregate,
            "Window": self._window,
            "Union": self._union,
            "Expand": self._expand,
            "Generate": self._generate,
            "GlobalLimit": self._limit,
            "Offset": self._limit,
            "ArrowEvalPython": self._python,
            "BatchEvalPython": self._python,
            "OneRowRelation": self._one_row,
            "LocalRelation": self._constant,
            "Range": self._constant,
        }

    def relation(self, node: Node) -> Relation:
        """What a node of a plan stands for. Raises `UnsupportedQuery`."""
        found = self._leaf(node)
        if found is not None:
            return found
        name = kind(node)
        if name in _TRANSPARENT:
            return self.relation(children(node)[0])
        handler = self._handlers.get(name)
        if handler is None:
            construct = _CONSTRUCTS.get(name, name)
            raise UnsupportedQuery(construct, f"Spark plans it as: {node.simpleString(100)}")
        return handler(node)

    def topic(self, topic: Topic, output: Sequence[Expression]) -> Relation:
        """The rows of a topic: a stream's records, or a table's newest row per key."""
        number = self.flow.number()
        if not topic.key:
            types = [data_type(attribute) for attribute in output]
            self.flow.sources[number] = Source(number, topic.name, None, topic.schema.names, types)
            return Relation((Branch(number, output),), output)
        system = StructType([StructField(name, given) for name, given in _ORDER])
        extra = items(analyzed(self.catalyst.session.createDataFrame([], system)).output())
        records = [*output, *extra]
        types = [data_type(attribute) for attribute in records]
        self.flow.sources[number] = Source(number, topic.name, None, [*topic.schema.names, *system.names], types)
        schema = self.schema("c", output)
        names = dict(zip(topic.schema.names, schema.names, strict=True))
        key = [output[topic.schema.names.index(name)] for name in topic.key]
        kernel = Upsert(schema, tuple(names[name] for name in topic.key))
        given = Input(Relation((Branch(number, records),), records), records, key)
        detail = f"{topic.name} by {', '.join(topic.key)}"
        operator = self._operator("table", detail, kernel, {"records": given}, types[: len(output)])
        return Relation((Branch(operator.number, output),), output)

    def publish(self, view: str, relation: Relation, schema: pa.Schema) -> Operator:
        """An operator that keeps the content of a view."""
        inputs = {"rows": Input(relation, relation.output, relation.output)}
        return self._operator("publish", view, Publish(schema), inputs, [], view=view)

    def schema(self, prefix: str, columns: Sequence[Expression]) -> pa.Schema:
        """The columns of a port, by number."""
        return pa.schema(
            [(f"{prefix}{number}", arrow_type(data_type(column))) for number, column in enumerate(columns)]
        )

    def _operator(
        self,
        title: str,
        detail: str,
        kernel: Kernel,
        inputs: Mapping[str, Input],
        types: Sequence[DataType],
        *,
        native: Native | None = None,
        view: str | None = None,
    ) -> Operator:
        number = self.flow.number()
        level = self.flow.above(*(given.relation for given in inputs.values()))
        operator = Operator(number, level, title, detail, kernel, types, native, view)
        self.flow.operators[number] = operator
        for port, given in inputs.items():
            self.flow.connect(given.relation, number, port, given.columns, given.key, given.measures)
        return operator

    # Steps on edges.

    def _project(self, node: Node) -> Relation:
        relation, columns = self._attach(self.relation(node.child()), items(node.projectList()))
        return relation.then(Project(columns), output=[column.toAttribute() for column in columns])

    def _filter(self, node: Node) -> Relation:
        child = self.relation(node.child())
        relation, (condition,) = self._attach(child, [node.condition()])
        return relation.then(Filter(condition), output=child.output)

    def _union(self, node: Node) -> Relation:
        output = items(node.output())
        branches: list[Branch] = []
        for child in children(node):
            relation = self.relation(child)
            renamed = [self.catalyst.alias(old, new) for old, new in zip(relation.output, output, strict=True)]
            branches += relation.then(Project(renamed)).branches
        return Relation(tuple(branches), output)

    def _expand(self, node: Node) -> Relation:
        rows = [items(row) for row in items(node.projections())]
        output = items(node.output())
        return self.relation(node.child()).then(Expand(rows, output), output=output)

    def _generate(self, node: Node) -> Relation:
        child = self.relation(node.child())
        relation, (generator,) = self._attach(child, [node.generator()])
        if kind(generator) not in GENERATORS:
            raise UnsupportedQuery(
                f"the generator {generator.prettyName()}",
                hint="explode, posexplode, inline, stack and json_tuple work.",
            )
        made = items(node.generatorOutput())
        return relation.then(Generate(generator, bool(node.outer()), made), output=items(node.output()))

    def _python(self, node: Node) -> Relation:
        """Functions in Python: Spark has taken them out of their expressions, and does so again when they are run."""
        results = items(node.resultAttrs())
        columns = [
            self.catalyst.alias(function, made) for function, made in zip(items(node.udfs()), results, strict=True)
        ]
        child = self.relation(children(node)[0])
        return child.then(Project(columns), output=[*child.output, *results])

    def _one_row(self, node: Node) -> Relation:
        number = self.flow.number()
        # A table without columns would arrive at the tasks without rows.
        self.flow.sources[number] = Source(number, None, pa.table({"_": pa.nulls(1, pa.bool_())}), [], [])
        return Relation((Branch(number, []),), [])

    def _constant(self, node: Node) -> Relation:
        output = items(node.output())
        table = self.catalyst.frame(node).toArrow()
        table = table.rename_columns([f"c{number}" for number in range(len(output))])
        number = self.flow.number()
        types = [data_type(attribute) for attribute in output]
        self.flow.sources[number] = Source(number, None, table, table.column_names, types)
        return Relation((Branch(number, output),), output)

    # Operators.

    def _join(self, node: Node) -> Relation:
        name = kind(node.joinType())
        if name not in _JOINS:
            raise UnsupportedQuery(f"{name} join")
        found = self.catalyst.unapply("ExtractEquiJoinKeys", node)
        left_key, right_key = (items(found[1]), items(found[2])) if found else ([], [])
        condition = option(found[3] if found else node.condition())
        left, right = self.relation(node.left()), self.relation(node.right())
        how = _JOINS[name]
        exists = node.joinType().exists() if how == "existence" else None
        if condition is None:
            return self._matched(how, left, right, left_key, right_key, exists=exists, single=name == "LeftSingle")
        pairs = self._matched("inner", left, right, left_key, right_key)
        pairs, (condition,) = self._attach(pairs, [condition])
        output = [*left.output, *right.output]
        pairs = pairs.then(Filter(condition), output=output)
        if how == "inner":
            return pairs
        if name == "LeftSingle":
            raise UnsupportedQuery(
                "a scalar subquery whose condition is not an equality",
                hint="Let the subquery aggregate its rows: max(...), for example.",
            )
        return self._unmatched(how, left, right, pairs, exists)

    def _matched(
        self,
        how: JoinKind,
        left: Relation,
        right: Relation,
        left_key: Sequence[Expression],
        right_key: Sequence[Expression],
        *,
        exists: Expression | None = None,
        single: bool = False,
        null_safe: bool = False,
    ) -> Relation:
        """A join by equal keys."""
        sides = [*left.output, *left_key], [*right.output, *right_key]
        schemas = self.schema("l", sides[0]), self.schema("r", sides[1])
        kernel = Join(
            how,
            *schemas,
            tuple(schemas[0].names[len(left.output) :]),
            tuple(schemas[1].names[len(right.output) :]),
            null_safe=null_safe,
            single=single,
        )
        inputs = {"left": Input(left, sides[0], left_key), "right": Input(right, sides[1], right_key)}
        attributes: list[Expression | None] = [*left.output, *(None for _ in left_key)]
        columns = list(sides[0])
        if how in ("inner", "left", "right", "full"):
            attributes += [*right.output, *(None for _ in right_key)]
            columns += sides[1]
        if exists is not None:
            attributes.append(exists)
            columns.append(exists)
        on = " and ".join(f"{one.sql()} = {other.sql()}" for one, other in zip(left_key, right_key, strict=True))
        operator = self._operator(f"{how} join", on or "every pair", kernel, inputs, [data_type(c) for c in columns])
        output = [attribute for attribute in attributes if attribute is not None]
        return Relation((Branch(operator.number, attributes),), output)

    def _unmatched(
        self, how: JoinKind, left: Relation, right: Relation, pairs: Relation, exists: Expression | None
    ) -> Relation:
        """A join with more than equal keys in its condition: rows without a pair that holds are found as whole rows."""
        if how in ("semi", "anti", "existence"):
            return self._by_row(how, left, pairs, exists)
        parts = [pairs]
        if how in ("left", "full"):
            parts.append(self._padded(self._by_row("anti", left, pairs, None), right))
        if how in ("right", "full"):
            parts.append(self._padded(self._by_row("anti", right, pairs, None), left))
        return Relation(tuple(branch for part in parts for branch in part.branches), pairs.output)

    def _by_row(self, how: JoinKind, side: Relation, pairs: Relation, exists: Expression | None) -> Relation:
        found = Relation(pairs.branches, side.output)
        return self._matched(how, side, found, side.output, side.output, exists=exists, null_safe=True)

    def _padded(self, relation: Relation, missing: Relation) -> Relation:
        nulls = [
            self.catalyst.alias(self.catalyst.null(attribute.dataType()), attribute) for attribute in missing.output
        ]
        return relation.then(Project(nulls))

    def _aggregate(self, node: Node) -> Relation:
        found = self.catalyst.unapply("PhysicalAggregation", node)
        plan = plan_aggregates(self.catalyst, items(found[1])) if found else None
        if not found or plan is None or any(map(_is_session, items(node.groupingExpressions()))):
            return self._native_aggregate(node)
        grouping = items(found[0])
        child, arguments = self._attach(self.relation(found[3]), plan.arguments)
        keys = [self.catalyst.normalized(_unaliased(expression)) for expression in grouping]
        schema = self.schema("c", [*keys, *arguments])
        names = schema.names
        measures = plan.measures(self.catalyst, arguments)
        columns = [*keys, *arguments] if measures is None else keys
        kernel = Aggregate(
            tuple(names[: len(keys)]),
            plan.functions(names[len(keys) :]),
            schema if measures is None else pa.schema([schema.field(name) for name in names[: len(keys)]]),
            measured=measures is not None,
        )
        detail = ", ".join(str(key.sql()) for key in keys) or "everything"
        types = [*(data_type(key) for key in keys), *plan.types]
        operator = self._operator(
            "aggregate" if plan.types else "distinct",
            detail,
            kernel,
            {"rows": Input(child, columns, keys, measures or ())},
            types,
        )
        binding = [*(expression.toAttribute() for expression in grouping), *plan.outputs]
        relation = Relation((Branch(operator.number, binding),), binding).then(Project(plan.finishing))
        relation, results = self._attach(Relation(relation.branches, [*binding, *plan.results]), items(found[2]))
        return relation.then(Project(results), output=[result.toAttribute() for result in results])

    def _native_aggregate(self, node: Node) -> Relation:
        grouping = items(node.groupingExpressions())
        given = self.relation(node.child())
        child, named = self._attach(given, items(node.aggregateExpressions()))
        if len(child.output) != len(given.output):
            raise UnsupportedQuery("a scalar subquery inside this aggregate", hint="Join with the subquery instead.")
        catalyst = self.catalyst

        def build(below: Node, tag: Expression, now: Substitution) -> Node:
            below, now = catalyst.marked(below, [key for key in grouping if _is_session(key)], now)
            keys = [now(expression) for expression in grouping]
            results = [catalyst.alias(now(_unaliased(expression)), expression) for expression in named]
            return catalyst.plans.Aggregate(
                catalyst.sequence([*keys, tag]), catalyst.sequence([*results, tag]), below, catalyst.none
            )

        empty = None
        if not grouping:
            nothing = catalyst.plans.LocalRelation(node.child().output(), catalyst.nil, False, catalyst.none)
            empty = catalyst.frame(node.withNewChildren(catalyst.sequence([nothing]))).toArrow()
        # A new row may join two sessions into one, so the rows of all sessions stay together.
        keys = [catalyst.normalized(expression) for expression in grouping if not _is_session(expression)]
        output = [name.toAttribute() for name in named]
        return self._native("aggregate by group", child, keys, build, output, empty, named)

    def _window(self, node: Node) -> Relation:
        child = self.relation(node.child())
        partition, order = items(node.partitionSpec()), items(node.orderSpec())
        named = items(node.windowExpressions())
        catalyst = self.catalyst

        def build(below: Node, tag: Expression, now: Substitution) -> Node:
            spec = catalyst.sequence([*(now(expression) for expression in partition), tag])
            tagged = [catalyst.alias(_tagged(catalyst, now(one.child()), tag), one) for one in named]
            sorting = catalyst.sequence([now(expression) for expression in order])
            window = catalyst.plans.Window(catalyst.sequence(tagged), spec, sorting, below, catalyst.none)
            results = [catalyst.alias(now(attribute), attribute.newInstance()) for attribute in child.output]
            results += [one.toAttribute() for one in tagged]
            return catalyst.plans.Project(catalyst.sequence([*results, tag]), window)

        keys = [catalyst.normalized(expression) for expression in partition]
        output = [*child.output, *(expression.toAttribute() for expression in named)]
        return self._native("window by group", child, keys, build, output, None, named)

    def _native(
        self,
        title: str,
        child: Relation,
        keys: Sequence[Expression],
        build: Callable[[Node, Expression, Substitution], Node],
        outputs: Sequence[Expression],
        empty: pa.Table | None,
        functions: Sequence[Expression],
    ) -> Relation:
        columns = [*child.output, *keys]
        schema = self.schema("c", columns)
        kernel = Rows(schema, tuple(schema.names[len(child.output) :]))
        types = [data_type(attribute) for attribute in outputs]
        native = Native(child.output, build, outputs, types, empty, self.flow.number(), functions)
        detail = ", ".join(str(key.sql()) for key in keys) or "everything"
        row_types = [data_type(column) for column in columns]
        operator = self._operator(
            title, detail, kernel, {"rows": Input(child, columns, keys)}, row_types, native=native
        )
        return Relation((Branch(operator.number, outputs),), outputs)

    def _limit(self, node: Node) -> Relation:
        limit, offset, projects = _LIMIT_MAX, 0, []
        while kind(node) != "Sort":
            name = kind(node)
            if name == "GlobalLimit":
                limit = min(limit, int(node.limitExpr().eval(None)))
            elif name == "Offset":
                offset += int(node.offsetExpr().eval(None))
            elif name == "Project":
                projects.append(items(node.projectList()))
            elif name != "LocalLimit":
                raise UnsupportedQuery(
                    "LIMIT without ORDER BY", hint="Say which rows come first: ORDER BY ... LIMIT ..."
                )
            node = children(node)[0]
        relation = self._top(node, limit, offset)
        for given in reversed(projects):
            relation, columns = self._attach(relation, given)
            relation = relation.then(Project(columns), output=[column.toAttribute() for column in columns])
        return relation

    def _top(self, sort: Node, limit: int, offset: int) -> Relation:
        given, orders = self.relation(sort.child()), items(sort.order())
        child, keys = self._attach(given, [order.child() for order in orders])
        columns = [*child.output, *keys]
        schema = self.schema("c", columns)
        order = tuple(
            Order(name, "Desc" in kind(order.direction()), "First" in kind(order.nullOrdering()))
            for name, order in zip(schema.names[len(child.output) :], orders, strict=True)
        )
        kernel = TopK(schema, (), order, limit, offset)
        detail = ", ".join(str(order.sql()) for order in orders)
        types = [data_type(column) for column in columns]
        operator = self._operator(f"top {limit}", detail, kernel, {"rows": Input(child, columns, [])}, types)
        return Relation((Branch(operator.number, [*child.output, *(None for _ in keys)]),), given.output)

    def _attach(self, relation: Relation, expressions: Sequence[Expression]) -> tuple[Relation, list[Expression]]:
        """Scalar subqueries inside expressions become columns: a join with the one row of each."""
        rewritten = []
        columns: dict[int, Expression] = {}
        for expression in expressions:
            if "subquery" not in expression.toString():
                rewritten.append(expression)
                continue
            for part in walk(expression):
                if not self.catalyst.is_subquery(part) or identity(part) in columns:
                    continue
                if kind(part) != "ScalarSubquery":
                    raise UnsupportedQuery(f"{kind(part)} in this place")
                below = self.relation(part.plan())
                relation = self._matched("left", relation, below, [], [], single=True)
                columns[identity(part)] = below.output[0]
            rewritten.append(self._replaced(expression, columns))
        return relation, rewritten

    def _replaced(self, expression: Expression, columns: Mapping[int, Expression]) -> Expression:
        if self.catalyst.is_subquery(expression):
            return columns[identity(expression)]
        below = children(expression)
        if not below:
            return expression
        return expression.withNewChildren(self.catalyst.sequence([self._replaced(child, columns) for child in below]))


def arrow_type(given: DataType) -> pa.DataType:
    """The Arrow type of a column. Raises `UnsupportedQuery` if it has none that means the same."""
    if "collate" in given.simpleString():
        raise UnsupportedQuery(f"the type {given.simpleString()}", hint="Compare lower(...) or upper(...) instead.")
    try:
        return to_arrow_type(given, timezone="UTC")
    except PySparkTypeError as error:
        hint = "Cast it to another type, such as a string or a number."
        raise UnsupportedQuery(f"the type {given.simpleString()}", hint=hint) from error


def _is_session(key: Expression) -> bool:
    """Whether a key of a group is a session_window(...): Spark joins overlapping ones when it aggregates."""
    return kind(key) == "AttributeReference" and bool(key.metadata().contains("spark.sessionWindow"))


def _unaliased(expression: Expression) -> Expression:
    return expression.child() if kind(expression) == "Alias" else expression


def _tagged(catalyst: Catalyst, window: Expression, tag: Expression) -> Expression:
    """A window expression that is partitioned by the tag, too."""
    spec = window.windowSpec()
    tagged = catalyst.expressions.WindowSpecDefinition(
        catalyst.sequence([*items(spec.partitionSpec()), tag]), spec.orderSpec(), spec.frameSpecification()
    )
    return catalyst.expressions.WindowExpression(window.windowFunction(), tagged)

"""The planner: from an optimized plan of Spark's to operators and the edges between them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import pyarrow as pa
from pyspark.sql.types import BooleanType, LongType, StructField, StructType

from headwater.errors import InternalError, UnsupportedQuery
from headwater.log.topic import Topic
from headwater.spark.aggregates import plan_aggregates
from headwater.spark.builder import FlowBuilder, Input, port_schema
from headwater.spark.catalyst import (
    Catalyst,
    Expression,
    Node,
    analyzed,
    children,
    data_type,
    identity,
    items,
    kind,
    option,
    unaliased,
    walk,
)
from headwater.spark.flow import Branch, Edge, Expand, Filter, Generate, Operator, Project, Relation
from headwater.spark.joins import JOINS, Joins
from headwater.spark.natives import Natives, is_session
from headwater.spark.projection import GENERATORS
from headwater.spark.pruning import expressions_of
from headwater.spark.ranking import Ranking, is_row_number, ranking
from headwater.spark.settling import completed, has_one_row, is_open, order_below
from headwater.views.aggregate import Aggregate
from headwater.views.publish import Publish
from headwater.views.topk import Order, TopK
from headwater.views.upsert import Upsert

_LIMIT_MAX = 2**31 - 1
_ORDER = (("_commit", LongType()), ("_offset", LongType()), ("_deleted", BooleanType()))
_CONSTRUCTS = {"UnionLoop": "WITH RECURSIVE"}
"""What a node that is not supported is called in SQL."""
_TRANSPARENT = frozenset({
    "Sort", "LocalLimit", "SubqueryAlias", "View", "Repartition", "RepartitionByExpression", "RebalancePartitions",
    "ReturnAnswer", "ResolvedHint",
})  # fmt: skip


class Planner:
    """Adds views to a flow. `leaf` says which relation a leaf of a plan stands for."""

    def __init__(self, catalyst: Catalyst, leaf: Callable[[Node], Relation | None]) -> None:
        self.catalyst, self._leaf = catalyst, leaf
        self.builder = FlowBuilder(catalyst)
        self._joins, self._natives = Joins(self.builder), Natives(self.builder)
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
        if not topic.key:
            types = [data_type(attribute) for attribute in output]
            source = self.builder.add_source(topic.name, None, topic.schema.names, types)
            return Relation((Branch(source.number, output),), output)
        system = StructType([StructField(name, given) for name, given in _ORDER])
        extra = items(analyzed(self.catalyst.relation(system)).output())
        records = [*output, *extra]
        types = [data_type(attribute) for attribute in records]
        source = self.builder.add_source(topic.name, None, [*topic.schema.names, *system.names], types)
        schema = port_schema("c", output)
        names = dict(zip(topic.schema.names, schema.names, strict=True))
        kernel = Upsert(schema, tuple(names[name] for name in topic.key))
        given = Input(Relation((Branch(source.number, records),), records), records)
        detail = f"{topic.name} by {', '.join(topic.key)}"
        operator = self.builder.add("table", detail, kernel, {"records": given}, types[: len(output)])
        return Relation((Branch(operator.number, output),), output)

    def publish(self, view: str, relation: Relation, schema: pa.Schema) -> Operator:
        """An operator that keeps the content of a view."""
        inputs = {"rows": Input(relation, relation.output)}
        return self.builder.add("publish", view, Publish(schema), inputs, [], view=view)

    def check_subqueries(self, edges: Sequence[Edge]) -> None:
        """Whatever expression is left on an edge is evaluated row by row, where a subquery would be nothing at all."""
        for edge in edges:
            for expression in expressions_of(edge):
                if "subquery" in expression.toString() and any(map(self.catalyst.is_subquery, walk(expression))):
                    raise UnsupportedQuery("a subquery in this place", hint="Join with the subquery instead.")

    # Steps on edges.

    def _project(self, node: Node) -> Relation:
        ranked = ranking(node)
        child = self._ranked(ranked) if ranked else self.relation(node.child())
        relation, columns = self._attach(child, items(node.projectList()))
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
        source = self.builder.add_source(None, pa.table({"_": pa.nulls(1, pa.bool_())}), [], [])
        return Relation((Branch(source.number, []),), [])

    def _constant(self, node: Node) -> Relation:
        output = items(node.output())
        frame = self.catalyst.frame(node)
        # A table without columns would arrive at the tasks without rows.
        table = self.catalyst.collect(frame) if output else pa.table({"_": pa.nulls(frame.count(), pa.bool_())})
        if output:
            table = table.rename_columns([f"c{number}" for number in range(len(output))])
        types = [data_type(attribute) for attribute in output]
        source = self.builder.add_source(None, table, table.column_names[: len(output)], types)
        return Relation((Branch(source.number, output),), output)

    # Operators.

    def _join(self, node: Node) -> Relation:
        name = kind(node.joinType())
        if name not in JOINS:
            raise UnsupportedQuery(f"{name} join")
        found = self.catalyst.unapply("ExtractEquiJoinKeys", node)
        left_key, right_key = (items(found[1]), items(found[2])) if found else ([], [])
        condition = option(found[3] if found else node.condition())
        left, right = self.relation(node.left()), self.relation(node.right())
        how = JOINS[name]
        output = [*left.output, *(() if how in ("semi", "anti", "existence") else right.output)]
        exists = node.joinType().exists() if how == "existence" else None
        if exists is not None:
            output.append(exists)
        left, left_key = self._attach(left, left_key)
        right, right_key = self._attach(right, right_key)
        if condition is None:
            joined = self._joins.matched(
                how, left, right, left_key, right_key, exists=exists, single=name == "LeftSingle"
            )
            return Relation(joined.branches, output)
        pairs = self._joins.matched("inner", left, right, left_key, right_key)
        attached, (condition,) = self._attach(pairs, [condition])
        pairs = attached.then(Filter(condition), output=pairs.output)
        if how == "inner":
            return Relation(pairs.branches, output)
        if name == "LeftSingle":
            raise UnsupportedQuery(
                "a scalar subquery whose condition is not an equality",
                hint="Let the subquery aggregate its rows: max(...), for example.",
            )
        return Relation(self._joins.unmatched(how, left, right, pairs, exists).branches, output)

    def _aggregate(self, node: Node) -> Relation:
        found = self.catalyst.unapply("PhysicalAggregation", node)
        plan = plan_aggregates(self.catalyst, items(found[1])) if found else None
        if not found or plan is None or any(map(is_session, items(node.groupingExpressions()))):
            return self._native_aggregate(node)
        grouping = items(found[0])
        child, attached = self._attach(self.relation(found[3]), [*plan.arguments, *map(unaliased, grouping)])
        arguments, keys = attached[: len(plan.arguments)], attached[len(plan.arguments) :]
        keys = [self.catalyst.normalized(expression) for expression in keys]
        schema = port_schema("c", [*keys, *arguments])
        names = schema.names
        kernel = Aggregate(tuple(names[: len(keys)]), plan.functions(names[len(keys) :]), schema, plan.adds_up)
        detail = ", ".join(str(key.sql()) for key in keys) or "everything"
        types = [*(data_type(key) for key in keys), *plan.types]
        operator = self.builder.add(
            "aggregate" if plan.types else "distinct",
            detail,
            kernel,
            {"rows": Input(child, [*keys, *arguments])},
            types,
        )
        binding = [*(expression.toAttribute() for expression in grouping), *plan.outputs]
        relation = Relation((Branch(operator.number, binding),), binding).then(Project(plan.finishing))
        relation, results = self._attach(Relation(relation.branches, [*binding, *plan.results]), items(found[2]))
        return relation.then(Project(results), output=[result.toAttribute() for result in results])

    def _native_aggregate(self, node: Node) -> Relation:
        given = self.relation(node.child())
        keys = items(node.groupingExpressions())
        if any("map<" in data_type(key).simpleString() for key in keys):
            # Spark sorts the entries of such a key, and turns nulls into zeros where it compiles that.
            raise UnsupportedQuery(
                "a map as a key of this aggregate", hint="Group by map_entries(...) or to_json(...)."
            )
        child, attached = self._attach(given, [*keys, *items(node.aggregateExpressions())])
        keys, named = attached[: len(keys)], attached[len(keys) :]
        added = {identity(column) for column in child.output[len(given.output) :]}
        if any(_used_outside(expression, added, keys) for expression in named):
            raise UnsupportedQuery("a scalar subquery beside this aggregate", hint="Join with the subquery instead.")
        return self._natives.aggregate(node, child, keys, named)

    def _window(self, node: Node) -> Relation:
        given = self.relation(node.child())
        stated = items(node.orderSpec())
        if not stated and any(is_row_number(named) for named in items(node.windowExpressions())):
            raise _limit_without_order()
        order = order_below(node.child())
        if not order:
            is_dependent = any(is_open(unaliased(named)) for named in items(node.windowExpressions()))
            # The order of a single row, or of rows that are all the same, is removed.
            if is_dependent and not has_one_row(node.child()) and not _all_alike(node.child()):
                raise InternalError("The optimizer has moved a window away from the order of its rows.")
            order = completed(self.catalyst, stated, given.output)
        return self._natives.window(node, given, [*stated, *order])

    def _ranked(self, given: Ranking) -> Relation:
        """The first rows of each group."""
        window = given.window
        child = self.relation(window.child())
        stated, partition = items(window.orderSpec()), items(window.partitionSpec())
        # LIMIT in a correlated subquery becomes a row number without an order over rows that are sorted.
        order = [*stated, *order_below(window.child(), of_first_rows=not stated)]
        if not order and not _all_alike(window.child(), partition):
            raise _limit_without_order()
        limit = _LIMIT_MAX if given.last is None else max(0, given.last - given.first + 1)
        relation = self._top(child, order, limit, given.first - 1, partition=partition)
        for condition in given.conditions:
            attached, (kept,) = self._attach(relation, [condition])
            relation = attached.then(Filter(kept), output=relation.output)
        return relation

    def _limit(self, node: Node) -> Relation:
        cuts: list[tuple[str, int]] = []
        projects = []
        while kind(node) != "Sort" and not _all_alike(node):
            name = kind(node)
            if name == "GlobalLimit":
                cuts.append((name, int(node.limitExpr().eval(None))))
            elif name == "Offset":
                cuts.append((name, int(node.offsetExpr().eval(None))))
            elif name == "Project":
                projects.append(items(node.projectList()))
            elif name != "LocalLimit":
                raise _limit_without_order()
            node = children(node)[0]
        limit, offset = _reach(cuts)
        below, orders = (node.child(), items(node.order())) if kind(node) == "Sort" else (node, [])
        relation = self._top(self.relation(below), orders, limit, offset)
        for given in reversed(projects):
            relation, columns = self._attach(relation, given)
            relation = relation.then(Project(columns), output=[column.toAttribute() for column in columns])
        return relation

    def _top(
        self,
        given: Relation,
        orders: Sequence[Expression],
        limit: int,
        offset: int,
        partition: Sequence[Expression] = (),
    ) -> Relation:
        child, keys = self._attach(given, [*(order.child() for order in orders), *partition])
        groups = [self.catalyst.normalized(expression) for expression in keys[len(orders) :]]
        keys = keys[: len(orders)]
        columns = list(child.output)
        places = [_placed(columns, expression) for expression in (*keys, *groups)]
        schema = port_schema("c", columns)
        names = [schema.names[place] for place in places]
        key = tuple(names[len(orders) :])
        order: dict[str, Order] = {}
        for name, given_order in zip(names, orders, strict=False):
            # A column that was decided by before, or is the same in the whole group, decides nothing.
            if name not in key and name not in order:
                ascends, nulls = kind(given_order.direction()), kind(given_order.nullOrdering())
                order[name] = Order(name, "Desc" in ascends, "First" in nulls)
        kernel = TopK(schema, key, tuple(order.values()), limit, offset)
        detail = ", ".join(str(order.sql()) for order in orders)
        if groups:
            detail += f" per {', '.join(str(group.sql()) for group in groups)}"
        types = [data_type(column) for column in columns]
        operator = self.builder.add(f"top {limit}", detail, kernel, {"rows": Input(child, columns)}, types)
        # What rows were ordered by can be ordered by again above, even if it is no column of the result.
        hidden = [column if kind(column) == "AttributeReference" else None for column in columns[len(child.output) :]]
        return Relation((Branch(operator.number, [*child.output, *hidden]),), given.output)

    def _attach(self, relation: Relation, expressions: Sequence[Expression]) -> tuple[Relation, list[Expression]]:
        """Scalar subqueries inside expressions become columns: a join with the one row of each."""
        rewritten = []
        columns: dict[int, Expression] = {}
        seen: list[tuple[Expression, int]] = []
        for given in expressions:
            text = str(given.toString())
            expression = self._with_sorted_maps(given) if "mapsort(" in text else given
            if "subquery" not in text:
                rewritten.append(expression)
                continue
            for part in walk(expression):
                if not self.catalyst.is_subquery(part) or identity(part) in columns:
                    continue
                if kind(part) != "ScalarSubquery":
                    raise UnsupportedQuery(f"{kind(part)} in this place")
                # The same subquery in two places has two ids.
                known = next((number for other, number in seen if other.semanticEquals(part)), None)
                if known is None:
                    below = self.relation(part.plan())
                    relation = self._joins.matched("left", relation, below, [], [], single=True)
                    columns[identity(part)] = below.output[0]
                    seen.append((part, identity(part)))
                else:
                    columns[identity(part)] = columns[known]
            rewritten.append(self._replaced(expression, columns))
        return relation, rewritten

    def _with_sorted_maps(self, expression: Expression) -> Expression:
        """The expression with maps sorted in our way where Spark sorts them: keys of groups, for example."""
        below = [self._with_sorted_maps(child) for child in children(expression)]
        if kind(expression) == "MapSort":
            return self.catalyst.sorted_map(below[0])
        return expression.withNewChildren(self.catalyst.sequence(below)) if below else expression

    def _replaced(self, expression: Expression, columns: Mapping[int, Expression]) -> Expression:
        if self.catalyst.is_subquery(expression):
            return columns[identity(expression)]
        below = children(expression)
        if not below:
            return expression
        return expression.withNewChildren(self.catalyst.sequence([self._replaced(child, columns) for child in below]))


def _placed(columns: list[Expression], expression: Expression) -> int:
    """The place of an expression among columns, to which it is added if it is not one of them."""
    if kind(expression) == "AttributeReference":
        for place, column in enumerate(columns):
            if kind(column) == "AttributeReference" and identity(column) == identity(expression):
                return place
    columns.append(expression)
    return len(columns) - 1


def _used_outside(expression: Expression, columns: Collection[int], keys: Sequence[Expression]) -> bool:
    """Whether one of these columns is used, but neither by an aggregate function nor as a key of the group."""
    if kind(expression) == "AggregateExpression" or any(key.semanticEquals(expression) for key in keys):
        return False
    if kind(expression) == "AttributeReference":
        return identity(expression) in columns
    return any(_used_outside(child, columns, keys) for child in children(expression))


def _all_alike(node: Node, partition: Sequence[Expression] = ()) -> bool:
    """Whether all rows (of a partition) are the same, so that no order is needed: an EXISTS becomes such a query."""
    while kind(node) in ("Repartition", "RepartitionByExpression"):
        node = node.child()
    if kind(node) != "Project":
        return False
    same = {identity(one) for one in partition if kind(one) == "AttributeReference"}
    return all(kind(unaliased(one)) == "Literal" or identity(one) in same for one in items(node.projectList()))


def _reach(cuts: Sequence[tuple[str, int]]) -> tuple[int, int]:
    """Limit and offset of several LIMIT and OFFSET, the outermost first."""
    limit, offset = _LIMIT_MAX, 0
    for name, count in reversed(cuts):
        if name == "GlobalLimit":
            limit = min(limit, count)
        else:
            offset, limit = offset + count, limit if limit == _LIMIT_MAX else max(0, limit - count)
    return limit, offset


def _limit_without_order() -> UnsupportedQuery:
    return UnsupportedQuery(
        "LIMIT or OFFSET without ORDER BY", hint="Say which rows come first: ORDER BY ... LIMIT ..."
    )

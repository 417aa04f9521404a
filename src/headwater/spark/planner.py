"""The planner: from an optimized plan of Spark's to operators and the edges between them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from headwater.errors import InternalError, UnsupportedQuery
from headwater.spark.aggregates import plan_aggregates
from headwater.spark.asof_joins import AsOfJoins
from headwater.spark.builder import FlowBuilder, Input, port_schema
from headwater.spark.catalyst import Catalyst, Expression, conjuncts, plans, read_subquery, unaliased, walk
from headwater.spark.catalyst.expressions import SortOrder
from headwater.spark.catalyst.nodes import has_one_row
from headwater.spark.catalyst.plans import Plan
from headwater.spark.catalyst.settling import completed, is_open, order_below
from headwater.spark.distances import Span
from headwater.spark.flow import Branch, Edge, Expand, Filter, Generate, Operator, Project, Relation
from headwater.spark.joins import JOINS, Joins
from headwater.spark.natives import Natives
from headwater.spark.projection import GENERATORS
from headwater.spark.pruning import expressions_of
from headwater.spark.ranking import Ranking, is_row_number, rank_functions, ranking
from headwater.spark.sessions import Session, add_sessions
from headwater.spark.temporal import Crossing, Temporal
from headwater.spark.topics import Topics
from headwater.views.aggregate import Aggregate
from headwater.views.ordering import Order
from headwater.views.publish import Publish
from headwater.views.ranks import Ranks
from headwater.views.temporal_filter import Bound, TemporalFilter
from headwater.views.topk import TopK

_LIMIT_MAX = 2**31 - 1
_CONSTRUCTS = {"UnionLoop": "WITH RECURSIVE"}
"""What a node that is not supported is called in SQL."""


@dataclass(frozen=True, slots=True)
class _Ordered:
    """Rows with the columns by which they are ordered and grouped, and the order; `stated` is its part from the SQL."""

    child: Relation
    columns: Sequence[Expression]
    schema: pa.Schema
    key: tuple[str, ...]
    order: tuple[Order, ...]
    stated: int
    detail: str


class Planner:
    """Adds views to a flow. `leaf` says which relation a leaf of a plan stands for, `times` which time source."""

    def __init__(self, catalyst: Catalyst, leaf: Callable[[plans.Scan], Relation], times: Mapping[int, str]) -> None:
        self.catalyst, self._leaf = catalyst, leaf
        self._times = times
        self._temporal = Temporal(catalyst, self._times)
        self.builder = FlowBuilder(catalyst)
        self.topics = Topics(self.builder)
        self._as_of = AsOfJoins(self.builder)
        self._joins, self._natives = Joins(self.builder), Natives(self.builder)

    def relation(self, plan: Plan) -> Relation:  # noqa: C901, PLR0912 (one case for each kind of node)
        """What a plan stands for. Raises `UnsupportedQuery`."""
        match plan:
            case plans.Scan():
                if plan.relation in self._times:
                    raise self._temporal.refusal(self._times[plan.relation])
                return self._leaf(plan)
            case plans.Project():
                return self._project(plan)
            case plans.Filter():
                return self._filter(plan)
            case plans.Join():
                return self._join(plan)
            case plans.AsOfJoin():
                return self._as_of.relation(plan, self.relation)
            case plans.Aggregate():
                return self._aggregate(plan)
            case plans.Window():
                return self._window(plan)
            case plans.Union():
                return self._union(plan)
            case plans.Expand():
                return self.relation(plan.child).then(Expand(plan.rows, plan.output), output=plan.output)
            case plans.Generate():
                return self._generate(plan)
            case plans.Limit() | plans.Offset():
                return self._limit(plan)
            case plans.PythonFunctions():
                return self._python(plan)
            case plans.OneRow():
                source = self.builder.add_source(None, pa.table({"_": pa.nulls(1, pa.bool_())}), [], [])
                return Relation((Branch(source.number, []),), [])
            case plans.Constant():
                return self._constant(plan)
            case plans.Unknown():
                construct = _CONSTRUCTS.get(plan.kind, plan.kind)
                raise UnsupportedQuery(construct, f"Spark plans it as: {plan.text}")
            case _:
                # It changes neither rows nor columns, and their order is nobody's who does not ask for it.
                return self.relation(plan.child)

    def publish(self, view: str, relation: Relation, schema: pa.Schema) -> Operator:
        """An operator that keeps the content of a view."""
        inputs = {"rows": Input(relation, relation.output)}
        return self.builder.add("publish", view, Publish(schema), inputs, [], view=view)

    def check_subqueries(self, edges: Sequence[Edge]) -> None:
        """Whatever expression is left on an edge is evaluated row by row, where a subquery would be nothing at all."""
        for edge in edges:
            for expression in expressions_of(edge):
                if "subquery" in expression.text and any(map(self.catalyst.is_subquery, walk(expression))):
                    raise UnsupportedQuery("a subquery in this place", hint="Join with the subquery instead.")

    # Steps on edges.

    def _project(self, plan: plans.Project) -> Relation:
        ranked = ranking(plan)
        child = self._ranked(ranked) if ranked else self.relation(plan.child)
        return self._projected(child, plan.columns)

    def _projected(self, child: Relation, columns: Sequence[Expression]) -> Relation:
        relation, columns = self._attach(child, columns)
        return relation.then(Project(columns), output=[column.attribute for column in columns])

    def _filter(self, plan: plans.Filter) -> Relation:
        child = self.relation(plan.child)
        plain, crossings = self._temporal.split(plan.condition)
        relation, conditions = self._attach(child, plain)
        relation = relation.then(*map(Filter, conditions), output=child.output)
        for source in dict.fromkeys(crossing.source for crossing in crossings):
            relation = self._filter_in_time(relation, [one for one in crossings if one.source == source])
        return relation

    def _filter_in_time(self, given: Relation, crossings: Sequence[Crossing]) -> Relation:
        """The rows for as long as these conditions of one time source hold."""
        child, moments = self._attach(given, [crossing.row for crossing in crossings])
        columns = list(given.output)
        places = [_placed(columns, moment) for moment in moments]
        schema = port_schema("c", columns)
        bounds = [Bound(schema.names[place], one.later) for place, one in zip(places, crossings, strict=True)]
        begins, ends = (
            tuple(bound for bound, one in zip(bounds, crossings, strict=True) if one.begins == wanted)
            for wanted in (True, False)
        )
        kernel = TemporalFilter(schema, tuple(schema.names), crossings[0].source, begins, ends)
        detail = " AND ".join(crossing.text for crossing in crossings)
        types = [column.type for column in columns]
        operator = self.builder.add("temporal filter", detail, kernel, {"rows": Input(child, columns)}, types)
        hidden = [column if column.is_attribute else None for column in columns[len(given.output) :]]
        return Relation((Branch(operator.number, [*given.output, *hidden]),), given.output)

    def _union(self, plan: plans.Union) -> Relation:
        branches: list[Branch] = []
        for child in plan.children:
            relation = self.relation(child)
            renamed = [self.catalyst.alias(old, new) for old, new in zip(relation.output, plan.output, strict=True)]
            branches += relation.then(Project(renamed)).branches
        return Relation(tuple(branches), plan.output)

    def _generate(self, plan: plans.Generate) -> Relation:
        child = self.relation(plan.child)
        relation, (generator,) = self._attach(child, [plan.generator])
        if generator.kind not in GENERATORS:
            raise UnsupportedQuery(
                f"the generator {generator.function_name}",
                hint="explode, posexplode, inline, stack and json_tuple work.",
            )
        return relation.then(Generate(generator, plan.outer, plan.made), output=plan.output)

    def _python(self, plan: plans.PythonFunctions) -> Relation:
        """Functions in Python: Spark has taken them out of their expressions, and does so again when they are run."""
        columns = [
            self.catalyst.alias(function, made) for function, made in zip(plan.functions, plan.results, strict=True)
        ]
        child = self.relation(plan.child)
        return child.then(Project(columns), output=[*child.output, *plan.results])

    def _constant(self, plan: plans.Constant) -> Relation:
        output = plan.output
        frame = self.catalyst.frame(plan.node)
        # A table without columns would arrive at the tasks without rows.
        table = self.catalyst.collect(frame) if output else pa.table({"_": pa.nulls(frame.count(), pa.bool_())})
        if output:
            table = table.rename_columns([f"c{number}" for number in range(len(output))])
        types = [attribute.type for attribute in output]
        source = self.builder.add_source(None, table, table.column_names[: len(output)], types)
        return Relation((Branch(source.number, output),), output)

    # Operators.

    def _join(self, plan: plans.Join) -> Relation:
        if plan.kind not in JOINS:
            raise UnsupportedQuery(f"{plan.kind} join")
        how, exists, condition, single = JOINS[plan.kind], plan.exists, plan.condition, plan.kind == "LeftSingle"
        left, right = self.relation(plan.left), self.relation(plan.right)
        output = [*left.output, *(() if how in ("semi", "anti", "existence") else right.output)]
        if exists is not None:
            output.append(exists)
        left, left_key = self._attach(left, plan.left_key)
        right, right_key = self._attach(right, plan.right_key)
        if condition is None:
            joined = self._joins.matched(how, left, right, left_key, right_key, exists=exists, single=single)
            return Relation(joined.branches, output)
        conditions = list(conjuncts(condition))
        span = Span.of(conditions, left.output, right.output)
        if span is None:
            pairs = self._joins.matched("inner", left, right, left_key, right_key)
        else:
            conditions = list(span.rest)
            pairs = self._joins.within(span, left, right, left_key, right_key)
        attached, conditions = self._attach(pairs, conditions)
        pairs = attached.then(*map(Filter, conditions), output=pairs.output)
        if how == "inner":
            return Relation(pairs.branches, output)
        if single:
            raise UnsupportedQuery(
                "a scalar subquery whose condition is not an equality",
                hint="Let the subquery aggregate its rows: max(...), for example.",
            )
        return Relation(self._joins.unmatched(how, left, right, pairs, exists).branches, output)

    def _aggregate(self, plan: plans.Aggregate) -> Relation:
        calls = None if plan.calls is None else plan_aggregates(self.catalyst, plan.calls)
        session = Session.of(plan)
        if calls is None or (session is None and any(key.is_session for key in plan.keys)):
            return self._native_aggregate(plan)
        grouping, given = plan.grouping, self.relation(plan.child)
        if session is not None:
            given = self._in_sessions(given, session, [key for key in grouping if not key.is_session])
        child, attached = self._attach(given, [*calls.arguments, *map(unaliased, grouping)])
        arguments, keys = attached[: len(calls.arguments)], attached[len(calls.arguments) :]
        keys = [self.catalyst.normalized(expression) for expression in keys]
        schema = port_schema("c", [*keys, *arguments])
        names = schema.names
        kernel = Aggregate(tuple(names[: len(keys)]), calls.functions(names[len(keys) :]), schema, calls.adds_up)
        detail = ", ".join(key.sql for key in keys) or "everything"
        types = [*(key.type for key in keys), *calls.types]
        operator = self.builder.add(
            "aggregate" if calls.types else "distinct",
            detail,
            kernel,
            {"rows": Input(child, [*keys, *arguments])},
            types,
        )
        binding = [*(expression.attribute for expression in grouping), *calls.outputs]
        relation = Relation((Branch(operator.number, binding),), binding).then(Project(calls.finishing))
        relation, results = self._attach(Relation(relation.branches, [*binding, *calls.results]), plan.results)
        return relation.then(Project(results), output=[result.attribute for result in results])

    def _in_sessions(self, given: Relation, session: Session, grouping: Sequence[Expression]) -> Relation:
        """The rows with their sessions in the place of their own spans; these are as long as no other row is near."""
        child, keys = self._attach(given, list(map(unaliased, grouping)))
        rows = Relation(child.branches, given.output)
        return add_sessions(self.builder, session, rows, [self.catalyst.normalized(key) for key in keys])

    def _native_aggregate(self, plan: plans.Aggregate) -> Relation:
        given, keys = self.relation(plan.child), plan.keys
        if any("map<" in key.type.simpleString() for key in keys):
            # Spark sorts the entries of such a key, and turns nulls into zeros where it compiles that.
            raise UnsupportedQuery(
                "a map as a key of this aggregate", hint="Group by map_entries(...) or to_json(...)."
            )
        child, attached = self._attach(given, [*keys, *plan.named])
        keys, named = attached[: len(keys)], attached[len(keys) :]
        added = {column.identity for column in child.output[len(given.output) :]}
        if any(_used_outside(expression, added, keys) for expression in named):
            raise UnsupportedQuery("a scalar subquery beside this aggregate", hint="Join with the subquery instead.")
        return self._natives.aggregate(plan, child, keys, named)

    def _window(self, plan: plans.Window) -> Relation:
        given = self.relation(plan.child)
        if not plan.order and any(map(is_row_number, plan.columns)):
            raise _limit_without_order()
        order = order_below(plan.child)
        if not order:
            is_dependent = any(is_open(unaliased(named)) for named in plan.columns)
            # The order of a single row, or of rows that are all the same, is removed.
            if is_dependent and not has_one_row(plan) and not _all_alike(plan.child):
                raise InternalError("The optimizer has moved a window away from the order of its rows.")
            order = completed(self.catalyst, plan.order, given.output)
        functions = rank_functions(plan)
        if functions is None:
            return self._natives.window(plan, given, [*plan.order, *order])
        # Where ties are ties, what comes after the stated order decides nothing.
        rest = order if "row_number" in functions else []
        ordered = self._ordered(given, plan.order, rest, plan.partition)
        kernel = Ranks(ordered.schema, ordered.key, ordered.order, ordered.stated, functions)
        return self._placed_by("ranks", ordered, kernel, given.output, plan.columns)

    def _ranked(self, given: Ranking) -> Relation:
        """The first rows of each group."""
        window = given.window
        child = self.relation(window.child)
        # LIMIT in a correlated subquery becomes a row number without an order over rows that are sorted.
        order = [*window.order, *order_below(window.child, of_first_rows=not window.order)]
        if not order and not _all_alike(window.child, window.partition):
            raise _limit_without_order()
        limit = _LIMIT_MAX if given.last is None else max(0, given.last - given.first + 1)
        relation = self._top(child, order, limit, given.first - 1, partition=window.partition)
        for condition in given.conditions:
            attached, (kept,) = self._attach(relation, [condition])
            relation = attached.then(Filter(kept), output=relation.output)
        return relation

    def _limit(self, plan: Plan) -> Relation:
        cuts: list[plans.Limit | plans.Offset] = []
        projects = []
        while not isinstance(plan, plans.Sort) and not _all_alike(plan):
            match plan:
                case plans.Limit() | plans.Offset():
                    cuts.append(plan)
                case plans.Project():
                    projects.append(plan.columns)
                case plans.LocalLimit():
                    pass
                case _:
                    raise _limit_without_order()
            plan = plan.child
        limit, offset = _reach(cuts)
        below, orders = (plan.child, plan.order) if isinstance(plan, plans.Sort) else (plan, [])
        relation = self._top(self.relation(below), orders, limit, offset)
        for columns in reversed(projects):
            relation = self._projected(relation, columns)
        return relation

    def _top(
        self,
        given: Relation,
        orders: Sequence[Expression],
        limit: int,
        offset: int,
        partition: Sequence[Expression] = (),
    ) -> Relation:
        ordered = self._ordered(given, orders, [], partition)
        kernel = TopK(ordered.schema, ordered.key, ordered.order, limit, offset)
        return self._placed_by(f"top {limit}", ordered, kernel, given.output)

    def _ordered(
        self,
        given: Relation,
        stated: Sequence[Expression],
        rest: Sequence[Expression],
        partition: Sequence[Expression],
    ) -> _Ordered:
        """Rows with columns for an order, the stated one and the rest of it, and for a partition."""
        orders = [*stated, *rest]
        child, keys = self._attach(given, [*(order.child for order in orders), *partition])
        groups = [self.catalyst.normalized(expression) for expression in keys[len(orders) :]]
        columns = list(child.output)
        places = [_placed(columns, expression) for expression in (*keys[: len(orders)], *groups)]
        schema = port_schema("c", columns)
        names = [schema.names[place] for place in places]
        key = tuple(names[len(orders) :])
        order: dict[str, Order] = {}
        count = 0
        for number, (name, given_order) in enumerate(zip(names, orders, strict=False), start=1):
            # A column that was decided by before, or is the same in the whole group, decides nothing.
            if name not in key and name not in order:
                one = SortOrder.of(given_order)
                order[name] = Order(name, one.descending, one.nulls_first)
            if number == len(stated):
                count = len(order)
        detail = ", ".join(one.sql for one in stated)
        if groups:
            detail += f" per {', '.join(group.sql for group in groups)}"
        return _Ordered(child, columns, schema, key, tuple(order.values()), count, detail)

    def _placed_by(
        self,
        title: str,
        ordered: _Ordered,
        kernel: TopK | Ranks,
        output: Sequence[Expression],
        made: Sequence[Expression] = (),
    ) -> Relation:
        """The rows that an operator gives, with these columns and those that it adds."""
        child, columns = ordered.child, ordered.columns
        types = [column.type for column in (*columns, *made)]
        operator = self.builder.add(title, ordered.detail, kernel, {"rows": Input(child, columns)}, types)
        # What rows were ordered by can be ordered by again above, even if it is no column of the result.
        hidden = [column if column.is_attribute else None for column in columns[len(child.output) :]]
        added = [column.attribute for column in made]
        return Relation((Branch(operator.number, [*child.output, *hidden, *added]),), [*output, *added])

    def _attach(self, relation: Relation, expressions: Sequence[Expression]) -> tuple[Relation, list[Expression]]:
        """Scalar subqueries inside expressions become columns: a join with the one row of each."""
        rewritten = []
        columns: dict[int, Expression] = {}
        seen: list[tuple[Expression, int]] = []
        for given in expressions:
            expression = self._with_sorted_maps(given) if "mapsort(" in given.text else given
            if "subquery" not in given.text:
                rewritten.append(expression)
                continue
            for part in walk(expression):
                if not self.catalyst.is_subquery(part) or part.identity in columns:
                    continue
                if part.kind != "ScalarSubquery":
                    raise UnsupportedQuery(f"{part.kind} in this place")
                # The same subquery in two places has two ids.
                known = next((number for other, number in seen if other.same_as(part)), None)
                if known is None:
                    below = self.relation(read_subquery(self.catalyst, part))
                    relation = self._joins.matched("left", relation, below, [], [], single=True)
                    columns[part.identity] = below.output[0]
                    seen.append((part, part.identity))
                else:
                    columns[part.identity] = columns[known]
            rewritten.append(self._replaced(expression, columns))
        return relation, rewritten

    def _with_sorted_maps(self, expression: Expression) -> Expression:
        """The expression with maps sorted in our way where Spark sorts them: keys of groups, for example."""
        below = [self._with_sorted_maps(child) for child in expression.children]
        if expression.kind == "MapSort":
            return self.catalyst.sorted_map(below[0])
        return self.catalyst.with_children(expression, below) if below else expression

    def _replaced(self, expression: Expression, columns: Mapping[int, Expression]) -> Expression:
        if self.catalyst.is_subquery(expression):
            return columns[expression.identity]
        below = [self._replaced(child, columns) for child in expression.children]
        return self.catalyst.with_children(expression, below) if below else expression


def _placed(columns: list[Expression], expression: Expression) -> int:
    """The place of an expression among columns, to which it is added if it is not one of them."""
    if expression.is_attribute:
        for place, column in enumerate(columns):
            if column.is_attribute and column.identity == expression.identity:
                return place
    columns.append(expression)
    return len(columns) - 1


def _used_outside(expression: Expression, columns: Collection[int], keys: Sequence[Expression]) -> bool:
    """Whether one of these columns is used, but neither by an aggregate function nor as a key of the group."""
    if expression.call is not None or any(key.same_as(expression) for key in keys):
        return False
    if expression.is_attribute:
        return expression.identity in columns
    return any(_used_outside(child, columns, keys) for child in expression.children)


def _all_alike(plan: Plan, partition: Sequence[Expression] = ()) -> bool:
    """Whether all rows (of a partition) are the same, so that no order is needed: an EXISTS becomes such a query."""
    while isinstance(plan, plans.Repartition):
        plan = plan.child
    if not isinstance(plan, plans.Project):
        return False
    same = {key.identity for key in partition if key.is_attribute}
    return all(unaliased(column).is_literal or column.identity in same for column in plan.columns)


def _reach(cuts: Sequence[plans.Limit | plans.Offset]) -> tuple[int, int]:
    """Limit and offset of several LIMIT and OFFSET, the outermost first."""
    limit, offset = _LIMIT_MAX, 0
    for cut in reversed(cuts):
        if isinstance(cut, plans.Limit):
            limit = min(limit, cut.count)
        else:
            offset, limit = offset + cut.count, limit if limit == _LIMIT_MAX else max(0, limit - cut.count)
    return limit, offset


def _limit_without_order() -> UnsupportedQuery:
    return UnsupportedQuery(
        "LIMIT or OFFSET without ORDER BY", hint="Say which rows come first: ORDER BY ... LIMIT ..."
    )

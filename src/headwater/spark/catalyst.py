"""Catalyst through py4j: plans, expressions and columns as Python sees them.

Expressions stay objects of Spark's: they are looked at, put into new nodes and run on other columns, never printed and
parsed again, so what they mean is what Spark says they mean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

import pyarrow as pa
from py4j.java_gateway import is_instance_of
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.classic.column import Column as ClassicColumn
from pyspark.sql.types import (
    ArrayType,
    DataType,
    MapType,
    StructField,
    StructType,
    _parse_datatype_json_string,
)

Node: TypeAlias = Any
"""A logical plan of Spark's."""
Expression: TypeAlias = Any
"""An expression of Spark's; an attribute is one that names a column of a plan by its id."""

Answer = TypeVar("Answer")

Substitution: TypeAlias = Callable[[Expression], Expression]
"""Puts values in the place of attributes."""

_CATALYST = "org.apache.spark.sql.catalyst"


class Catalyst:
    """One session's Catalyst."""

    def __init__(self, session: SparkSession) -> None:
        self.session = session
        jvm: Any = session._jvm  # noqa: SLF001
        self._jvm = jvm
        self._modules: dict[str, Any] = {}
        self._gateway: Any = session.sparkContext._gateway  # noqa: SLF001
        self.none = self.module("scala.None")
        self.nil = self.module("scala.collection.immutable.Nil")
        self._utilities = self.module("org.apache.spark.sql.classic.ExpressionUtils")
        self._datasets = self.module("org.apache.spark.sql.classic.Dataset")
        self._aliases = self.module(f"{_CATALYST}.expressions.Alias")
        self._substitution = self.module(f"{_CATALYST}.optimizer.CollapseProject")
        self._normalization = self.module(f"{_CATALYST}.optimizer.NormalizeFloatingNumbers")
        self._kinds: dict[tuple[str, str], bool] = {}
        self.expressions = jvm.org.apache.spark.sql.catalyst.expressions
        self.plans = jvm.org.apache.spark.sql.catalyst.plans.logical

    def module(self, name: str) -> Any:
        """A Scala object by its name."""
        if name not in self._modules:
            loader = self._jvm.java.lang.Thread.currentThread().getContextClassLoader()
            self._modules[name] = (
                self._jvm.java.lang.Class.forName(f"{name}$", True, loader).getField("MODULE$").get(None)
            )
        return self._modules[name]

    def unapply(self, extractor: str, node: Node) -> list[Any] | None:
        """What one of Spark's own extractors makes of a node; None if it does not match."""
        found = self.module(f"{_CATALYST}.planning.{extractor}").unapply(node)
        if not found.isDefined():
            return None
        values = found.get()
        return [values.productElement(number) for number in range(values.productArity())]

    def parse(self, sql: str) -> Node:
        return self.session._jsparkSession.sessionState().sqlParser().parsePlan(sql)  # noqa: SLF001

    def analyze(self, sql: str) -> Node:
        """The plan of a query, with all names and types resolved."""
        return analyzed(self.session.sql(with_dotted_names(self, sql)))

    def has_relation(self, name: str) -> bool:
        """Whether a topic or a view of this name is registered."""
        catalog = self.session._jsparkSession.sessionState().catalog()  # noqa: SLF001
        return bool(catalog.getTempView(name).isDefined())

    def optimize(self, plan: Node) -> Node:
        return self.session._jsparkSession.sessionState().executePlan(plan, self._mode()).optimizedPlan()  # noqa: SLF001

    def relation(self, schema: StructType) -> DataFrame:
        """A relation without rows, of which Spark's optimizer does not know that it has none."""
        given = self.module("org.apache.spark.sql.types.DataType").fromJson(schema.json())
        rows = self.session.sparkContext._jsc.emptyRDD().rdd()  # noqa: SLF001
        session = self.session._jsparkSession  # noqa: SLF001
        return DataFrame(session.internalCreateDataFrame(rows, given, False), self.session)

    def frame(self, plan: Node) -> DataFrame:
        """A DataFrame of a plan."""
        return DataFrame(self._datasets.ofRows(self.session._jsparkSession, plan), self.session)  # noqa: SLF001

    def collect(self, frame: DataFrame) -> pa.Table:
        """The rows of a DataFrame. All of them may be null: what Spark says cannot be is null after an outer join."""
        columns = []
        for attribute in items(analyzed(frame).output()):
            column, given = self.column(attribute), _parse_datatype_json_string(attribute.dataType().json())
            columns.append(column if given == nullable(given) else column.cast(nullable(given)))
        return frame.select(*columns).toArrow()

    def column(self, expression: Expression) -> Column:
        return ClassicColumn(self._utilities.column(expression))

    def expression(self, column: Column) -> Expression:
        return self._utilities.expression(column._jc)  # noqa: SLF001

    def alias(self, expression: Expression, attribute: Expression) -> Expression:
        """The expression as a column that is known by the id of an attribute."""
        return self._aliases.apply(expression, attribute.name(), attribute.exprId(), self.nil, self.none, self.nil)

    def named(self, expression: Expression, name: str) -> Expression:
        """The expression as a new column."""
        number = self.module(f"{_CATALYST}.expressions.NamedExpression").newExprId()
        return self._aliases.apply(expression, name, number, self.nil, self.none, self.nil)

    def ascending(self, expression: Expression) -> Expression:
        """An order by an expression, ascending with nulls first."""
        direction = self.module(f"{_CATALYST}.expressions.Ascending")
        return self.expressions.SortOrder(expression, direction, direction.defaultNullOrdering(), self.nil)

    def next_number(self) -> int:
        """The number that the next expression gets as its id, from one counter for all of Java."""
        return int(self._counter().get(None))

    def continue_from(self, number: int) -> None:
        """Sets the counter of ids."""
        # Py4J makes a Python number of an AtomicLong, so what sets it is put together in Java.
        java = self._jvm.java.lang
        handles = java.invoke.MethodHandles
        setter = handles.publicLookup().findVirtual(
            java.Class.forName("java.util.concurrent.atomic.AtomicLong"),
            "set",
            java.invoke.MethodType.methodType(java.Void.TYPE, java.Long.TYPE),
        )
        counter = handles.publicLookup().unreflectGetter(self._counter())
        handles.collectArguments(setter, 0, counter).invokeWithArguments(self.array([number]))

    def _counter(self) -> Any:
        found = self.module(f"{_CATALYST}.expressions.NamedExpression").getClass().getDeclaredField("curId")
        found.setAccessible(True)
        return found

    def substitution(self, values: Mapping[int, tuple[Expression, Expression]]) -> Substitution:
        """A function that puts values in the place of attributes: `values` has by id the attribute and its value."""
        aliases = self.sequence(self.alias(value, attribute) for attribute, value in values.values())
        mapping = self._substitution.getAliasMap(aliases)
        return lambda expression: self._substitution.replaceAlias(expression, mapping)

    def marked(self, below: Node, attributes: Sequence[Expression], now: Substitution) -> tuple[Node, Substitution]:
        """A plan in which the values of these attributes carry their metadata, and the substitution that finds them."""
        if not attributes:
            return below, now
        values = {}
        named = items(below.output())
        for attribute in attributes:
            new, metadata = attribute.newInstance(), self.some(attribute.metadata())
            named.append(self._aliases.apply(now(attribute), new.name(), new.exprId(), self.nil, metadata, self.nil))
            values[identity(attribute)] = (attribute, named[-1].toAttribute())
        marking = self.substitution(values)
        return self.plans.Project(self.sequence(named), below), lambda expression: now(marking(expression))

    def null(self, given: Any) -> Expression:
        """A null of a type of Spark's."""
        return self.module(f"{_CATALYST}.expressions.Literal").create(None, given)

    def bound(self, expression: Expression, columns: Any) -> Expression:
        """The expression with places among these columns instead of attributes, whose ids differ from run to run."""
        binding = self.module(f"{_CATALYST}.expressions.BindReferences")
        return binding.bindReference(expression, columns, True)

    def columns(self, attributes: Iterable[Expression]) -> Any:
        """Attributes as the columns of rows, for `bound`."""
        return self._jvm.org.apache.spark.sql.catalyst.expressions.package.AttributeSeq(self.sequence(attributes))

    def sorted_map(self, child: Expression) -> Expression:
        """A map with its entries in the order of their keys.

        Not by Spark's own function, which turns nulls into zeros when it is compiled.
        """
        keys = "sort_array(map_keys(m))"
        return self._computed(child, f"map_from_arrays({keys}, transform({keys}, k -> m[k]))")

    def comparable(self, value: Expression) -> Expression:
        """A value by which rows can be ordered: the value itself, with every map in it as a list of its entries.

        Values that differ stay different. What cannot be compared in other ways becomes its hash.
        """
        if self.is_orderable(value.dataType()):
            return value
        made = self._computed(value, comparable_sql("m", data_type(value)))
        return made if self.is_orderable(made.dataType()) else self.expressions.XxHash64(self.sequence([value]))

    def _computed(self, value: Expression, sql: str) -> Expression:
        """What an expression of SQL gives in which the value is called `m`."""
        attribute = self.named(value, "m").toAttribute()
        relation = self.plans.LocalRelation(self.sequence([attribute]), self.nil, False, self.none)
        (made,) = items(analyzed(self.frame(relation).selectExpr(f"{sql} AS m")).projectList())
        return self.substitution({identity(attribute): (attribute, value)})(unaliased(made))

    def whole(self, value: int) -> Expression:
        """A whole number."""
        return self.module(f"{_CATALYST}.expressions.Literal").apply(value)

    def only_if(self, condition: Expression, value: Expression) -> Expression:
        """The value where the condition holds, else null."""
        return self.expressions.If(condition, value, self.null(value.dataType()))

    def as_double(self, value: Expression) -> Expression:
        return self._cast(value, "DoubleType")

    def normalized(self, expression: Expression) -> Expression:
        """A key in which all NaN are one and -0.0 is 0.0, as Spark groups by it."""
        return self._normalization.normalize(expression)

    def sequence(self, items: Iterable[Any]) -> Any:
        """A Scala sequence."""
        listed = self._jvm.java.util.ArrayList()
        for item in items:
            listed.add(item)
        return self._jvm.org.apache.spark.api.python.PythonUtils.toSeq(listed)

    def array(self, items: Sequence[Any]) -> Any:
        made = self._gateway.new_array(self._jvm.java.lang.Object, len(items))
        for number, item in enumerate(items):
            made[number] = item
        return made

    def some(self, value: Any) -> Any:
        return self._jvm.scala.Some(value)

    def struct(self, values: Sequence[Expression]) -> Expression:
        return self.module(f"{_CATALYST}.expressions.CreateStruct").apply(self.sequence(values))

    def is_orderable(self, given: Any) -> bool:
        """Whether values of a type of Spark's can be compared."""
        # Not RowOrdering's, which takes a struct, being a sequence of fields, for a sequence of expressions.
        return bool(self.module(f"{_CATALYST}.expressions.OrderUtils").isOrderable(given))

    def is_sequence(self, value: Any) -> bool:
        return self._is(value, "scala.collection.immutable.Seq")

    def is_option(self, value: Any) -> bool:
        return self._is(value, "scala.Option")

    def is_plan(self, value: Any) -> bool:
        return self._is(value, f"{_CATALYST}.plans.logical.LogicalPlan")

    def is_statement(self, value: Any) -> bool:
        """Whether a parsed plan is a command, or a statement such as INSERT, and no query."""
        kinds = ("Command", "ParsedStatement")
        return any(self._is(value, f"{_CATALYST}.plans.logical.{one}") for one in kinds)

    def is_expression(self, value: Any) -> bool:
        return self._is(value, f"{_CATALYST}.expressions.Expression")

    def is_subquery(self, value: Any) -> bool:
        return self._is(value, f"{_CATALYST}.expressions.SubqueryExpression")

    def _is(self, value: Any, name: str) -> bool:
        """Whether a value is of a class or a trait. Each class is asked for once: it takes several calls to Java."""
        known = (str(value.getClass().getName()), name)
        if known not in self._kinds:
            self._kinds[known] = bool(is_instance_of(self._gateway, value, name))
        return self._kinds[known]

    def _cast(self, value: Expression, name: str) -> Expression:
        mode = self.module(f"{_CATALYST}.expressions.EvalMode").ANSI()
        return self.expressions.Cast(value, self.module(f"org.apache.spark.sql.types.{name}"), self.none, mode)

    def _mode(self) -> Any:
        return self.module("org.apache.spark.sql.execution.CommandExecutionMode").ALL()


def with_dotted_names(catalyst: Catalyst, sql: str) -> str:
    """The query with topics such as `shop.orders` as one name each, which Spark would take for a table in a schema.

    Without an alias the relation is called by the last part, so that `orders.id` names its column.
    """
    if "." not in sql:
        return sql
    # A subquery is found by more than one way.
    found = set(_dotted(catalyst, catalyst.parse(sql), aliased=False))
    for first, last, name, aliased in sorted(found, reverse=True):
        alias = "" if aliased else f" AS `{name.rpartition('.')[2]}`"
        sql = f"{sql[:first]}`{name}`{alias}{sql[last + 1 :]}"
    return sql


def _dotted(catalyst: Catalyst, node: Node, *, aliased: bool) -> Iterator[tuple[int, int, str, bool]]:
    """Where relations with several parts stand in the query, what they are called, and whether they have an alias."""
    if kind(node) == "UnresolvedRelation":
        parts = [str(part) for part in items(node.multipartIdentifier())]
        name, origin = ".".join(parts), node.origin()
        if len(parts) > 1 and origin.startIndex().isDefined() and catalyst.has_relation(name):
            yield int(origin.startIndex().get()), int(origin.stopIndex().get()), name, aliased
    for child in (*items(node.children()), *items(node.innerChildren())):
        if catalyst.is_plan(child):
            yield from _dotted(catalyst, child, aliased=kind(node) == "SubqueryAlias")
    for expression in items(node.expressions()):
        yield from _dotted_inside(catalyst, expression)


def _dotted_inside(catalyst: Catalyst, expression: Expression) -> Iterator[tuple[int, int, str, bool]]:
    if catalyst.is_subquery(expression):
        yield from _dotted(catalyst, expression.plan(), aliased=False)
    for child in items(expression.children()):
        yield from _dotted_inside(catalyst, child)


def comparable_sql(value: str, given: DataType, depth: int = 0) -> str:
    """A value in SQL with every map in it as a list of its entries."""
    inner = f"e{depth}"
    match given:
        case MapType():
            entry = comparable_sql(f"{inner}.value", given.valueType, depth + 1)
            return f"transform(map_entries({value}), {inner} -> struct({inner}.key AS key, {entry} AS value))"
        case ArrayType():
            return f"transform({value}, {inner} -> {comparable_sql(inner, given.elementType, depth + 1)})"
        case StructType():
            fields = ", ".join(
                f"{comparable_sql(f'{value}.`{name}`', one.dataType, depth)} AS `{name}`"
                for one in given.fields
                for name in [one.name.replace("`", "``")]
            )
            return f"if({value} IS NULL, NULL, struct({fields}))" if given.fields else value
    return value


def analyzed(frame: DataFrame) -> Node:
    return frame._jdf.queryExecution().analyzed()  # noqa: SLF001


def _remembered(value: Any, name: str, ask: Callable[[], Answer]) -> Answer:
    """What Java says about an object that never changes, asked once: a call to Java takes some 100 µs."""
    known = vars(value)
    if name not in known:
        known[name] = ask()
    answer: Answer = known[name]
    return answer


def kind(value: Any) -> str:
    """The class of a node or an expression, without its package."""
    return _remembered(value, "_kind", lambda: str(value.getClass().getSimpleName()).removesuffix("$"))


def items(sequence: Any) -> list[Any]:
    """The items of a Scala sequence."""
    return [sequence.apply(number) for number in range(sequence.size())]


def children(value: Any) -> list[Any]:
    return items(value.children())


def option(value: Any) -> Any | None:
    return value.get() if value.isDefined() else None


def unaliased(expression: Expression) -> Expression:
    """The expression without the name that it was given."""
    return expression.child() if kind(expression) == "Alias" else expression


def identity(attribute: Expression) -> int:
    """The id by which an attribute is known."""
    return _remembered(attribute, "_identity", lambda: int(attribute.exprId().id()))


def walk(expression: Expression) -> Iterator[Expression]:
    """The expression and all below it; not into subqueries' plans."""
    yield expression
    for child in children(expression):
        yield from walk(child)


def conjuncts(condition: Expression) -> Iterator[Expression]:
    """The conditions that a condition is the conjunction of."""
    if kind(condition) == "And":
        for child in children(condition):
            yield from conjuncts(child)
    else:
        yield condition


def data_type(value: Any) -> DataType:
    """The type of an expression, with everything inside it nullable, so that equal types are equal."""
    return _remembered(value, "_type", lambda: nullable(_parse_datatype_json_string(value.dataType().json())))


def nullable(given: DataType) -> DataType:
    """The type with everything inside it nullable, and without metadata."""
    if isinstance(given, StructType):
        return StructType([StructField(field.name, nullable(field.dataType)) for field in given.fields])
    changed: Any = type(given).__new__(type(given))
    changed.__dict__.update(given.__dict__)
    for part in ("elementType", "keyType", "valueType"):
        if hasattr(given, part):
            setattr(changed, part, nullable(getattr(given, part)))
    for flag in ("containsNull", "valueContainsNull"):
        if hasattr(given, flag):
            setattr(changed, flag, True)
    return changed  # type: ignore[no-any-return]

"""One session's Catalyst: SQL to plans, plans to frames, and expressions made of others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa
from py4j.java_gateway import is_instance_of
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.classic.column import Column as ClassicColumn
from pyspark.sql.types import StructType, _parse_datatype_json_string

from headwater.spark.catalyst.expressions import Expression, expressions, unaliased
from headwater.spark.catalyst.java import Java, Node
from headwater.spark.catalyst.types import comparable_sql, nullable

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

    def module(self, name: str) -> Java:
        """A Scala object by its name."""
        if name not in self._modules:
            loader = self._jvm.java.lang.Thread.currentThread().getContextClassLoader()
            self._modules[name] = (
                self._jvm.java.lang.Class.forName(f"{name}$", True, loader).getField("MODULE$").get(None)
            )
        return self._modules[name]

    def unapply(self, extractor: str, node: Java) -> list[Java] | None:
        """What one of Spark's own extractors makes of a node; None if it does not match."""
        found = self.module(f"{_CATALYST}.planning.{extractor}").unapply(node)
        if not found.isDefined():
            return None
        values = found.get()
        return [values.productElement(number) for number in range(values.productArity())]

    def join_like(self, node: Java) -> Java:
        """A join of the same sides, kind and condition."""
        hint = self.module(f"{_CATALYST}.plans.logical.JoinHint").NONE()
        return self.plans.Join(node.left(), node.right(), node.joinType(), node.condition(), hint)

    def parse(self, sql: str) -> Node:
        return Node(self.session._jsparkSession.sessionState().sqlParser().parsePlan(sql))  # noqa: SLF001

    def analyzed(self, frame: DataFrame) -> Node:
        """The plan of a frame, with all names and types resolved."""
        return Node(frame._jdf.queryExecution().analyzed())  # noqa: SLF001

    def has_relation(self, name: str) -> bool:
        """Whether a topic or a view of this name is registered."""
        catalog = self.session._jsparkSession.sessionState().catalog()  # noqa: SLF001
        return bool(catalog.getTempView(name).isDefined())

    def optimize(self, plan: Node) -> Node:
        state = self.session._jsparkSession.sessionState()  # noqa: SLF001
        return Node(state.executePlan(plan.java, self._mode()).optimizedPlan())

    def output(self, plan: Node) -> list[Expression]:
        """The columns of a plan, as attributes."""
        return expressions(plan.java.output())

    def relation_number(self, frame: DataFrame) -> int:
        """The number that a relation goes by in plans."""
        return int(self.analyzed(frame).java.rdd().id())

    def relation(self, schema: StructType) -> DataFrame:
        """A relation without rows, of which Spark's optimizer does not know that it has none."""
        given = self.module("org.apache.spark.sql.types.DataType").fromJson(schema.json())
        rows = self.session.sparkContext._jsc.emptyRDD().rdd()  # noqa: SLF001
        session = self.session._jsparkSession  # noqa: SLF001
        return DataFrame(session.internalCreateDataFrame(rows, given, False), self.session)

    def frame(self, plan: Node) -> DataFrame:
        """A DataFrame of a plan."""
        return DataFrame(self._datasets.ofRows(self.session._jsparkSession, plan.java), self.session)  # noqa: SLF001

    def collect(self, frame: DataFrame) -> pa.Table:
        """The rows of a DataFrame. All of them may be null: what Spark says cannot be is null after an outer join."""
        columns = []
        for attribute in self.output(self.analyzed(frame)):
            # Not the attribute's own `type`, in which everything is nullable.
            column, given = self.column(attribute), _parse_datatype_json_string(attribute.java.dataType().json())
            columns.append(column if given == nullable(given) else column.cast(nullable(given)))
        return frame.select(*columns).toArrow()

    def column(self, expression: Expression) -> Column:
        return ClassicColumn(self._utilities.column(expression.java))

    def expression(self, column: Column) -> Expression:
        return Expression(self._utilities.expression(column._jc))  # noqa: SLF001

    def alias(self, expression: Expression, attribute: Expression) -> Expression:
        """The expression as a column that is known by the id of an attribute."""
        name, number = attribute.java.name(), attribute.java.exprId()
        return Expression(self._aliases.apply(expression.java, name, number, self.nil, self.none, self.nil))

    def named(self, expression: Expression, name: str) -> Expression:
        """The expression as a new column."""
        number = self.module(f"{_CATALYST}.expressions.NamedExpression").newExprId()
        return Expression(self._aliases.apply(expression.java, name, number, self.nil, self.none, self.nil))

    def annotated(self, expression: Expression, attribute: Expression, like: Expression) -> Expression:
        """The expression as a column that is known by the id of an attribute and has the metadata of another one."""
        name, number = attribute.java.name(), attribute.java.exprId()
        metadata = self.some(like.java.metadata())
        return Expression(self._aliases.apply(expression.java, name, number, self.nil, metadata, self.nil))

    def marked(self, attribute: Expression, mark: str) -> Expression:
        """The attribute, marked as a column of Spark's own making."""
        metadata = self._jvm.org.apache.spark.sql.types.MetadataBuilder().putString(mark, attribute.name).build()
        return Expression(attribute.java.withMetadata(metadata))

    def ascending(self, expression: Expression) -> Expression:
        """An order by an expression, ascending with nulls first."""
        direction = self.module(f"{_CATALYST}.expressions.Ascending")
        order = self.expressions.SortOrder(expression.java, direction, direction.defaultNullOrdering(), self.nil)
        return Expression(order)

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

    def _counter(self) -> Java:
        found = self.module(f"{_CATALYST}.expressions.NamedExpression").getClass().getDeclaredField("curId")
        found.setAccessible(True)
        return found

    def substitution(self, values: Mapping[int, tuple[Expression, Expression]]) -> Substitution:
        """A function that puts values in the place of attributes: `values` has by id the attribute and its value."""
        aliases = self.sequence(self.alias(value, attribute) for attribute, value in values.values())
        mapping = self._substitution.getAliasMap(aliases)
        return lambda expression: Expression(self._substitution.replaceAlias(expression.java, mapping))

    def null(self, like: Expression) -> Expression:
        """A null of an expression's type."""
        return Expression(self.module(f"{_CATALYST}.expressions.Literal").create(None, like.java.dataType()))

    def bound(self, attributes: Iterable[Expression]) -> Callable[[Expression], tuple[str, str]]:
        """A function that says what an expression means, with places among these attributes instead of their ids.

        It is what Spark calls it, and all that is in it as JSON.
        """
        binding = self.module(f"{_CATALYST}.expressions.BindReferences")
        sequence = self._jvm.org.apache.spark.sql.catalyst.expressions.package.AttributeSeq(self.sequence(attributes))

        def texts(expression: Expression) -> tuple[str, str]:
            found = binding.bindReference(expression.java, sequence, True).canonicalized()
            return str(found.toString()), str(found.toJSON())

        return texts

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
        if self.is_orderable(value):
            return value
        made = self._computed(value, comparable_sql("m", value.type))
        return made if self.is_orderable(made) else self.hashed([value])

    def _computed(self, value: Expression, sql: str) -> Expression:
        """What an expression of SQL gives in which the value is called `m`."""
        attribute = self.named(value, "m").attribute
        relation = Node(self.plans.LocalRelation(self.sequence([attribute]), self.nil, False, self.none))
        (made,) = expressions(self.analyzed(self.frame(relation).selectExpr(f"{sql} AS m")).java.projectList())
        return self.substitution({attribute.identity: (attribute, value)})(unaliased(made))

    def hashed(self, values: Sequence[Expression], *seed: int) -> Expression:
        """A hash of some values."""
        return Expression(self.expressions.XxHash64(self.sequence(values), *seed))

    def whole(self, value: int) -> Expression:
        """A whole number."""
        return Expression(self.module(f"{_CATALYST}.expressions.Literal").apply(value))

    def text(self, value: str) -> Expression:
        """A text."""
        return Expression(self.module(f"{_CATALYST}.expressions.Literal").apply(value))

    def only_if(self, condition: Expression, value: Expression) -> Expression:
        """The value where the condition holds, else null."""
        return Expression(self.expressions.If(condition.java, value.java, self.null(value).java))

    def is_not_null(self, value: Expression) -> Expression:
        return Expression(self.expressions.IsNotNull(value.java))

    def first_not_null(self, values: Sequence[Expression]) -> Expression:
        return Expression(self.expressions.Coalesce(self.sequence(values)))

    def ascending_list(self, values: Expression) -> Expression:
        """A list in ascending order."""
        return Expression(self.expressions.SortArray(values.java))

    def equal(self, left: Expression, right: Expression) -> Expression:
        return Expression(self.expressions.EqualTo(left.java, right.java))

    def both(self, left: Expression, right: Expression) -> Expression:
        return Expression(self.expressions.And(left.java, right.java))

    def as_double(self, value: Expression) -> Expression:
        return self._cast(value, "DoubleType")

    def normalized(self, expression: Expression) -> Expression:
        """A key in which all NaN are one and -0.0 is 0.0, as Spark groups by it."""
        return Expression(self._normalization.normalize(expression.java))

    def with_children(self, expression: Expression, children: Sequence[Expression]) -> Expression:
        """The same expression of others."""
        return Expression(expression.java.withNewChildren(self.sequence(children)))

    def with_arguments(self, function: Expression, arguments: Sequence[Expression]) -> Expression:
        """The function in Python, called with these arguments."""
        java = function.java
        parts = [java.productElement(number) for number in range(java.productArity())]
        parts[3] = self.sequence(arguments)
        return Expression(java.makeCopy(self.array(parts)))

    def sequence(self, items: Iterable[Java | Expression | Node]) -> Java:
        """A Scala sequence of objects, or of what these handles stand for."""
        listed = self._jvm.java.util.ArrayList()
        for item in items:
            listed.add(item.java if isinstance(item, Expression | Node) else item)
        return self._jvm.org.apache.spark.api.python.PythonUtils.toSeq(listed)

    def strings(self, texts: Iterable[str]) -> Java:
        """A Scala sequence of texts."""
        listed = self._jvm.java.util.ArrayList()
        for text in texts:
            listed.add(text)
        return self._jvm.org.apache.spark.api.python.PythonUtils.toSeq(listed)

    def array(self, items: Sequence[Any]) -> Java:
        made = self._gateway.new_array(self._jvm.java.lang.Object, len(items))
        for number, item in enumerate(items):
            made[number] = item
        return made

    def some(self, value: Java) -> Java:
        return self._jvm.scala.Some(value)

    def struct(self, values: Sequence[Expression]) -> Expression:
        return Expression(self.module(f"{_CATALYST}.expressions.CreateStruct").apply(self.sequence(values)))

    def is_orderable(self, value: Expression) -> bool:
        """Whether values of an expression's type can be compared."""
        return self.is_orderable_type(value.java.dataType())

    def is_orderable_type(self, given: Java) -> bool:
        # Not RowOrdering's, which takes a struct, being a sequence of fields, for a sequence of expressions.
        return bool(self.module(f"{_CATALYST}.expressions.OrderUtils").isOrderable(given))

    def is_sequence(self, value: Java) -> bool:
        return self._is(value, "scala.collection.immutable.Seq")

    def is_option(self, value: Java) -> bool:
        return self._is(value, "scala.Option")

    def is_plan(self, value: Java) -> bool:
        return self._is(value, f"{_CATALYST}.plans.logical.LogicalPlan")

    def is_statement(self, value: Java) -> bool:
        """Whether a parsed plan is a command, or a statement such as INSERT, and no query."""
        kinds = ("Command", "ParsedStatement")
        return any(self._is(value, f"{_CATALYST}.plans.logical.{one}") for one in kinds)

    def is_expression(self, value: Java) -> bool:
        return self._is(value, f"{_CATALYST}.expressions.Expression")

    def is_subquery(self, value: Expression) -> bool:
        return self._is(value.java, f"{_CATALYST}.expressions.SubqueryExpression")

    def _is(self, value: Java, name: str) -> bool:
        """Whether a value is of a class or a trait. Each class is asked for once: it takes several calls to Java."""
        known = (str(value.getClass().getName()), name)
        if known not in self._kinds:
            self._kinds[known] = bool(is_instance_of(self._gateway, value, name))
        return self._kinds[known]

    def _cast(self, value: Expression, name: str) -> Expression:
        mode = self.module(f"{_CATALYST}.expressions.EvalMode").ANSI()
        kind = self.module(f"org.apache.spark.sql.types.{name}")
        return Expression(self.expressions.Cast(value.java, kind, self.none, mode))

    def _mode(self) -> Java:
        return self.module("org.apache.spark.sql.execution.CommandExecutionMode").ALL()

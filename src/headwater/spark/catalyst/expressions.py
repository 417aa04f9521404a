"""Expressions of Spark's as Python sees them: handles that say what they are, and that are put together again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from pyspark.sql.types import DataType, _parse_datatype_json_string

from headwater.spark.catalyst.java import Java, items, kind, option
from headwater.spark.catalyst.types import nullable

_DAY = 86_400_000_000


@dataclass(frozen=True, eq=False)
class Expression:
    """An expression of Spark's; an attribute is one that names a column of a plan by its id.

    It never changes, so that Java is asked once for whatever it says.
    """

    java: Java

    @cached_property
    def kind(self) -> str:
        """The name of its class."""
        return kind(self.java)

    @cached_property
    def text(self) -> str:
        """What Spark calls it, with the ids of attributes."""
        return str(self.java.toString())

    @cached_property
    def sql(self) -> str:
        return str(self.java.sql())

    @cached_property
    def type(self) -> DataType:
        """Its type, with everything inside it nullable, so that equal types are equal."""
        return nullable(_parse_datatype_json_string(self.java.dataType().json()))

    @cached_property
    def children(self) -> tuple[Expression, ...]:
        return tuple(expressions(self.java.children()))

    @cached_property
    def child(self) -> Expression:
        """What it is applied to, if that is one expression."""
        return Expression(self.java.child())

    @cached_property
    def references(self) -> frozenset[int]:
        """The ids of the attributes that it uses."""
        return frozenset(attribute.identity for attribute in self.referenced)

    @cached_property
    def referenced(self) -> tuple[Expression, ...]:
        """The attributes that it uses."""
        return tuple(expressions(self.java.references().toSeq()))

    @cached_property
    def identity(self) -> int:
        """The id by which an attribute or a named column is known."""
        return int(self.java.exprId().id())

    @cached_property
    def name(self) -> str:
        """What an attribute or a named column is called."""
        return str(self.java.name())

    @cached_property
    def attribute(self) -> Expression:
        """A named column as other expressions refer to it."""
        return Expression(self.java.toAttribute())

    @property
    def is_attribute(self) -> bool:
        return self.kind == "AttributeReference"

    @property
    def is_alias(self) -> bool:
        """Whether it gives a name to another expression, its child."""
        return self.kind == "Alias"

    @property
    def is_literal(self) -> bool:
        return self.kind == "Literal"

    @cached_property
    def is_session(self) -> bool:
        """Whether it is a column of session windows: Spark joins overlapping ones when it aggregates."""
        return self.is_attribute and bool(self.java.metadata().contains("spark.sessionWindow"))

    @cached_property
    def function_name(self) -> str:
        """What a function is called in SQL."""
        return str(self.java.prettyName())

    @cached_property
    def value(self) -> object:
        """The value of a literal, or of an expression of literals."""
        return self.java.value() if self.is_literal else self.java.eval(None)

    @cached_property
    def interval(self) -> int | None:
        """The length of a literal of days and less, in microseconds; None for any other expression."""
        if not self.is_literal or str(self.java.dataType().typeName()) != "interval" or self.java.value() is None:
            return None
        period, duration = self.java.value().extractAsPeriod(), self.java.value().extractAsDuration()
        if period.toTotalMonths():
            return None
        return int(period.getDays()) * _DAY + int(duration.toNanos()) // 1000

    @cached_property
    def window_function(self) -> Expression | None:
        """The function that is computed over a window, if it is that."""
        return Expression(self.java.windowFunction()) if self.kind == "WindowExpression" else None

    @cached_property
    def call(self) -> AggregateCall | None:
        """The aggregate function that is called, if it is that."""
        return AggregateCall(self) if self.kind == "AggregateExpression" else None

    def same_as(self, other: Expression) -> bool:
        """Whether it means the same."""
        return bool(self.java.semanticEquals(other.java))

    def new_instance(self) -> Expression:
        """The attribute with another id."""
        return Expression(self.java.newInstance())


@dataclass(frozen=True, eq=False)
class AggregateCall:
    """An aggregate function with its arguments, as it stands in a query."""

    expression: Expression

    @cached_property
    def function(self) -> Expression:
        return Expression(self.expression.java.aggregateFunction())

    @cached_property
    def is_distinct(self) -> bool:
        return bool(self.expression.java.isDistinct())

    @cached_property
    def condition(self) -> Expression | None:
        """Which rows count."""
        found = option(self.expression.java.filter())
        return None if found is None else Expression(found)

    @cached_property
    def result(self) -> Expression:
        """The attribute by which other expressions refer to the result."""
        return Expression(self.expression.java.resultAttribute())

    @cached_property
    def is_tried(self) -> bool:
        """Whether a sum or an average is null where it overflows."""
        java = self.function.java
        mode = java.evalContext().evalMode() if self.function.kind == "Sum" else java.evalMode()
        return str(mode.toString()) == "TRY"

    @cached_property
    def buffers(self) -> Sequence[Expression]:
        """The attributes of what Spark would keep while it computes the function."""
        return expressions(self.function.java.aggBufferAttributes())

    @cached_property
    def finished(self) -> Expression:
        """The result, made of `buffers`."""
        return Expression(self.function.java.evaluateExpression())


@dataclass(frozen=True, slots=True)
class SortOrder:
    """One column of an order."""

    expression: Expression
    """The order as an expression of Spark's."""
    child: Expression
    descending: bool
    nulls_first: bool

    @classmethod
    def of(cls, expression: Expression) -> SortOrder:
        java = expression.java
        return cls(expression, expression.child, "Desc" in kind(java.direction()), "First" in kind(java.nullOrdering()))


def expressions(sequence: Java) -> list[Expression]:
    """The expressions in a Scala sequence."""
    return [Expression(java) for java in items(sequence)]


def unaliased(expression: Expression) -> Expression:
    """The expression without the name that it was given."""
    return expression.child if expression.is_alias else expression


def walk(expression: Expression) -> Iterator[Expression]:
    """The expression and all below it; not into subqueries' plans."""
    yield expression
    for child in expression.children:
        yield from walk(child)


def conjuncts(condition: Expression) -> Iterator[Expression]:
    """The conditions that a condition is the conjunction of."""
    if condition.kind == "And":
        for child in condition.children:
            yield from conjuncts(child)
    else:
        yield condition

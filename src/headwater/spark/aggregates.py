"""Which aggregate functions the aggregate kernel keeps, and how a function of Spark's is made of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

from headwater.spark.catalyst import Catalyst, Expression
from headwater.spark.catalyst.expressions import AggregateCall
from headwater.views.aggregate import Function, FunctionKind

_COMPARABLE = (
    BinaryType, BooleanType, ByteType, DateType, DecimalType, DoubleType, FloatType, IntegerType, LongType, ShortType,
    StringType, TimestampNTZType, TimestampType,
)  # fmt: skip
_LONG_DIGITS_MAX = 18
_SUMMED = (LongType, DecimalType, DoubleType)


@dataclass(slots=True)
class AggregatePlan:
    """The functions that the kernel is asked for, and what Spark makes of their results.

    `outputs` are the attributes of the kernel's columns, `finishing` the projection that makes `results` of them: an
    average, for example, is finished by Spark from the kernel's sum and count.
    """

    arguments: list[Expression] = field(default_factory=list)
    types: list[DataType] = field(default_factory=list)
    outputs: list[Expression] = field(default_factory=list)
    finishing: list[Expression] = field(default_factory=list)
    results: list[Expression] = field(default_factory=list)
    _functions: list[tuple[FunctionKind, tuple[int, ...]]] = field(default_factory=list)

    def add(
        self, function: FunctionKind, arguments: Sequence[Expression], output: Expression, result: DataType
    ) -> None:
        places = tuple(self._place(argument) for argument in arguments)
        self._functions.append((function, places))
        self.outputs.append(output)
        self.types.append(result)

    @property
    def adds_up(self) -> bool:
        """Whether all functions are counts and sums of whole numbers and decimals."""
        doubles = [isinstance(argument.type, DoubleType) for argument in self.arguments]
        return all(
            function == "count" or (function == "sum" and not any(doubles[place] for place in places))
            for function, places in self._functions
        )

    def functions(self, names: Sequence[str]) -> tuple[Function, ...]:
        """The kernel's functions, given what the arguments' columns are called."""
        return tuple(
            Function(
                function,
                tuple(names[place] for place in places),
                f"f{number}",
                to_arrow_type(self.types[number], timezone="UTC"),
            )
            for number, (function, places) in enumerate(self._functions)
        )

    def _place(self, argument: Expression) -> int:
        """Where an argument is among the others: functions of the same one share it, and what is kept of it."""
        for place, known in enumerate(self.arguments):
            if known.same_as(argument):
                return place
        self.arguments.append(argument)
        return len(self.arguments) - 1


def _measurable(given: DataType) -> bool:
    """Whether sums of a type are made of two limbs."""
    if isinstance(given, DecimalType):
        return given.precision <= _LONG_DIGITS_MAX
    return isinstance(given, ByteType | ShortType | IntegerType | LongType)


def plan_aggregates(catalyst: Catalyst, expressions: Sequence[Expression]) -> AggregatePlan | None:
    """A plan for these aggregate expressions; None if one of them is for the general operator."""
    plan = AggregatePlan()
    for expression in expressions:
        call = expression.call
        if call is None or not _add(catalyst, plan, call):
            return None
        plan.results.append(call.result)
    return plan


def _add(catalyst: Catalyst, plan: AggregatePlan, call: AggregateCall) -> bool:
    function, distinct = call.function, call.is_distinct
    arguments = [_filtered(catalyst, argument, call.condition) for argument in function.children]
    name, result, output = function.kind, function.type, call.result
    if name == "Count":
        if not distinct:
            # Literals need not be looked at: count(*) is count(1).
            arguments = [] if call.condition is None and _all_literal(function) else arguments
        plan.add("count_distinct" if distinct else "count", arguments, output, result)
        return True
    if name in ("Min", "Max") and isinstance(arguments[0].type, _COMPARABLE):
        plan.add("min" if name == "Min" else "max", arguments, output, result)
        return True
    if name == "Sum" and isinstance(result, _SUMMED) and not call.is_tried:
        plan.add("sum_distinct" if distinct else "sum", [_widened(catalyst, arguments[0], result)], output, result)
        return True
    if name == "Average" and not distinct and not call.is_tried:
        total, count = call.buffers
        if not isinstance(total.type, _SUMMED):
            return False
        summed = arguments[0] if _measurable(arguments[0].type) else _widened(catalyst, arguments[0], total.type)
        plan.add("sum", [summed], total, total.type)
        plan.add("count", arguments, count, count.type)
        plan.finishing.append(catalyst.alias(call.finished, output))
        return True
    return False


def _all_literal(function: Expression) -> bool:
    return all(child.is_literal and child.value is not None for child in function.children)


def _filtered(catalyst: Catalyst, argument: Expression, condition: Expression | None) -> Expression:
    if condition is None:
        return argument
    return catalyst.only_if(condition, argument)


def _widened(catalyst: Catalyst, argument: Expression, total: DataType) -> Expression:
    """Doubles are summed as doubles, whatever they were; whole numbers and decimals are summed as they are."""
    if isinstance(total, DoubleType) and not isinstance(argument.type, DoubleType):
        return catalyst.as_double(argument)
    return argument

"""What a query says about the history of topics: `changes('t')`, `versions('t')`, `late('t')`, and system columns.

They are put into the parsed plan in the place of names. System columns are hidden: Spark finds them by their names,
and `*`, USING and NATURAL do not see them, as with Spark's own `_metadata`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from headwater.errors import UnsupportedQuery
from headwater.model.record import SQL_COLUMNS
from headwater.spark.catalyst.expressions import Expression, expressions
from headwater.spark.catalyst.java import Java, Node, items, kind
from headwater.spark.catalyst.relations import with_dotted_names
from headwater.spark.catalyst.session import Catalyst
from headwater.spark.vocabulary.lexer import Lexeme, tokens

Reading: TypeAlias = Literal["rows", "changes", "versions", "late"]
"""How a topic is read: by its name as its rows, or by a function as its changes, as the versions of its rows, or as the
late records that views drop."""

_FUNCTIONS = frozenset(get_args(Reading)) - {"rows"}
_NAMES = {"UnresolvedRelation": "multipartIdentifier", "UnresolvedTableValuedFunction": "name"}
_HIDDEN = "__metadata_col"
"""What Spark marks columns with that are found by their names and are in no `*`."""


@dataclass(frozen=True, slots=True)
class Reference:
    """What a query reads from: the name of a topic or a view, and how it is read."""

    name: str
    reading: Reading = "rows"

    @property
    def folded(self) -> Reference:
        """The same for names that SQL does not tell apart."""
        return Reference(self.name.lower(), self.reading)


def names_system_columns(sql: str) -> bool:
    """Whether a query has the name of a system column in it, which may turn out to be something else's."""
    return any(token.lexeme is Lexeme.WORD and token.text in SQL_COLUMNS for token in tokens(sql))


def references(catalyst: Catalyst, plan: Node) -> set[Reference]:
    """What a parsed query reads from. Raises `UnsupportedQuery`."""
    return {found for _, found in _references(catalyst, plan.java)}


def analyze(catalyst: Catalyst, sql: str, history: Mapping[Reference, DataFrame] | None = None) -> Node:
    """The plan of a query, with all names and types resolved.

    `history` has the rows for references that are not registered by their names, folded; their system columns are
    hidden.
    """
    return catalyst.analyzed(frame_of(catalyst, sql, history or {}))


def frame_of(catalyst: Catalyst, sql: str, history: Mapping[Reference, DataFrame]) -> DataFrame:
    """As `analyze`, as a DataFrame."""
    named = with_dotted_names(catalyst, sql)
    if not history:
        return catalyst.session.sql(named)
    # The names that WITH gives are gone after it, so that what is left are topics and views.
    plan = catalyst.module("org.apache.spark.sql.catalyst.analysis.CTESubstitution").apply(catalyst.parse(named).java)
    replaced = catalyst.module("scala.collection.immutable.Map").empty()
    for number, (node, reference) in enumerate(list(_references(catalyst, plan))):
        rows = history.get(reference.folded)
        if rows is not None:
            _set_apart(catalyst, node, number)
            replaced = replaced.updated(node, _relation(catalyst, reference, rows))
    return catalyst.frame(Node(plan.transformUpWithSubqueries(replaced)))


def _relation(catalyst: Catalyst, reference: Reference, rows: DataFrame) -> Java:
    """The rows by the name that they have in a query, their system columns hidden."""
    # Each reference has columns of its own: Spark gives new ones to a relation that is read twice, but not to what it
    # keeps as hidden.
    own = catalyst.analyzed(rows.select(*[F.col(f"`{name}`").alias(name) for name in rows.columns]))
    columns = catalyst.output(own)
    visible = [column for column in columns if column.name not in SQL_COLUMNS]
    hidden = [column for column in columns if column.name in SQL_COLUMNS]
    shown = catalyst.plans.Project(catalyst.sequence(visible), own.java)
    tag = catalyst.module("org.apache.spark.sql.catalyst.plans.logical.Project").hiddenOutputTag()
    shown.setTagValue(tag, catalyst.sequence(catalyst.marked(column, _HIDDEN) for column in hidden))
    name = reference.name.rpartition(".")[2] if reference.reading == "rows" else reference.reading
    alias = catalyst.module("org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias")
    return alias.apply(name, shown)


def _set_apart(catalyst: Catalyst, node: Java, number: int) -> None:
    """Makes a leaf of a parsed plan differ from all others, so that it can be replaced by itself."""
    field = node.getClass().getDeclaredField(_NAMES[kind(node)])
    field.setAccessible(True)
    field.set(node, catalyst.strings(["", str(number)]))


def _references(catalyst: Catalyst, node: Java) -> Iterator[tuple[Java, Reference]]:
    """The leaves of a parsed plan that read something."""
    name = kind(node)
    if name == "UnresolvedRelation":
        yield node, Reference(".".join(str(part) for part in items(node.multipartIdentifier())))
    elif name == "UnresolvedTableValuedFunction":
        called = ".".join(str(part) for part in items(node.name())).lower()
        if called in _FUNCTIONS:
            yield node, _called(called, expressions(node.functionArgs()))
    for child in (*items(node.children()), *items(node.innerChildren())):
        if catalyst.is_plan(child):
            yield from _references(catalyst, child)
    for expression in expressions(node.expressions()):
        yield from _inside(catalyst, expression)


def _inside(catalyst: Catalyst, expression: Expression) -> Iterator[tuple[Java, Reference]]:
    if catalyst.is_subquery(expression):
        yield from _references(catalyst, expression.java.plan())
    for child in expression.children:
        yield from _inside(catalyst, child)


def _called(function: str, arguments: list[Expression]) -> Reference:
    if len(arguments) == 1 and arguments[0].is_literal and str(arguments[0].java.dataType().simpleString()) == "string":
        reading = next(one for one in get_args(Reading) if one == function)
        return Reference(str(arguments[0].java.value().toString()), reading)
    raise UnsupportedQuery(
        f"{function}() of anything but the name of a topic", hint=f"Write the name as text: {function}('orders')."
    )

"""Session windows: which column of a plan has the sessions of rows, and how long the gap is that ends one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headwater.spark.builder import FlowBuilder, Input, port_schema
from headwater.spark.catalyst import Expression, plans
from headwater.spark.flow import Branch, Relation
from headwater.views.sessions import Sessions

# What stands around moments, and changes nothing about them.
_AROUND = frozenset({"PreciseTimestampConversion", "KnownNullable"})


@dataclass(frozen=True, slots=True)
class Session:
    """A column of session windows whose gap, in microseconds, is the same for all rows."""

    column: Expression
    gap: int

    @classmethod
    def of(cls, plan: plans.Aggregate) -> Session | None:
        """The session window that an aggregate groups by; None if there is none, or if its gap depends on the row."""
        keys = [key for key in plan.keys if key.is_session]
        if len(keys) != 1 or not isinstance(plan.child, plans.Project):
            return None
        made = [one for one in plan.child.columns if one.is_alias and one.identity == keys[0].identity]
        gap = _gap(made[0].child) if made else None
        return None if gap is None or gap <= 0 else cls(keys[0], gap)


def add_sessions(builder: FlowBuilder, session: Session, rows: Relation, key: Sequence[Expression]) -> Relation:
    """The rows with their sessions, which are divided by this key."""
    columns = [*rows.output, *key]
    schema = port_schema("c", columns)
    place = [column.identity for column in rows.output].index(session.column.identity)
    kernel = Sessions(schema, tuple(schema.names[len(rows.output) :]), schema.names[place], session.gap)
    detail = ", ".join(one.sql for one in key) or "everything"
    types = [column.type for column in columns]
    operator = builder.add("sessions", detail, kernel, {"rows": Input(rows, columns)}, types)
    return Relation((Branch(operator.number, [*rows.output, *(None for _ in key)]),), rows.output)


def _gap(window: Expression) -> int | None:
    """How long a window is that begins with a row's own moment, in microseconds."""
    if window.kind != "CreateNamedStruct":
        return None
    start, end = (_bare(window.children[place]) for place in (1, 3))
    if end.kind != "TimestampAddInterval" or not _bare(end.children[0]).same_as(start):
        return None
    return end.children[1].interval


def _bare(expression: Expression) -> Expression:
    while expression.kind in _AROUND:
        expression = expression.child
    return expression

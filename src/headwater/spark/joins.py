"""Joins: all of SQL's kinds, made of one kernel that joins by equal keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headwater.spark.builder import FlowBuilder, Input, port_schema
from headwater.spark.catalyst import Expression
from headwater.spark.distances import Span
from headwater.spark.flow import Branch, Project, Relation
from headwater.spark.wording import short
from headwater.views.join import Join, JoinKind
from headwater.views.range_join import RangeJoin

JOINS: Mapping[str, JoinKind] = {
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
"""The kernel's kind for each of Spark's."""


class Joins:
    """Adds joins to a flow."""

    def __init__(self, builder: FlowBuilder) -> None:
        self._builder = builder

    def matched(
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
        schemas = port_schema("l", sides[0]), port_schema("r", sides[1])
        kernel = Join(
            how,
            *schemas,
            tuple(schemas[0].names[len(left.output) :]),
            tuple(schemas[1].names[len(right.output) :]),
            null_safe=null_safe,
            single=single,
        )
        inputs = {"left": Input(left, sides[0]), "right": Input(right, sides[1])}
        attributes: list[Expression | None] = [*left.output, *(None for _ in left_key)]
        columns = list(sides[0])
        if how in ("inner", "left", "right", "full"):
            attributes += [*right.output, *(None for _ in right_key)]
            columns += sides[1]
        if exists is not None:
            attributes.append(exists)
            columns.append(exists)
        on = " and ".join(f"{one.sql} = {other.sql}" for one, other in zip(left_key, right_key, strict=True))
        types = [column.type for column in columns]
        operator = self._builder.add(f"{how} join", on or "every pair", kernel, inputs, types)
        output = [attribute for attribute in attributes if attribute is not None]
        return Relation((Branch(operator.number, attributes),), output)

    def within(
        self,
        span: Span,
        left: Relation,
        right: Relation,
        left_key: Sequence[Expression],
        right_key: Sequence[Expression],
    ) -> Relation:
        """The pairs with equal keys whose moments are close enough."""
        lefts, rights = [*left.output, *left_key, span.left], [*right.output, *right_key, span.right]
        schemas = port_schema("l", lefts), port_schema("r", rights)
        kernel = RangeJoin(
            *schemas,
            tuple(schemas[0].names[len(left.output) : -1]),
            tuple(schemas[1].names[len(right.output) : -1]),
            schemas[0].names[-1],
            schemas[1].names[-1],
            span.least,
            span.most,
        )
        detail = [f"{one.sql} = {other.sql}" for one, other in zip(left_key, right_key, strict=True)]
        detail += map(short, span.stated)
        inputs = {"left": Input(left, lefts), "right": Input(right, rights)}
        types = [column.type for column in (*lefts, *rights)]
        operator = self._builder.add("range join", " and ".join(detail), kernel, inputs, types)
        unnamed = [None] * (len(left_key) + 1)
        binding = [*left.output, *unnamed, *right.output, *unnamed]
        return Relation((Branch(operator.number, binding),), [*left.output, *right.output])

    def unmatched(
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
        return self.matched(how, side, found, side.output, side.output, exists=exists, null_safe=True)

    def _padded(self, relation: Relation, missing: Relation) -> Relation:
        catalyst = self._builder.catalyst
        nulls = [catalyst.alias(catalyst.null(attribute), attribute) for attribute in missing.output]
        return relation.then(Project(nulls))

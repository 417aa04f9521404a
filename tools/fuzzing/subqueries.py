"""Random subqueries in expressions and conditions: EXISTS, IN, and scalar ones, correlated or not."""

from __future__ import annotations

from random import Random

from tools.fuzzing.expressions import EXACT, KINDS, OTHER, ROUNDED, Column, Expressions
from tools.fuzzing.relations import Source
from tools.fuzzing.windows import Windows


class Subqueries:
    """Makes subqueries that read an inner source, for the rows of an outer one."""

    def __init__(self, dice: Random) -> None:
        self._dice = dice
        self.meant: dict[str, str] = {}
        """Parts of queries that raw Spark gets wrong, and the same in other words, which it gets right."""

    def on(self, left: Source, right: Source) -> tuple[str, bool]:
        """The condition of a join, and whether it has equal keys."""
        pairs = [
            (one, other)
            for one in left.scope
            for other in right.scope
            if one.kind == other.kind != OTHER and one.kind in KINDS and max(one.noise, other.noise) <= ROUNDED
        ]
        named = [
            (one, other) for one, other in pairs if one.sql.lower().endswith((".k", ".id")) and one.kind != "boolean"
        ]
        both = Expressions(self._dice, left.scope + right.scope)
        if not pairs or self._dice.random() < 0.07:
            return both.condition(1), False
        parts = []
        for one, other in self._dice.sample(pairs, min(len(pairs), self._dice.choice((0, 0, 0, 1)))) or [
            self._dice.choice(named or pairs)
        ]:
            parts.append(f"{one.sql} {self._dice.choice(('=', '=', '=', '<=>'))} {other.sql}")
        if self._dice.random() < 0.15:
            kind = self._dice.choice(("bigint", "string", "int"))
            sides = [Expressions(self._dice, side.scope).value(kind, 1) for side in (left, right)]
            parts.append(f"{sides[0]} = {sides[1]}")
        if self._dice.random() < 0.15:
            parts.append(both.condition(1))
        return " AND ".join(parts), True

    def key(self, left: Source, right: Source) -> str | None:
        """The condition of a correlated subquery: one pair of equal columns."""
        condition, equal = self.on(left, right)
        return condition.split(" AND ")[0] if equal else None

    def condition(self, scope: Expressions, inner: Source, another: Source) -> str:
        """A condition with a subquery; a key of it may have another one in it."""
        outer = Source("", tuple(scope.columns), 1, frozenset())
        words = self._dice.choice(("", "", "NOT "))
        chance = self._dice.random()
        within = Expressions(self._dice, inner.scope)
        if chance < 0.35:
            condition, _ = self.on(outer, inner)
            made = f"{words}EXISTS (SELECT 1 FROM {inner.sql} WHERE {condition})"
        elif chance < 0.6:
            kind = self._dice.choice([one.kind for one in scope.of() if one.kind in KINDS] or ["bigint"])
            narrowed = f" WHERE {within.condition(1)}" if self._dice.random() < 0.4 else ""
            made = f"{scope.value(kind, 1)} {words}IN (SELECT {within.value(kind, 1)} FROM {inner.sql}{narrowed})"
        elif chance < 0.75:
            number = f"({scope.value('bigint', 0)} + {self.total(another)})"
            made = f"{number} {words}IN (SELECT {within.value('bigint', 1)} FROM {inner.sql})"
        else:
            made = f"{self.scalar(outer, inner)} {self._dice.choice(('>', '<=', '<>'))} {scope.value('bigint', 1)}"
        if self._dice.random() < 0.2:
            made = f"({made} OR {scope.condition(0)})"
        return made

    def total(self, inner: Source) -> str:
        """A scalar subquery that is not correlated and gives a small bigint, never null."""
        within = Expressions(self._dice, inner.scope)
        number = self._dice.choice(within.of("bigint", noise=EXACT) or [Column("1L", "bigint")]).sql
        call = self._dice.choice(("count(*)", f"count(DISTINCT {number})", f"coalesce(max({number}), 0)"))
        return f"(SELECT {call} FROM {inner.sql})"

    def scalar(self, outer: Source, inner: Source) -> str:
        """A scalar subquery, correlated or not, that gives a bigint."""
        within = Expressions(self._dice, inner.scope)
        number = self._dice.choice(within.of("bigint", noise=EXACT) or [Column("1L", "bigint")]).sql
        call = self._dice.choice(("count(*)", f"max({number})", f"sum({number})", f"count(DISTINCT {number})"))
        pairs = [(one, other) for one in outer.scope for other in inner.scope if one.kind == other.kind == "bigint"]
        where = ""
        if pairs and self._dice.random() < 0.6:
            one, other = self._dice.choice(pairs)
            where = f" WHERE {other.sql} = {one.sql}"
        return f"(SELECT {call} FROM {inner.sql}{where})"

    def newest(self, outer: Source, inner: Source) -> Column | None:
        """The value of the first row, by an order, among those that belong to an outer row."""
        key, columns = self.key(outer, inner), Expressions(self._dice, inner.scope).of()
        if key is None or not columns:
            return None
        one = self._dice.choice(columns)
        order = Windows(self._dice, Expressions(self._dice, inner.scope)).order()
        offset = " OFFSET 1" if self._dice.random() < 0.4 else ""
        if offset and self._dice.random() < 0.6:
            order = ""
        text = f"(SELECT {one.sql} FROM {inner.sql} WHERE {key} {order} LIMIT 1{offset})".replace("  ", " ")
        if order:
            chosen = self.numbered(one, inner, key, order, f"= {2 if offset else 1}")
            self.meant[text] = f"(SELECT min(w0) {chosen})"
        return Column(text, one.kind, one.noise)

    def some(self, outer: Source, inner: Source) -> Column | None:
        """The value of a row that belongs to an outer row, by no order; doubles may differ anyway."""
        columns = [one for one in Expressions(self._dice, inner.scope).of() if one.kind != "double"]
        key = self.key(outer, inner)
        if key is None or not columns:
            return None
        one = self._dice.choice(columns)
        part = self._dice.choice(("LIMIT 1", "LIMIT 1 OFFSET 1", "LIMIT 1 OFFSET 1"))
        return Column(f"(SELECT {one.sql} FROM {inner.sql} WHERE {key} {part})", one.kind, one.noise)

    def numbered(self, one: Column, inner: Source, key: str, order: str, places: str) -> str:
        """The rows at some places, by an order, among those that belong to an outer row; `w0` is their column.

        Raw Spark drops the ORDER BY of a correlated LIMIT whose column is not selected, and numbers rows as it should.
        """
        outside, word, inside = key.partition(" <=> ") if " <=> " in key else key.partition(" = ")
        number = f"row_number() OVER (PARTITION BY {inside} {order}, {one.sql})"
        rows = f"SELECT {one.sql} AS w0, {inside} AS wk, {number} AS wn FROM {inner.sql}"
        return f"FROM ({rows}) WHERE wk{word}{outside} AND wn {places}"

    def ranked(self, outer: Source, inner: Source) -> Column | None:
        """A scalar subquery that aggregates the results of a window function."""
        key = self.key(outer, inner)
        if key is None:
            return None
        made = Windows(self._dice, Expressions(self._dice, inner.scope)).ranking()
        text = f"SELECT max(w) FROM (SELECT {made.sql} AS w FROM {inner.sql} WHERE {key})"
        return Column(f"({text})", made.kind, made.noise)

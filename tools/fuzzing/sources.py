"""Random FROM clauses: topics, views, subqueries, constants, joins of all kinds, and lateral parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from tools.fuzzing.aggregations import Aggregations
from tools.fuzzing.expressions import KINDS, Column, Expressions
from tools.fuzzing.relations import ROWS_MAX, Relation, Source, TooLarge, constant, in_some_case
from tools.fuzzing.subqueries import Subqueries
from tools.fuzzing.windows import Windows

_JOINS = (
    "JOIN", "JOIN", "JOIN", "LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN",
    "CROSS JOIN",
)  # fmt: skip
_HISTORY = 0.18
"""The share of sources that are a topic with its history."""


class Sources:
    """Makes FROM clauses over relations, to which the caller adds each view, and over the queries of a maker."""

    def __init__(self, dice: Random, relations: Sequence[Relation], query: Callable[[int], Relation]) -> None:
        self._dice, self._query = dice, query
        self.relations = list(relations)
        self.subqueries = Subqueries(dice)
        self._aliases = 0

    def alias(self) -> str:
        self._aliases += 1
        return f"x{self._aliases}"

    def one(self, depth: int) -> Source:
        """One relation, subquery or constant."""
        chance = self._dice.random()
        if depth > 0 and chance < 0.4:
            made = self._query(depth - 1)
            alias = self.alias()
            return self._aliased(made, f"({made.sql}) AS {alias}", alias, made.reads)
        if chance < 0.45:
            return constant(self._dice, self.alias())
        return self._named(self._dice.choice(self._readable()))

    def history(self) -> Source | None:
        """A topic with its history, if there is one."""
        histories = [one for one in self.relations if one.topic is not None]
        return self._named(self._dice.choice(histories)) if histories else None

    def twice(self) -> tuple[Source, Source]:
        """The same topic under two names."""
        topic = self._dice.choice([one for one in self.relations if not one.reads and one.topic is None])
        return self._named(topic), self._named(topic)

    def _named(self, made: Relation) -> Source:
        """A topic or a view by its name."""
        alias = self.alias()
        text = f"{in_some_case(self._dice, made.sql)} AS {alias}"
        return self._aliased(made, text, alias, made.reads | {made.topic or made.sql})

    def _aliased(self, made: Relation, text: str, alias: str, reads: frozenset[str]) -> Source:
        scope = tuple(
            Column(f"{alias}.{in_some_case(self._dice, one.sql)}", one.kind, one.noise) for one in made.columns
        )
        return Source(text, scope, made.rows, reads)

    def _readable(self) -> list[Relation]:
        """Histories, topics or views: chains of views take long to plan, and an error in one hides what reads it."""
        histories = [one for one in self.relations if one.topic is not None]
        if histories and self._dice.random() < _HISTORY:
            return histories
        topics = [one for one in self.relations if not one.reads and one.topic is None]
        views = [one for one in self.relations if one.reads and not one.loose]
        return views if not topics or (views and self._dice.random() < 0.2) else topics

    def source(self, depth: int) -> Source:
        """One source, some joined, or one with a lateral part, with conditions."""
        found = self.one(depth)
        while self._dice.random() < 0.28:
            found = self._joined(found, self.one(depth - 1))
        chance = self._dice.random()
        if chance < 0.1:
            found = self._exploded(found)
        elif chance < 0.2:
            found = self.lateral(found)
        condition = Expressions(self._dice, found.scope)
        where = list(found.where)
        if self._dice.random() < 0.2:
            where.append(condition.condition())
        reads = found.reads
        if self._dice.random() < 0.12:
            inner, another = self.one(max(depth - 1, 0)), self.one(0)
            where.append(self.subqueries.condition(condition, inner, another))
            reads |= inner.reads | another.reads
        if found.rows > ROWS_MAX:
            raise TooLarge
        return Source(found.sql, found.scope, found.rows, reads, tuple(where))

    def _joined(self, left: Source, right: Source) -> Source:
        kind = self._dice.choice(_JOINS)
        reads = left.reads | right.reads
        if kind == "CROSS JOIN":
            return Source(f"{left.sql} CROSS JOIN {right.sql}", left.scope + right.scope, left.rows * right.rows, reads)
        condition, equal = self.subqueries.on(left, right)
        if self._dice.random() < 0.06:
            other = self.one(0)
            numbers = [Expressions(self._dice, side.scope).value("bigint", 0) for side in (left, right)]
            condition, equal = f"({numbers[0]} + {self.subqueries.total(other)}) = {numbers[1]}", True
            reads |= other.reads
        condition += self._near(left, right)
        rows = left.rows * right.rows // (5 if equal else 1) + left.rows + right.rows
        scope = left.scope + right.scope
        if kind in ("LEFT SEMI JOIN", "LEFT ANTI JOIN"):
            rows, scope = left.rows, left.scope
        return Source(f"{left.sql} {kind} {right.sql} ON {condition}", scope, rows, reads)

    def _near(self, left: Source, right: Source) -> str:
        """Now and then a condition that two times of a join are close to each other."""
        times = [Expressions(self._dice, side.scope).of("timestamp") for side in (left, right)]
        if not all(times) or self._dice.random() >= 0.35:
            return ""
        one, other = (self._dice.choice(columns).sql for columns in times)
        limits = (
            f"{one} BETWEEN {other} - INTERVAL 30 MINUTES AND {other} + INTERVAL 1 DAY",
            f"{one} - {other} <= INTERVAL 1 HOUR AND {one} >= {other}",
            f"{one} < {other} + INTERVAL 45 MINUTES",
        )
        return f" AND {self._dice.choice(limits)}"

    def _exploded(self, found: Source) -> Source:
        arrays = [one for one in found.scope if one.kind == "array<string>"]
        if not arrays:
            return found
        alias, outer = self.alias(), self._dice.choice(("", "OUTER "))
        array = self._dice.choice(arrays).sql
        extra: tuple[Column, ...] = (Column(f"{alias}.e", "string"),)
        if self._dice.random() < 0.3:
            text = f"{found.sql} LATERAL VIEW {outer}posexplode({array}) {alias} AS p, e"
            extra = (Column(f"{alias}.p", "int"), Column(f"{alias}.e", "string"))
        else:
            text = f"{found.sql} LATERAL VIEW {outer}explode({array}) {alias} AS e"
        return Source(text, found.scope + extra, found.rows * 2, found.reads)

    def lateral(self, found: Source) -> Source:
        """A subquery for each row: an aggregate, rows, some rows by an order, or rows with a window function."""
        inner, alias = self.one(0), self.alias()
        key = self.subqueries.key(found, inner)
        if key is None:
            return found
        scope = Expressions(self._dice, inner.scope)
        rest, places, rows = "", "", found.rows * 4
        word = self._dice.choice(("JOIN", "JOIN", "LEFT JOIN"))
        chance = self._dice.random()
        if chance < 0.25:
            made = Aggregations(self._dice, scope, last=False).call()
            column, rows = Column(made.sql, made.kind, made.noise), found.rows
        elif chance < 0.45:
            kind = self._dice.choice(KINDS)
            column = Column(scope.value(kind), kind)
        elif chance < 0.65:
            column = self._dice.choice(scope.of() or [Column("1", "int")])
            order, limit = Windows(self._dice, scope).order(), self._dice.randint(1, 2)
            rest, places = f" {order} LIMIT {limit}", self.subqueries.numbered(column, inner, key, order, f"<= {limit}")
        else:
            windows = Windows(self._dice, scope)
            made = windows.ranking() if self._dice.random() < 0.5 else windows.call()
            column = Column(made.sql, made.kind, made.noise)
        inside = f"SELECT {column.sql} AS l0 FROM {inner.sql} WHERE {key}{rest}"
        if places:
            self.subqueries.meant[inside] = f"SELECT w0 AS l0 {places}"
        text = f"{found.sql} {word} LATERAL ({inside}) AS {alias}{'' if word == 'JOIN' else ' ON true'}"
        extra = Column(f"{alias}.l0", column.kind, column.noise)
        return Source(text, (*found.scope, extra), rows, found.reads | inner.reads)

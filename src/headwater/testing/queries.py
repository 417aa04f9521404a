"""Random queries of growing depth over topics and over each other.

Left out, because Spark itself leaves open what they give:
- scalar subqueries that are not aggregates: they may have more than one row;
- an order, a key or a set operation by numbers that are known up to the last digits only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from headwater.testing.aggregations import Aggregations, Windows
from headwater.testing.expressions import EXACT, KINDS, LOOSE, NUMBERS, OTHER, ROUNDED, Column, Expressions
from headwater.testing.topics import TopicPlan

ROWS_MAX = 1500
"""A query that would have more rows than about this is not made."""
_TOPIC_ROWS = 15
_TRIES = 20


@dataclass(frozen=True, slots=True)
class Relation:
    """A query, a topic or a view: the SQL that names it, its columns, about how many rows, and what it reads."""

    sql: str
    columns: tuple[Column, ...]
    rows: int
    reads: frozenset[str]

    @property
    def loose(self) -> bool:
        return any(column.noise >= LOOSE for column in self.columns)


@dataclass(frozen=True, slots=True)
class _From:
    """What stands behind FROM."""

    sql: str
    scope: tuple[Column, ...]
    rows: int
    reads: frozenset[str]
    where: tuple[str, ...] = ()


def topic_relation(topic: TopicPlan) -> Relation:
    columns = tuple(Column(name, kind) for name, kind in topic.columns)
    return Relation(topic.name, columns, _TOPIC_ROWS, frozenset())


class TooLarge(Exception):
    """A query would have too many rows."""


class Queries:
    """Makes queries over relations, to which the caller adds each view that is accepted."""

    def __init__(self, dice: Random, relations: Sequence[Relation]) -> None:
        self._dice = dice
        self.relations = list(relations)
        self._aliases = 0

    def query(self, depth: int) -> Relation:
        """A query of up to so many levels."""
        for _ in range(_TRIES):
            try:
                return self._query(depth, last=True)
            except TooLarge:
                continue
        return self._query(0, last=True)

    def _query(self, depth: int, *, last: bool = False) -> Relation:
        forms: list[tuple[int, Callable[..., Relation]]] = [
            (4, self._select), (6, self._grouped), (1, self._distinct), (3, self._united), (3, self._windowed),
            (2, self._top), (1, self._grouping_sets), (1, self._pivoted), (1, self._time_windows), (1, self._named),
            (1, self._global), (2, self._ranked),
        ]  # fmt: skip
        form = self._dice.choices([form for _, form in forms], [weight for weight, _ in forms])[0]
        return form(depth, last=last)

    # What queries read.

    def _alias(self) -> str:
        self._aliases += 1
        return f"x{self._aliases}"

    def _source(self, depth: int) -> _From:
        alias = self._alias()
        if depth > 0 and self._dice.random() < 0.45:
            made = self._query(depth - 1)
            text, reads = f"({made.sql}) AS {alias}", made.reads
        else:
            made = self._dice.choice([one for one in self.relations if not one.loose])
            text, reads = f"{made.sql} AS {alias}", made.reads | {made.sql}
        scope = tuple(Column(f"{alias}.{one.sql}", one.kind, one.noise) for one in made.columns)
        return _From(text, scope, made.rows, reads)

    def _from(self, depth: int) -> _From:
        """One source, some joined, or one with a lateral part."""
        found = self._source(depth)
        while self._dice.random() < 0.35:
            found = self._joined(found, self._source(depth - 1))
        if self._dice.random() < 0.12:
            found = self._exploded(found)
        elif self._dice.random() < 0.06:
            found = self._lateral(found)
        condition = Expressions(self._dice, found.scope)
        where = list(found.where)
        if self._dice.random() < 0.2:
            where.append(condition.condition())
        reads = found.reads
        if self._dice.random() < 0.15:
            inner = self._source(max(depth - 1, 0))
            where.append(self._subquery_condition(condition, inner))
            reads |= inner.reads
        if found.rows > ROWS_MAX:
            raise TooLarge
        return _From(found.sql, found.scope, found.rows, reads, tuple(where))

    def _joined(self, left: _From, right: _From) -> _From:
        kind = self._dice.choice(
            ("JOIN", "JOIN", "JOIN", "LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN",
             "LEFT ANTI JOIN", "CROSS JOIN")
        )  # fmt: skip
        reads = left.reads | right.reads
        if kind == "CROSS JOIN":
            return _From(f"{left.sql} CROSS JOIN {right.sql}", left.scope + right.scope, left.rows * right.rows, reads)
        condition, equal = self._on(left, right)
        rows = left.rows * right.rows // (5 if equal else 1) + left.rows + right.rows
        scope = left.scope + right.scope
        if kind in ("LEFT SEMI JOIN", "LEFT ANTI JOIN"):
            rows, scope = left.rows, left.scope
        return _From(f"{left.sql} {kind} {right.sql} ON {condition}", scope, rows, reads)

    def _on(self, left: _From, right: _From) -> tuple[str, bool]:
        """The condition of a join, and whether it has equal keys."""
        pairs = [
            (one, other)
            for one in left.scope
            for other in right.scope
            if one.kind == other.kind != OTHER and max(one.noise, other.noise) <= ROUNDED
        ]
        named = [(one, other) for one, other in pairs if one.sql.endswith((".k", ".id")) and one.kind != "boolean"]
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

    def _exploded(self, found: _From) -> _From:
        arrays = [one for one in found.scope if one.kind == "array<string>"]
        if not arrays:
            return found
        alias, outer = self._alias(), self._dice.choice(("", "OUTER "))
        array = self._dice.choice(arrays).sql
        extra: tuple[Column, ...] = (Column(f"{alias}.e", "string"),)
        if self._dice.random() < 0.3:
            text = f"{found.sql} LATERAL VIEW {outer}posexplode({array}) {alias} AS p, e"
            extra = (Column(f"{alias}.p", "int"), Column(f"{alias}.e", "string"))
        else:
            text = f"{found.sql} LATERAL VIEW {outer}explode({array}) {alias} AS e"
        return _From(text, found.scope + extra, found.rows * 2, found.reads)

    def _lateral(self, found: _From) -> _From:
        """A subquery for each row."""
        inner, alias = self._source(0), self._alias()
        condition, equal = self._on(found, inner)
        if not equal:
            return found
        where = condition.split(" AND ")[0]
        scope = Expressions(self._dice, inner.scope)
        if self._dice.random() < 0.5:
            made = Aggregations(self._dice, scope, last=False).call()
            select, rows = f"{made.sql} AS l0", found.rows
            extra = Column(f"{alias}.l0", made.kind, made.noise)
        else:
            kind = self._dice.choice(KINDS)
            select, rows = f"{scope.value(kind)} AS l0", found.rows * 4
            extra = Column(f"{alias}.l0", kind)
        text = f"{found.sql} JOIN LATERAL (SELECT {select} FROM {inner.sql} WHERE {where}) AS {alias}"
        return _From(text, (*found.scope, extra), rows, found.reads | inner.reads)

    # Subqueries in conditions.

    def _subquery_condition(self, scope: Expressions, inner: _From) -> str:
        outer = _From("", tuple(scope.columns), 1, frozenset())
        words = self._dice.choice(("", "", "NOT "))
        chance = self._dice.random()
        within = Expressions(self._dice, inner.scope)
        if chance < 0.4:
            condition, _ = self._on(outer, inner)
            made = f"{words}EXISTS (SELECT 1 FROM {inner.sql} WHERE {condition})"
        elif chance < 0.7:
            kind = self._dice.choice([one.kind for one in scope.of() if one.kind in KINDS] or ["bigint"])
            narrowed = f" WHERE {within.condition(1)}" if self._dice.random() < 0.4 else ""
            made = f"{scope.value(kind, 1)} {words}IN (SELECT {within.value(kind, 1)} FROM {inner.sql}{narrowed})"
        else:
            made = f"{self._scalar(outer, inner)} {self._dice.choice(('>', '<=', '<>'))} {scope.value('bigint', 1)}"
        if self._dice.random() < 0.2:
            made = f"({made} OR {scope.condition(0)})"
        return made

    def _scalar(self, outer: _From, inner: _From) -> str:
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

    # Forms of queries.

    def _made(self, select: str, given: _From, rest: str, columns: Sequence[Column], rows: int) -> Relation:
        where = f" WHERE {' AND '.join(given.where)}" if given.where else ""
        named = tuple(Column(f"c{number}", one.kind, one.noise) for number, one in enumerate(columns))
        listed = ", ".join(f"{one.sql} AS c{number}" for number, one in enumerate(columns))
        return Relation(f"{select} {listed} FROM {given.sql}{where}{rest}", named, rows, given.reads)

    def _items(self, scope: Expressions, count: int, noise: int = ROUNDED) -> list[Column]:
        """Columns and expressions to select."""
        found: list[Column] = []
        for _ in range(count):
            columns = scope.of(noise=noise)
            if columns and self._dice.random() < 0.6:
                found.append(self._dice.choice(columns))
            else:
                kind = self._dice.choice([one.kind for one in columns if one.kind in KINDS] or KINDS)
                found.append(Column(scope.value(kind), kind))
        return found

    def _select(self, depth: int, *, last: bool = False) -> Relation:
        given = self._from(depth)
        scope = Expressions(self._dice, given.scope)
        columns = self._items(scope, self._dice.randint(1, 5))
        if self._dice.random() < 0.15:
            inner = self._source(0)
            made = self._scalar(given, inner)
            given = _From(given.sql, given.scope, given.rows, given.reads | inner.reads, given.where)
            columns.append(Column(made, "bigint"))
        return self._made("SELECT", given, "", columns, given.rows)

    def _distinct(self, depth: int, *, last: bool = False) -> Relation:
        given = self._from(depth)
        columns = self._items(Expressions(self._dice, given.scope), self._dice.randint(1, 3))
        return self._made("SELECT DISTINCT", given, "", columns, given.rows)

    def _grouped(self, depth: int, *, last: bool = False) -> Relation:
        given = self._from(depth)
        scope = Expressions(self._dice, given.scope)
        keys = self._items(scope, self._dice.choice((1, 1, 2)))
        calls = Aggregations(self._dice, scope, last=last)
        made = [calls.call() for _ in range(self._dice.randint(0, 4))]
        columns = [*keys, *(Column(one.sql, one.kind, one.noise) for one in made)]
        rest = f" GROUP BY {', '.join(str(number + 1) for number in range(len(keys)))}"
        if made and self._dice.random() < 0.25:
            results = [Column(one.sql, one.kind, one.noise) for one in made if "DISTINCT" not in one.sql]
            rest += f" HAVING {Expressions(self._dice, results).condition(1)}"
        return self._made("SELECT", given, rest, columns, min(given.rows, 12))

    def _global(self, depth: int, *, last: bool = False) -> Relation:
        given = self._from(depth)
        calls = Aggregations(self._dice, Expressions(self._dice, given.scope), last=last)
        made = [calls.call() for _ in range(self._dice.randint(1, 4))]
        return self._made("SELECT", given, "", [Column(one.sql, one.kind, one.noise) for one in made], 1)

    def _grouping_sets(self, depth: int, *, last: bool = False) -> Relation:
        given = self._from(depth)
        scope = Expressions(self._dice, given.scope)
        columns = scope.of()
        keys = self._dice.sample(columns, min(len(columns), self._dice.choice((1, 2, 2, 3))))
        if not keys:
            return self._global(depth, last=last)
        names = [key.sql for key in keys]
        calls = Aggregations(self._dice, scope, last=last)
        made = [calls.call() for _ in range(self._dice.randint(1, 2))]
        forms = [f"ROLLUP({', '.join(names)})", f"GROUPING SETS (({', '.join(names)}), ({names[0]}), ())"]
        if len(keys) < 3:
            forms.append(f"CUBE({', '.join(names)})")
        results = [*keys, *(Column(one.sql, one.kind, one.noise) for one in made), Column("grouping_id()", "bigint")]
        return self._made("SELECT", given, f" GROUP BY {self._dice.choice(forms)}", results, 40)

    def _time_windows(self, depth: int, *, last: bool = False) -> Relation:
        given = self._from(depth)
        scope = Expressions(self._dice, given.scope)
        times = scope.of("timestamp")
        if not times:
            return self._grouped(depth, last=last)
        length = self._dice.choice(("'1 hour'", "'1 hour', '30 minutes'", "'1 day', '12 hours'"))
        window = f"window({self._dice.choice(times).sql}, {length})"
        calls = Aggregations(self._dice, scope, last=last)
        made = [calls.call() for _ in range(self._dice.randint(1, 2))]
        columns = [Column("window.start", "timestamp"), *(Column(one.sql, one.kind, one.noise) for one in made)]
        return self._made("SELECT", given, f" GROUP BY {window}", columns, 10)

    def _windowed(self, depth: int, *, last: bool = False) -> Relation:
        given = self._from(depth)
        scope = Expressions(self._dice, given.scope)
        columns = self._items(scope, self._dice.randint(1, 3))
        calls = Windows(self._dice, scope)
        made = [calls.call() for _ in range(self._dice.randint(1, 2))]
        columns += [Column(one.sql, one.kind, one.noise) for one in made]
        rest = ""
        if self._dice.random() < 0.25:
            rest = f" QUALIFY {calls.ranking().sql} <= {self._dice.randint(1, 3)}"
        return self._made("SELECT", given, rest, columns, given.rows)

    def _ranked(self, depth: int, *, last: bool = False) -> Relation:
        given = self._from(depth)
        scope = Expressions(self._dice, given.scope)
        columns = self._items(scope, self._dice.randint(1, 3))
        number = self._dice.randint(1, 3)
        chosen = self._dice.choice((f"<= {number}", f"= {number}", f"BETWEEN 2 AND {number + 1}", f"< {number}"))
        rest = f" QUALIFY {Windows(self._dice, scope).number()} {chosen}"
        return self._made("SELECT", given, rest, columns, given.rows)

    def _top(self, depth: int, *, last: bool = False) -> Relation:
        inner = self._query(depth - 1) if depth > 0 else self._select(0)
        columns = Expressions(self._dice, inner.columns)
        offset = f" OFFSET {self._dice.randint(1, 2)}" if self._dice.random() < 0.2 else ""
        count = self._dice.randint(1, 5)
        order = Windows(self._dice, columns).order()
        if self._dice.random() < 0.5:
            text = f"{inner.sql} {order} LIMIT {count}{offset}"
        else:
            text = f"SELECT * FROM ({inner.sql}) {order} LIMIT {count}{offset}"
        if inner.sql.startswith(("WITH", "(")):
            text = f"SELECT * FROM ({inner.sql}) {order} LIMIT {count}{offset}"
        return Relation(text, inner.columns, count, inner.reads)

    def _united(self, depth: int, *, last: bool = False) -> Relation:
        word = self._dice.choice(
            ("UNION ALL", "UNION ALL", "UNION", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL")
        )
        sides = [self._from(depth - 1) for _ in range(2)]
        shared = [one.kind for one in sides[0].scope if any(one.kind == other.kind for other in sides[1].scope)]
        kinds = [
            self._dice.choice([kind for kind in shared if kind != OTHER] or KINDS)
            for _ in range(self._dice.randint(1, 3))
        ]
        made = []
        for side in sides:
            scope = Expressions(self._dice, side.scope)
            columns = [Column(scope.value(kind, 1), kind) for kind in kinds]
            made.append(self._made("SELECT", side, "", columns, side.rows))
        reads = made[0].reads | made[1].reads
        return Relation(
            f"(({made[0].sql}) {word} ({made[1].sql}))", made[0].columns, made[0].rows + made[1].rows, reads
        )

    def _pivoted(self, depth: int, *, last: bool = False) -> Relation:
        given = self._from(depth)
        scope = Expressions(self._dice, given.scope)
        number = scope.value(self._dice.choice(NUMBERS), 1)
        key, wanted = Column(scope.value("bigint", 1), "bigint"), Column(scope.value("string", 1), "string")
        inner = self._made("SELECT", given, "", [key, wanted, Column(number, OTHER)], given.rows)
        call = self._dice.choice(("count", "max", "min"))
        text = f"SELECT c0, pa AS c1, pb AS c2 FROM ({inner.sql}) PIVOT ({call}(c2) FOR c1 IN ('a' AS pa, 'b' AS pb))"
        kind = "bigint" if call == "count" else OTHER
        return Relation(text, (Column("c0", "bigint"), Column("c1", kind), Column("c2", kind)), 10, inner.reads)

    def _named(self, depth: int, *, last: bool = False) -> Relation:
        """A common table expression that is read twice."""
        shared = self._query(max(depth - 1, 0))
        name = self._alias()
        before = self.relations
        self.relations = [Relation(name, shared.columns, shared.rows, shared.reads)]
        try:
            body = self._select(0, last=last) if self._dice.random() < 0.4 else self._united(0, last=last)
        finally:
            self.relations = before
        reads = (body.reads | shared.reads) - {name}
        return Relation(f"WITH {name} AS ({shared.sql}) {body.sql}", body.columns, body.rows, reads)

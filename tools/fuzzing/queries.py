"""Random queries of growing depth over topics and over each other.

Left out, because Spark itself leaves open what they give: an order, a key or a set operation by numbers that are known
up to the last digits only.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from tools.fuzzing.expressions import KINDS, LOOSE, NUMERIC, OTHER, Column, Expressions
from tools.fuzzing.forms import Forms, column, reading
from tools.fuzzing.relations import Relation, Source, TooLarge
from tools.fuzzing.sources import Sources
from tools.fuzzing.specials import Form, Specials
from tools.fuzzing.windows import Windows

_TRIES = 20
_SETS = ("UNION ALL", "UNION ALL", "UNION", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL")
_SPECIAL = 0.6
"""The share of views that are short and have one construct that is easy to get wrong."""


class Queries(Forms):
    """Makes queries over relations, to which the caller adds each view.

    The number of the round says which special forms come first.
    """

    def __init__(self, dice: Random, relations: Sequence[Relation], round_number: int = 0) -> None:
        super().__init__(dice, Sources(dice, relations, self._query))
        self._specials = Specials(dice, self._sources)
        self._round_number = round_number
        self._deck: list[Form] = []

    @property
    def meant(self) -> dict[str, str]:
        """Parts of queries that raw Spark gets wrong, and the same in other words."""
        return self._sources.subqueries.meant

    def add(self, relation: Relation) -> None:
        """Lets later queries read a relation."""
        self._sources.relations.append(relation)

    def query(self, depth: int) -> Relation:
        """A query of up to this many levels."""
        for _ in range(_TRIES):
            try:
                if self._dice.random() < _SPECIAL:
                    return self._special()(min(depth // 2, 1), last=True)
                return self._query(depth, last=True)
            except TooLarge:
                continue
        return self._query(0, last=True)

    def _special(self) -> Form:
        """One of the special forms: none comes again before all others have come."""
        if not self._deck:
            self._deck = self._specials.deck(self._round_number)[::-1]
        return self._deck.pop()

    def _query(self, depth: int, *, last: bool = False) -> Relation:
        forms: list[tuple[float, Form]] = [
            (3, self._select), (6, self._grouped), (1, self._distinct), (2, self._united), (4, self._windowed),
            (2, self._top), (1, self._grouping_sets), (1, self._pivoted), (2, self._time_windows), (1, self._named),
            (1, self._global), (2, self._ranked), (4, self._dice.choice(self._specials.inner)),
        ]  # fmt: skip
        form = self._dice.choices([form for _, form in forms], [weight for weight, _ in forms])[0]
        return form(depth, last=last)

    def _select(self, depth: int, *, last: bool = False) -> Relation:
        given = self._sources.source(depth)
        scope = Expressions(self._dice, given.scope)
        columns = self._items(scope, self._dice.randint(1, 4), maps=True)
        if self._dice.random() < 0.15:
            inner = self._sources.one(0)
            columns.append(Column(self._sources.subqueries.scalar(given, inner), "bigint"))
            given = reading(given, inner)
        return self._made("SELECT", given, "", columns, given.rows)

    def _distinct(self, depth: int, *, last: bool = False) -> Relation:
        given = self._sources.source(depth)
        columns = self._items(Expressions(self._dice, given.scope), self._dice.randint(1, 3))
        return self._made("SELECT DISTINCT", given, "", columns, given.rows)

    def _grouped(self, depth: int, *, last: bool = False) -> Relation:
        given = self._sources.source(depth)
        scope = Expressions(self._dice, given.scope)
        keys = self._items(scope, self._dice.choice((1, 1, 2)), maps=True)
        made = self._calls(scope, 0, 3, last=last)
        rest = f" GROUP BY {', '.join(str(number + 1) for number in range(len(keys)))}"
        if made and self._dice.random() < 0.2:
            results = [one for one in made if "DISTINCT" not in one.sql]
            rest += f" HAVING {Expressions(self._dice, results).condition(1)}"
        return self._made("SELECT", given, rest, [*keys, *made], min(given.rows, 12))

    def _global(self, depth: int, *, last: bool = False) -> Relation:
        given = self._sources.source(depth)
        return self._made("SELECT", given, "", self._calls(Expressions(self._dice, given.scope), 1, 3, last=last), 1)

    def _grouping_sets(self, depth: int, *, last: bool = False) -> Relation:
        given = self._sources.source(depth)
        scope = Expressions(self._dice, given.scope)
        columns = scope.of()
        keys = self._dice.sample(columns, min(len(columns), self._dice.choice((1, 2, 2, 3))))
        if not keys:
            return self._global(depth, last=last)
        names = [key.sql for key in keys]
        made = self._calls(scope, 1, 2, last=last)
        forms = [f"ROLLUP({', '.join(names)})", f"GROUPING SETS (({', '.join(names)}), ({names[0]}), ())"]
        if len(keys) < 3:
            forms.append(f"CUBE({', '.join(names)})")
        results = [*keys, *made, Column("grouping_id()", "bigint")]
        return self._made("SELECT", given, f" GROUP BY {self._dice.choice(forms)}", results, 40)

    def _time_windows(self, depth: int, *, last: bool = False) -> Relation:
        given = self._sources.source(depth)
        scope = Expressions(self._dice, given.scope)
        times = scope.of("timestamp")
        if not times:
            return self._grouped(depth, last=last)
        if last and self._dice.random() < 0.7:
            return self._sessions(given, scope)
        length = self._dice.choice(("'1 hour'", "'1 hour', '30 minutes'", "'1 day', '12 hours'"))
        window = f"window({self._dice.choice(times).sql}, {length})"
        columns = [Column("window.start", "timestamp"), *self._calls(scope, 1, 2, last=last)]
        return self._made("SELECT", given, f" GROUP BY {window}", columns, 10)

    def _sessions(self, given: Source, scope: Expressions) -> Relation:
        """Session windows, which nothing else reads: Spark puts a condition on a session below what makes it."""
        time = self._dice.choice(scope.of("timestamp")).sql
        depending = f"CASE WHEN {time} > timestamp '2024-03-01' THEN '30 minutes' ELSE '1 hour' END"
        gap = self._dice.choice(("'30 minutes'", "'1 day'", depending))
        keys = [Column("session_window.end", "timestamp", LOOSE), *self._dice.sample(scope.shared(), 1)]
        grouping = [f"session_window({time}, {gap})", "2"]
        count = self._dice.choice((1, 2, 2))
        columns = [*keys[:count], *self._calls(scope, 1, 2, last=True)]
        return self._made("SELECT", given, f" GROUP BY {', '.join(grouping[:count])}", columns, 10)

    def _windowed(self, depth: int, *, last: bool = False) -> Relation:
        given = self._sources.source(depth)
        scope = Expressions(self._dice, given.scope)
        columns = self._items(scope, self._dice.randint(1, 3), maps=True)
        calls = Windows(self._dice, scope, last=last)
        columns += [column(calls.call()) for _ in range(self._dice.randint(1, 2))]
        rest = ""
        if self._dice.random() < 0.25:
            rest = f" QUALIFY {calls.ranking().sql} <= {self._dice.randint(1, 3)}"
        return self._made("SELECT", given, rest, columns, given.rows)

    def _ranked(self, depth: int, *, last: bool = False) -> Relation:
        given = self._sources.source(depth)
        scope = Expressions(self._dice, given.scope)
        columns = self._items(scope, self._dice.randint(1, 3), maps=True)
        number = self._dice.randint(1, 3)
        chosen = self._dice.choice((f"<= {number}", f"= {number}", f"BETWEEN 2 AND {number + 1}", f"< {number}"))
        windows = Windows(self._dice, scope)
        ranking = windows.number() if self._dice.random() < 0.6 else windows.ranking().sql
        return self._made("SELECT", given, f" QUALIFY {ranking} {chosen}", columns, given.rows)

    def _top(self, depth: int, *, last: bool = False) -> Relation:
        inner = self._query(depth - 1) if depth > 0 else self._select(0)
        columns = Expressions(self._dice, inner.columns)
        offset = f" OFFSET {self._dice.randint(1, 2)}" if self._dice.random() < 0.2 else ""
        count = self._dice.randint(1, 5)
        order = Windows(self._dice, columns).order()
        if self._dice.random() < 0.5 and not inner.sql.startswith(("WITH", "(")) and " LIMIT " not in inner.sql:
            text = f"{inner.sql} {order} LIMIT {count}{offset}"
        else:
            text = f"SELECT * FROM ({inner.sql}) {order} LIMIT {count}{offset}"
        return Relation(text, inner.columns, count, inner.reads)

    def _united(self, depth: int, *, last: bool = False) -> Relation:
        word = self._dice.choice(_SETS)
        sides = [self._sources.source(depth - 1) for _ in range(2)]
        shared = [one.kind for one in sides[0].scope if any(one.kind == other.kind for other in sides[1].scope)]
        kinds = [
            self._dice.choice([kind for kind in shared if kind in KINDS] or KINDS)
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
        given = self._sources.source(depth)
        scope = Expressions(self._dice, given.scope)
        number = scope.value(self._dice.choice(NUMERIC), 1)
        key, wanted = Column(scope.value("bigint", 1), "bigint"), Column(scope.value("string", 1), "string")
        inner = self._made("SELECT", given, "", [key, wanted, Column(number, OTHER)], given.rows)
        call = self._dice.choice(("count", "max", "min"))
        text = f"SELECT c0, pa AS c1, pb AS c2 FROM ({inner.sql}) PIVOT ({call}(c2) FOR c1 IN ('a' AS pa, 'b' AS pb))"
        kind = "bigint" if call == "count" else OTHER
        return Relation(text, (Column("c0", "bigint"), Column("c1", kind), Column("c2", kind)), 10, inner.reads)

    def _named(self, depth: int, *, last: bool = False) -> Relation:
        """A common table expression that is read twice."""
        shared = self._query(max(depth - 1, 0))
        name = self._sources.alias()
        before = self._sources.relations
        self._sources.relations = [Relation(name, shared.columns, shared.rows, shared.reads)]
        try:
            body = self._select(0, last=last) if self._dice.random() < 0.4 else self._united(0, last=last)
        finally:
            self._sources.relations = before
        reads = (body.reads | shared.reads) - {name}
        return Relation(f"WITH {name} AS ({shared.sql}) {body.sql}", body.columns, body.rows, reads)

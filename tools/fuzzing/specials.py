"""Short queries, each with one construct that is easy to get wrong.

The general forms have all of these, too, but seldom. Most read one topic, so that what fails is easy to read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import TypeAlias

from tools.fuzzing.aggregations import Aggregations
from tools.fuzzing.expressions import EXACT, OPAQUE, Column, Expressions
from tools.fuzzing.forms import Forms, column, reading
from tools.fuzzing.relations import Relation, Source, constant
from tools.fuzzing.sources import Sources
from tools.fuzzing.times import INTERVALS, sources_of
from tools.fuzzing.topics import DECIMAL, MAP, NARROW
from tools.fuzzing.windows import Windows

_CLOCKS = (
    "timestamp 'now'", "timestamp 'now'", "date 'today'", "date 'yesterday'", "CAST('now' AS timestamp)",
    "timestamp_ntz 'today'", "current_timestamp()", "current_date", "rand()",
)  # fmt: skip
_ALONE = 0.6
"""How often what depends on the order of rows is asked of all rows: groups are so small that it may seem not to."""
_TRIES = 12
"""How often a source with a column of some type is looked for."""


Form: TypeAlias = Callable[..., Relation]


class Specials(Forms):
    """Makes such queries. Those of `inner` may stand inside of others, too."""

    def __init__(self, dice: Random, sources: Sources) -> None:
        super().__init__(dice, sources)
        self.inner: tuple[Form, ...] = (
            self._page, self._newest, self._lateral, self._keyed_by_subquery, self._constants, self._ranks, self._as_of,
        )  # fmt: skip
        self._halves: tuple[tuple[Form, ...], tuple[Form, ...]] = (
            (
                self._keyed_by_subquery, self._sketches, self._subquery_over, self._page,
                self._statistics, self._narrow_over, self._clock, self._lateral, self._over_without_order,
                self._collected_maps, self._ranks, self._in_time, self._as_of,
            ),
            (
                self._by_order, self._unordered_part, self._newest, self._constants,
                self._statistics_over, self._decimals_over, self._variant, self._values_over, self._in_by_subquery,
                self._ranks, self._page, self._in_time, self._past,
            ),
        )  # fmt: skip

    def deck(self, round_number: int) -> list[Form]:
        """The forms of views in a random order: half of them first, and in every other round the other half.

        A round seldom has room for all of them, so that two rounds together have all. Every round begins with a map as
        a key: Spark gives other values for it where it compiles what it runs, which it does in few rounds.
        """
        first = round_number % 2
        halves = self._halves[first], self._halves[1 - first]
        return [self._keyed_by_map, *(form for half in halves for form in self._dice.sample(half, len(half)))]

    def _one(self, depth: int) -> tuple[Source, Expressions]:
        """One source; those that are no constants are more use here."""
        given = self._sources.one(depth)
        while not given.reads:
            given = self._sources.one(depth)
        return given, Expressions(self._dice, given.scope)

    def _page(self, depth: int, *, last: bool = False) -> Relation:
        """A part of a part: LIMIT and OFFSET inside each other."""
        given, scope = self._one(depth)
        inner = self._made("SELECT", given, "", self._items(scope, self._dice.randint(1, 3)), given.rows)
        # Tables have few rows: a limit that is seldom reached says little.
        text = f"{inner.sql} {Windows(self._dice, scope).order()} {self._part(2, 4)}"
        columns = Expressions(self._dice, inner.columns)
        again = f" {Windows(self._dice, columns).order()}" if self._dice.random() < 0.3 else ""
        return Relation(f"SELECT * FROM ({text}){again} {self._part(1, 4)}", inner.columns, 8, inner.reads)

    def _part(self, least: int, most: int) -> str:
        limit, offset = f"LIMIT {self._dice.randint(least, most)}", f"OFFSET {self._dice.randint(1, 3)}"
        return self._dice.choice((limit, offset, f"{limit} {offset}"))

    def _newest(self, depth: int, *, last: bool = False) -> Relation:
        """Rows, each with the first value, by some order, that belongs to it."""
        given, scope = self._one(depth)
        inner, _ = self._one(0)
        found = self._sources.subqueries.newest(given, inner)
        return self._with(given, scope, inner, found)

    def _unordered_part(self, depth: int, *, last: bool = False) -> Relation:
        """Rows of a topic, each with a value of one of the rows that share something with it, whichever comes."""
        given, inner = self._sources.twice()
        scope = Expressions(self._dice, given.scope)
        made = self._with(given, scope, inner, self._sources.subqueries.some(given, inner))
        return replace(made, open=True)

    def _subquery_over(self, depth: int, *, last: bool = False) -> Relation:
        """Rows, each with the result of a window function over those that belong to it."""
        given, scope = self._one(depth)
        inner, _ = self._one(0)
        return self._with(given, scope, inner, self._sources.subqueries.ranked(given, inner))

    def _with(self, given: Source, scope: Expressions, inner: Source, found: Column | None) -> Relation:
        columns = [*self._items(scope, 2, maps=True), *([found] if found else [])]
        return self._made("SELECT", reading(given, inner), "", columns, given.rows)

    def _lateral(self, depth: int, *, last: bool = False) -> Relation:
        given, _ = self._one(depth)
        given = self._sources.lateral(given)
        return self._made("SELECT", given, "", [*given.scope[:2], *given.scope[-1:]], given.rows)

    def _as_of(self, depth: int, *, last: bool = False) -> Relation:
        """Rows, each with the one that is nearest to it by some order."""
        for _ in range(_TRIES):
            (given, scope), (inner, within) = self._one(depth), self._one(0)
            kind = self._dice.choice(("timestamp", "timestamp", "date", "bigint", "double", "string"))
            moments = [each.of(kind, noise=EXACT) for each in (scope, within)]
            if all(moments) and not given.where and not inner.where:
                break
        else:
            return self._newest(depth, last=last)
        one, other = (self._dice.choice(columns).sql for columns in moments)
        match = f"MATCH_CONDITION ({one} {self._dice.choice(('>=', '>=', '>', '<=', '<'))} {other})"
        key = self._sources.subqueries.key(given, inner)
        conditions = [key] if key and self._dice.random() < 0.9 else []
        if kind == "timestamp" and conditions and self._dice.random() < 0.2:
            conditions.append(f"{one} - {other} <= INTERVAL 1 HOUR")
        if conditions and self._dice.random() < 0.2:
            conditions.append(self._dice.choice((scope, within)).condition(0))
        on = f" ON {' AND '.join(conditions)}" if conditions else ""
        text = f"{given.sql} {self._dice.choice(('LEFT ASOF', 'ASOF'))} JOIN {inner.sql} {match}{on}"
        both = Source(text, given.scope + inner.scope, given.rows, given.reads | inner.reads)
        return self._made(
            "SELECT", both, "", self._items(Expressions(self._dice, both.scope), 3, maps=True), given.rows
        )

    def _keyed_by_subquery(self, depth: int, *, last: bool = False) -> Relation:
        """Groups of which one key is a scalar subquery."""
        given, scope = self._one(depth)
        inner, _ = self._one(0)
        key = Column(self._sources.subqueries.total(inner), "bigint")
        if self._dice.random() < 0.5:
            key = Column(f"({scope.value('bigint', 0)} + {key.sql})", "bigint")
        columns = [*self._items(scope, 1), key, *self._calls(scope, 1, 2, last=last)]
        rest = self._dice.choice((" GROUP BY ALL", " GROUP BY 1, 2"))
        return self._made("SELECT", reading(given, inner), rest, columns, min(given.rows, 12))

    def _in_by_subquery(self, depth: int, *, last: bool = False) -> Relation:
        """Rows chosen by an IN whose key has a scalar subquery in it."""
        (given, scope), (inner, within), (another, _) = self._one(depth), self._one(0), self._one(0)
        key = f"({scope.value('bigint', 0)} + {self._sources.subqueries.total(another)})"
        word = self._dice.choice(("IN", "IN", "NOT IN"))
        where = f"{key} {word} (SELECT {within.value('bigint', 1)} FROM {inner.sql})"
        reads = given.reads | inner.reads | another.reads
        chosen = Source(given.sql, given.scope, given.rows, reads, (*given.where, where))
        return self._made("SELECT", chosen, "", self._items(scope, 2), given.rows)

    def _constants(self, depth: int, *, last: bool = False) -> Relation:
        """Constant relations, often without a use of their columns."""
        rows = constant(self._dice, self._sources.alias())
        if self._dice.random() < 0.5:
            given = self._sources.one(depth)
            columns = given.scope if self._dice.random() < 0.7 else given.scope + rows.scope
            rows = Source(f"{given.sql} CROSS JOIN {rows.sql}", columns, given.rows * rows.rows, given.reads)
        elif self._dice.random() < 0.7:
            return self._made("SELECT", rows, "", [Column("count(*)", "bigint")], 1)
        scope = Expressions(self._dice, rows.scope)
        if self._dice.random() < 0.5:
            return self._made("SELECT", rows, "", self._calls(scope, 1, 2, last=last), 1)
        return self._made("SELECT", rows, "", self._items(scope, 2, maps=True), rows.rows)

    def _ranks(self, depth: int, *, last: bool = False) -> Relation:
        """Ranks, in which ties have a meaning; now and then of the first ones only."""
        given, scope = self._one(depth)
        windows = Windows(self._dice, scope)
        columns = [*self._items(scope, 1), column(windows.ranking()), column(windows.ranking())]
        rest = f" QUALIFY {windows.ranking().sql} <= 2" if self._dice.random() < 0.3 else ""
        return self._made("SELECT", given, rest, columns, given.rows)

    def _groups(self, depth: int, calls: Callable[[Aggregations], Column], *, alone: float = 0.2) -> Relation:
        """A call of an aggregate function for groups, or for all rows in this share of the queries."""
        given, scope = self._one(depth)
        made = calls(Aggregations(self._dice, scope, last=True))
        if self._dice.random() < alone:
            return self._made("SELECT", given, "", [made], 1)
        keys = scope.shared() or [Column("1", "int")]
        return self._made("SELECT", given, " GROUP BY 1", [self._dice.choice(keys), made], 12)

    def _statistics(self, depth: int, *, last: bool = False) -> Relation:
        return self._groups(depth, lambda calls: column(calls.statistic()))

    def _by_order(self, depth: int, *, last: bool = False) -> Relation:
        return replace(self._groups(depth, lambda calls: column(calls.by_order()), alone=_ALONE), open=True)

    def _sketches(self, depth: int, *, last: bool = False) -> Relation:
        return replace(self._groups(depth, lambda calls: column(calls.sketch()), alone=_ALONE), open=True)

    def _one_with(self, kind: str, depth: int) -> tuple[Source, Expressions]:
        """One source, mostly with a column of a type."""
        given, scope = self._one(depth)
        for _ in range(_TRIES):
            if scope.of(kind):
                break
            given, scope = self._one(0)
        return given, scope

    def _keyed_by_map(self, depth: int, *, last: bool = False) -> Relation:
        """Groups whose key is a map: mostly a column, whose maps may have nulls inside."""
        given, scope = self._one_with(MAP, depth)
        key = self._dice.choice(scope.of(MAP)) if scope.of(MAP) else Column(scope.value(MAP, 1), MAP)
        # What only Spark can compute is refused for such a key.
        more = self._calls(scope, 1, 1, last=True) if self._dice.random() < 0.15 else []
        columns = [key, Column("count(*)", "bigint"), *more]
        return self._made("SELECT", given, " GROUP BY 1", columns, 12)

    def _collected_maps(self, depth: int, *, last: bool = False) -> Relation:
        given, scope = self._one(depth)
        made = Column(scope.value(MAP, 1), MAP)
        by = self._dice.choice(scope.shared() or [Column("1", "int")])
        call = self._dice.choice((f"collect_list({made.sql})", f"max_by({made.sql}, {by.sql})"))
        return self._made("SELECT", given, " GROUP BY 1", [by, Column(call, OPAQUE)], 12)

    def _over(self, depth: int, calls: Callable[[Windows], Column]) -> Relation:
        given, scope = self._one(depth)
        made = calls(Windows(self._dice, scope, last=True))
        return self._made("SELECT", given, "", [*self._items(scope, 1, maps=True), made], given.rows)

    def _statistics_over(self, depth: int, *, last: bool = False) -> Relation:
        return self._over(depth, lambda windows: column(windows.statistic()))

    def _decimals_over(self, depth: int, *, last: bool = False) -> Relation:
        """Sums of decimals over windows: Spark adds up narrow ones in a way of its own."""
        kind = self._dice.choice((NARROW, DECIMAL))
        return self._over(depth, lambda windows: column(windows.total(kind)))

    def _narrow_over(self, depth: int, *, last: bool = False) -> Relation:
        return self._over(depth, lambda windows: column(windows.total(NARROW)))

    def _over_without_order(self, depth: int, *, last: bool = False) -> Relation:
        return self._over(depth, lambda windows: column(windows.unordered()))

    def _values_over(self, depth: int, *, last: bool = False) -> Relation:
        return self._over(depth, lambda windows: column(windows.value()))

    def _in_time(self, depth: int, *, last: bool = False) -> Relation:
        """Rows, or groups of them, for as long as a comparison with the clock or a watermark holds."""
        given, scope = self._one_with("timestamp", depth)
        source = self._dice.choice(self._time_sources())
        if self._dice.random() < 0.3:
            key = self._dice.choice(scope.shared() or [Column("1", "int")])
            newest = Column(f"max({scope.value('timestamp', 0)})", "timestamp")
            rest = f" GROUP BY 1 HAVING {self._compared(newest.sql, source)}"
            return self._made("SELECT", given, rest, [key, newest], 12)
        condition = self._compared(scope.value("timestamp", 1), source)
        chosen = Source(given.sql, given.scope, given.rows, given.reads, (*given.where, condition))
        if self._dice.random() < 0.3:
            return self._made("SELECT", chosen, "", self._calls(scope, 1, 2, last=last), 1)
        return self._made("SELECT", chosen, "", self._items(scope, 2, maps=True), given.rows)

    def _time_sources(self) -> Sequence[str]:
        """The clock, more often than a watermark."""
        topics = [one.sql for one in self._sources.relations if not one.reads and one.topic is None]
        clock, *watermarks = sources_of(topics)
        return [clock] * 2 * len(watermarks) + watermarks

    def _compared(self, moment: str, source: str) -> str:
        distance = self._dice.choice(INTERVALS)
        sign, way = self._dice.choice(("<", "<=", ">", ">=")), self._dice.choice("+-")
        return self._dice.choice(
            (
                f"{moment} {sign} {source}",
                f"{moment} {sign} {source} {way} {distance}",
                f"{source} - {moment} {sign} {distance}",
                f"{moment} BETWEEN {source} - {distance} AND {source}",
                f"{moment} > {source} - {distance} AND {moment} <= {source} + {distance}",
                f"NOT ({moment} {sign} {source})",
            )
        )

    def _past(self, depth: int, *, last: bool = False) -> Relation:
        """Rows of a topic with its history, or groups of them."""
        given = self._sources.history()
        if given is None:
            return self._in_time(depth, last=last)
        scope = Expressions(self._dice, given.scope)
        # What only a history has comes last among its columns.
        own = Expressions(self._dice, given.scope[-5:])
        if self._dice.random() < 0.5:
            columns = [*self._items(own, 1), *self._calls(scope, 1, 2, last=last)]
            return self._made("SELECT", given, " GROUP BY 1", columns, given.rows)
        return self._made("SELECT", given, "", [*self._items(scope, 1), *self._items(own, 2)], given.rows)

    def _variant(self, depth: int, *, last: bool = False) -> Relation:
        """A value without a fixed type: as a column, or looked into."""
        given, scope = self._one(depth)
        made = f"parse_json(concat('{{\"a\": ', coalesce({scope.value('bigint', 0)}, 0), '}}'))"
        forms = (Column(made, OPAQUE), Column(f"variant_get({made}, '$.a', 'int')", "int"))
        return self._made("SELECT", given, "", [*self._items(scope, 1), self._dice.choice(forms)], given.rows)

    def _clock(self, depth: int, *, last: bool = False) -> Relation:
        """A query that is no function of the log."""
        given, scope = self._one(depth)
        columns = [*self._items(scope, 1), Column(self._dice.choice(_CLOCKS), OPAQUE)]
        made = self._made("SELECT", given, "", columns, given.rows)
        return replace(made, clock=True)

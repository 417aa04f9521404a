"""The parts that forms of queries share: what they read, what they select, and how that is written down."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from tools.fuzzing.aggregations import Aggregate, Aggregations
from tools.fuzzing.expressions import KINDS, Column, Expressions
from tools.fuzzing.relations import Relation, Source
from tools.fuzzing.sources import Sources


class Forms:
    """Makes queries from the sources that it is given."""

    def __init__(self, dice: Random, sources: Sources) -> None:
        self._dice, self._sources = dice, sources

    def _made(self, select: str, given: Source, rest: str, columns: Sequence[Column], rows: int) -> Relation:
        where = f" WHERE {' AND '.join(given.where)}" if given.where else ""
        named = tuple(Column(f"c{number}", one.kind, one.noise) for number, one in enumerate(columns))
        listed = ", ".join(f"{one.sql} AS c{number}" for number, one in enumerate(columns))
        return Relation(f"{select} {listed} FROM {given.sql}{where}{rest}", named, rows, given.reads)

    def _items(self, scope: Expressions, count: int, *, maps: bool = False) -> list[Column]:
        """Columns and expressions to select."""
        found: list[Column] = []
        for _ in range(count):
            columns = scope.all() if maps else scope.of()
            if columns and self._dice.random() < 0.6:
                found.append(self._dice.choice(columns))
            else:
                kind = self._dice.choice([one.kind for one in columns if one.kind in KINDS] or KINDS)
                found.append(Column(scope.value(kind), kind))
        return found

    def _calls(self, scope: Expressions, least: int, most: int, *, last: bool) -> list[Column]:
        calls = Aggregations(self._dice, scope, last=last)
        return [column(calls.call()) for _ in range(self._dice.randint(least, most))]


def column(made: Aggregate) -> Column:
    """A call as a column to select."""
    return Column(made.sql, made.kind, made.noise)


def reading(given: Source, inner: Source) -> Source:
    """The same source; what the query reads elsewhere is known, too."""
    return Source(given.sql, given.scope, given.rows, given.reads | inner.reads, given.where)

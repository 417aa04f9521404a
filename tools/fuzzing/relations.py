"""What queries read: topics, views, subqueries and constant relations, with their columns and about how many rows."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from tools.fuzzing.expressions import EXACT, LOOSE, ROUNDED, Column
from tools.fuzzing.topics import TopicPlan

ROWS_MAX = 1500
"""A query that would have more rows than about this is not made."""
_TOPIC_ROWS = 15


class TooLarge(Exception):
    """A query would have too many rows."""


@dataclass(frozen=True, slots=True)
class Relation:
    """A query, a topic or a view: the SQL that names it, its columns, about how many rows, and what it reads.

    `clock` marks a query that depends on when it is run, which has to be refused; `open` one whose answer SQL may leave
    open, which has to be refused if it does, unless headwater has a rule for it. `topic` is what a relation reads that
    is a topic with its history.
    """

    sql: str
    columns: tuple[Column, ...]
    rows: int
    reads: frozenset[str]
    clock: bool = False
    open: bool = False
    topic: str | None = None

    @property
    def loose(self) -> bool:
        return any(column.noise >= LOOSE for column in self.columns)


@dataclass(frozen=True, slots=True)
class Source:
    """What stands behind FROM, and conditions for WHERE."""

    sql: str
    scope: tuple[Column, ...]
    rows: int
    reads: frozenset[str]
    where: tuple[str, ...] = ()


def topic_relation(topic: TopicPlan) -> Relation:
    """A topic to read from."""
    columns = tuple(Column(name, kind, ROUNDED if name in topic.wild else EXACT) for name, kind in topic.columns)
    return Relation(topic.name, columns, _TOPIC_ROWS, frozenset())


def history_relations(topic: TopicPlan) -> list[Relation]:
    """What else there is to read of a topic: its system columns, its changes, and the versions of its rows."""
    own = topic_relation(topic).columns
    system = (Column("_commit", "bigint"), Column("_offset", "bigint"), Column("_partition", "int"))
    found = [Relation(topic.name, (*own, *system), _TOPIC_ROWS, frozenset(), topic=topic.name)]
    if not topic.compacted:
        changed = (*own, Column("operation", "string"), *system)
        found.append(Relation(f"changes('{topic.name}')", changed, 2 * _TOPIC_ROWS, frozenset(), topic=topic.name))
    if topic.key and not topic.compacted:
        moments = (Column("valid_from", "timestamp"), Column("valid_to", "timestamp"))
        versions = (*own, *moments, *system)
        found.append(Relation(f"versions('{topic.name}')", versions, 2 * _TOPIC_ROWS, frozenset(), topic=topic.name))
    return found


def constant(dice: Random, alias: str) -> Source:
    """Rows that stand in the query itself."""
    if dice.random() < 0.4:
        count = dice.randint(1, 5)
        return Source(f"range({count}) AS {alias}", (Column(f"{alias}.id", "bigint"),), count, frozenset())
    rows = ((1, "a"), (2, "b"), (2, "A#12"), (None, "a"))[: dice.randint(1, 4)]
    listed = ", ".join(f"({'NULL' if number is None else f'{number}L'}, '{text}')" for number, text in rows)
    scope = (Column(f"{alias}.n", "bigint"), Column(f"{alias}.s", "string"))
    return Source(f"(VALUES {listed}) AS {alias}(n, s)", scope, len(rows), frozenset())


def in_some_case(dice: Random, name: str) -> str:
    """A name, now and then in the other case, which means the same."""
    return name.swapcase() if dice.random() < 0.08 else name

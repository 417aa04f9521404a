"""Random topics for views to read: tables and streams whose values come from domains so small that they often meet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, nan
from random import Random

STRUCT = "struct<x:int,y:string>"
DECIMAL = "decimal(12,2)"
NARROW = "decimal(8,2)"
"""Spark adds up decimals of so few digits as integers, by a rule of its own."""
NUMBERS = "array<int>"
MAP = "map<string,int>"

# Doubles are multiples of 1/4, so that their sums are the same in whatever order they are added up.
DOMAINS: Mapping[str, Sequence[object]] = {
    "bigint": (None, -1, 0, 1, 2, 3, 4),
    "int": (None, -2, 0, 1, 2, 5),
    "string": (None, "", "a", "A", "b", "b ", "ü", "b#12"),
    "double": (None, -0.0, 0.0, 0.5, 1.0, -2.25, 3.0, nan, inf, -inf),
    DECIMAL: (None, "0.00", "0.01", "1.50", "-2.25", "10.00", "99.99"),
    NARROW: (None, "0.00", "0.01", "1.50", "-2.25", "99.99"),
    "boolean": (None, True, False),
    "date": (None, "1969-12-31", "2024-02-29", "2024-03-01", "2025-01-01"),
    "timestamp": (
        None,
        "1969-12-31T23:59:59.999999Z",
        "2024-02-29T23:30:00Z",
        "2024-03-01T00:00:00Z",
        "2024-03-01T00:45:00.5Z",
    ),
    "array<string>": (None, [], ["a"], ["b", "a"], ["a", None, "a"], [None]),
    NUMBERS: (None, [], [1], [2, None, 1], [None]),
    STRUCT: (None, {"x": 1, "y": "a"}, {"x": None, "y": None}, {"x": 1, "y": None}, {"x": 2, "y": "b"}),
    MAP: (None, {}, {"q": 1}, {"q": None}, {"q": 0}, {"a": 1, "q": None}),
}
WILD: Sequence[object] = (None, 0.1, 0.7, 1.0, -1.0, 3.3333333333333335, -123.456, 1e16, -1e16, 1e-9)
"""Doubles whose sums depend on the order in which they are added up, and of which some cancel out."""
KEYS: Mapping[str, Sequence[object]] = {"bigint": (1, 2, 3, 4, 5, 6), "string": ("a", "A", "b", "")}
LARGE = 2**62
FAILING: Mapping[str, Sequence[object]] = {
    "a": (*range(0, 50, 10), *range(0, 50, 10), *range(0, 50, 10), 1, None),
    "b": tuple(tens + ones for tens in range(0, 50, 10) for ones in (1, 2, 3)),
    "big": (*range(1, 25), LARGE),
    "s": (None, *(str(number) for number in range(25)), "x"),
    "l": (*([number, 2, 3] for number in range(20)), [1, 2]),
    "d": (*(f"{number % 10}.50" for number in range(20)), "10.00"),
}
"""Values of which few make an expression fail. No `a` equals a `b`, but for one, and many are close to one."""


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """A topic to be created; with a key it is a table.

    `wild` are its columns of doubles that do not add up exactly. With `failing`, few values make expressions fail.
    """

    name: str
    columns: tuple[tuple[str, str], ...]
    key: tuple[str, ...] = ()
    partitions: int = 1
    wild: frozenset[str] = frozenset()
    compacted: bool = False
    failing: bool = False

    @property
    def ddl(self) -> str:
        return ", ".join(f"{name} {kind}" for name, kind in self.columns)

    def domain(self, column: str) -> Sequence[object]:
        """The values of a column; those of a key are never null."""
        kind = dict(self.columns)[column]
        if column in self.wild:
            return WILD
        if column in self.key or (self.failing and column in ("id", "k")):
            return KEYS[kind]
        return FAILING[column] if self.failing else DOMAINS[kind]


def random_topics(dice: Random) -> list[TopicPlan]:
    """Two to four topics, at least one of them a table; all have a column `k` by which they are often joined.

    At least one has a column of maps, and one a column of timestamps.
    """
    count = dice.randint(2, 4)
    made = [_topic(dice, number, keyed=number == 0 or dice.random() < 0.6) for number in range(count)]
    for name, wanted in (("m", MAP), ("at", "timestamp")):
        if not any(kind == wanted for topic in made for _, kind in topic.columns):
            place = dice.randrange(count)
            made[place] = replace(made[place], columns=(*made[place].columns, (name, wanted)))
    return made


def _topic(dice: Random, number: int, *, keyed: bool) -> TopicPlan:
    columns = [("id", "bigint")]
    key: tuple[str, ...] = ("id",) if keyed else ()
    if keyed and dice.random() < 0.25:
        columns.append(("part", "string"))
        key = ("id", "part")
    columns.append(("k", dice.choice(("bigint", "bigint", "bigint", "int", "string"))))
    wild = []
    for place, kind in enumerate(_kinds(dice)):
        name = f"{dice.choice(('v', 'v', 'v', 'V', 'vX'))}{place}"
        columns.append((name, kind))
        if kind == "double" and dice.random() < 0.6:
            wild.append(name)
    name = f"{dice.choice(('t', 't', 'T'))}{number}"
    return TopicPlan(
        name,
        tuple(columns),
        key,
        dice.choice((1, 1, 2, 3)),
        frozenset(wild),
        compacted=keyed and dice.random() < 0.4,
    )


def _kinds(dice: Random) -> list[str]:
    """The types of a topic's values; among them one to be added up."""
    kinds = [dice.choice(list(DOMAINS)) for _ in range(dice.randint(2, 5))]
    return [*kinds, dice.choice(("double", "double", NARROW, DECIMAL, "int", MAP))]


def failing_topics(dice: Random) -> list[TopicPlan]:
    """Two or three topics of the same columns, whose values make expressions fail now and then."""
    columns = (
        ("id", "bigint"), ("k", "bigint"), ("a", "int"), ("b", "int"), ("big", "bigint"), ("s", "string"),
        ("l", NUMBERS), ("d", DECIMAL),
    )  # fmt: skip
    return [
        TopicPlan(f"t{number}", columns, ("id",) if number < 2 or dice.random() < 0.5 else (), failing=True)
        for number in range(dice.randint(2, 3))
    ]

"""Random topics for views to read: tables and streams whose values come from domains so small that they often meet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, nan
from random import Random

STRUCT = "struct<x:int,y:string>"
DECIMAL = "decimal(12,2)"

# Doubles are multiples of 1/4, so that their sums are the same in whatever order they are added up.
DOMAINS: Mapping[str, Sequence[object]] = {
    "bigint": (None, -1, 0, 1, 2, 3, 4),
    "int": (None, -2, 0, 1, 2, 5),
    "string": (None, "", "a", "A", "b", "b ", "ü"),
    "double": (None, -0.0, 0.0, 0.5, 1.0, -2.25, 3.0, nan, inf, -inf),
    DECIMAL: (None, "0.00", "0.01", "1.50", "-2.25", "10.00", "99.99"),
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
    STRUCT: (None, {"x": 1, "y": "a"}, {"x": None, "y": None}, {"x": 1, "y": None}, {"x": 2, "y": "b"}),
}
KEYS: Mapping[str, Sequence[object]] = {"bigint": (1, 2, 3, 4, 5, 6), "string": ("a", "A", "b", "")}


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """A topic to be created; with a key it is a table."""

    name: str
    columns: tuple[tuple[str, str], ...]
    key: tuple[str, ...] = ()
    partitions: int = 1

    @property
    def ddl(self) -> str:
        return ", ".join(f"{name} {kind}" for name, kind in self.columns)

    def domain(self, column: str) -> Sequence[object]:
        """The values of a column; those of a key are never null."""
        kind = dict(self.columns)[column]
        return KEYS[kind] if column in self.key else DOMAINS[kind]


def random_topics(dice: Random) -> list[TopicPlan]:
    """Two to four topics, at least one of them a table; all have a column `k` by which they are often joined."""
    return [
        _topic(dice, f"t{number}", keyed=number == 0 or dice.random() < 0.55) for number in range(dice.randint(2, 4))
    ]


def _topic(dice: Random, name: str, *, keyed: bool) -> TopicPlan:
    columns = [("id", "bigint")]
    key: tuple[str, ...] = ("id",) if keyed else ()
    if keyed and dice.random() < 0.25:
        columns.append(("part", "string"))
        key = ("id", "part")
    columns.append(("k", dice.choice(("bigint", "bigint", "bigint", "int", "string"))))
    kinds = list(DOMAINS)
    columns += [(f"v{number}", dice.choice(kinds)) for number in range(dice.randint(2, 6))]
    return TopicPlan(name, tuple(columns), key, dice.choice((1, 1, 2, 3)))

"""Worlds for the views of the matrix: topics, and what happens to them step by step.

Values come from small domains with everything in them that has ever made a view differ: ties, NULLs, duplicates, NaN,
-0.0, infinities, doubles that cancel, empty strings, NULLs inside of arrays, maps and structs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, nan
from pathlib import Path
from random import Random
from typing import Any, TypeAlias

import pyarrow as pa

from headwater.log.embedded.log import EmbeddedLog
from headwater.log.port import Log
from headwater.log.topic import Topic
from headwater.model.position import START, Position

Row: TypeAlias = Mapping[str, Any]

DOMAINS: Mapping[str, Sequence[Any]] = {
    "tinyint": (0, 1, -1, 127, -128),
    "smallint": (0, 1, -7, 300),
    "int": (0, 1, 1, 2, 3, -3, 7),
    "bigint": (0, 1, 2, 5, -4, 9007199254740993),
    "decimal(8,2)": ("0.00", "1.50", "1.50", "-2.25", "10.00", "999999.99"),
    "decimal(12,2)": ("0.00", "0.01", "1.50", "-2.25", "99.99", "1234567890.12"),
    "decimal(38,10)": ("0", "0.0000000001", "1.5", "-12345678901234567890.5", "3.3333333333"),
    "float": (0.0, -0.0, 0.1, 1.5, -2.25, 16777216.0, nan, inf),
    "double": (0.0, -0.0, 1e16, 1.0, -1e16, 1e16, 1.0, -1e16, 0.1, 2.5, nan, inf, -inf),
    "string": ("", "a", "A", "b", "b ", "ü", "10"),
    "date": ("1969-12-31", "2024-02-29", "2024-03-01", "2024-03-01", "2025-01-01"),
    "timestamp": (
        "1969-12-31T23:59:59.999999Z",
        "2024-02-29T23:30:00Z",
        "2024-03-01T00:00:00Z",
        "2024-03-01T00:45:00.5Z",
        "2024-03-01T01:10:00Z",
    ),
    "timestamp_ntz": ("1969-12-31T23:59:59.999999", "2024-02-29T23:30:00", "2024-03-01T00:00:00"),
    "boolean": (True, False),
    "binary": (b"", b"a", b"ab", b"\x00\xff"),
}
"""The values of each type, beside NULL."""

COLUMNS: Mapping[str, str] = {
    "ti": "tinyint",
    "sm": "smallint",
    "i": "int",
    "l": "bigint",
    "d8": "decimal(8,2)",
    "d12": "decimal(12,2)",
    "d38": "decimal(38,10)",
    "f": "float",
    "x": "double",
    "y": "double",
    "s": "string",
    "dt": "date",
    "ts": "timestamp",
    "tn": "timestamp_ntz",
    "b": "boolean",
    "bn": "binary",
}
"""The columns of plain types, of every topic of the plain world. `y` has ordinary doubles, `x` has the awkward ones."""

CONTAINERS: Mapping[str, str] = {"a": "array<{}>", "s": "struct<v:{}>", "m": "map<string,{}>"}
NESTED: Mapping[str, str] = {
    f"{prefix}_{name}": shape.format(kind)
    for name, kind in COLUMNS.items()
    if name != "y"
    for prefix, shape in CONTAINERS.items()
} | {
    "a_a_i": "array<array<int>>",
    "a_s_i": "array<struct<v:int,w:string>>",
    "m_a_i": "map<string,array<int>>",
    "s_s_x": "struct<v:struct<w:double>,z:string>",
    "m_s_i": "map<int,struct<v:int>>",
    "s_m_i": "struct<v:map<string,int>>",
    "a_m_i": "array<map<string,int>>",
}
"""The columns of the nested world: every type inside of every container."""

_IDS = tuple(range(1, 19))
_GROUPS = (None, "a", "a", "b", "c", "")
_JOIN_KEYS = (None, 1, 2, 2, 3)
_ORDERS = (None, 1, 1, 2, 3)
_SHAPE = {"g": _GROUPS, "k": _JOIN_KEYS, "o": _ORDERS}
_SHAPE_DDL = "id bigint, g string, k int, o int"


@dataclass(frozen=True, slots=True)
class Change:
    """Rows that are appended to a topic, or keys of a table that are deleted."""

    topic: str
    rows: tuple[Row, ...]
    delete: bool = False


@dataclass(frozen=True, slots=True)
class Step:
    """Commits, after which the views are compared; before some, the application is closed and opened again."""

    title: str
    commits: tuple[tuple[Change, ...], ...] = ()
    reopen: bool = False


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """A topic to be created, and the values of its columns."""

    name: str
    columns: Mapping[str, str]
    key: str | None = "id"

    @property
    def ddl(self) -> str:
        return ", ".join([_SHAPE_DDL if self.key in (None, "id") else "g string", *self._others()])

    def _others(self) -> list[str]:
        return [f"{name} {kind}" for name, kind in self.columns.items()]


@dataclass(frozen=True, slots=True)
class Moment:
    """The rows of every topic after a step, and where the log is then."""

    step: Step
    position: Position
    rows: Mapping[str, pa.Table]


@dataclass(frozen=True, slots=True)
class World:
    """Topics with their history, written to a log that any number of applications then run over."""

    name: str
    directory: Path
    topics: Sequence[Topic]
    moments: Sequence[Moment]


def build_world(name: str, directory: Path, seed: int) -> World:
    """Creates the topics of a world, makes all its commits, and reads back what the topics hold after each step."""
    dice = Random(f"{name} {seed}")
    plans = WORLDS[name]
    steps = _History(dice, plans).steps()
    positions: list[Position] = []
    with EmbeddedLog(directory) as log:
        for plan in plans:
            log.create(plan.name, plan.ddl, key=plan.key)
        for step in steps:
            for commit in step.commits:
                _append(log, commit)
            positions.append(log.position() if any(done.commits for done in steps[: len(positions) + 1]) else START)
        topics = log.topics()
        moments = [
            Moment(step, position, {topic.name: _rows(log, topic, position) for topic in topics})
            for step, position in zip(steps, positions, strict=True)
        ]
    return World(name, directory, topics, moments)


def _append(log: Log, changes: Sequence[Change]) -> None:
    with log.commit() as commit:
        for change in changes:
            if change.delete:
                commit.delete(change.topic, list(change.rows))
            else:
                commit.append(change.topic, list(change.rows))


def _rows(log: Log, topic: Topic, position: Position) -> pa.Table:
    found = log.table(topic.name, at=position) if topic.key else log.scan(topic.name, end=position)
    return found.select(topic.schema.names)


class _History:
    """Makes up what happens, and knows what the tables hold meanwhile."""

    def __init__(self, dice: Random, plans: Sequence[TopicPlan]) -> None:
        self._dice, self._plans = dice, plans
        self._held: dict[str, dict[Any, Row]] = {plan.name: {} for plan in plans}
        self._sent: dict[str, list[Row]] = {plan.name: [] for plan in plans}
        self._decks: dict[tuple[str, str], list[Any]] = {}

    def steps(self) -> list[Step]:
        gone: list[Change] = []
        return [
            Step("nothing yet"),
            Step("first rows, of all topics in one commit", (self._all(self._fill),)),
            Step("updates in place", (self._all(lambda plan: self._update(plan, 6, moved=False)),)),
            Step("moves between groups, inserts, deletes", (self._all(self._moves), self._all(self._mixed))),
            Step("reopened, then rows", (self._all(lambda plan: self._insert(plan, 5)),), reopen=True),
            Step("groups become empty", (self._all(lambda plan: self._empty_group(plan, gone)),)),
            Step("groups come back", (self._all(lambda plan: self._put_back(plan, gone)), *self._there_and_back())),
            Step("everything goes", (self._all(self._clear),)),
            Step("rows again", (self._all(self._fill),)),
        ]

    def _all(self, change: Any) -> tuple[Change, ...]:
        return tuple(made for plan in self._plans for made in change(plan) if made.rows)

    def _fill(self, plan: TopicPlan) -> list[Change]:
        return self._insert(plan, 14)

    def _insert(self, plan: TopicPlan, count: int) -> list[Change]:
        return [self._append(plan, [self._new(plan) for _ in range(count)])]

    def _moves(self, plan: TopicPlan) -> list[Change]:
        return self._update(plan, 6, moved=True)

    def _update(self, plan: TopicPlan, count: int, *, moved: bool) -> list[Change]:
        held = list(self._held[plan.name].values())
        if plan.key is None:
            return self._insert(plan, 2)
        chosen = self._dice.sample(held, min(count, len(held)))
        kept = set() if moved else set(_SHAPE)
        return [self._append(plan, [self._changed(plan, row, kept) for row in chosen])]

    def _changed(self, plan: TopicPlan, row: Row, kept: set[str]) -> Row:
        new = self._new(plan)
        stays = {*kept, str(plan.key)}
        if not kept:
            # A row that only moves keeps its values.
            stays |= {name for name in plan.columns if self._dice.random() < 0.7}
        return {name: row[name] if name in stays else new[name] for name in row}

    def _mixed(self, plan: TopicPlan) -> list[Change]:
        return [*self._delete(plan, self._some(plan, 3)), *self._insert(plan, 4)]

    def _empty_group(self, plan: TopicPlan, gone: list[Change]) -> list[Change]:
        rows = [row for row in self._held[plan.name].values() if row["g"] in ("a", None) or row.get("k") == 2]
        gone.append(Change(plan.name, tuple(rows)))
        return self._delete(plan, rows)

    def _put_back(self, plan: TopicPlan, gone: Sequence[Change]) -> list[Change]:
        rows = [row for change in gone if change.topic == plan.name for row in change.rows]
        return [self._append(plan, rows)] if plan.key else self._insert(plan, 2)

    def _there_and_back(self) -> tuple[tuple[Change, ...], ...]:
        before = {plan.name: list(self._held[plan.name].values()) for plan in self._plans}
        there = self._all(lambda plan: self._moves(plan) if plan.key else [])
        back = tuple(self._append(plan, before[plan.name][::2]) for plan in self._plans if plan.key)
        return there, back

    def _clear(self, plan: TopicPlan) -> list[Change]:
        return self._delete(plan, list(self._held[plan.name].values()))

    def _some(self, plan: TopicPlan, count: int) -> list[Row]:
        held = list(self._held[plan.name].values())
        return self._dice.sample(held, min(count, len(held)))

    def _new(self, plan: TopicPlan) -> Row:
        sent = self._sent[plan.name]
        if sent and self._dice.random() < 0.25:
            row = dict(self._dice.choice(sent))
        else:
            shape = _SHAPE if plan.key in (None, "id") else {"g": _GROUPS}
            row = {name: self._dice.choice(domain) for name, domain in shape.items()}
            row |= {name: self._value(plan, name, kind) for name, kind in plan.columns.items()}
        if plan.key == "id" or (plan.key is None and "id" not in row):
            row["id"] = self._dice.choice(_IDS)
        sent.append(row)
        return row

    def _value(self, plan: TopicPlan, name: str, kind: str) -> Any:
        if name == "y":
            return None if self._dice.random() < 0.1 else self._dice.uniform(-1000, 1000)
        if kind not in DOMAINS:
            return random_value(self._dice, kind)
        deck = self._decks.setdefault((plan.name, name), [])
        if not deck:
            # Every value comes once before any comes again, so that few rows have them all.
            nulls = [] if name == plan.key else [None] * (1 + len(DOMAINS[kind]) // 6)
            deck += self._dice.sample([*DOMAINS[kind], *nulls], len(DOMAINS[kind]) + len(nulls))
        return deck.pop()

    def _append(self, plan: TopicPlan, rows: Sequence[Row]) -> Change:
        if plan.key:
            # Two rows of one key in one commit are fine: the later one counts.
            self._held[plan.name] |= {str(row[plan.key]): row for row in rows}
        return Change(plan.name, tuple(rows))

    def _delete(self, plan: TopicPlan, rows: Sequence[Row]) -> list[Change]:
        if plan.key is None:
            return []
        for row in rows:
            self._held[plan.name].pop(str(row[plan.key]), None)
        return [Change(plan.name, tuple({plan.key: row[plan.key]} for row in rows), delete=True)]


def random_value(dice: Random, kind: str) -> Any:
    """A value of a type of SQL's, one in six NULL."""
    if dice.random() < 1 / 6:
        return None
    if kind.startswith("array<"):
        return [random_value(dice, kind[6:-1]) for _ in range(dice.choice((0, 1, 2, 2)))]
    if kind.startswith("map<"):
        key, _, item = kind[4:-1].partition(",")
        keys = ("q", "r", "") if key == "string" else (1, 2)
        return {name: random_value(dice, item) for name in dice.sample(keys, dice.choice((0, 1, 2)))}
    if kind.startswith("struct<"):
        return {name: random_value(dice, item) for name, item in _fields(kind[7:-1])}
    return dice.choice(DOMAINS[kind])


def _fields(text: str) -> list[tuple[str, str]]:
    """The fields of a struct; commas inside of brackets separate none."""
    depth, parts = 0, [""]
    for character in text:
        depth += (character in "<(") - (character in ">)")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [(name, kind) for name, _, kind in (part.partition(":") for part in parts)]


KEY_TYPES: Mapping[str, str] = {name: kind for name, kind in COLUMNS.items() if name not in ("y", "i")}

WORLDS: Mapping[str, Sequence[TopicPlan]] = {
    "plain": (TopicPlan("t", COLUMNS), TopicPlan("u", COLUMNS), TopicPlan("r", COLUMNS, key=None)),
    "nested": (TopicPlan("n", NESTED), TopicPlan("p", NESTED)),
    "keys": tuple(
        TopicPlan(f"k_{name}", {name: kind, "i": "int", "y": "double"}, key=name) for name, kind in KEY_TYPES.items()
    ),
}
"""The topics of each world."""

"""Random scalar expressions and conditions of SQL, of a wanted type, over the columns in scope.

Left out, because Spark itself leaves open what they give:
- what may fail on a value (division, casts of text): which rows it meets is up to Spark's optimizer;
- doubles as text, or divided by: min, max and keys may keep -0.0 or 0.0;
- division of doubles: a rounded number cannot be added up in any order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from tools.fuzzing.topics import DECIMAL, DOMAINS, MAP, NARROW, NUMBERS, STRUCT

OTHER = "other"
"""A type of which nothing is known, such as a list of numbers: it is passed on and compared, nothing else."""
OPAQUE = "opaque"
"""A type whose values have no order, such as a list of maps: it is passed on, nothing else."""
UNORDERED = (MAP, OPAQUE)
KINDS = tuple(kind for kind in DOMAINS if kind != MAP)
NUMERIC = ("bigint", "int", "double", DECIMAL, NARROW)

EXACT, ROUNDED, LOOSE = 0, 1, 2
"""How surely a column's value is known: exactly; exactly, but not to be added up; up to the last digits only."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column in scope, by the SQL that names it."""

    sql: str
    kind: str
    noise: int = EXACT


class Expressions:
    """Makes expressions over columns."""

    def __init__(self, dice: Random, columns: Sequence[Column]) -> None:
        self._dice, self.columns = dice, columns
        self._makers: Mapping[str, Callable[[int], Sequence[str]]] = {
            "bigint": self._bigints,
            "int": self._ints,
            "string": self._strings,
            "double": self._doubles,
            DECIMAL: self._decimals,
            "boolean": lambda depth: [self.condition(depth)],
            "date": self._dates,
            "timestamp": self._timestamps,
            "array<string>": self._arrays,
            NARROW: self._narrow_decimals,
            NUMBERS: self._number_arrays,
            STRUCT: self._structs,
            MAP: self._maps,
        }

    def of(self, *kinds: str, noise: int = ROUNDED) -> list[Column]:
        """The columns of these types (all that can be compared, if none are named) that are known well enough."""
        return [
            one
            for one in self.columns
            if one.noise <= noise and (one.kind in kinds if kinds else one.kind not in UNORDERED)
        ]

    def all(self, noise: int = ROUNDED) -> list[Column]:
        """The columns that are known well enough, with those that cannot be compared."""
        return [one for one in self.columns if one.noise <= noise]

    def shared(self) -> list[Column]:
        """The columns by which rows mostly fall into groups of several: all but ids, if there are others."""
        columns = self.of()
        return [one for one in columns if not one.sql.lower().endswith(".id")] or columns

    def literal(self, kind: str) -> str:
        """A value of a type, now and then null, which makes most conditions hold for no row."""
        domain = DOMAINS[kind] if self._dice.random() < 0.1 else DOMAINS[kind][1:]
        return literal(kind, self._dice.choice(domain))

    def value(self, kind: str, depth: int = 2) -> str:
        """An expression of a type."""
        columns = self.of(kind, noise=EXACT)
        chance = self._dice.random()
        if columns and (depth <= 0 or chance < 0.55):
            return self._dice.choice(columns).sql
        if depth <= 0 or chance < 0.62:
            return self.literal(kind)
        if chance < 0.72:
            return self._either(kind, depth - 1)
        return self._dice.choice(self._makers[kind](depth - 1))

    def condition(self, depth: int = 2) -> str:
        """A condition."""
        chance = self._dice.random()
        if depth > 0 and chance < 0.3:
            word = self._dice.choice(("AND", "OR", "OR", "OR"))
            return f"({self.condition(depth - 1)} {word} {self.condition(depth - 1)})"
        if depth > 0 and chance < 0.37:
            return f"(NOT {self.condition(depth - 1)})"
        kind = self._kind()
        if kind is None:
            return self._dice.choice(("true", "(1 = 1)"))
        return self._about(kind, depth - 1)

    def _kind(self) -> str | None:
        kinds = sorted({one.kind for one in self.of() if one.kind in KINDS})
        return self._dice.choice(kinds) if kinds else None

    def _about(self, kind: str, depth: int) -> str:
        chosen = self._dice.choice(self.of(kind))
        one, other = chosen.sql, self._another(chosen, depth)
        forms = [
            f"({one} {self._dice.choice(('=', '<', '>', '<=', '>=', '<>', '<>', '<=>'))} {other})",
            f"({one} {self._dice.choice(('<', '>', '<=', '>='))} {other})",
            f"({one} IS {self._dice.choice(('', 'NOT ', 'NOT '))}NULL)",
            f"({one} {self._dice.choice(('', 'NOT '))}IN ({self.literal(kind)}, {self.literal(kind)}, {other}))",
            f"({one} {self._dice.choice(('', 'NOT '))}BETWEEN {self.literal(kind)} AND {other})",
        ]
        if kind == "boolean":
            forms += [one, f"({one} IS TRUE)"]
        if kind == "string":
            forms += [f"({one} LIKE '%{self._dice.choice('aAb')}%')", f"(length({one}) > 1)"]
        if kind == "double":
            forms.append(f"isnan({one})")
        if kind == "array<string>":
            forms += [f"array_contains({one}, 'a')", f"(size({one}) > 1)", f"exists({one}, e -> e IS NULL)"]
        if kind == STRUCT:
            forms += [f"({one}.x > 1)", f"({one}.y = 'a')"]
        return self._dice.choice(forms)

    def _another(self, column: Column, depth: int) -> str:
        """Something to compare a column with."""
        others = [one for one in self.of(column.kind) if one != column]
        if others and self._dice.random() < 0.4:
            return self._dice.choice(others).sql
        return self.literal(column.kind) if self._dice.random() < 0.6 else self.value(column.kind, depth)

    def _either(self, kind: str, depth: int) -> str:
        one, other = self.value(kind, depth), self.value(kind, depth)
        return self._dice.choice(
            (
                f"coalesce({one}, {other})",
                f"CASE WHEN {self.condition(depth)} THEN {one} ELSE {other} END",
                f"CASE WHEN {self.condition(depth)} THEN {one} END",
                f"nullif({one}, {other})",
                f"if({self.condition(depth)}, {one}, {other})",
            )
        )

    def _bigints(self, depth: int) -> Sequence[str]:
        return (
            f"pmod({self.value('bigint', depth)} * {self.value('bigint', depth)}, 1000)",
            f"({self.value('bigint', depth)} + {self.value('int', depth)})",
            f"(- {self.value('bigint', depth)})",
            f"CAST(length({self.value('string', depth)}) AS bigint)",
            f"abs({self.value('bigint', depth)})",
            f"greatest({self.value('bigint', depth)}, {self.value('bigint', depth)})",
            f"CAST({self.value('boolean', depth)} AS bigint)",
        )

    def _ints(self, depth: int) -> Sequence[str]:
        return (
            f"CAST(pmod({self.value('bigint', depth)}, 7) AS int)",
            f"year({self.value('date', depth)})",
            f"hour({self.value('timestamp', depth)})",
            f"size({self.value('array<string>', depth)})",
            f"array_max({self.value(NUMBERS, depth)})",
            f"{self.value(MAP, 0)}['q']",
            f"map_contains_key({self.value(MAP, 0)}, 'q')::int",
            f"{self.value(STRUCT, 0)}.x",
            f"datediff({self.value('date', depth)}, {self.value('date', depth)})",
        )

    def _strings(self, depth: int) -> Sequence[str]:
        return (
            f"concat({self.value('string', depth)}, '-', {self.value('string', depth)})",
            f"upper({self.value('string', depth)})",
            f"trim({self.value('string', depth)})",
            f"substring({self.value('string', depth)}, 1, 1)",
            f"CAST({self.value('bigint', depth)} AS string)",
            f"CAST({self.value(DECIMAL, depth)} AS string)",
            f"CAST({self.value('date', depth)} AS string)",
            f"array_join({self.value('array<string>', depth)}, ',')",
            f"try_element_at({self.value('array<string>', depth)}, 1)",
            f"{self.value(STRUCT, 0)}.y",
        )

    def _doubles(self, depth: int) -> Sequence[str]:
        return (
            f"({self.value('double', depth)} + {self.value('double', depth)})",
            f"({self.value('double', depth)} * 0.5D)",
            f"(- {self.value('double', depth)})",
            f"CAST({self.value('int', depth)} AS double)",
            f"nanvl({self.value('double', depth)}, 1.0D)",
            f"greatest({self.value('double', depth)}, {self.value('double', depth)})",
        )

    def _decimals(self, depth: int) -> Sequence[str]:
        product = f"{self.value(DECIMAL, depth)} * {self.value(DECIMAL, depth)}"
        return (
            f"CAST(pmod({product}, 1000) AS {DECIMAL})",
            f"CAST(pmod({self.value(DECIMAL, depth)} + {self.value(DECIMAL, depth)}, 1000) AS {DECIMAL})",
            f"CAST({self.value('int', depth)} AS {DECIMAL})",
            f"CAST(round(pmod({self.value(DECIMAL, depth)}, 1000), 1) AS {DECIMAL})",
        )

    def _dates(self, depth: int) -> Sequence[str]:
        return (
            f"date_add({self.value('date', depth)}, {self._dice.randint(-1, 1)})",
            f"CAST({self.value('timestamp', depth)} AS date)",
            f"trunc({self.value('date', depth)}, 'MM')",
        )

    def _timestamps(self, depth: int) -> Sequence[str]:
        return (
            f"date_trunc('hour', {self.value('timestamp', depth)})",
            f"({self.value('timestamp', depth)} + INTERVAL 30 MINUTES)",
            f"CAST({self.value('date', depth)} AS timestamp)",
        )

    def _arrays(self, depth: int) -> Sequence[str]:
        return (
            f"array({self.value('string', depth)}, {self.value('string', depth)})",
            f"sort_array({self.value('array<string>', depth)})",
            f"array_distinct({self.value('array<string>', depth)})",
            f"filter({self.value('array<string>', depth)}, e -> e >= 'a')",
            f"concat({self.value('array<string>', depth)}, {self.value('array<string>', depth)})",
        )

    def _narrow_decimals(self, depth: int) -> Sequence[str]:
        return (
            f"CAST({self.value('int', depth)} AS {NARROW})",
            f"CAST(pmod({self.value(DECIMAL, depth)}, 100) AS {NARROW})",
            f"abs({self.value(NARROW, depth)})",
        )

    def _number_arrays(self, depth: int) -> Sequence[str]:
        return (
            f"array({self.value('int', depth)}, {self.value('int', depth)})",
            f"transform({self.value(NUMBERS, depth)}, e -> e % 3)",
            f"map_values({self.value(MAP, 0)})",
            f"sort_array({self.value(NUMBERS, depth)})",
        )

    def _maps(self, depth: int) -> Sequence[str]:
        return (
            f"map('q', {self.value('int', depth)})",
            f"map_filter({self.value(MAP, 0)}, (k, v) -> v IS NULL)",
            f"transform_values({self.value(MAP, 0)}, (k, v) -> nullif(v, 1))",
        )

    def _structs(self, depth: int) -> Sequence[str]:
        return (f"named_struct('x', {self.value('int', depth)}, 'y', {self.value('string', depth)})",)


def literal(kind: str, value: object) -> str:
    """A value as SQL of a type."""
    if value is None:
        return f"CAST(NULL AS {kind})"
    if kind == MAP and isinstance(value, dict):
        items = ", ".join(f"'{name}', {literal('int', item)}" for name, item in value.items())
        return f"CAST(map({items}) AS {kind})"
    if isinstance(value, dict):
        fields = f"'x', {literal('int', value['x'])}, 'y', {literal('string', value['y'])}"
        return f"named_struct({fields})"
    if isinstance(value, list):
        items = ", ".join(literal("int" if kind == NUMBERS else "string", item) for item in value)
        return f"CAST(array({items}) AS {kind})"
    if isinstance(value, float) and not -1e9 < value < 1e9:
        return f"CAST('{value}' AS double)".replace("inf", "Infinity").replace("nan", "NaN")
    if kind == "double":
        return f"{value}D" if str(value)[0] != "-" else f"(- {str(value)[1:]}D)"
    if kind in ("bigint", DECIMAL, NARROW):
        return f"CAST({value} AS {kind})"
    if kind in ("date", "timestamp"):
        return f"{kind.upper()} '{value}'"
    return f"'{value}'" if isinstance(value, str) else str(value).lower()

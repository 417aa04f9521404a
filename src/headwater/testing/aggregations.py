"""Random aggregate and window functions over the columns in scope.

Left out, because Spark itself leaves open what they give:
- first, last, any_value, mode: which of several rows is meant (headwater refuses the first three);
- lists and first or last values over a frame by range: in which order equal rows come;
- sums and spreads of rounded numbers, but as the last step of a view, where they are compared up to the last digits.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from headwater.testing.expressions import EXACT, LOOSE, NUMBERS, OTHER, ROUNDED, Column, Expressions
from headwater.testing.topics import DECIMAL

_SPREADS = ("stddev", "var_pop", "skewness", "kurtosis")


@dataclass(frozen=True, slots=True)
class Aggregate:
    """An aggregate function with its argument, and what it gives."""

    sql: str
    kind: str
    noise: int = EXACT


class Aggregations:
    """Makes calls of aggregate functions. `last`: nothing computes with their results."""

    def __init__(self, dice: Random, scope: Expressions, *, last: bool) -> None:
        self._dice, self._scope, self._last = dice, scope, last

    def call(self) -> Aggregate:
        """One function, perhaps over some of the rows only."""
        made = self._dice.choice(
            (self._count, self._number, self._number, self._extreme, self._collection, self._rare)
        )()
        if self._dice.random() < 0.2:
            made = Aggregate(f"{made.sql} FILTER (WHERE {self._scope.condition(1)})", made.kind, made.noise)
        return made

    def _argument(self, *kinds: str, noise: int = EXACT) -> Column | None:
        columns = self._scope.of(*kinds, noise=noise)
        if not columns:
            return None
        chosen = self._dice.choice(columns)
        if kinds and chosen.noise == EXACT and self._dice.random() < 0.25:
            return Column(self._scope.value(chosen.kind, 1), chosen.kind)
        return chosen

    def _count(self) -> Aggregate:
        one, other = self._argument(noise=ROUNDED), self._argument(noise=ROUNDED)
        if one is None or other is None or self._dice.random() < 0.35:
            return Aggregate("count(*)", "bigint")
        forms = (
            f"count({one.sql})", f"count(DISTINCT {one.sql})", f"count(DISTINCT {one.sql}, {other.sql})",
            f"count_if({self._scope.condition(1)})", f"approx_count_distinct({one.sql})",
        )  # fmt: skip
        return Aggregate(self._dice.choice(forms[:4] if one.kind == OTHER else forms), "bigint")

    def _number(self) -> Aggregate:
        one = self._argument(*NUMBERS)
        if one is None:
            return self._count()
        total = "bigint" if one.kind == "int" else one.kind
        average = DECIMAL if one.kind == DECIMAL else "double"
        forms = [
            Aggregate(f"sum({one.sql})", total),
            Aggregate(f"avg({one.sql})", average, ROUNDED),
            Aggregate(f"sum(DISTINCT {one.sql})", total),
        ]
        if self._last:
            forms += [
                Aggregate(f"{self._dice.choice(_SPREADS)}({one.sql})", "double", LOOSE),
                Aggregate(f"avg(DISTINCT {one.sql})", average, ROUNDED),
                Aggregate(f"corr({one.sql}, {self._scope.value('double', 1)})", "double", LOOSE),
            ]
        return self._dice.choice([forms[0], *forms])

    def _extreme(self) -> Aggregate:
        one, by = self._argument(noise=ROUNDED), self._argument(noise=ROUNDED)
        if one is None or by is None:
            return self._count()
        name = self._dice.choice(("min", "max"))
        forms = (f"{name}({one.sql})", f"{name}({one.sql})", f"{name}_by({one.sql}, {by.sql})")
        return Aggregate(self._dice.choice(forms), one.kind, one.noise)

    def _collection(self) -> Aggregate:
        one = self._argument(noise=EXACT)
        if one is None:
            return self._count()
        name = self._dice.choice(("collect_list", "collect_set", "array_agg"))
        return Aggregate(f"{name}({one.sql})", "array<string>" if one.kind == "string" else OTHER)

    def _rare(self) -> Aggregate:
        number, whole, text = self._argument("int", "bigint"), self._argument("bigint"), self._argument("string")
        forms = [
            Aggregate(f"{name}({self._scope.condition(1)})", "boolean") for name in ("bool_and", "bool_or", "every")
        ]
        if number:
            forms.append(Aggregate(f"percentile({number.sql}, 0.5)", "double", ROUNDED))
            forms.append(Aggregate(f"median({number.sql})", "double", ROUNDED))
        if whole:
            name = self._dice.choice(("bit_and", "bit_or", "bit_xor"))
            forms.append(Aggregate(f"{name}({whole.sql})", "bigint"))
        if text:
            forms.append(Aggregate(f"listagg({text.sql}, ';') WITHIN GROUP (ORDER BY {text.sql})", "string"))
        return self._dice.choice(forms)


class Windows:
    """Makes calls of functions over windows."""

    def __init__(self, dice: Random, scope: Expressions) -> None:
        self._dice, self._scope = dice, scope

    def call(self) -> Aggregate:
        """A function over rows of the same partition."""
        return self._dice.choice((self.ranking, self._neighbour, self._framed, self._framed, self._whole))()

    def ranking(self) -> Aggregate:
        name = self._dice.choice(
            ("row_number()", "rank()", "dense_rank()", "ntile(3)", "percent_rank()", "cume_dist()")
        )
        exact = name not in ("percent_rank()", "cume_dist()")
        return Aggregate(
            f"{name} OVER ({self._partition()}{self.order()})",
            "int" if exact else "double",
            EXACT if exact else ROUNDED,
        )

    def number(self) -> str:
        """The number of a row in its partition."""
        return f"row_number() OVER ({self._partition()}{self.order()})"

    def order(self) -> str:
        """An ORDER BY of one or two columns."""
        columns = self._scope.of()
        if not columns:
            return "ORDER BY 1"
        chosen = self._dice.sample(columns, min(len(columns), self._dice.choice((1, 1, 2))))
        ways = ("", "", " DESC", " DESC NULLS FIRST", " NULLS LAST")
        return "ORDER BY " + ", ".join(f"{one.sql}{self._dice.choice(ways)}" for one in chosen)

    def _partition(self) -> str:
        columns = self._scope.of()
        if not columns or self._dice.random() < 0.15:
            return ""
        chosen = self._dice.sample(columns, min(len(columns), self._dice.choice((1, 1, 2))))
        return "PARTITION BY " + ", ".join(one.sql for one in chosen) + " "

    def _neighbour(self) -> Aggregate:
        columns = self._scope.of()
        if not columns:
            return self.ranking()
        one = self._dice.choice(columns)
        name = self._dice.choice(("lag", "lead"))
        arguments = f"{one.sql}, {self._dice.randint(1, 2)}"
        return Aggregate(f"{name}({arguments}) OVER ({self._partition()}{self.order()})", one.kind, one.noise)

    def _framed(self) -> Aggregate:
        rows = self._dice.choice(
            (
                "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
                "ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING",
                "ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
            )
        )
        made = self._summary()
        columns = self._scope.of()
        if columns and self._dice.random() < 0.3:
            one = self._dice.choice(columns)
            name = self._dice.choice(("first_value", "last_value"))
            made = Aggregate(f"{name}({one.sql})", one.kind, one.noise)
        elif self._dice.random() < 0.4:
            rows = ""
        return Aggregate(f"{made.sql} OVER ({self._partition()}{self.order()} {rows})", made.kind, made.noise)

    def _whole(self) -> Aggregate:
        made = self._summary()
        return Aggregate(f"{made.sql} OVER ({self._partition().strip()})", made.kind, made.noise)

    def _summary(self) -> Aggregate:
        numbers, columns = self._scope.of(*NUMBERS, noise=EXACT), self._scope.of()
        forms = [Aggregate("count(*)", "bigint")]
        if columns:
            one = self._dice.choice(columns)
            forms += [Aggregate(f"{name}({one.sql})", one.kind, one.noise) for name in ("min", "max")]
            forms.append(Aggregate(f"count({one.sql})", "bigint"))
        if numbers:
            number = self._dice.choice(numbers)
            total = "bigint" if number.kind == "int" else number.kind
            forms.append(Aggregate(f"sum({number.sql})", total))
            forms.append(Aggregate(f"avg({number.sql})", DECIMAL if total == DECIMAL else "double", ROUNDED))
        return self._dice.choice(forms)

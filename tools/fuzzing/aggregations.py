"""Random aggregate functions over the columns in scope.

As the last step of a view, where nothing computes with their results, there are also
- sums and statistics of doubles that do not add up exactly, which are compared up to the last digits;
- functions that depend on the order of rows: headwater either refuses or settles them.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from tools.fuzzing.expressions import (
    EXACT,
    LOOSE,
    NUMERIC,
    OPAQUE,
    OTHER,
    ROUNDED,
    UNORDERED,
    Column,
    Expressions,
)
from tools.fuzzing.topics import DECIMAL, NARROW

_SPREADS = (
    "stddev", "stddev_pop", "stddev_samp", "std", "variance", "var_pop", "var_samp", "skewness", "kurtosis",
)  # fmt: skip
_PAIRS = (
    "corr", "covar_pop", "covar_samp", "regr_avgx", "regr_avgy", "regr_intercept", "regr_r2", "regr_slope",
    "regr_sxx", "regr_sxy", "regr_syy",
)  # fmt: skip
_FIRST = ("first", "last", "first_value", "last_value", "any_value")


@dataclass(frozen=True, slots=True)
class Aggregate:
    """An aggregate function with its argument, and what it gives."""

    sql: str
    kind: str
    noise: int = EXACT


def total_of(kind: str) -> str:
    """The type of a sum of numbers of a type, but for the digits of a decimal."""
    return {"int": "bigint", NARROW: DECIMAL}.get(kind, kind)


def average_of(kind: str) -> str:
    """The type of an average of numbers of a type, but for the digits of a decimal."""
    return DECIMAL if kind in (DECIMAL, NARROW) else "double"


class Aggregations:
    """Makes calls of aggregate functions. `last`: nothing computes with their results."""

    def __init__(self, dice: Random, scope: Expressions, *, last: bool) -> None:
        self._dice, self._scope, self._last = dice, scope, last

    def call(self) -> Aggregate:
        """One function, perhaps over some of the rows only."""
        makers = [self._count, self._number, self._number, self._extreme, self._collection, self._rare, self._distinct]
        if self._last:
            makers += [self.statistic, self.statistic, self.by_order]
        made = self._dice.choice(makers)()
        if self._dice.random() < 0.15:
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

    def _anything(self) -> Column | None:
        columns = self._scope.all()
        return self._dice.choice(columns) if columns else None

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
        one = self._argument(*NUMERIC)
        if one is None:
            return self._count()
        forms = [
            Aggregate(f"sum({one.sql})", total_of(one.kind)),
            Aggregate(f"avg({one.sql})", average_of(one.kind), ROUNDED),
        ]
        return self._dice.choice([forms[0], *forms])

    def _distinct(self) -> Aggregate:
        """A function of the distinct values only."""
        one, whole = self._argument(*NUMERIC), self._argument("int", "bigint")
        any_column = self._argument(noise=EXACT)
        if one is None or any_column is None:
            return self._count()
        list_kind = "array<string>" if any_column.kind == "string" else OTHER
        forms = [
            Aggregate(f"sum(DISTINCT {one.sql})", total_of(one.kind)),
            Aggregate(f"avg(DISTINCT {one.sql})", average_of(one.kind), ROUNDED if one.kind != "double" else LOOSE),
            Aggregate(f"max(DISTINCT {one.sql})", one.kind),
            Aggregate(f"collect_list(DISTINCT {any_column.sql})", list_kind),
            Aggregate(f"count(DISTINCT {any_column.sql})", "bigint"),
        ]
        if whole:
            forms.append(Aggregate(f"bit_xor(DISTINCT {whole.sql})", whole.kind))
        if self._last:
            text = self._scope.value("string", 1)
            forms += [
                Aggregate(f"listagg(DISTINCT {text}, ';') WITHIN GROUP (ORDER BY {text})", "string"),
                Aggregate(f"{self._dice.choice(_SPREADS)}(DISTINCT {one.sql})", "double", LOOSE),
            ]
        return self._dice.choice([form for form in forms if self._last or form.noise < LOOSE])

    def statistic(self) -> Aggregate:
        """A number that is known up to the last digits only; half of them are of doubles that do not add up exactly."""
        one, other = self._argument(*NUMERIC, noise=ROUNDED), self._argument(*NUMERIC, noise=ROUNDED)
        wild = self._scope.of("double")
        if one is None or other is None:
            return self._count()
        if wild and self._dice.random() < 0.6:
            one = self._dice.choice(wild)
        forms = [
            f"{self._dice.choice(_SPREADS)}({one.sql})",
            f"{self._dice.choice(_SPREADS)}({one.sql})",
            f"{self._dice.choice(_PAIRS)}({one.sql}, {other.sql})",
            f"sum({one.sql})",
            f"avg({one.sql})",
            f"avg(DISTINCT {one.sql})",
            f"sum(DISTINCT {one.sql})",
            f"percentile({one.sql}, array(0.25, 0.9))",
        ]
        sql = self._dice.choice(forms)
        return Aggregate(sql, OTHER if sql.startswith("percentile") else "double", LOOSE)

    def _extreme(self) -> Aggregate:
        one, by = self._argument(noise=ROUNDED), self._argument(noise=ROUNDED)
        if one is None or by is None:
            return self._count()
        name = self._dice.choice(("min", "max"))
        forms = [f"{name}({one.sql})", f"{name}({one.sql})", f"{name}_by({one.sql}, {by.sql})"]
        if self._last and (any_column := self._anything()):
            forms.append(f"{name}_by({any_column.sql}, {by.sql})")
            one = any_column if any_column.kind in UNORDERED else one
            return Aggregate(self._dice.choice(forms), OPAQUE, one.noise)
        return Aggregate(self._dice.choice(forms), one.kind, one.noise)

    def _collection(self) -> Aggregate:
        one = self._anything() if self._last else self._argument(noise=EXACT)
        if one is None:
            return self._count()
        names = ("collect_list", "array_agg") if one.kind in UNORDERED else ("collect_list", "collect_set", "array_agg")
        kind = "array<string>" if one.kind == "string" else OPAQUE if one.kind in UNORDERED else OTHER
        return Aggregate(f"{self._dice.choice(names)}({one.sql})", kind, one.noise)

    def _rare(self) -> Aggregate:
        number, whole, text = self._argument("int", "bigint"), self._argument("bigint"), self._argument("string")
        by = self._argument(noise=EXACT)
        forms = [
            Aggregate(f"{name}({self._scope.condition(1)})", "boolean") for name in ("bool_and", "bool_or", "every")
        ]
        if number:
            forms.append(Aggregate(f"percentile({number.sql}, 0.5)", "double", ROUNDED))
            forms.append(Aggregate(f"median({number.sql})", "double", ROUNDED))
            forms.append(Aggregate(f"percentile_disc(0.5) WITHIN GROUP (ORDER BY {number.sql})", "double", ROUNDED))
        if whole:
            name = self._dice.choice(("bit_and", "bit_or", "bit_xor"))
            forms.append(Aggregate(f"{name}({whole.sql})", "bigint"))
        if text:
            forms.append(Aggregate(f"listagg({text.sql}, ';') WITHIN GROUP (ORDER BY {text.sql})", "string"))
        if by:
            forms.append(Aggregate(f"mode() WITHIN GROUP (ORDER BY {by.sql})", by.kind))
        return self._dice.choice(forms)

    def by_order(self) -> Aggregate:
        """A function whose result depends on the order of rows."""
        one, by, text = self._anything(), self._argument(noise=ROUNDED), self._argument("string")
        if one is None or by is None:
            return self._count()
        choice = self._dice.choice
        forms = [
            Aggregate(f"{choice(_FIRST)}({one.sql})", OPAQUE, one.noise),
            Aggregate(f"mode({by.sql})", by.kind, by.noise),
            Aggregate(f"{choice(('max_by', 'min_by'))}({one.sql}, {by.sql}, 2)", OPAQUE, one.noise),
            Aggregate(f"{choice(('max_by', 'min_by'))}({one.sql}, {by.sql})", OPAQUE, one.noise),
        ]
        if text:
            order = choice(("", f" WITHIN GROUP (ORDER BY {by.sql})"))
            forms.append(Aggregate(f"listagg({text.sql}, ';'){order}", OPAQUE))
        return choice([*forms, self.sketch()])

    def sketch(self) -> Aggregate:
        """A summary that is kept in few bytes, and may depend on the order of rows."""
        # Of columns: what is the same in all rows has no order.
        number, text = self._scope.value("bigint", 0), self._scope.value("string", 0)
        return Aggregate(
            self._dice.choice(
                (
                    f"hll_sketch_agg({number})",
                    f"kll_sketch_agg_bigint({number})",
                    f"theta_sketch_agg({number})",
                    f"histogram_numeric({number}, 2)",
                    f"approx_top_k({number}, 2)",
                    f"approx_top_k({text}, 2)",
                    f"approx_percentile({number}, 0.5)",
                    f"try_sum({number})",
                    f"count_min_sketch({text}, 0.5d, 0.5d, 1)",
                )
            ),
            OPAQUE,
        )

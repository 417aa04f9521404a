"""Random functions over windows: every kind of function, with and without an order, with frames by rows and by range.

Orders have many ties, because columns have few values. What ties leave open is settled by headwater; what they mean
(ranks, peers in a frame by range) is not.
"""

from __future__ import annotations

from random import Random

from tools.fuzzing.aggregations import Aggregate, average_of, total_of
from tools.fuzzing.expressions import EXACT, LOOSE, NUMERIC, OPAQUE, ROUNDED, Column, Expressions

_WAYS = ("", "", " DESC", " DESC NULLS FIRST", " NULLS LAST")
_ROWS = (
    "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
    "ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING",
    "ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
    "ROWS 2 PRECEDING",
    "ROWS BETWEEN 1 FOLLOWING AND 2 FOLLOWING",
)
_RANGES = (
    "",
    "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
    "RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
    "RANGE BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
    "RANGE BETWEEN CURRENT ROW AND CURRENT ROW",
)
_DISTANCES = ("RANGE BETWEEN 1 PRECEDING AND CURRENT ROW", "RANGE BETWEEN 1 PRECEDING AND 2 FOLLOWING")


class Windows:
    """Makes calls of functions over windows. `last`: nothing computes with their results."""

    def __init__(self, dice: Random, scope: Expressions, *, last: bool = False) -> None:
        self._dice, self._scope, self._last = dice, scope, last

    def call(self) -> Aggregate:
        """A function over rows of the same partition."""
        makers = [
            self.ranking, self.ranking, self._neighbor, self._framed, self._ranged, self._ranged, self._whole,
            self._whole,
        ]  # fmt: skip
        if self._last:
            makers += [self.value, self.value, self.unordered, self.statistic]
        return self._dice.choice(makers)()

    def ranking(self) -> Aggregate:
        """A rank, or where a row is among the others."""
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
        columns = self._scope.shared() if self._dice.random() < 0.6 else self._scope.of()
        if not columns:
            return "ORDER BY 1"
        chosen = self._dice.sample(columns, min(len(columns), self._dice.choice((1, 1, 2))))
        return "ORDER BY " + ", ".join(f"{one.sql}{self._dice.choice(_WAYS)}" for one in chosen)

    def _partition(self) -> str:
        columns = self._scope.shared() if self._dice.random() < 0.8 else self._scope.of()
        if not columns or self._dice.random() < 0.15:
            return ""
        chosen = self._dice.sample(columns, min(len(columns), self._dice.choice((1, 1, 1, 2))))
        return "PARTITION BY " + ", ".join(one.sql for one in chosen) + " "

    def _neighbor(self) -> Aggregate:
        columns = self._scope.of()
        if not columns:
            return self.ranking()
        one = self._dice.choice(columns)
        name = self._dice.choice(("lag", "lead"))
        arguments = f"{one.sql}, {self._dice.randint(1, 2)}"
        nulls = self._dice.choice(("", "", " IGNORE NULLS"))
        return Aggregate(f"{name}({arguments}){nulls} OVER ({self._partition()}{self.order()})", one.kind, one.noise)

    def _framed(self) -> Aggregate:
        """An aggregate over a frame by rows, in which ties count."""
        made = self._summary()
        frame = self._dice.choice(_ROWS)
        return Aggregate(f"{made.sql} OVER ({self._partition()}{self.order()} {frame})", made.kind, made.noise)

    def _ranged(self) -> Aggregate:
        """An aggregate over a frame by range, in which ties are together."""
        made = self._summary()
        order, frame = self.order(), self._dice.choice(_RANGES)
        numbers = self._scope.of("int", "bigint")
        if numbers and self._dice.random() < 0.4:
            order = f"ORDER BY {self._dice.choice(numbers).sql}{self._dice.choice(_WAYS)}"
            frame = self._dice.choice(_DISTANCES)
        return Aggregate(
            f"{made.sql} OVER ({self._partition()}{order} {frame})".replace(" )", ")"), made.kind, made.noise
        )

    def _whole(self) -> Aggregate:
        """An aggregate over all rows of a partition."""
        made = self._summary()
        return Aggregate(f"{made.sql} OVER ({self._partition().strip()})", made.kind, made.noise)

    def value(self) -> Aggregate:
        """The value of one row of a frame."""
        columns = self._scope.all()
        if not columns:
            return self.ranking()
        one = self._dice.choice(columns)
        call = self._dice.choice(
            (f"first_value({one.sql})", f"last_value({one.sql})", f"nth_value({one.sql}, 2)", f"any_value({one.sql})",
             f"first_value({one.sql}) IGNORE NULLS", f"last_value({one.sql}) IGNORE NULLS")
        )  # fmt: skip
        frame = self._dice.choice((*_ROWS, *_RANGES))
        return Aggregate(
            f"{call} OVER ({self._partition()}{self.order()} {frame})".replace(" )", ")"), OPAQUE, one.noise
        )

    def unordered(self) -> Aggregate:
        """Something that depends on the order of rows, where none is stated."""
        columns = self._scope.all()
        if not columns:
            return self.ranking()
        one, made = self._dice.choice(columns), self._summary()
        partition = self._partition()
        call = self._dice.choice(
            (
                f"first_value({one.sql}) OVER ({partition})",
                f"last_value({one.sql}) OVER ({partition})",
                f"collect_list({one.sql}) OVER ({partition})",
                f"collect_list({one.sql}) OVER ({partition}{self.order()})",
                f"{made.sql} OVER ({partition}{self._dice.choice(_ROWS)})",
                f"max_by({one.sql}, {self._by().sql}) OVER ({partition})",
            )
        )
        return Aggregate(call.replace(" )", ")"), OPAQUE, LOOSE)

    def statistic(self) -> Aggregate:
        """A number that is known up to the last digits only, over a partition or a frame."""
        numbers = self._scope.of("double") or self._scope.of(*NUMERIC)
        if not numbers:
            return self.ranking()
        one, other = self._dice.choice(numbers), self._dice.choice(numbers)
        name = self._dice.choice(("sum", "avg", "avg", "stddev", "var_pop", "corr"))
        argument = f"{one.sql}, {other.sql}" if name == "corr" else one.sql
        order = f"{self.order()} {self._dice.choice((*_ROWS, *_RANGES))}" if self._dice.random() < 0.5 else ""
        call = f"{name}({argument}) OVER ({self._partition()}{order})"
        return Aggregate(call.replace(" )", ")"), "double", LOOSE)

    def total(self, kind: str) -> Aggregate:
        """A sum or an average of numbers of a type."""
        made = self._dice.choice(self._numbers(Column(self._scope.value(kind, 1), kind)))
        order = f"{self.order()} {self._dice.choice((*_ROWS, *_RANGES))}" if self._dice.random() < 0.5 else ""
        call = f"{made.sql} OVER ({self._partition()}{order})"
        return Aggregate(call.replace(" )", ")"), made.kind, made.noise)

    def _by(self) -> Column:
        return self._dice.choice(self._scope.of() or [Column("1", "int")])

    def _summary(self) -> Aggregate:
        numbers, columns = self._scope.of(*NUMERIC, noise=EXACT), self._scope.of()
        forms = [Aggregate("count(*)", "bigint")]
        if columns:
            one = self._dice.choice(columns)
            forms += [Aggregate(f"{name}({one.sql})", one.kind, one.noise) for name in ("min", "max")]
            forms.append(Aggregate(f"count({one.sql})", "bigint"))
        if numbers:
            forms += self._numbers(self._dice.choice(numbers)) * 2
        return self._dice.choice(forms)

    def _numbers(self, number: Column) -> list[Aggregate]:
        return [
            Aggregate(f"sum({number.sql})", total_of(number.kind)),
            Aggregate(f"avg({number.sql})", average_of(number.kind), ROUNDED),
        ]

"""Random queries with expressions that fail on some values: by zero, out of bounds, too large, not a number.

They stand where every row of the result, or every row of a topic, is sure to be evaluated: which of the other rows an
expression meets is up to Spark's optimizer. Some are guarded, and must never fail.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from tools.fuzzing.expressions import OPAQUE, Column
from tools.fuzzing.relations import Relation
from tools.fuzzing.topics import TopicPlan


class FailingQueries:
    """Makes queries over topics whose columns are those of `failing_topics`."""

    def __init__(self, dice: Random, topics: Sequence[TopicPlan]) -> None:
        self._dice, self._topics = dice, [topic.name for topic in topics]

    def query(self) -> Relation:
        """A query with an expression that may fail."""
        form = self._dice.choice(
            (self._selected, self._joined, self._joined, self._joined, self._summed, self._keyed, self._of_groups,
             self._windowed, self._filtered, self._united, self._looked_up)
        )  # fmt: skip
        sql = form()
        reads = frozenset(topic for topic in self._topics if f" {topic} " in f"{sql} ")
        return Relation(sql, (Column("c0", OPAQUE),), 10, reads)

    def of_pairs(self, one: str, other: str) -> Relation:
        """A query that fails on pairs of rows that never were there at the same time, if it ever sees them."""
        sql = f"SELECT x.id AS c0, 100 / (x.a - y.b) AS c1 FROM {one} x JOIN {other} y ON x.id = y.id"
        return Relation(sql, (Column("c0", OPAQUE),), 10, frozenset({one, other}))

    def _topic(self) -> str:
        return self._dice.choice(self._topics)

    def expression(self, one: str, other: str) -> str:
        """A number, or a failure, from a row called `one` and another (or the same) called `other`."""
        left, right = f"{one}.a", f"{other}.b"
        difference = f"({left} - {right})"
        forms = (
            f"100 / {difference}", f"100 / {difference}", f"100 DIV {difference}", f"{left} % {difference}",
            f"CAST({one}.s AS int)", f"CAST({one}.s AS double)", f"{one}.l[2]", f"element_at({one}.l, 3)",
            f"{left} * 50000000", f"({one}.big + {other}.big)", f"({one}.big * 2)", f"CAST({one}.d AS decimal(3,2))",
            f"CAST({left} + 80 AS tinyint)", f"CASE WHEN {left} = 23 THEN raise_error('no') ELSE {left} END",
            f"CASE WHEN {difference} <> 0 THEN 100 / {difference} END", f"try_divide(100, {difference})",
            f"CASE WHEN {one}.s <> 'x' THEN CAST({one}.s AS int) END",
        )  # fmt: skip
        return self._dice.choice(forms)

    def _selected(self) -> str:
        return f"SELECT x.id AS c0, {self.expression('x', 'x')} AS c1 FROM {self._topic()} x"

    def _from_two(self) -> str:
        condition = self._dice.choice(("x.id = y.id", "x.k = y.k", "x.k = y.id"))
        word = self._dice.choice(("JOIN", "JOIN", "LEFT JOIN"))
        return f"{self._topic()} x {word} {self._topic()} y ON {condition}"

    def _joined(self) -> str:
        where = self._dice.choice(("", "", f" WHERE x.k > {self._dice.randint(1, 3)}"))
        # When both sides change in one commit, the old row of one and the new row of the other never were a pair.
        made = "100 / (x.a - y.b)" if self._dice.random() < 0.5 else self.expression("x", "y")
        return f"SELECT x.id AS c0, y.id AS c1, {made} AS c2 FROM {self._from_two()}{where}"

    def _summed(self) -> str:
        call = self._dice.choice(("sum", "max", "count", "avg", "collect_list"))
        joined = self._dice.random() < 0.5
        given = self._from_two() if joined else f"{self._topic()} x"
        made = self.expression("x", "y" if joined else "x")
        return f"SELECT x.k AS c0, {call}({made}) AS c1 FROM {given} GROUP BY x.k"

    def _keyed(self) -> str:
        return f"SELECT {self.expression('x', 'x')} AS c0, count(*) AS c1 FROM {self._topic()} x GROUP BY 1"

    def _of_groups(self) -> str:
        """Something that fails on the results of aggregates."""
        made = self._dice.choice(
            (f"100 / (sum(x.a) - {self._dice.randint(10, 60)})", "100 / (max(x.a) - min(x.b))", "100 / (count(*) - 4)",
             "sum(x.big)", "CAST(max(x.s) AS int)")
        )  # fmt: skip
        return f"SELECT x.k AS c0, {made} AS c1 FROM {self._topic()} x GROUP BY x.k"

    def _windowed(self) -> str:
        made = self._dice.choice(
            ("100 / (x.a - lag(x.a) OVER (PARTITION BY x.k ORDER BY x.id))", "sum(x.big) OVER (PARTITION BY x.k)",
             "100 / (count(*) OVER (PARTITION BY x.k) - 4)", "max(100 / (x.a - 1)) OVER (PARTITION BY x.k)")
        )  # fmt: skip
        return f"SELECT x.id AS c0, {made} AS c1 FROM {self._topic()} x"

    def _filtered(self) -> str:
        return f"SELECT x.id AS c0 FROM {self._topic()} x WHERE {self.expression('x', 'x')} > 3"

    def _united(self) -> str:
        sides = [f"SELECT CAST({self.expression('x', 'x')} AS string) AS c0 FROM {self._topic()} x" for _ in range(2)]
        return f"({sides[0]}) UNION ALL ({sides[1]})"

    def _looked_up(self) -> str:
        """A scalar subquery that may have more than one row."""
        column, topic = self._dice.choice(("id", "k")), self._topic()
        return f"SELECT x.id AS c0, (SELECT y.a FROM {self._topic()} y WHERE y.{column} = x.id) AS c1 FROM {topic} x"

"""What rounds of fuzzing found, and what they did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from headwater.engine.comparison import Difference


@dataclass(frozen=True, slots=True)
class Finding:
    """Something wrong: a view that differs from Spark after a batch, or an error (of the view, if that is known).

    `note` says what kind of difference it is. An error has a `cause`, by which it is known again.
    """

    view: str | None
    sql: str
    batch: int
    differences: Sequence[Difference] = ()
    error: str = ""
    cause: str = ""
    note: str = ""

    def __str__(self) -> str:
        shown = "\n".join(f"  {one.surplus:+d} {one.row}" for one in self.differences[:10]) or self.error
        note = f" ({self.note})" if self.note else ""
        return f"view {self.view} after batch {self.batch}{note}:\n  {self.sql}\n{shown}"

    def like(self, other: Finding) -> bool:
        """Whether it is the same kind of thing."""
        return (self.cause, bool(self.differences)) == (other.cause, bool(other.differences))


@dataclass(slots=True)
class Figures:
    """What was done in one round or several."""

    rounds: int = 0
    views: int = 0
    batches: int = 0
    comparisons: int = 0
    rows: int = 0
    without_rows: int = 0
    """Comparisons of a view that has no rows: they show little."""
    open: int = 0
    """Comparisons in which Spark's own answer changes with the order of rows, so that a rule of headwater decides."""
    timed: int = 0
    """Comparisons of a view that names the clock or a watermark."""
    reopened: int = 0
    compacted: int = 0
    verified: int = 0
    """Views that `verify` was asked about."""
    failed: int = 0
    """Records that a view failed on, and rightly so."""
    set_aside: int = 0
    invalid: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    """For each construct that was refused, a query that has it."""
    undecided: dict[str, str] = field(default_factory=dict)
    """Queries that Spark itself fails on, with its message: there is nothing to compare with."""
    seconds: Counter[str] = field(default_factory=Counter)
    """Where the time went."""
    findings: list[Finding] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """All figures by name. Not by `asdict`, which makes a counter of pairs of a counter."""
        made = {one.name: getattr(self, one.name) for one in fields(self)}
        counters = {name: dict(value) for name, value in made.items() if isinstance(value, Counter)}
        return {**made, **counters, "findings": [asdict(finding) for finding in self.findings]}

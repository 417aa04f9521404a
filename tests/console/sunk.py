"""A sink of the staged shop: its target is in memory, and refuses one country."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Any, ClassVar

import pyarrow as pa

from headwater.engine.parts import Report
from headwater.engine.running import Runner
from headwater.engine.sinks.target import Assignment, Delivery, Target
from headwater.errors import TargetFailed
from headwater.runner import feeds_of
from tests.console.stage import COLUMNS, Stage
from tests.webhooks.receiver import until

REFUSED = "NL"
REASON = 'new row for relation "revenue" violates check constraint "no_revenue_of_nl"'


class Reports(Target):
    """Holds `revenue` by country."""

    kind: ClassVar[str] = "postgres"

    def __init__(self) -> None:
        self.held: dict[str, dict[str, Any]] = {}
        self.stamp: str | None = None
        self.failure: str | None = None
        self.refuses = True
        self._assignment: Assignment | None = None

    @property
    def address(self) -> str:
        return "postgresql://reports.internal:5432/shop revenue"

    def open(self, assignment: Assignment) -> str | None:
        self._assignment = assignment
        return self.stamp

    def deliver(self, delivery: Delivery) -> None:
        if self.failure is not None:
            raise TargetFailed(self.failure)
        assert self._assignment is not None
        held = {} if delivery.content else dict(self.held)
        for row in delivery.deletes.to_pylist():
            held.pop(row["country"], None)
        for row in delivery.upserts.to_pylist():
            if row["country"] == REFUSED and self.refuses:
                self._assignment.refuse(pa.Table.from_pylist([row], COLUMNS["revenue"]), [REASON])
            else:
                held[row["country"]] = row
        self.held, self.stamp = held, delivery.stamp

    def rows(self, columns: pa.Schema) -> Iterator[pa.Table]:
        yield pa.Table.from_pylist(list(self.held.values()), columns)

    def close(self) -> None:
        pass

    def corrupt(self) -> None:
        """Changes what it has behind the sink's back."""
        self.held["FR"] = {**self.held["FR"], "revenue": Decimal("1.00")}
        del self.held["DE"]
        self.held["XX"] = {"country": "XX", "orders": 1, "revenue": Decimal("9.00")}


@contextmanager
def sunk(stage: Stage) -> Iterator[Reports]:
    """Feeds the sink `report`, and has a webhook `mail` that does not answer."""
    target = Reports()
    stage.app.sink("report", view="revenue", to=target, key="country")
    stage.app.webhook_out(
        "mail", view="best_countries", url="http://127.0.0.1:9/hush", secret="hush", allow_private=True
    )
    with Runner(feeds_of(stage.app), Report()):
        until(lambda: stage.app.sinks["report"].status().lag == 0)
        yield target

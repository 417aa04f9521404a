"""An application over a log whose time the test decides, for tests of what retention does to views."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from headwater.app import App
from headwater.engine.pipeline import Progress
from headwater.log.embedded.log import EmbeddedLog
from headwater.testing.clock import ManualClock

AGE = timedelta(days=1)
VIEWS: Mapping[str, str] = {
    "totals": "SELECT g, count(*) AS n, sum(v) AS total FROM t GROUP BY g",
    "extremes": "SELECT g, min(v) AS low, max(v) AS high, count(DISTINCT v) AS different FROM t GROUP BY g",
    "latest": """SELECT g, v FROM (SELECT *, row_number() OVER (PARTITION BY g ORDER BY v DESC, id) AS n FROM t)
                WHERE n <= 2""",
    "rows": "SELECT id, upper(g) AS g FROM t WHERE v > 1",
    "pairs": "SELECT a.id AS a, b.id AS b FROM t a JOIN t b ON a.g = b.g AND a.v < b.v",
    "all_of_it": "SELECT count(*) AS n FROM t",
}
"""Views that add up, recompute, filter, join, and see nothing of a row but that it is there."""


class World:
    """A log and the applications over it."""

    def __init__(self, directory: Path) -> None:
        self.clock = ManualClock()
        self.log = EmbeddedLog(directory / "log", clock=self.clock, upkeep=False)

    @contextmanager
    def app(self, views: Mapping[str, str] = VIEWS, name: str = "shop", **options: Any) -> Iterator[App]:
        """The application, as a process would run it."""
        app = App(name, log=self.log, master="local[2]", **options)
        for view, sql in views.items():
            app.view(view, sql)
        try:
            yield app
        finally:
            app.close()

    def append(self, *rows: tuple[int, str, int]) -> None:
        """Some records in a segment of their own."""
        self.log.append("t", [{"id": number, "g": g, "v": v} for number, g, v in rows])
        self.log.seal("t")

    def delete(self, *ids: int) -> None:
        self.log.delete("t", [{"id": number} for number in ids])
        self.log.seal("t")

    def pass_time(self, time: timedelta = AGE + timedelta(hours=1)) -> None:
        """Some time passes, and the log looks after itself."""
        self.clock.advance(time)
        self.log.upkeep()

    @property
    def first(self) -> int:
        """The first offset that is there."""
        return self.log.offsets("t")[0][0]


def prove(app: App, views: Mapping[str, str] = VIEWS) -> None:
    """Every view is what its SQL says."""
    for view in views:
        found = app.verify(view)
        assert found.equal, (view, found.differences)


def rows(app: App, view: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in app.read(view).to_pylist())


def batches(app: App) -> Sequence[Progress]:
    return list(app.batches())

"""The matrix of history: what a topic loses, times what its views do about it, in everything that a pipeline goes
through. A pure model says what each view has to be, and `verify` has to agree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal, get_args

import pytest
from pyspark.sql import SparkSession

from headwater.app import App
from headwater.engine import bases, following
from tests.spark.forgetting import AGE, World, rows

Loss = Literal["retention", "compaction", "tombstones", "excluded records"]
Meaning = Literal["forget", "keep", "archive"]
Row = tuple[int, str, int]

VIEWS: Mapping[str, str] = {
    "totals": "SELECT g, count(*) AS n, sum(v) AS total FROM t GROUP BY g",
    "shares": "SELECT id, g, 100 div v AS share FROM t",
}
CHANGED = {**VIEWS, "highest": "SELECT g, max(v) AS high FROM t GROUP BY g"}


@dataclass
class Model:
    """What the records come to, computed from the list of all of them."""

    loss: Loss
    records: list[tuple[int, Row | None]] = field(default_factory=list)
    """The id and the row of each record, by its offset; no row is a tombstone."""

    def counted(self, since: int) -> list[Row]:
        """The rows that count for views that know the records from an offset on."""
        records = [(key, row) for key, row in self.records[since:] if self.loss != "excluded records" or not _zero(row)]
        if self.loss in ("compaction", "tombstones"):
            return [row for row in dict(records).values() if row is not None]
        return [row for _, row in records if row is not None]

    def totals(self, since: int) -> list[tuple[str, int, int]]:
        found = self.counted(since)
        groups = sorted({g for _, g, _ in found})
        return [(g, sum(1 for one in found if one[1] == g), sum(v for _, h, v in found if h == g)) for g in groups]

    def shares(self, since: int) -> list[tuple[int, str, int]]:
        return sorted((key, g, 100 // v) for key, g, v in self.counted(since))

    def highest(self, since: int) -> list[tuple[str, int]]:
        found = self.counted(since)
        return [(g, max(v for _, h, v in found if h == g)) for g in sorted({g for _, g, _ in found})]


def _zero(row: Row | None) -> bool:
    return row is not None and row[2] == 0


class History:
    """A topic that loses records, and an application over it."""

    def __init__(self, world: World, loss: Loss, meaning: Meaning, archive: Path) -> None:
        self.world, self.loss, self.meaning, self.model = world, loss, meaning, Model(loss)
        settings: dict[str, Any] = {"archive": str(archive)} if meaning == "archive" else {"views": meaning}
        if loss in ("compaction", "tombstones"):
            settings |= {"key": "id", "cleanup": "compact"}
        else:
            settings |= {"retention_age": AGE}
        world.log.create("t", "id bigint, g string, v int", **settings)

    def append(self, *given: Row) -> None:
        """A segment of records. Only where records are to be excluded, some make a view fail."""
        usable = [row for row in given if self.loss == "excluded records" or not _zero(row)]
        self.world.append(*usable)
        self.model.records += [(row[0], row) for row in usable]

    def delete(self, *ids: int) -> None:
        if self.loss == "tombstones":
            self.world.delete(*ids)
            self.model.records += [(number, None) for number in ids]

    def maintain(self) -> None:
        self.world.log.upkeep()
        if self.loss in ("compaction", "tombstones"):
            self.world.log.compact("t")

    def check(self, app: App, since: int, changed_since: int | None = None) -> None:
        """Every view is what the model says, and `verify` proves it."""
        expected: dict[str, Sequence[Any]] = {"totals": self.model.totals(since), "shares": self.model.shares(since)}
        if changed_since is not None:
            expected["highest"] = self.model.highest(changed_since)
        for view, content in expected.items():
            assert rows(app, view) == content, (self.loss, self.meaning, view)
            found = app.verify(view)
            assert found.equal, (self.loss, self.meaning, view, found.differences)
            remembers = self.meaning == "keep" and bool(since or self.world.first)
            assert (found.base is not None) <= remembers, "only what cannot be recomputed is replayed"

    def app(self, views: Mapping[str, str] = VIEWS) -> App:
        app = App("shop", log=self.world.log, master="local[2]")
        for view, sql in views.items():
            app.view(view, sql, on_error="dead_letter" if view == "shares" else "fail")
        return app


@pytest.fixture
def world(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setattr(following, "HOLD_SECONDS", 0.0)
    monkeypatch.setattr(bases, "HOLD_SECONDS", 0.0)
    world = World(tmp_path)
    with world.log:
        yield world


@pytest.mark.parametrize("meaning", get_args(Meaning))
@pytest.mark.parametrize("loss", get_args(Loss))
def test_no_loss_gives_a_false_verdict_or_a_dead_end(
    world: World, loss: Loss, meaning: Meaning, tmp_path: Path
) -> None:
    history = History(world, loss, meaning, tmp_path / "archive")
    deletes = loss in ("retention", "excluded records")
    history.append((1, "a", 1), (2, "a", 5), (3, "b", 0), (4, "b", 9))
    old = len(history.model.records)
    # It runs.
    with history.app() as app:
        app.catch_up()
        history.check(app, 0)
    # It is behind, while what it has read expires, and what it has not read is replaced or deleted.
    world.clock.advance(AGE / 2)
    history.append((5, "a", 2), (1, "c", 4), (6, "c", 0))
    history.delete(2, 5)
    world.clock.advance(AGE * 0.6)
    history.maintain()
    history.append((7, "a", 7), (4, "a", 3))
    forgotten = old if deletes and meaning == "forget" else 0
    with history.app() as app:
        app.catch_up()
        history.maintain()
        app.catch_up()
        history.check(app, forgotten)
        if deletes:
            assert (world.first == 0) == (meaning == "archive"), "retention has deleted what it was to delete"
        # It runs on: tombstones that everybody has seen are dropped.
        world.clock.advance(timedelta(hours=2))
        history.append((8, "b", 2), (9, "c", 1))
        app.catch_up()
        if loss == "tombstones":
            world.clock.advance(timedelta(days=2))
            history.maintain()
            assert not any(record.value is None for record in world.log.read("t"))
        history.check(app, forgotten)
    # A view is added, and made of what is kept; the others stay as they are.
    kept = old if deletes and meaning != "archive" else 0
    with history.app(CHANGED) as app:
        app.catch_up()
        history.append((10, "a", 8), (11, "d", 6))
        app.catch_up()
        history.check(app, forgotten, changed_since=kept)
    # All of it is rebuilt from what is kept.
    with history.app(CHANGED) as app:
        app.delete_state()
        app.catch_up()
        history.check(app, kept, changed_since=kept)
        history.append((12, "b", 5))
        app.catch_up()
        history.check(app, kept, changed_since=kept)

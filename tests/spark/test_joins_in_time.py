"""Joins in time and sessions in a running application: right after late changes, with any tasks, across a restart."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headwater.app import App
from headwater.engine.comparison import differences
from headwater.errors import UnsupportedQuery

START = datetime(2026, 1, 1, tzinfo=UTC)
VIEWS = {
    "priced": "SELECT s.id, p.price FROM sales s LEFT ASOF JOIN prices p"
    " MATCH_CONDITION (s.at >= p.since) ON s.item = p.item",
    "by_rate": "SELECT s.id, v.rate FROM sales s ASOF JOIN versions('rates') v MATCH_CONDITION (s.at <= v.valid_from)",
    "close": "SELECT s.id, p.price FROM sales s FULL JOIN prices p"
    " ON s.item = p.item AND p.since BETWEEN s.at - INTERVAL 5 MINUTES AND s.at + INTERVAL 1 MINUTE",
    "visits": "SELECT item, session_window.end AS until, count(*) AS n FROM sales"
    " GROUP BY item, session_window(at, '9 minutes')",
    "pairs": "SELECT s.id, p.price FROM sales s JOIN prices p ON s.id < p.price",
}
LABELS = {
    "priced": "left as-of join on s.item = p.item and s.at >= p.since",
    "close": "range join on s.item = p.item and ",
    "visits": "sessions by sales.item",
    "pairs": "inner join of every pair",
}


def declare(app: App) -> App:
    app.topic("sales", "id int, item string, at timestamp", key="id")
    app.topic("prices", "item string, since timestamp, price int", key=["item", "since"])
    app.topic("rates", "currency string, rate int", key="currency")
    for name, sql in VIEWS.items():
        app.view(name, sql)
    return app


def change(app: App, chance: random.Random) -> None:
    """Commits of late and early sales and prices, of which some are corrected, move or go."""

    def moment() -> datetime | None:
        return None if chance.random() < 0.05 else START + timedelta(seconds=chance.randrange(7200))

    ids = [chance.randrange(60) for _ in range(12)]
    app.log.append("sales", [{"id": one, "item": f"i{chance.randrange(4)}", "at": moment()} for one in ids])
    since = [START + timedelta(minutes=chance.randrange(120)) for _ in range(5)]
    prices = [{"item": f"i{chance.randrange(4)}", "since": at, "price": chance.randrange(9)} for at in since]
    app.log.append("prices", prices)
    app.log.append("rates", [{"currency": "EUR", "rate": chance.randrange(9)}])
    if chance.random() < 0.5:
        app.log.delete("sales", [{"id": one} for one in set(ids[:6])])
        app.log.delete("prices", [{"item": one["item"], "since": one["since"]} for one in prices[:2]])


def check(app: App) -> None:
    for name in VIEWS:
        assert app.verify(name).equal, name


@pytest.mark.parametrize(("seed", "tasks"), [(1, 1), (2, 2)])
def test_right_after_every_change_and_a_rebuild(spark: SparkSession, tmp_path: Path, seed: int, tasks: int) -> None:
    chance = random.Random(seed)
    rows_max = 20_000 if tasks == 1 else 0
    with declare(App("shop", log=tmp_path / "log", master="local[2]", one_task_rows_max=rows_max)) as app:
        for _ in range(4):
            change(app, chance)
            app.catch_up()
        check(app)
    # Another process continues with the state.
    with declare(App("shop", log=tmp_path / "log", master="local[2]", one_task_rows_max=rows_max)) as app:
        change(app, chance)
        app.catch_up()
        check(app)
        running = {name: app.read(name) for name in VIEWS}
    # All of it at once gives the same.
    with declare(App("again", log=tmp_path / "log", master="local[2]", one_task_rows_max=20_000)) as app:
        app.catch_up()
        for name, rows in running.items():
            assert not differences(app.read(name), rows), name


def test_explain_says_what_is_looked_at(spark: SparkSession, tmp_path: Path) -> None:
    with declare(App("shop", log=tmp_path / "log")) as app:
        for name, label in LABELS.items():
            assert label in str(app.explain(name)), str(app.explain(name))
        # The kernel decides between versions of one moment: they are not kept a second time for that.
        assert "top 1" not in str(app.explain("priced"))


def test_a_condition_that_an_as_of_join_does_not_know_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with App("shop", log=tmp_path / "log") as app:
        app.topic("sales", "id int, item string, at timestamp", key="id")
        app.topic("prices", "item string, since timestamp, price int", key=["item", "since"])
        app.view("odd", f"{VIEWS['priced']} AND s.id < p.price")
        with pytest.raises(UnsupportedQuery, match="in an ASOF JOIN") as caught:
            app.explain("odd")
        assert "a subquery of the right side" in caught.value.hint

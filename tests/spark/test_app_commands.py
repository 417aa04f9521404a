"""The commands that plan views, over real plans: explain, verify, and what is said of wrong SQL."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from headwater.app import App
from headwater.cli.application import app as commands
from headwater.errors import InvalidQuery, UsageError
from headwater.model.position import START

SOURCE = """
import headwater as hw

app = hw.App("shop", log={log!r}, master="local[2]")
app.topic("orders", "id bigint, customer_id bigint, amount decimal(12,2), status string", key="id")
app.topic("customers", "id bigint, country string", key="id")
"""
VIEWS = {
    "revenue": "SELECT c.country, sum(o.amount) AS revenue, max(o.amount) AS largest FROM orders o\n"
    "JOIN customers c ON c.id = o.customer_id WHERE o.status = 'paid' GROUP BY c.country",
    "top_countries": "SELECT country FROM revenue ORDER BY revenue DESC LIMIT 1",
    "median": "SELECT customer_id, percentile(amount, 0.5) AS median FROM orders GROUP BY customer_id",
    "winners": "SELECT id, rank() OVER (PARTITION BY status ORDER BY amount DESC) AS place FROM orders",
}


@pytest.fixture(scope="module")
def file(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An application whose views are built."""
    directory = tmp_path_factory.mktemp("shop")
    path = directory / "app.py"
    path.write_text(SOURCE.format(log=str(directory / "data")))
    for name, sql in VIEWS.items():
        (directory / f"{name}.sql").write_text(sql)
    with App("shop", log=directory / "data", master="local[2]") as app:
        app.topic("orders", "id bigint, customer_id bigint, amount decimal(12,2), status string", key="id")
        app.topic("customers", "id bigint, country string", key="id")
        app.sql_files(directory)
        app.log.append("customers", [{"id": 1, "country": "DE"}])
        app.log.append("orders", [{"id": 1, "customer_id": 1, "amount": "2.50", "status": "paid"}])
        assert app.catch_up() > START
    return path


def run(*arguments: object) -> tuple[int, str, str]:
    result = CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1"}).invoke(commands, [str(each) for each in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


def explained(file: Path, *arguments: object) -> dict[str, Any]:
    code, out, _ = run("explain", file, *arguments, "--json")
    assert code == 0
    found: dict[str, Any] = json.loads(out)
    return found


def test_operators_are_explained(file: Path) -> None:
    operators = {one["label"]: one for one in explained(file, "revenue")["operators"]}
    assert list(operators) == [
        "table orders by id",
        "table customers by id",
        "inner join on o.customer_id = c.id",
        "aggregate by c.country",
        "publish revenue",
    ]
    aggregate = operators["aggregate by c.country"]
    assert (aggregate["linear"], aggregate["recomputed"]) == (["sum(o.amount)"], ["max(o.amount)"])
    assert aggregate["inputs"][0]["key"] == ["c.country"]
    assert aggregate["state"]["rows"] > 0
    left, right = operators["inner join on o.customer_id = c.id"]["inputs"]
    assert (left["steps"], right["steps"]) == (["where o.status = 'paid'"], [])


def test_the_general_operator_says_what_it_recomputes(file: Path) -> None:
    (general,) = [one for one in explained(file, "median")["operators"] if one["recomputed"]]
    assert general["label"] == "aggregate by group: orders.customer_id"
    assert general["recomputed"] == ["percentile(orders.amount, 0.5, 1) AS median"]


def test_ranks_are_no_work_of_the_general_operator(file: Path) -> None:
    (ranks,) = [one for one in explained(file, "winners")["operators"] if one["recomputed"]]
    assert ranks["label"] == "ranks by orders.amount DESC per orders.status"
    assert ranks["recomputed"] == ["rank()"]


def test_the_levels_are_a_picture(file: Path) -> None:
    code, out, err = run("explain", file)
    assert (code, err) == (0, "")
    assert "level 4   " in out
    assert {line for line in out.splitlines() if line in VIEWS} == set(VIEWS)


def test_views_are_verified(file: Path) -> None:
    code, out, err = run("verify", file, "revenue", "median", "--json")
    assert code == 0
    assert [(one["view"], one["equal"], one["rows"]) for one in map(json.loads, out.splitlines())] == [
        ("revenue", True, 1),
        ("median", True, 1),
    ]
    assert err == "2 views verified: all are correct (doubles to within 1e-09 of their size).\n"


@pytest.mark.parametrize("command", ["explain", "verify"])
def test_a_view_that_is_not_there(file: Path, command: str) -> None:
    code, _, err = run(command, file, "nothing")
    assert code == 2
    assert err.startswith("error: There is no view 'nothing'.\nhint: Views of this pipeline: median, revenue, ")


def test_views_that_changed_are_not_compared_with_what_they_were(file: Path) -> None:
    changed = file.parent / "median.sql"
    before = changed.read_text()
    changed.write_text("SELECT count(*) AS n FROM orders")
    try:
        code, _, err = run("verify", file, "median")
        others = run("verify", file)
    finally:
        changed.write_text(before)
    assert code == 2
    assert "The definition of view 'median' has changed since it was built." in err
    assert others[0] == 1
    assert "The definition of view 'median' has changed" in others[2]
    assert "revenue" in others[1], "the others are verified"


def test_a_view_that_is_new_does_not_keep_the_others_from_being_verified(file: Path) -> None:
    (file.parent / "another.sql").write_text("SELECT count(*) AS n FROM orders")
    try:
        code, _, _ = run("verify", file, "revenue")
    finally:
        (file.parent / "another.sql").unlink()
    assert code == 0


@pytest.mark.parametrize(
    ("sql", "line", "column", "excerpt"),
    [
        ("SELECT id,\n  nope\nFROM orders", 2, 3, "  nope\n  ^"),
        ("\n\nSELECT id FRM orders x", 3, 15, "SELECT id FRM orders x\n              ^"),
        ("SELECT * FROM nowhere", 1, 15, "SELECT * FROM nowhere\n              ^"),
    ],
)
def test_wrong_sql_is_shown_where_it_is_wrong(
    spark: SparkSession, tmp_path: Path, sql: str, line: int, column: int, excerpt: str
) -> None:
    path = tmp_path / "app.py"
    path.write_text(SOURCE.format(log=str(tmp_path / "data")))
    (tmp_path / "wrong.sql").write_text(sql)
    code, out, err = run("run", path, "--once")
    assert (code, out) == (2, "")
    first, *shown = err.splitlines()
    assert first.startswith(f"error: Invalid SQL in view 'wrong', line {line}, column {column}: ")
    assert shown[:2] == [f"  {each}" for each in excerpt.splitlines()]
    with App("other", log=tmp_path / "data", master="local[2]") as app:
        app.view("wrong", sql)
        with pytest.raises(InvalidQuery) as wrong:
            _ = app.program
        assert (wrong.value.line, wrong.value.column, wrong.value.excerpt) == (line, column, excerpt)


def test_an_application_without_views(spark: SparkSession, tmp_path: Path) -> None:
    with App("empty", log=tmp_path / "data") as app, pytest.raises(UsageError, match="has no views"):
        _ = app.program

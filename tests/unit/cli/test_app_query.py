"""Queries over published views from the command line, without Spark."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from headwater.log.embedded.log import EmbeddedLog
from tests.unit.cli.app_sample import publish, write_application
from tests.unit.cli.conftest import Run


@pytest.fixture
def app(tmp_path: Path) -> Path:
    return write_application(tmp_path)


@pytest.fixture
def published(app: Path) -> Path:
    publish(app.parent)
    return app


def test_rows_are_a_table(headwater: Run, published: Path) -> None:
    ran = headwater("query", published, "SELECT * FROM revenue ORDER BY country")
    assert (ran.code, ran.err) == (0, "2 rows, at position 7.\n")
    assert ran.out.splitlines() == [
        "country  revenue  tags",
        'DE         12.50  ["a", "b"]',
        "FR             -  -",
    ]


def test_rows_are_json(headwater: Run, published: Path) -> None:
    ran = headwater("query", published, "FROM revenue ORDER BY country", "--json")
    assert (ran.code, ran.err) == (0, "")
    assert ran.objects() == [
        {"country": "DE", "revenue": "12.50", "tags": ["a", "b"]},
        {"country": "FR", "revenue": None, "tags": None},
    ]


def test_rows_are_csv(headwater: Run, published: Path) -> None:
    ran = headwater("query", published, "SELECT *, true AS yes FROM revenue ORDER BY country", "--csv")
    assert ran.out == 'country,revenue,tags,yes\nDE,12.50,"[""a"", ""b""]",true\nFR,,,true\n'


def test_one_way_to_print(headwater: Run, published: Path) -> None:
    assert headwater("query", published, "SELECT 1", "--csv", "--json").code == 2


def test_nothing_is_published_yet(headwater: Run, app: Path) -> None:
    EmbeddedLog(app.parent / "data").close()
    ran = headwater("query", app, "SELECT 1")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("error: Nothing is published yet.\nhint: `headwater run` brings the views there")
    assert headwater("verify", app).err == ran.err


def test_a_position_that_is_not_reached(headwater: Run, published: Path) -> None:
    assert headwater("query", published, "SELECT 1 AS one", "--at-least", 7, "--json").objects() == [{"one": 1}]
    ran = headwater("query", published, "SELECT 1", "--at-least", 8, "--timeout", "10ms")
    assert ran.code == 1
    assert "Views did not reach position 8 within 0.01 s: the views are at position 7." in ran.err


def test_wrong_sql_is_shown_with_a_caret(headwater: Run, published: Path) -> None:
    ran = headwater("query", published, "SELECT country\nFRM revenue x")
    assert (ran.code, ran.out) == (2, "")
    lines = ran.err.splitlines()
    assert lines[0].startswith("error: Invalid query, line 2, column ")
    assert lines[1] == "  FRM revenue x"
    assert lines[2].strip() == "^"


def test_an_order_may_be_given_by_the_number_of_a_column(headwater: Run, published: Path) -> None:
    ran = headwater("query", published, "SELECT * FROM revenue ORDER BY 1, 2 LIMIT 1", "--json")
    assert ran.code == 0
    assert len(ran.out.splitlines()) == 1


@pytest.mark.parametrize(
    ("sql", "sentence"),
    [
        ("SELECT * FROM nothing", "There is no view or topic 'nothing'."),
        ("CREATE TABLE t (a int)", "CREATE does not only read: a query begins with SELECT."),
        ("SELECT 1; SELECT 2", "It has 2 statements, where one is expected."),
        ("SELECT * FROM read_csv('/etc/hostname')", "disabled by configuration"),
        ("SELECT nope FROM revenue", 'Referenced column "nope" not found'),
    ],
)
def test_what_can_not_be_asked(headwater: Run, published: Path, sql: str, sentence: str) -> None:
    ran = headwater("query", published, sql)
    assert (ran.code, ran.out) == (2, "")
    assert sentence in ran.err


def test_the_tables_can_be_listed(headwater: Run, published: Path) -> None:
    assert headwater("query", published, "SHOW TABLES", "--json").objects() == [{"name": "revenue"}]


def test_views_that_have_changed_since_are_announced(headwater: Run, app: Path) -> None:
    publish(app.parent, sql="SELECT 1")
    ran = headwater("query", app, "SELECT count(*) AS n FROM revenue", "--json")
    assert (ran.code, ran.objects()) == (0, [{"n": 2}])
    assert ran.err.startswith("warning: The views have changed since they were built")


def test_neither_spark_nor_its_workers_are_imported(published: Path) -> None:
    program = (
        "import sys\nfrom headwater.cli.application import app\n"
        "try:\n    app(sys.argv[1:])\nexcept SystemExit as end:\n    assert end.code == 0\n"
        "sys.exit('pyspark' in sys.modules)\n"
    )
    command = [sys.executable, "-c", program, "query", str(published), "SELECT * FROM revenue"]
    assert subprocess.run(command, capture_output=True, check=False, timeout=60).returncode == 0


def test_the_log_needs_no_engine() -> None:
    heavy = {"pyspark", "duckdb", "headwater.app", "importlib.metadata"}
    program = f"import sys, headwater\nsys.exit(bool({heavy} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=60).returncode == 0

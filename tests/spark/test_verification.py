"""Verification compares a view with all that the log holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from headwater.app import App
from headwater.engine.comparison import differences
from headwater.errors import ViewNotKept
from headwater.log.embedded.log import EmbeddedLog
from headwater.spark.catalyst import nodes
from headwater.spark.catalyst.determinism import FOR_EACH_ROW, WINDOWS
from headwater.spark.catalyst.disturbing import DISTURBING_SETTINGS
from headwater.spark.program import Program
from headwater.spark.raw import FEW_ROWS, RawSpark
from headwater.spark.verification import Batches


def test_a_topic_with_empty_partitions_is_read_whole(spark: SparkSession, tmp_path: Path) -> None:
    with App("shop", log=tmp_path / "log", master="local[2]") as app:
        app.topic("orders", "id bigint, customer string", key="id", partitions=8)
        app.view("orders_by_customer", "SELECT customer, count(*) AS orders FROM orders GROUP BY customer")
        app.log.append("orders", [{"id": 1, "customer": "Ada"}, {"id": 2, "customer": "Ada"}])
        app.catch_up()
        found = app.verify("orders_by_customer")

    assert found.equal
    assert found.rows == 1


def test_a_topic_that_no_row_can_come_from_is_known(spark: SparkSession, tmp_path: Path) -> None:
    with App("shop", log=tmp_path / "log", master="local[2]") as app:
        app.topic("orders", "id bigint, customer string", key="id")
        app.view("nothing", "SELECT count(*) AS orders FROM orders WHERE id = 1 AND id = 2")
        app.log.append("orders", [{"id": 1, "customer": "Ada"}])
        app.catch_up()
        found = app.verify("nothing")

    assert found.equal
    assert found.rows == 1


def test_only_what_a_view_needs_is_read(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    table = EmbeddedLog.table

    def noted(log: EmbeddedLog, name: str, **options: Any) -> pa.Table:
        read.append(name)
        return table(log, name, **options)

    with App("shop", log=tmp_path / "log", master="local[2]") as app:
        app.topic("orders", "id bigint, customer string", key="id")
        app.topic("reviews", "id bigint, stars int", key="id")
        app.view("big_customers", "SELECT * FROM by_customer WHERE orders > 1")
        app.view("by_customer", "SELECT customer, count(*) AS orders FROM orders GROUP BY customer")
        app.view("stars", "SELECT stars, count(*) AS reviews FROM reviews GROUP BY stars")
        app.log.append("orders", [{"id": 1, "customer": "Ada"}, {"id": 2, "customer": "Ada"}])
        app.log.append("reviews", [{"id": 1, "stars": 5}])
        app.catch_up()
        monkeypatch.setattr(EmbeddedLog, "table", noted)
        for view, topic in (("big_customers", "orders"), ("stars", "reviews"), ("by_customer", "orders")):
            read.clear()
            found = app.verify(view)
            assert (found.equal, found.rows) == (True, 1)
            assert read == [topic]


SCHEMA = "id bigint, g string, v int, x double"
ROWS = [{"id": number, "g": "ab"[number % 2], "v": number % 2, "x": 1.5} for number in range(6)]


def _verifier(spark: SparkSession, directory: Path, sql: str, rows: list[dict[str, Any]]) -> tuple[App, Batches]:
    """An application with one view that has not been run, and what verifies it."""
    app = App("shop", log=directory / "log", master="local[2]")
    app.topic("t", SCHEMA, key="id")
    app.view("v", sql)
    app.log.append("t", rows)
    return app, Batches(app.program, app.log)


def test_a_wrong_rank_is_found_although_a_rule_settles_orders(spark: SparkSession, tmp_path: Path) -> None:
    sql = "SELECT id, rank() OVER (ORDER BY v) AS r, row_number() OVER (ORDER BY v) AS n FROM t"
    app, batches = _verifier(spark, tmp_path, sql, ROWS)
    with app:
        right = batches.content("v", app.log.position())
        found = batches.verify("v", right, app.log.position())
        assert found.equal
        assert found.decided_by in ((), [WINDOWS]), "Spark may have given the settled answer"
        ranks = right["n"].cast(right.schema.field("r").type)
        wrong = right.set_column(1, right.schema.field("r"), ranks)
        assert not batches.verify("v", wrong, app.log.position()).equal


def test_what_sql_leaves_open_is_decided_by_a_rule(spark: SparkSession, tmp_path: Path) -> None:
    rows = [{"id": number, "g": "a", "v": 1, "x": 1.0} for number in range(12)]
    sql = "SELECT id, row_number() OVER (PARTITION BY g ORDER BY v) AS n FROM t"
    app, batches = _verifier(spark, tmp_path, sql, rows)
    with app:
        shuffled = batches.content("v", app.log.position())
        assert batches.verify("v", shuffled, app.log.position()).equal
        # Another answer that Spark may give is right only if it is the settled one, or if Spark happens to give it.
        reversed_numbers = pa.array([13 - number for number in shuffled["n"].to_pylist()], pa.int32())
        other = shuffled.set_column(1, shuffled.schema.field("n"), reversed_numbers)
        assert not batches.verify("v", other, app.log.position()).equal


def test_what_is_open_shows_even_if_rows_come_sorted_from_below(spark: SparkSession, tmp_path: Path) -> None:
    """Whatever order the rows of a topic come in, the first window puts them in one for the second."""
    rows = [{"id": number, "g": "a", "v": 5 * number % 7, "x": 1.0} for number in range(7)]
    sql = (
        "SELECT id, r, row_number() OVER (PARTITION BY x ORDER BY g) AS n "
        "FROM (SELECT id, x, g, rank() OVER (PARTITION BY x ORDER BY v) AS r FROM t)"
    )
    app, batches = _verifier(spark, tmp_path, sql, rows)
    with app:
        content = batches.content("v", app.log.position())
        assert content.sort_by("id")["n"].to_pylist() == [1, 2, 3, 4, 5, 6, 7]
        found = batches.verify("v", content, app.log.position())
        assert (found.equal, found.decided_by) == (True, [WINDOWS])


def test_doubles_that_cancel_out_are_no_difference(spark: SparkSession, tmp_path: Path) -> None:
    rows = [{"id": number, "g": "a", "v": 1, "x": x} for number, x in enumerate((1e16, 1.0, -1e16))]
    app, batches = _verifier(spark, tmp_path, "SELECT g, sum(x) AS total FROM t GROUP BY g", rows)
    with app:
        app.catch_up()
        assert app.read("v").to_pylist() == [{"g": "a", "total": 1.0}], "sums are exact"
        assert app.verify("v").equal
        wrong = pa.table({"g": ["a"], "total": [1000.0]}, schema=app.read("v").schema)
        assert not batches.verify("v", wrong, app.log.position()).equal


def test_records_that_were_set_aside_are_named(spark: SparkSession, tmp_path: Path) -> None:
    with App("shop", log=tmp_path / "log", master="local[2]") as app:
        app.topic("t", SCHEMA, key="id")
        app.topic("u", SCHEMA, key="id")
        app.view("v", "SELECT id, 10 / v AS q FROM t", on_error="dead_letter")
        app.view("w", "SELECT id FROM u")
        app.log.append("t", [{"id": 1, "v": 2}, {"id": 2, "v": 0}])
        app.catch_up()
        found = app.verify("v")
        assert found.equal
        assert [(row.topic, row.offset) for row in found.excluded] == [("t", 1)]
        assert app.verify("w").excluded == []


def test_a_good_record_is_not_set_aside(spark: SparkSession, tmp_path: Path) -> None:
    """Both sides of a join change in one commit: the pair of the old and the new row was never there."""
    with App("shop", log=tmp_path / "log", master="local[2]") as app:
        app.topic("t", "id bigint, h int", key="id")
        app.topic("u", "id bigint, v int", key="id")
        app.view("v", "SELECT t.id, 100 / (t.h - u.v) AS q FROM t JOIN u ON t.id = u.id", on_error="dead_letter")
        app.log.append("t", [{"id": 1, "h": 5}])
        app.log.append("u", [{"id": 1, "v": 3}])
        app.catch_up()
        with app.log.commit() as commit:
            commit.append("t", [{"id": 1, "h": 7}])
            commit.append("u", [{"id": 1, "v": 5}])
        app.catch_up()
        assert app.dead_letters() == []
        assert app.read("v").to_pylist() == [{"id": 1, "q": 50.0}]


def test_a_view_that_cannot_run_does_not_take_the_others_down(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise Py4JError("An error occurred while calling o1.windowSpec")

    monkeypatch.setattr(nodes, "_computed", fails)
    with App("shop", log=tmp_path / "log", master="local[2]") as app:
        app.topic("t", SCHEMA, key="id")
        app.view("good", "SELECT id, v FROM t")
        app.view("bad", "SELECT id, sum(v) OVER (ORDER BY id) AS total FROM t")
        app.view("worse", "SELECT count(*) AS n FROM bad")
        app.log.append("t", ROWS)
        app.catch_up()
        assert list(app.not_kept) == ["bad", "worse"]
        assert "windowSpec" in app.not_kept["bad"]
        assert app.read("good").num_rows == len(ROWS)
        assert app.verify("good").equal
        assert set(app.snapshot().tables) == {"good"}
        with pytest.raises(ViewNotKept):
            app.read("bad")


def test_the_same_views_are_not_built_again(spark: SparkSession, tmp_path: Path) -> None:
    sql = (
        "SELECT g, struct(count(*) AS n, (SELECT max(v) FROM t) AS m) AS s FROM t "
        "WHERE g LIKE 'Brand#12%' OR exists(array(v), one -> one >= 0) GROUP BY g"
    )
    window = "SELECT id, rank() OVER (PARTITION BY g ORDER BY v) AS r, collect_list(v) OVER (ORDER BY id) AS c FROM t"
    fingerprints = set()
    for _ in range(3):
        with App("shop", log=tmp_path / "log", master="local[2]") as app:
            app.topic("t", SCHEMA, key="id")
            app.view("v", sql)
            app.view("w", window)
            fingerprints.add(app.program.fingerprint)
    assert len(fingerprints) == 1


def test_what_was_planned_before_does_not_change_a_plan(spark: SparkSession, tmp_path: Path) -> None:
    distinct = ", ".join(f"count(DISTINCT v + {number}) AS c{number}" for number in range(6))
    views = {
        "v": f"SELECT g, {distinct}, sum(DISTINCT id) AS s, avg(v) AS a FROM t GROUP BY g",
        "w": "SELECT t.id, o.c1 FROM t JOIN v o ON o.g = t.g "
        "WHERE t.v > 1 AND t.v < o.c2 AND t.id IN (SELECT c3 FROM v)",
    }
    fingerprints = set()
    with EmbeddedLog(tmp_path / "log") as log:
        topic = log.create("t", SCHEMA, key="id")
        for count in range(6):
            spark.range(count).selectExpr(*(f"id + {number} AS c{number}" for number in range(count * 7))).count()
            fingerprints.add(Program(spark, [topic], views).fingerprint)
    assert len(fingerprints) == 1


def test_a_correlated_limit_counts_for_each_row_where_types_differ(spark: SparkSession, tmp_path: Path) -> None:
    # Spark itself applies the limit once, to the rows of all orders; DuckDB and PostgreSQL answer as expected here.
    queries = {
        "scalar": "SELECT o.id, (SELECT p.price FROM prices p WHERE o.item = p.item ORDER BY p.price LIMIT 1) AS price "
        "FROM orders o",
        "beside": "SELECT o.id, q.price FROM orders o LEFT JOIN LATERAL "
        "(SELECT price FROM prices p WHERE o.item = p.item ORDER BY price LIMIT 1) q",
        "computed": "SELECT o.id, (SELECT p.price FROM prices p WHERE p.item = o.item + 0 AND p.price > 0 "
        "ORDER BY p.price LIMIT 1) AS price FROM orders o",
        "exists": "SELECT o.id, 3 - o.item AS price FROM orders o "
        "WHERE EXISTS (SELECT 1 FROM prices p WHERE o.item = p.item LIMIT 1)",
    }
    with App("shop", log=tmp_path / "log", master="local[2]") as app:
        app.topic("orders", "id bigint, item int", key="id")
        app.topic("prices", "id bigint, item bigint, price bigint", key="id")
        for name, sql in queries.items():
            app.view(name, sql)
        app.log.append("orders", [{"id": 1, "item": 1}, {"id": 2, "item": 2}])
        app.log.append("prices", [{"id": 1, "item": 1, "price": 2}, {"id": 2, "item": 2, "price": 1}])
        app.catch_up()
        for name in queries:
            found = app.verify(name)
            rows = sorted(app.read(name).to_pylist(), key=lambda row: int(row["id"]))
            assert rows == [{"id": 1, "price": 2}, {"id": 2, "price": 1}], name
            assert found.equal
            assert FOR_EACH_ROW in found.decided_by


def test_a_view_of_a_view_is_settled_again(spark: SparkSession, tmp_path: Path) -> None:
    with App("shop", log=tmp_path / "log", master="local[2]") as app:
        app.topic("t", "id bigint, x double", key="id")
        app.view("numbered", "SELECT id, x, row_number() OVER (PARTITION BY x ORDER BY 1) AS n FROM t")
        app.view("first", "SELECT id FROM numbered WHERE n = 1")
        app.log.append("t", [{"id": number, "x": float(number % 2)} for number in range(6)])
        app.catch_up()
        batches = Batches(app.program, app.log)
        assert batches.content("first", app.log.position()).equals(app.read("first"))


@pytest.mark.parametrize("window", ["row_number() OVER (ORDER BY 1)", "any_value(c) OVER (PARTITION BY c ORDER BY c)"])
def test_a_window_over_rows_that_are_all_the_same(spark: SparkSession, tmp_path: Path, window: str) -> None:
    with App("shop", log=tmp_path / "log", master="local[2]") as app:
        app.topic("t", "id bigint", key="id")
        app.view("v", f"SELECT {window} AS w FROM (SELECT false AS c FROM t)")
        app.log.append("t", [{"id": 1}, {"id": 2}])
        app.catch_up()
        assert app.read("v").num_rows == 2
        assert app.verify("v").equal


def test_a_rule_decides_once_for_all_who_read_a_view(spark: SparkSession, tmp_path: Path) -> None:
    # Of the five rows without a `mean`, three are kept. Spark, asked again by another reader, keeps others.
    top = (
        "SELECT list, mean, median(pairs) AS middle, count(*) AS rows, grouping_id() AS id FROM "
        "(SELECT n, avg(n) AS mean, collect_list(n) AS list, count(DISTINCT n, s) AS pairs FROM "
        "(VALUES (1L, 'a'), (2L, 'b'), (2L, 'A'), (NULL, 'a')) AS given(n, s) GROUP BY 1) "
        "GROUP BY GROUPING SETS ((list, mean), (list), ()) ORDER BY mean DESC NULLS FIRST LIMIT 3"
    )
    same = "SELECT (SELECT b.id FROM top b WHERE a.middle = b.middle ORDER BY b.rows LIMIT 1) AS id FROM top a"
    with App("shop", log=tmp_path / "log", master="local[2]") as app:
        app.topic("t", "id bigint")
        app.view("top", top)
        app.view("same", same)
        app.log.append("t", [{"id": 1}])
        app.catch_up()
        given = Batches(app.program, app.log).content("same", app.log.position())
        assert sorted(map(str, given.to_pylist())) == sorted(map(str, app.read("same").to_pylist()))


def test_an_offset_among_ties_is_open(spark: SparkSession) -> None:
    """Spark moves the rows of a global sort before it sorts them, so they have to be disturbed after that."""
    raw = RawSpark(spark, {**FEW_ROWS, **DISTURBING_SETTINGS})
    sql = "SELECT * FROM VALUES (2, 'b'), (2, 'a#12'), (NULL, 'a') AS v(n, s) ORDER BY n OFFSET 2"
    answers = [raw.answer(raw.frame(sql, seed=seed)).to_pylist() for seed in range(12)]
    assert {row["s"] for (row,) in answers} == {"b", "a#12"}


@pytest.mark.parametrize("view_between", [False, True])
def test_a_constant_key_does_not_unsettle_a_window(spark: SparkSession, tmp_path: Path, view_between: bool) -> None:
    """Spark drops constant keys of a window, divides its rows again and loses the order that settled them."""
    constants = "SELECT t.id, v, 'b' AS c FROM t CROSS JOIN range(2)"
    with App("shop", log=tmp_path / "log", master="local[2]") as app:
        app.topic("t", "id bigint, v int")
        app.view("with_constant", constants)
        below = "with_constant" if view_between else f"({constants})"
        app.view("tiles", f"SELECT id, ntile(3) OVER (PARTITION BY v, c ORDER BY c) AS n FROM {below}")
        app.log.append("t", [{"id": -number, "v": number % 2} for number in range(20)])
        app.catch_up()
        content = app.read("tiles")
        expected = Batches(app.program, app.log).content("tiles", app.log.position())
        assert differences(content, expected) == []
        assert app.verify("tiles").equal


def test_rows_that_python_has_no_values_for_are_compared(spark: SparkSession, tmp_path: Path) -> None:
    with App("shop", log=tmp_path / "log", master="local[2]") as app:
        app.topic("t", "id bigint, year int, data binary", key="id")
        app.view("awkward", "SELECT id, make_date(year, 7, 15) AS day, string(data) AS text FROM t")
        app.log.append("t", [{"id": 1, "year": -5, "data": b"a\xff"}, {"id": 2, "year": 20000, "data": b"b"}])
        app.catch_up()
        content = app.read("awkward")
        assert app.verify("awkward").equal

    found = differences(content, content.slice(0, 1))
    assert [(one.surplus, str(one.row["day"])[-5:]) for one in found] == [(1, "07-15")]

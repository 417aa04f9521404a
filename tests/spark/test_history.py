"""The history of topics in views: what it costs others, what is refused, and that `verify` notices errors."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from headwater.app import App
from headwater.errors import InvalidQuery, UnsupportedQuery
from headwater.spark.program import Program
from headwater.spark.verification import Batches
from headwater.views.upsert import Upsert


@pytest.fixture
def app(spark: SparkSession, tmp_path: Path) -> App:
    app = App("history", log=tmp_path / "log", master="local[2]")
    app.topic("orders", "id bigint, status string, note string", key="id")
    app.topic("clicks", "url string")
    return app


def test_views_without_system_columns_neither_read_nor_keep_them(app: App) -> None:
    app.view("statuses", "SELECT id, status FROM orders")
    app.view("urls", "SELECT url FROM clicks")
    with app:
        flow = app.program.flow
    read = {source.topic: tuple(source.columns) for source in flow.sources.values()}
    assert read == {"orders": ("id", "status", "_commit", "_offset", "_deleted"), "clicks": ("url",)}
    (table,) = [one.kernel for one in flow.operators.values() if isinstance(one.kernel, Upsert)]
    assert len(table.schema) == 2


def test_versions_keep_no_more_than_is_used(app: App) -> None:
    app.view("statuses", "SELECT status, valid_to FROM versions('orders')")
    with app:
        (operator,) = [one for one in app.program.flow.operators.values() if one.title == "versions"]
        assert "versions orders by id" in str(app.explain("statuses"))
    assert [field.type for field in operator.kernel.parts["current"].schema] == [
        pa.int64(), pa.string(), pa.timestamp("us", "UTC"),
    ]  # fmt: skip


@pytest.mark.parametrize("reading", ["changes", "versions"])
def test_the_history_of_a_compacted_topic_is_refused(app: App, reading: str) -> None:
    app.topic("states", "id bigint, state string", key="id", cleanup="compact")
    app.view("v", f"SELECT * FROM {reading}('States')")
    with app, pytest.raises(UnsupportedQuery, match="older versions of its rows are gone") as caught:
        app.plan()
    assert caught.value.hint == "Keep them: headwater log alter LOG states --cleanup none."


def test_a_view_does_not_pass_system_columns_on(app: App) -> None:
    app.view("urls", "SELECT url FROM clicks")
    app.view("offsets", "SELECT _offset FROM urls")
    with app, pytest.raises(InvalidQuery, match="`_offset` cannot be resolved"):
        app.plan()


def test_an_error_is_shown_where_it_is(app: App) -> None:
    app.view("wrong", "SELECT _offset,\n       urll FROM clicks")
    with app, pytest.raises(InvalidQuery) as caught:
        app.plan()
    assert (caught.value.line, caught.value.column) == (2, 8)


def test_names_differ_in_case_and_have_dots(app: App) -> None:
    app.topic("shop.visits", "who string")
    app.view("visits", "SELECT Visits.who, VISITS._OFFSET AS place FROM Shop.Visits")
    app.view("visitors", "SELECT who FROM Changes('SHOP.visits')")
    with app:
        app.log.append("shop.visits", [{"who": "ann"}])
        app.catch_up()
        assert app.read("visits").to_pylist() == [{"who": "ann", "place": 0}]
        assert app.read("visitors").to_pylist() == [{"who": "ann"}]


def test_verify_notices_what_is_wrong_with_a_history(app: App) -> None:
    app.view("changed", "SELECT id, operation, _offset FROM changes('orders')")
    app.view("lasted", "SELECT id, status, valid_to FROM versions('orders')")
    with app:
        app.log.append("orders", [{"id": 1, "status": "new"}])
        app.log.append("orders", [{"id": 1, "status": "paid"}])
        app.catch_up()
        position, batches = app.pipeline.position, Batches(app.program, app.log)
        for view, column, value in (("changed", "operation", "insert"), ("lasted", "valid_to", None)):
            right = app.read(view)
            wrong = right.set_column(
                right.column_names.index(column), right.schema.field(column), pa.array([value] * 2, right[column].type)
            )
            assert batches.verify(view, right, position).equal
            assert not batches.verify(view, wrong, position).equal
            assert batches.content(view, position).num_rows == 2


def test_records_that_were_set_aside_have_no_history(app: App) -> None:
    app.view("numbers", "SELECT id, CAST(status AS int) AS n FROM orders", on_error="dead_letter")
    app.view("operations", "SELECT id, status, operation FROM changes('orders')")
    app.view("lasted", "SELECT id, status, valid_to IS NULL AS is_current FROM versions('orders')")
    with app:
        for status in ("1", "x", "3"):
            app.log.append("orders", [{"id": 1, "status": status}])
            app.catch_up()
        assert len(app.dead_letters()) == 1
        assert [row["operation"] for row in app.read("operations").to_pylist()] == ["insert", "update"]
        assert all(app.verify(view).equal for view in app.views)


def test_the_same_history_is_planned_alike(spark: SparkSession, app: App) -> None:
    views = {"v": "SELECT a.id, b._commit FROM versions('orders') a JOIN changes('orders') b ON a._offset = b._offset"}
    with app:
        topics = app.log.topics()
        assert Program(spark, topics, views).fingerprint == Program(spark, topics, views).fingerprint

"""Verification compares a view with all that the log holds."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from headwater.app import App


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

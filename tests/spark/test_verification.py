"""Verification compares a view with all that the log holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from headwater.app import App
from headwater.log.embedded import EmbeddedLog


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

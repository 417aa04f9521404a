"""The harness for tests of applications finds what is wrong with one, and nothing in one that is right."""

from __future__ import annotations

import itertools
from pathlib import Path

import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

import headwater as hw
from headwater.errors import UsageError
from headwater.testing.harness import Harness

APP = """
import headwater as hw
app = hw.App("shop", log={log!r}, master="local[2]")
app.topic("orders", "id bigint, country string, amount decimal(12,2)", key="id")
app.view("revenue", "SELECT country, sum(amount) AS revenue, count(*) AS orders FROM orders GROUP BY country")
"""
ORDERS = [{"id": n, "country": "DE" if n % 2 else "FR", "amount": f"{n}.50"} for n in range(1, 9)]


def written(folder: Path) -> Path:
    file = folder / "app.py"
    file.write_text(APP.format(log=str(folder / "elsewhere")))
    return file


def test_an_application_that_is_right(spark: SparkSession, tmp_path: Path) -> None:
    del spark
    with Harness(written(tmp_path), tmp_path / "test") as shop:
        for order in ORDERS:
            shop.log.append("orders", [order])
        shop.expect("revenue", [
            {"country": "FR", "revenue": "22.00", "orders": 4}, {"country": "DE", "revenue": "18.00", "orders": 4},
        ])  # fmt: skip
        with pytest.raises(AssertionError, match=r"View 'revenue' is not what was expected; 2 rows differ:") as wrong:
            shop.expect("revenue", [{"country": "FR", "revenue": "22.00", "orders": 4}, {"country": "IT"}])
        assert "missing (1): {'country': 'IT'" in str(wrong.value)
        assert "too many (1): {'country': 'DE'" in str(wrong.value)
        with pytest.raises(UsageError, match="An expected row does not fit view 'revenue'"):
            shop.expect("revenue", [{"country": "FR", "orders": "four"}])
        shop.restart()
        shop.log.delete("orders", [{"id": 2}])
        shop.replay(seed=1)
        shop.verify()
        assert {row["country"]: row["orders"] for row in shop.rows("revenue")} == {"DE": 4, "FR": 3}

    assert not (tmp_path / "elsewhere").exists()


def test_a_view_that_is_not_a_function_of_its_log(spark: SparkSession, tmp_path: Path) -> None:
    del spark
    calls = itertools.count()

    def define(log: hw.Log) -> hw.App:
        version = next(calls)
        app = hw.App("shop", log=log, master="local[2]")
        app.topic("orders", "id bigint, country string", key="id")
        app.function("opened", lambda number: pc.add(number, version), returns="bigint")
        app.view("numbered", "SELECT id, opened(id) AS number FROM orders")
        return app

    with Harness(define, tmp_path) as shop:
        shop.log.append("orders", [{"id": 1, "country": "DE"}])
        shop.verify()
        with pytest.raises(AssertionError, match="View 'numbered' differs when it is built again; 2 rows differ"):
            shop.replay()
        with pytest.raises(UsageError, match="Only an application in a file can run in another process"):
            shop.kill(lambda log: log)

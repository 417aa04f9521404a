"""The examples with sinks, against real servers: what the targets hold is what PostgreSQL itself answers."""

from __future__ import annotations

import json
import random
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import psycopg
import pytest
import redis
from opensearchpy import OpenSearch
from pyspark.sql import SparkSession

from tests.contract.sinks.redis import Server as RedisServer
from tests.opensearch.server import running
from tests.postgres.servers import Server
from tests.spark.applications import load_example

pytestmark = pytest.mark.timeout(600)

TABLES = """
CREATE TABLE products (id bigint PRIMARY KEY, name text, price numeric(10,2));
CREATE TABLE reviews (id bigint PRIMARY KEY, product_id bigint, stars int);
CREATE TABLE customers (id bigint PRIMARY KEY, country text);
CREATE TABLE orders (id bigint PRIMARY KEY, customer_id bigint, amount numeric(10,2));
INSERT INTO products SELECT n, 'chair ' || n, n FROM generate_series(1, 20) n;
INSERT INTO customers SELECT n, (ARRAY['DE', 'FR', 'IT'])[1 + n % 3] FROM generate_series(1, 10) n;
INSERT INTO orders SELECT n, 1 + n % 10, n + 0.25 FROM generate_series(1, 40) n;
"""
PRODUCTS = """
SELECT p.id, p.name, p.price, count(r.id), avg(r.stars)::float8 FROM products p
LEFT JOIN reviews r ON r.product_id = p.id GROUP BY p.id, p.name, p.price ORDER BY p.id
"""
VALUES = "SELECT customer_id, sum(amount), count(*) FROM orders GROUP BY 1 ORDER BY 1"
REVENUE = """
SELECT c.country, sum(o.amount), count(*) FROM orders o JOIN customers c ON c.id = o.customer_id GROUP BY 1 ORDER BY 1
"""

Rows = list[tuple[Any, ...]]


@pytest.fixture(scope="module")
def postgres() -> Iterator[Server]:
    with tempfile.TemporaryDirectory(prefix="hw") as directory:
        server = Server.create("18", Path(directory))
        server.start()
        yield server
        server.stop()


def test_two_clients_end_up_different_directly_and_equal_through_headwater(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: SparkSession, postgres: Server
) -> None:
    with closing(RedisServer()) as cache, postgres.database() as database:
        monkeypatch.setenv("DATABASE_URL", postgres.url(database))
        monkeypatch.setenv("CACHE_URL", cache.url)
        example = load_example("dual_write", tmp_path, monkeypatch)
        assert example.directly() == (Decimal("7.00"), Decimal("9.00"))
        with example.app:
            in_database, in_cache = example.through_headwater(writes=20)
        assert in_database == in_cache
        assert in_database in (Decimal("1019.00"), Decimal("2019.00"))


def test_index_cache_and_report_follow_the_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: SparkSession, postgres: Server
) -> None:
    with (
        closing(RedisServer()) as cache,
        running() as search,
        postgres.database() as shop,
        postgres.connect(shop) as source,
        postgres.database() as reports,
        postgres.connect(reports) as report,
        redis.Redis.from_url(cache.url) as cached,
        closing(OpenSearch(search.url)) as index,
    ):
        source.execute(TABLES.encode())
        for name, url in (
            ("SHOP_URL", postgres.url(shop)),
            ("SEARCH_URL", search.url),
            ("CACHE_URL", cache.url),
            ("REPORTS_URL", postgres.url(reports)),
        ):
            monkeypatch.setenv(name, url)

        def are_equal() -> bool:
            return (in_index(index), in_cache(cached), in_report(report)) == (
                source.execute(PRODUCTS.encode()).fetchall(),
                source.execute(VALUES.encode()).fetchall(),
                source.execute(REVENUE.encode()).fetchall(),
            )

        with load_example("search_cache_report", tmp_path, monkeypatch).app as app:
            run = threading.Thread(target=app.run)
            run.start()
            try:
                become(are_equal)
                dice = random.Random(7)
                for _ in range(3):
                    for _ in range(20):
                        change(source, dice)
                    become(are_equal)
            finally:
                app.stop()
                run.join()


def become(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 180
    while not condition():
        assert time.monotonic() < deadline, "the copies are not equal to the database"
        time.sleep(0.1)


def change(source: psycopg.Connection[Any], dice: random.Random) -> None:
    """Something that happens in a shop."""
    one, other = dice.randrange(1, 60), dice.randrange(1, 20)
    source.execute(
        *dice.choice(
            (
                ("INSERT INTO reviews VALUES (%s, %s, %s) ON CONFLICT DO NOTHING", (one, other, dice.randrange(1, 6))),
                ("DELETE FROM reviews WHERE id = %s", (one,)),
                ("INSERT INTO orders VALUES (%s, %s, 3.10) ON CONFLICT DO NOTHING", (one, dice.randrange(1, 11))),
                ("DELETE FROM orders WHERE id = %s", (one,)),
                ("UPDATE customers SET country = 'ES' WHERE id = %s", (other,)),
                ("UPDATE products SET name = name || '!', price = price + 1 WHERE id = %s", (other,)),
                ("DELETE FROM products WHERE id = %s", (other,)),
            )
        )
    )


def in_index(index: OpenSearch) -> Rows:
    found = index.search(index="products", body={"size": 1000}, ignore=[404, 503])
    rows = [hit["_source"] for hit in found.get("hits", {}).get("hits", [])]
    return sorted((row["id"], row["name"], Decimal(row["price"]), row["reviews"], row["stars"]) for row in rows)


def in_cache(cached: redis.Redis) -> Rows:
    held = [
        json.loads(each)
        for each in cast("list[bytes]", cached.mget(["clv:0", *cast("list[bytes]", cached.keys("clv:*"))]))
        if each
    ]
    return sorted((row["id"], Decimal(row["total"]), row["orders"]) for row in held)


def in_report(report: psycopg.Connection[Any]) -> Rows:
    if report.execute("SELECT to_regclass('revenue')").fetchone() == (None,):
        return []
    return report.execute("SELECT country, revenue, orders FROM revenue ORDER BY country").fetchall()

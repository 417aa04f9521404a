"""The dual-write race: two clients write a database and a cache directly, and then the same two through headwater.

DATABASE_URL=postgresql://… CACHE_URL=redis://… python examples/dual_write.py
"""

import os
import threading
import time
from collections.abc import Callable
from decimal import Decimal

import psycopg
import redis

import headwater as hw

DATABASE_URL, CACHE_URL = os.environ["DATABASE_URL"], os.environ["CACHE_URL"]

app = hw.App("prices", log="./prices-data")
app.topic("prices", "product string, price decimal(10,2)", key="product")
app.view("current_prices", "SELECT product, price FROM prices")
app.sink("database", view="current_prices", key="product", to=hw.sinks.Postgres(DATABASE_URL, table="prices"))
app.sink("cache", view="current_prices", key="product", to=hw.sinks.Redis(CACHE_URL, prefix="price:", format="hash"))

Both = tuple[Decimal | None, Decimal | None]
"""The price of the chair in the database, and in the cache."""


def directly() -> Both:
    """Each client writes the database and then the cache. Client A is slow in between, as every network is at times."""
    database, cache = psycopg.connect(DATABASE_URL, autocommit=True), redis.Redis.from_url(CACHE_URL)
    database.execute("CREATE TABLE IF NOT EXISTS direct_prices (product text PRIMARY KEY, price numeric(10,2))")
    a_is_slow, b_is_done = threading.Event(), threading.Event()

    def write_database(price: str) -> None:
        database.execute(
            "INSERT INTO direct_prices VALUES ('chair', %s) ON CONFLICT (product) DO UPDATE SET price = excluded.price",
            (price,),
        )

    def client_a() -> None:
        write_database("9.00")
        a_is_slow.set()
        b_is_done.wait()
        cache.set("direct_price:chair", "9.00")

    def client_b() -> None:
        a_is_slow.wait()
        write_database("7.00")
        cache.set("direct_price:chair", "7.00")
        b_is_done.set()

    _run_both(client_a, client_b)
    with database, cache:
        row = database.execute("SELECT price FROM direct_prices").fetchone()
        cached = cache.get("direct_price:chair")
    assert row is not None
    assert isinstance(cached, bytes)
    return row[0], Decimal(cached.decode())


def through_headwater(writes: int = 50) -> Both:
    """Each client appends to the log, as often and as fast as it likes. Database and cache follow the log."""

    def client(first: int) -> None:
        for number in range(writes):
            app.log.append("prices", [{"product": "chair", "price": f"{first + number}.00"}])

    run = threading.Thread(target=app.run)
    run.start()
    _run_both(lambda: client(1000), lambda: client(2000))
    newest = app.log.table("prices").to_pylist()[0]["price"]
    deadline = time.monotonic() + 120
    while (both := shown()) != (newest, newest) and time.monotonic() < deadline:
        time.sleep(0.1)
    app.stop()
    run.join()
    return both


def shown() -> Both:
    """What the two targets show."""
    with psycopg.connect(DATABASE_URL) as database, redis.Redis.from_url(CACHE_URL) as cache:
        there = database.execute("SELECT to_regclass('prices')").fetchone() != (None,)
        row = database.execute("SELECT price FROM prices").fetchone() if there else None
        cached = cache.hget("price:chair", "price")
    return (None if row is None else row[0]), (Decimal(cached.decode()) if isinstance(cached, bytes) else None)


def _run_both(one: Callable[[], None], other: Callable[[], None]) -> None:
    clients = [threading.Thread(target=each) for each in (one, other)]
    for each in clients:
        each.start()
    for each in clients:
        each.join()


if __name__ == "__main__":
    print("directly:          database {}, cache {}: different, forever".format(*directly()))
    print("through headwater: database {}, cache {}".format(*through_headwater()))
    app.close()

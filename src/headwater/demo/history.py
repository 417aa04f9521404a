"""The shop before anybody looks: its products and customers, and the orders of the last two days."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import psycopg

from headwater.demo.catalogue import (
    COUNTRIES,
    COUNTRY_WEIGHTS,
    DEVICES,
    FIRST_NAMES,
    LAST_NAMES,
    METHODS,
    PRAISE,
    PRODUCTS,
)
from headwater.demo.generator import Known, PageView, page_view
from headwater.demo.tables import COLUMNS, SCHEMA

CUSTOMERS, ORDERS, REVIEWS, FOLLOWS = 150, 800, 200, 600
PAST = timedelta(hours=48)
FORGOTTEN = range(ORDERS - 9, ORDERS, 3)
"""Orders of the last hour that nobody has paid or shipped."""
VISITS = 120
LOOKED_BACK = timedelta(hours=2)

Rows = dict[str, list[tuple[object, ...]]]


def past(seed: int, now: datetime) -> Rows:
    """The rows of every table, the same for the same seed and time."""
    chance = random.Random(seed)  # noqa: S311 - customers, not secrets
    rows: Rows = {table: [] for table in COLUMNS}
    countries: dict[int, str] = {}
    for customer in range(1, CUSTOMERS + 1):
        countries[customer] = chance.choices(COUNTRIES, COUNTRY_WEIGHTS)[0]
        name = f"{chance.choice(FIRST_NAMES)} {chance.choice(LAST_NAMES)}"
        rows["customers"].append((customer, name, countries[customer], now - 2 * PAST))
    prices = {number: Decimal(price) for number, (_, _, price) in enumerate(PRODUCTS, 1)}
    rows["products"] = [(number, name, kind, prices[number]) for number, (name, kind, _) in enumerate(PRODUCTS, 1)]
    for order in range(1, ORDERS + 1):
        placed_at = now - PAST * (1 - order / (ORDERS + 1))
        _add_order(rows, chance, order, countries, prices, placed_at)
    for review in range(1, REVIEWS + 1):
        stars = chance.choices((1, 2, 3, 4, 5), (1, 1, 2, 4, 5))[0]
        about = (chance.randint(1, CUSTOMERS), chance.randint(1, len(PRODUCTS)), stars, chance.choice(PRAISE[stars]))
        rows["reviews"].append((review, *about, now - PAST * chance.random()))
    pairs = {(chance.randint(1, CUSTOMERS), chance.randint(1, CUSTOMERS)) for _ in range(FOLLOWS)}
    rows["follows"] = [pair for pair in sorted(pairs) if pair[0] != pair[1]]
    return rows


def past_page_views(seed: int, now: datetime) -> list[PageView]:
    """What visitors did in the last two hours: some belong to orders, and some left a cart behind."""
    chance = random.Random(seed)  # noqa: S311 - customers, not secrets
    found: list[PageView] = []
    for visit in range(VISITS):
        order = ORDERS - visit // 2
        session = f"past-{order}" if visit % 2 else f"past-visit-{visit}"
        at = now - LOOKED_BACK * ((visit + 1) / VISITS)
        device = chance.choice(DEVICES)
        customer = chance.randint(1, CUSTOMERS)
        for page in range(chance.randint(2, 9)):
            action = "cart" if chance.random() < 0.2 else "view"
            product = chance.randint(1, len(PRODUCTS))
            looked_at = at + timedelta(seconds=20 * page)
            if looked_at < now:
                found.append(page_view(session, customer, product, action, device, looked_at))
    return found


def _add_order(
    rows: Rows,
    chance: random.Random,
    order: int,
    countries: dict[int, str],
    prices: dict[int, Decimal],
    placed_at: datetime,
) -> None:
    customer = chance.randint(1, CUSTOMERS)
    chosen = chance.sample(sorted(prices), chance.randint(1, 4))
    lines = [(product, chance.randint(1, 3), prices[product]) for product in chosen]
    total = sum((quantity * price for _, quantity, price in lines), Decimal(0))
    status = "cancelled" if chance.random() < 0.05 else "shipped"
    if order in FORGOTTEN:
        status = "placed"
    rows["orders"].append((order, customer, f"past-{order}", countries[customer], status, total, placed_at))
    rows["order_lines"] += [(order, number, *line) for number, line in enumerate(lines, 1)]
    if status == "shipped":
        paid_at = placed_at + timedelta(seconds=20)
        rows["payments"].append((order, order, total, chance.choice(METHODS), paid_at))


def fill(connection: psycopg.Connection[Any], seed: int, now: datetime) -> None:
    """Makes the tables and fills them, in one transaction."""
    with connection.transaction(), connection.cursor() as cursor:
        cursor.execute(SCHEMA.encode())
        for table, rows in past(seed, now).items():
            copying = f"COPY {table} ({', '.join(COLUMNS[table])}) FROM STDIN"
            with cursor.copy(copying.encode()) as copy:
                for row in rows:
                    copy.write_row(row)


def known(connection: psycopg.Connection[Any]) -> Known:
    """What the database holds, for the traffic."""

    def rows(sql: str) -> list[tuple[Any, ...]]:
        return connection.execute(sql.encode()).fetchall()

    def following(table: str) -> int:
        return int(rows(f"SELECT coalesce(max(id), 0) + 1 FROM {table}")[0][0])

    return Known(
        customers={int(number): country for number, country in rows("SELECT id, country FROM customers ORDER BY id")},
        products={int(number): price for number, price in rows("SELECT id, price FROM products ORDER BY id")},
        open_orders={
            int(number): (status, total)
            for number, status, total in rows(
                "SELECT id, status, total FROM orders WHERE status IN ('placed', 'paid') ORDER BY id"
            )
        },
        follows={(int(one), int(other)) for one, other in rows("SELECT follower, followed FROM follows")},
        reviews=[int(number) for (number,) in rows("SELECT id FROM reviews ORDER BY id")],
        next_order=following("orders"),
        next_payment=following("payments"),
        next_review=following("reviews"),
    )

"""A shop that sells, published by hand: orders, and the revenue by country, in views that the demo's sinks follow."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

from headwater.app import App
from headwater.engine.definition import DefinedView, Definition
from headwater.sinks import Postgres
from headwater.views.zset import WEIGHT
from tests.unit.engine.samples import COLUMNS

VIEWS = {
    "v": COLUMNS,
    "orders_full": pa.schema([
        ("id", pa.int64()), ("customer", pa.string()), ("country", pa.string()), ("status", pa.string()),
        ("total", pa.decimal128(12, 2)), ("placed_at", pa.timestamp("us", "UTC")), ("products", pa.string()),
    ]),
    "revenue_by_country": pa.schema([
        ("country", pa.string()), ("orders", pa.int64()), ("revenue", pa.decimal128(22, 2)),
    ]),
}  # fmt: skip
DEFINED = Definition(views={name: DefinedView("", columns, ()) for name, columns in VIEWS.items()})
PRODUCTS = ("Kite", "Rain jacket", "Tent for two")
Row = dict[str, Any]


def sell(app: App, reports: str) -> None:
    """The views, and the sinks that bring them to a report database, as in the demo."""
    app.view("orders_full", "SELECT * FROM page_views")
    app.view("revenue_by_country", "SELECT * FROM page_views")
    for name, view, key, table in (
        ("search", "orders_full", "id", "orders"),
        ("report", "revenue_by_country", "country", "revenue"),
    ):
        app.sink(name, view=view, key=key, to=Postgres(reports, table=table), group="reports")


class Sales:
    """Orders, and what their sum by country is."""

    def __init__(self) -> None:
        self._chance, self._orders = random.Random(3), 0
        self._revenue: dict[str, Row] = {}

    def changes(self, orders: int = 1) -> dict[str, pa.Table]:
        """More orders, as the changes of both views."""
        placed, changed = [self._order() for _ in range(orders)], dict[str, Row]()
        for order in placed:
            country = order["country"]
            before = changed.get(country) or self._revenue.get(country) or {"orders": 0, "revenue": Decimal(0)}
            total = before["revenue"] + order["total"]
            changed[country] = {"country": country, "orders": before["orders"] + 1, "revenue": total}
        gone = [self._revenue[country] for country in changed if country in self._revenue]
        self._revenue |= changed
        return {
            "orders_full": _zset("orders_full", placed, []),
            "revenue_by_country": _zset("revenue_by_country", list(changed.values()), gone),
        }

    def _order(self) -> Row:
        self._orders += 1
        return {
            "id": self._orders,
            "customer": f"Customer {self._chance.randrange(20)}",
            "country": self._chance.choice(("DE", "JP", "US")),
            "status": "paid",
            "total": Decimal(self._chance.randrange(1000, 20000)) / 100,
            "placed_at": datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=self._orders),
            "products": PRODUCTS[self._orders % len(PRODUCTS)],
        }


def _zset(view: str, rows: list[Row], gone: list[Row]) -> pa.Table:
    columns = VIEWS[view]
    weighted = [
        {"_hash": _hash(row), **row, WEIGHT: weight} for part, weight in ((gone, -1), (rows, 1)) for row in part
    ]
    return pa.Table.from_pylist(weighted, pa.schema([("_hash", pa.int64()), *columns, (WEIGHT, pa.int64())]))


def _hash(row: Row) -> int:
    return int(row["id"]) if "id" in row else sum(map(ord, row["country"]))

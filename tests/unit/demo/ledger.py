"""The shop's tables in SQLite, which refuses rows whose partners are missing, as PostgreSQL does."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import Any

from headwater.demo.generator import Known, Transaction
from headwater.demo.history import Rows
from headwater.demo.tables import COLUMNS, SCHEMA, insert


class Ledger:
    """What the database would hold."""

    def __init__(self, rows: Rows) -> None:
        self.connection = sqlite3.connect(":memory:")
        self.connection.execute("PRAGMA foreign_keys = ON")
        self.connection.executescript(SCHEMA)
        for table, found in rows.items():
            for row in found:
                self._execute(insert(table), row)

    def carry_out(self, transactions: Iterable[Transaction]) -> None:
        """Raises `sqlite3.IntegrityError` for a row whose partner is missing."""
        for transaction in transactions:
            for statement in transaction:
                self._execute(statement.sql, statement.values)

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        return self.connection.execute(f"SELECT * FROM {table} ORDER BY 1, 2").fetchall()

    def all(self) -> dict[str, list[tuple[Any, ...]]]:
        return {table: self.rows(table) for table in COLUMNS}

    def close(self) -> None:
        self.connection.close()

    def _execute(self, sql: str, values: tuple[object, ...]) -> None:
        plain = [value if isinstance(value, int | str) else str(value) for value in values]
        self.connection.execute(sql.replace("%s", "?"), plain)


def known_of(rows: Rows) -> Known:
    """What `headwater.demo.history.known` reads from a database with these rows."""
    customers: Any = rows["customers"]
    products: Any = rows["products"]
    follows: Any = rows["follows"]
    reviews: Any = rows["reviews"]
    return Known(
        customers={number: country for number, _, country, _ in customers},
        products={number: price for number, _, _, price in products},
        open_orders={},
        follows=set(follows),
        reviews=[row[0] for row in reviews],
        next_order=len(rows["orders"]) + 1,
        next_payment=len(rows["orders"]) + 1,
        next_review=len(reviews) + 1,
    )

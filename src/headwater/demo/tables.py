"""The tables of the shop's database, and the name of the one that has its reports."""

from __future__ import annotations

DATABASE = "shop"
REPORTS = "reports"

SCHEMA = """
CREATE TABLE customers (
    id int8 PRIMARY KEY, name text NOT NULL, country text NOT NULL, joined_at timestamptz NOT NULL
);
CREATE TABLE products (
    id int8 PRIMARY KEY, name text NOT NULL, category text NOT NULL, price numeric(10,2) NOT NULL
);
CREATE TABLE orders (
    id int8 PRIMARY KEY, customer_id int8 NOT NULL REFERENCES customers, session text NOT NULL, country text NOT NULL,
    status text NOT NULL, total numeric(12,2) NOT NULL, placed_at timestamptz NOT NULL
);
CREATE TABLE order_lines (
    order_id int8 REFERENCES orders ON DELETE CASCADE, line int4, product_id int8 NOT NULL REFERENCES products,
    quantity int4 NOT NULL, price numeric(10,2) NOT NULL, PRIMARY KEY (order_id, line)
);
CREATE TABLE payments (
    id int8 PRIMARY KEY, order_id int8 NOT NULL REFERENCES orders ON DELETE CASCADE, amount numeric(12,2) NOT NULL,
    method text NOT NULL, paid_at timestamptz NOT NULL
);
CREATE TABLE follows (
    follower int8 REFERENCES customers ON DELETE CASCADE, followed int8 REFERENCES customers ON DELETE CASCADE,
    PRIMARY KEY (follower, followed)
);
CREATE TABLE reviews (
    id int8 PRIMARY KEY, customer_id int8 NOT NULL REFERENCES customers ON DELETE CASCADE,
    product_id int8 NOT NULL REFERENCES products, stars int2 NOT NULL, text text NOT NULL,
    written_at timestamptz NOT NULL
);
"""

COLUMNS = {
    "customers": ("id", "name", "country", "joined_at"),
    "products": ("id", "name", "category", "price"),
    "orders": ("id", "customer_id", "session", "country", "status", "total", "placed_at"),
    "order_lines": ("order_id", "line", "product_id", "quantity", "price"),
    "payments": ("id", "order_id", "amount", "method", "paid_at"),
    "follows": ("follower", "followed"),
    "reviews": ("id", "customer_id", "product_id", "stars", "text", "written_at"),
}
"""In an order in which rows find those that they refer to."""


def insert(table: str) -> str:
    """The statement that adds a row. Sent a second time, after an answer that got lost, it does nothing."""
    columns = COLUMNS[table]
    marks = ", ".join(["%s"] * len(columns))
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks}) ON CONFLICT DO NOTHING"

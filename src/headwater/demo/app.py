"""A shop: its database and page views as topics, what people want to know about it as views, and sinks for some views.

Copy it and change it. `headwater run app.py` captures the database, keeps views and sinks up to date and serves them.
"""

import os

import headwater as hw

app = hw.App("shop", log=os.environ.get("SHOP_LOG", "./shop-data"))

# The tables of the database are the topics shop.customers, shop.orders, ...
app.postgres(
    os.environ.get("SHOP_DATABASE", "postgresql://localhost/shop"),
    tables=["customers", "products", "orders", "order_lines", "payments", "follows", "reviews"],
)

# What visitors do, sent over HTTP as it happens; by phones also later, when they have a network again.
app.topic(
    "page_views",
    "session string, customer_id bigint, product_id bigint, action string, device string, seconds string, at timestamp",
    event_time="at",
    dead_letter="refused",
)

# What time it is, is a record of the log, too. A tick changes only the rows of views that appear or disappear with it.
app.clock(every="5 seconds")


def view(name: str, key: str | list[str], sql: str) -> None:
    """A view that sets aside a record which makes an expression fail, and continues."""
    app.view(name, sql, key=key, on_error="dead_letter")


view(
    "revenue_by_country",
    "country",
    """
    SELECT c.country, count(*) AS orders, sum(o.total) AS revenue
    FROM shop.orders o JOIN shop.customers c ON c.id = o.customer_id
    WHERE o.status IN ('paid', 'shipped')
    GROUP BY c.country
    """,
)

# Order lines with the product's newest name, category and price: when a product changes, so do they.
view(
    "line_items",
    ["order_id", "line"],
    """
    SELECT l.order_id, l.line, l.product_id, p.name AS product, p.category, l.quantity, l.quantity * l.price AS amount
    FROM shop.order_lines l JOIN shop.products p ON p.id = l.product_id
    """,
)

# An order with everything that people search for, in one row.
view(
    "orders_full",
    "id",
    """
    SELECT o.id, c.name AS customer, o.country, o.status, o.total, o.placed_at, i.products
    FROM shop.orders o
    JOIN shop.customers c ON c.id = o.customer_id
    LEFT JOIN (
        SELECT order_id, array_join(collect_set(product), '; ') AS products FROM line_items GROUP BY order_id
    ) i ON i.order_id = o.id
    """,
)

view(
    "top_products_this_hour",
    "product",
    """
    SELECT i.product, i.category, sum(i.quantity) AS pieces, sum(i.amount) AS revenue
    FROM line_items i
    JOIN (
        SELECT o.id
        FROM shop.orders o
        WHERE o.status <> 'cancelled'
          AND date_trunc('HOUR', o.placed_at) <= now() AND now() < date_trunc('HOUR', o.placed_at) + INTERVAL 1 HOUR
    ) o ON o.id = i.order_id
    GROUP BY i.product, i.category
    ORDER BY revenue DESC
    LIMIT 10
    """,
)

view(
    "orders_waiting_too_long",
    "id",
    """
    SELECT o.id, o.customer_id, o.country, o.status, o.total, o.placed_at
    FROM shop.orders o
    WHERE o.status IN ('placed', 'paid') AND o.placed_at < now() - INTERVAL 2 MINUTES
    """,
)

# Full carts without an order and without a move for two minutes. Who comes back and orders is not in it any more.
view(
    "carts_abandoned",
    "session",
    """
    SELECT k.session, k.customer_id, k.items, k.last_at
    FROM (
        SELECT session, max(customer_id) AS customer_id, count(*) AS items, max(at) AS last_at
        FROM page_views WHERE action = 'cart' GROUP BY session
    ) k
    LEFT ANTI JOIN shop.orders o ON o.session = k.session
    WHERE k.last_at < now() - INTERVAL 2 MINUTES
    """,
)

view(
    "customer_lifetime_value",
    "id",
    """
    SELECT c.id, c.name, c.country, coalesce(p.payments, 0) AS payments, coalesce(p.paid, 0) AS lifetime_value
    FROM shop.customers c
    LEFT JOIN (
        SELECT o.customer_id, count(*) AS payments, sum(p.amount) AS paid
        FROM shop.payments p JOIN shop.orders o ON o.id = p.order_id
        GROUP BY o.customer_id
    ) p ON p.customer_id = c.id
    """,
)

# By the hour in which a visit began: an event that a phone sends late corrects the hour that it belongs to.
view(
    "conversion",
    ["hour", "device"],
    """
    SELECT date_trunc('HOUR', v.first_at) AS hour, v.device, count(*) AS visits, count(o.session) AS orders,
           round(100 * count(o.session) / count(*), 1) AS percent
    FROM (SELECT session, device, min(at) AS first_at FROM page_views GROUP BY session, device) v
    LEFT JOIN (SELECT DISTINCT session FROM shop.orders) o ON o.session = v.session
    GROUP BY 1, 2
    """,
)

view(
    "sales_cube",
    ["day", "country", "category"],
    """
    SELECT date(o.placed_at) AS day, o.country, i.category, sum(i.quantity) AS pieces, sum(i.amount) AS revenue
    FROM line_items i JOIN shop.orders o ON o.id = i.order_id
    WHERE o.status <> 'cancelled'
    GROUP BY CUBE (date(o.placed_at), o.country, i.category)
    """,
)

view(
    "home_timeline",
    "customer_id",
    """
    SELECT f.follower AS customer_id, r.id AS review, r.customer_id AS author, r.product_id, r.stars, r.text,
           r.written_at
    FROM shop.follows f JOIN shop.reviews r ON r.customer_id = f.followed
    QUALIFY row_number() OVER (PARTITION BY f.follower ORDER BY r.written_at DESC) <= 10
    """,
)

view(
    "visits_by_minute",
    ["minute", "device"],
    """
    SELECT window(at, '1 minute').start AS minute, device, count(*) AS page_views
    FROM page_views GROUP BY window(at, '1 minute'), device
    """,
)

# The cast fails on a record whose seconds are no number; *Break it* sends one.
view(
    "attention_by_category",
    "category",
    """
    SELECT p.category, count(*) AS page_views, round(avg(CAST(v.seconds AS INT)), 1) AS seconds
    FROM page_views v JOIN shop.products p ON p.id = v.product_id
    GROUP BY p.category
    """,
)

# Two tables of another database, written in one transaction: at any time, the orders that are paid or shipped add up to
# the revenue. PostgreSQL's full text search finds orders.
REPORTS = os.environ.get("SHOP_REPORTS", "postgresql://localhost/reports")
app.sink("search", view="orders_full", key="id", to=hw.sinks.Postgres(REPORTS, table="orders"), group="reports")
app.sink(
    "report", view="revenue_by_country", key="country", to=hw.sinks.Postgres(REPORTS, table="revenue"), group="reports"
)

# Parquet files, which DuckDB, pandas and Spark read.
app.sink("lake", view="sales_cube", to=hw.sinks.Parquet(
    os.environ.get("SHOP_LAKE", "./shop-lake"), every="5 seconds", retention="10 minutes",
))  # fmt: skip

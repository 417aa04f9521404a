"""The application of `tools/soak.py`: a warehouse with five topics, and 22 views of every kind of operator."""

import os

import headwater as hw

app = hw.App("soak", log=os.environ.get("SOAK_LOG", "./soak-data"))

app.topic("customers", "id bigint, country string, segment string", key="id")
app.topic("products", "id bigint, category string, price bigint", key="id")
app.topic("orders", "id bigint, customer bigint, product bigint, amount bigint, status string", key="id", partitions=2)
app.topic("payments", "id bigint, order_id bigint, paid bigint", key="id")
app.topic("clicks", "session bigint, product bigint, seconds bigint, device string")

VIEWS = {
    "orders_by_status": "SELECT status, count(*) AS n, sum(amount) AS total FROM orders GROUP BY status",
    "orders_by_customer": "SELECT customer, count(*) AS n, sum(amount) AS total FROM orders GROUP BY customer",
    "sold": """
        SELECT o.id, o.amount, o.status, c.country, c.segment, p.category
        FROM orders o JOIN customers c ON c.id = o.customer JOIN products p ON p.id = o.product""",
    "revenue_by_country": "SELECT country, sum(amount) AS revenue, count(*) AS n FROM sold GROUP BY country",
    "revenue_by_category": "SELECT category, sum(amount) AS revenue, avg(amount) AS mean FROM sold GROUP BY category",
    "cube": """
        SELECT country, segment, category, sum(amount) AS revenue FROM sold
        GROUP BY CUBE (country, segment, category)""",
    "extremes": "SELECT segment, min(amount) AS least, max(amount) AS most FROM sold GROUP BY segment",
    "large_orders": "SELECT id, amount * 2 AS doubled, upper(status) AS status FROM orders WHERE amount > 900",
    "unpaid": "SELECT o.id, o.amount FROM orders o LEFT ANTI JOIN payments p ON p.order_id = o.id",
    "paid": """
        SELECT o.customer, sum(p.paid) AS paid, count(*) AS n FROM payments p JOIN orders o ON o.id = p.order_id
        GROUP BY o.customer""",
    "lifetime": """
        SELECT c.id, c.country, coalesce(p.paid, 0) AS paid FROM customers c LEFT JOIN paid p ON p.customer = c.id""",
    "best_customers": "SELECT id, country, paid FROM lifetime ORDER BY paid DESC, id LIMIT 20",
    "top_orders": """
        SELECT customer, id, amount FROM orders
        QUALIFY row_number() OVER (PARTITION BY customer ORDER BY amount DESC, id) <= 3""",
    "products_per_customer": "SELECT customer, count(DISTINCT product) AS n FROM orders GROUP BY customer",
    "active_countries": """
        SELECT country, count(*) AS n FROM customers WHERE id IN (SELECT customer FROM orders WHERE amount > 500)
        GROUP BY country""",
    "clicks_by_device": "SELECT device, count(*) AS n, sum(seconds) AS seconds FROM clicks GROUP BY device",
    "clicks_by_product": "SELECT product, count(*) AS n, max(seconds) AS longest FROM clicks GROUP BY product",
    "popular": """
        SELECT p.category, sum(k.n) AS clicks FROM clicks_by_product k JOIN products p ON p.id = k.product
        GROUP BY p.category""",
    "conversion": """
        SELECT k.product, k.n AS clicks, coalesce(o.n, 0) AS orders
        FROM clicks_by_product k LEFT JOIN (SELECT product, count(*) AS n FROM orders GROUP BY product) o
        ON o.product = k.product""",
    "statuses": "SELECT DISTINCT status, amount DIV 100 AS hundreds FROM orders",
    "everything": """
        SELECT 'order' AS kind, amount FROM orders WHERE amount < 20
        UNION ALL SELECT 'payment', paid FROM payments WHERE paid < 20""",
    "spread": "SELECT category, stddev(price) AS spread FROM products GROUP BY category",
}
"""Joins, aggregates, top-k, distinct, anti and semi joins, a union, a cube, views of views, one node of Spark's own."""

for name, sql in VIEWS.items():
    app.view(name, sql)

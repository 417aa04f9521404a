"""One database and three copies that cannot drift apart: a search index, a cache, and a table for reports.

SHOP_URL=postgresql://… SEARCH_URL=http://… CACHE_URL=redis://… REPORTS_URL=postgresql://… \\
    headwater run examples/search_cache_report.py
"""

import os

import headwater as hw

app = hw.App("shop", log="./shop-data")
app.postgres(os.environ["SHOP_URL"], tables=["products", "reviews", "customers", "orders"])

app.view(
    "products_full",
    """
    SELECT p.id, p.name, p.price, count(r.id) AS reviews, avg(r.stars) AS stars
    FROM shop.products p LEFT JOIN shop.reviews r ON r.product_id = p.id
    GROUP BY p.id, p.name, p.price
    """,
)
app.view(
    "customer_lifetime_value",
    "SELECT customer_id AS id, sum(amount) AS total, count(*) AS orders FROM shop.orders GROUP BY customer_id",
)
app.view(
    "revenue",
    """
    SELECT c.country, sum(o.amount) AS revenue, count(*) AS orders
    FROM shop.orders o JOIN shop.customers c ON c.id = o.customer_id
    GROUP BY c.country
    """,
)

app.sink("search", view="products_full", key="id", to=hw.sinks.OpenSearch(os.environ["SEARCH_URL"], index="products"))
app.sink("cache", view="customer_lifetime_value", key="id", to=hw.sinks.Redis(os.environ["CACHE_URL"], prefix="clv:"))
app.sink("report", view="revenue", key="country", to=hw.sinks.Postgres(os.environ["REPORTS_URL"], table="revenue"))

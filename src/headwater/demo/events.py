"""Events that are sent on purpose: one that nothing can be done with, late ones, and very many."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa

from headwater.demo.catalogue import PRODUCTS
from headwater.demo.generator import PageView, page_view

TOPIC = "page_views"
LATE_COUNT = 500
LATE_BY = timedelta(minutes=90)
BURST_COUNT = 100_000
BURST_VISITS = 4000


def poison(now: datetime) -> list[PageView]:
    """Two records: one whose time is none, which the topic refuses, and one on which a view's cast fails."""
    session = f"poison-{int(now.timestamp()):x}"
    rejection = page_view(session, 1, 1, "view", "desktop", now) | {"at": "half past nine"}
    return [rejection, page_view(session, 1, 1, "view", "desktop", now) | {"seconds": "a while"}]


def late(now: datetime, count: int = LATE_COUNT) -> list[PageView]:
    """What phones saw up to an hour and a half ago, and send only now."""
    name = f"late-{int(now.timestamp()):x}"
    return [
        page_view(
            f"{name}-{number // 4}", number % 50 + 1, number % len(PRODUCTS) + 1, "view", "mobile",
            now - LATE_BY * (number / count),
        )
        for number in range(count)
    ]  # fmt: skip


def burst(schema: pa.Schema, now: datetime, count: int = BURST_COUNT) -> pa.Table:
    """As many page views at once as some shops have in a day, all of the last ten minutes."""
    numbers = np.arange(count)
    instant = int(now.replace(tzinfo=UTC).timestamp() * 1_000_000)
    at = instant - (numbers * 600_000_000 // max(1, count))
    visits = numbers % BURST_VISITS
    columns = {
        "session": pa.array([f"burst-{instant // 1_000_000:x}-{visit}" for visit in visits.tolist()]),
        "customer_id": pa.array(visits % 150 + 1),
        "product_id": pa.array(numbers % len(PRODUCTS) + 1),
        "action": pa.array(np.where(numbers % 97 == 0, "cart", "view").tolist()),
        "device": pa.array(np.array(["desktop", "mobile", "tablet"])[visits % 3].tolist()),
        "seconds": pa.array((numbers % 60).astype(str).tolist()),
        "at": pa.array(at).cast(pa.timestamp("us", "UTC")),
    }
    return pa.table([columns[name].cast(schema.field(name).type) for name in schema.names], schema=schema)

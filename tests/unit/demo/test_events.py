"""Events that are sent on purpose are what they are said to be."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import headwater as hw
from headwater.demo.catalogue import PRODUCTS
from headwater.demo.events import BURST_COUNT, LATE_BY, LATE_COUNT, TOPIC, burst, late, poison

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
COLUMNS = (
    "session string, customer_id bigint, product_id bigint, action string, device string, seconds string, at timestamp"
)


def test_they_go_into_the_topic(tmp_path: Path) -> None:
    with hw.open(tmp_path) as log:
        topic = log.create(TOPIC, COLUMNS, event_time="at", dead_letter="refused")
        log.append(TOPIC, burst(topic.schema, NOW))
        log.append(TOPIC, late(NOW))
        log.append(TOPIC, poison(NOW))
        rows = log.scan(TOPIC).to_pylist()
        assert len(rows) == BURST_COUNT + LATE_COUNT + 1
        assert len(log.scan("refused").to_pylist()) == 1
        assert {row["product_id"] for row in rows} == set(range(1, len(PRODUCTS) + 1))
        times = [row["at"] for row in rows]
        assert max(times) == NOW
        assert NOW - LATE_BY <= min(times) < NOW - LATE_BY + timedelta(minutes=1)
        assert [row["seconds"] for row in rows if not row["seconds"].isdigit()] == ["a while"]

"""Calls of time sources in SQL are found where they are calls, and nowhere else."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from headwater.errors import UnsupportedQuery
from headwater.spark.time_calls import time_calls, with_moments, with_relations

NOON = datetime(2026, 1, 1, 12, 0, 0, 5, tzinfo=UTC)


def test_calls_become_moments() -> None:
    sql = "SELECT 'now()', now -- now()\nFROM t /* now() */ WHERE a < NOW ( ) AND b.now() AND b <= watermark('s.t')"
    assert with_moments(sql, {"clock": NOON}) == (
        "SELECT 'now()', now -- now()\nFROM t /* now() */ WHERE a < TIMESTAMP '2026-01-01 12:00:00.000005+00:00'"
        " AND b.now() AND b <= CAST(NULL AS TIMESTAMP)"
    )


def test_calls_become_subqueries() -> None:
    assert with_relations("now() - at") == "(SELECT at FROM `time of clock`) - at"
    assert [call.source for call in time_calls("watermark('a') > now()")] == ["watermark.a", "clock"]


def test_a_watermark_needs_a_topic() -> None:
    with pytest.raises(UnsupportedQuery, match="but the name of a topic"):
        time_calls("SELECT watermark(clicks)")

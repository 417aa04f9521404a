"""Batches and sizes as JSON."""

from __future__ import annotations

from datetime import UTC, datetime

from headwater.engine.manifest import Size
from headwater.engine.store import Published
from headwater.model.encoding import format_instant


def batch_json(batch: Published) -> dict[str, object]:
    """What a batch did."""
    operators = batch.stats.get("operators") or {}
    return {
        "batch": batch.batch,
        "position": str(batch.position),
        "published_at": instant(batch.published_at),
        "records": batch.stats.get("records", 0),
        "seconds": batch.stats.get("seconds", 0.0),
        "freshness_seconds": freshness(batch),
        "changes": batch.stats.get("changes") or {},
        "operators": {number: {"rows_in": rows[0], "rows_out": rows[1]} for number, rows in operators.items()},
    }


def size_json(size: Size | None) -> dict[str, int] | None:
    """How large something is on disk."""
    return None if size is None else {"rows": size.rows, "bytes": size.bytes, "files": size.runs}


def instant(microseconds: int) -> str:
    """A time as the store has it."""
    return format_instant(datetime.fromtimestamp(microseconds / 1e6, UTC))


def freshness(batch: Published) -> float | None:
    """The seconds from the last commit that a batch covers to its publication."""
    committed_at = batch.stats.get("committed_at")
    return None if committed_at is None else max(0.0, (batch.published_at - committed_at) / 1e6)

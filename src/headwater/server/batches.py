"""Batches and sizes as JSON."""

from __future__ import annotations

from datetime import UTC, datetime

from headwater.engine.manifest import Size
from headwater.engine.publication import Publication
from headwater.model.encoding import format_instant


def batch_json(batch: Publication) -> dict[str, object]:
    """What a batch did."""
    stats = batch.stats
    return {
        "batch": batch.batch,
        "position": str(batch.position),
        "published_at": instant(batch.published_at),
        "records": stats.records,
        "seconds": stats.seconds,
        "freshness_seconds": batch.freshness_seconds,
        "changes": dict(stats.changes),
        "operators": {
            str(number): {"rows_in": given, "rows_out": made} for number, (given, made) in stats.operators.items()
        },
    }


def size_json(size: Size | None) -> dict[str, int] | None:
    """How large something is on disk."""
    return None if size is None else {"rows": size.rows, "bytes": size.bytes, "files": size.runs}


def instant(microseconds: int) -> str:
    """A time as the store has it."""
    return format_instant(datetime.fromtimestamp(microseconds / 1e6, UTC))

"""A topic's settings, as Kafka has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headwater.errors import UsageError
from headwater.log.kafka.catalog import COMPACTION_LAG_SECONDS
from headwater.log.topic import SEGMENT_BYTES_DEFAULT, Topic, TopicSettings

SEGMENT_BYTES_MIN = 1 << 20
"""Kafka has no smaller segments."""


def check_settings(settings: TopicSettings) -> None:
    """Raises `UsageError` for what Kafka does not have."""
    if settings.archive is not None:
        raise UsageError(
            "A topic on Kafka has no archive.",
            hint="Use Kafka's tiered storage (remote.storage.enable) where your brokers have it.",
        )


def with_views(chosen: Mapping[str, Any]) -> dict[str, Any]:
    """What was chosen for a new topic. Kafka deletes without a word, so views keep what they made of it.

    Raises `UsageError` if they were to forget it.
    """
    if chosen.get("views") == "forget":
        raise UsageError(
            "Views cannot forget what Kafka deletes: it does not say what it is about to delete.",
            hint="Leave out views='forget': views keep what they derived from deleted records.",
        )
    return {"views": "keep", **chosen}


def kafka_settings(topic: Topic) -> dict[str, str]:
    """The settings of the Kafka topic behind a topic."""
    settings = topic.settings
    per_partition = None if settings.retention_bytes is None else max(1, settings.retention_bytes // topic.partitions)
    segment = min(max(topic.roll_bytes, SEGMENT_BYTES_MIN), SEGMENT_BYTES_DEFAULT * 16)
    return {
        "cleanup.policy": "compact" if settings.cleanup == "compact" else "delete",
        "retention.ms": _milliseconds(settings.retention_age),
        "retention.bytes": "-1" if per_partition is None else str(per_partition),
        "segment.bytes": str(segment),
        "segment.ms": _milliseconds(settings.segment_age_max),
        "delete.retention.ms": _milliseconds(settings.tombstone_grace),
        "min.compaction.lag.ms": str(COMPACTION_LAG_SECONDS * 1000),
        "message.timestamp.type": "LogAppendTime",
    }


def _milliseconds(duration: object) -> str:
    seconds = getattr(duration, "total_seconds", None)
    return "-1" if seconds is None else str(max(1, int(seconds() * 1000)))

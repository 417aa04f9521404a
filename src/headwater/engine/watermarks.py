"""The rule of a watermark: how it follows from the records of its topic."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import pyarrow as pa

from headwater.errors import UsageError


@dataclass(frozen=True, slots=True)
class WatermarkRule:
    """How the watermark of a topic follows from its records.

    It is the newest event time of the producer that is furthest behind, less the `delay` that events may have. A column
    tells producers apart, and one that has been silent for `idle`, by the log's clock, holds nothing back. An event
    time more than `future_max` after the log received the record does not count: the producer's clock is wrong.
    """

    topic: str
    event_time: str
    delay: timedelta
    producer: str | None = None
    idle: timedelta | None = None
    future_max: timedelta | None = None

    @property
    def columns(self) -> list[str]:
        """The columns of the topic that it rests on."""
        return [self.event_time, *([] if self.producer is None else [self.producer])]


def check_rule(rule: WatermarkRule, schema: pa.Schema) -> None:
    """Raises `UsageError` if the topic has no such columns, or if its time is none."""
    for name in rule.columns:
        if name not in schema.names:
            raise UsageError(
                f"Topic {rule.topic!r} has no column {name!r} for its watermark.", hint=f"{', '.join(schema.names)}."
            )
    if not pa.types.is_timestamp(schema.field(rule.event_time).type):
        raise UsageError(
            f"Column {rule.event_time!r} of topic {rule.topic!r} is no timestamp.",
            hint="A watermark needs an event time: event_time='at', a timestamp.",
        )

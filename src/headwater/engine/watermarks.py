"""Watermarks of topics: how far the events of their producers have come, as a function of the records so far."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headwater.errors import UsageError

_PRODUCER, _TIME, _LATE, _BY = "producer", "time", "late", "by"
_EARLIEST = -(2**61)


@dataclass(frozen=True, slots=True)
class WatermarkRule:
    """How the watermark of a topic follows from its records.

    It is the newest event time of the producer that is furthest behind, less the `delay` that events may have. A column
    tells producers apart, and one that has been silent for `idle`, by the log's clock, holds nothing back.
    """

    topic: str
    event_time: str
    delay: timedelta
    producer: str | None = None
    idle: timedelta | None = None

    @property
    def columns(self) -> list[str]:
        return [self.event_time, *([] if self.producer is None else [self.producer])]


@dataclass(frozen=True, slots=True)
class Producer:
    """The newest event time of a producer, and the log's clock when it was last heard of; in microseconds.

    `late` counts its events that were older than the watermark when they came, and `late_by` is by how much, at most.
    """

    newest: int
    seen: int | None
    late: int = 0
    late_by: int = 0

    def and_then(self, other: Producer) -> Producer:
        """What is known of it after more of its events."""
        return Producer(
            max(self.newest, other.newest), other.seen, self.late + other.late, max(self.late_by, other.late_by)
        )


@dataclass(frozen=True, slots=True)
class Producers:
    """All producers of a topic, by name."""

    known: Mapping[str, Producer] = field(default_factory=dict)

    def after(self, records: pa.Table, rule: WatermarkRule, clock: int | None, reached: int | None = None) -> Producers:
        """The producers after some records, which came when the clock and the watermark were there.

        Null times do not count.
        """
        times = records[rule.event_time].cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())
        names = pa.repeat("", records.num_rows) if rule.producer is None else records[rule.producer].cast(pa.string())
        late_by = pc.max_element_wise(pc.subtract(pa.scalar(_EARLIEST if reached is None else reached), times), 0)
        rows = pa.table({_PRODUCER: pc.fill_null(names, ""), _TIME: times, _BY: late_by, _LATE: pc.sign(late_by)})
        of_each = [(_TIME, "max"), (_LATE, "sum"), (_BY, "max")]
        found = rows.filter(pc.is_valid(rows[_TIME])).group_by(_PRODUCER).aggregate(of_each)
        known = dict(self.known)
        for row in found.to_pylist():
            name, new = row[_PRODUCER], Producer(row["time_max"], clock, row["late_sum"], row["by_max"])
            known[name] = known[name].and_then(new) if name in known else new
        return Producers(known)

    def at(self, clock: int | None) -> Producers:
        """The same producers, once there is a clock: those heard of before it ticked are heard of when it begins."""
        known = self.known.items()
        return Producers({name: replace(one, seen=clock) if one.seen is None else one for name, one in known})

    @property
    def late(self) -> int:
        """How many events were late."""
        return sum(one.late for one in self.known.values())

    @property
    def late_by(self) -> int:
        """By how much the latest of them was, in microseconds."""
        return max((one.late_by for one in self.known.values()), default=0)

    def idle(self, rule: WatermarkRule, clock: int | None) -> list[str]:
        """The producers that have been silent for too long to be waited for, by name."""
        if rule.idle is None or clock is None:
            return []
        since = clock - _microseconds(rule.idle)
        return sorted(name for name, one in self.known.items() if one.seen is not None and one.seen <= since)

    def watermark(self, rule: WatermarkRule, clock: int | None) -> int | None:
        """What the active producers promise: nothing older will come. None if there is none of them."""
        idle = set(self.idle(rule, clock))
        active = [one.newest for name, one in self.known.items() if name not in idle]
        return min(active) - _microseconds(rule.delay) if active else None

    def behind(self, rule: WatermarkRule, clock: int | None, count: int) -> list[str]:
        """The active producers that hold the watermark back, the furthest behind first."""
        idle = set(self.idle(rule, clock))
        active = sorted((one.newest, name) for name, one in self.known.items() if name not in idle)
        return [name for _, name in active[:count]]

    def to_json(self) -> dict[str, Any]:
        return {name: [one.newest, one.seen, one.late, one.late_by] for name, one in self.known.items()}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Producers:
        return cls({name: Producer(*parts) for name, parts in value.items()})


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


def _microseconds(duration: timedelta) -> int:
    return duration // timedelta(microseconds=1)

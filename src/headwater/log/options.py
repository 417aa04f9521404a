"""The keyword options of topics, producers and consumers, in one place for types and for the reference."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal, TypedDict

from headwater.log.topic import Cleanup

Policy = Literal["block", "error", "drop_newest", "drop_oldest"]
OnGone = Literal["fail", "earliest"]


class TopicOptions(TypedDict, total=False):
    """See `TopicSettings` for what each one means."""

    retention_age: timedelta | None
    retention_bytes: int | None
    cleanup: Cleanup
    dead_letter: str | None
    segment_bytes_max: int
    segment_age_max: timedelta
    tombstone_grace: timedelta


class ProducerOptions(TypedDict, total=False):
    """`linger`: how long a record may wait for others. `policy`: what to do when the buffer is full."""

    linger: timedelta
    buffer_records_max: int
    policy: Policy


class ConsumerOptions(TypedDict, total=False):
    """`lease`: how long a silent member keeps its partitions. `on_gone`: what to do when records were deleted."""

    start: Literal["earliest", "latest"]
    lease: timedelta
    on_gone: OnGone
    member: str
    patience: timedelta | None

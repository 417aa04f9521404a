"""The keyword options of topics, producers and consumers, in one place for types and for the reference."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Literal, TypedDict, get_args

from headwater.errors import UsageError
from headwater.log.topic import DURATIONS, Cleanup, Memory
from headwater.model.durations import Duration, duration_of
from headwater.model.position import Position
from headwater.system.objects.port import parse_store_url

Policy = Literal["block", "error", "drop_newest", "drop_oldest"]
OnGone = Literal["fail", "earliest"]
GroupStart = Literal["earliest", "latest"] | datetime | Position
"""Where a group begins in a partition that it has no offset of yet: a time is that of receipt, a position is before."""
LEASE = timedelta(seconds=10)


class TopicOptions(TypedDict, total=False):
    """See `TopicSettings` for what each one means."""

    retention_age: Duration | None
    retention_bytes: int | None
    cleanup: Cleanup
    dead_letter: str | None
    segment_bytes_max: int
    segment_age_max: Duration
    tombstone_grace: Duration
    archive: str | Path | None
    hold_age_max: Duration | None
    hold_bytes_max: int | None
    views: Memory


class ProducerOptions(TypedDict, total=False):
    """`linger`: how long a record may wait for others. `policy`: what to do when the buffer is full."""

    linger: Duration
    buffer_records_max: int
    policy: Policy


class ConsumerOptions(TypedDict, total=False):
    """`lease`: how long a silent member keeps its partitions. `on_gone`: what to do when records were deleted."""

    start: GroupStart
    lease: Duration
    on_gone: OnGone
    member: str
    idle_timeout: Duration | None


def check_consumer_options(options: ConsumerOptions) -> None:
    """Raises `UsageError` for an option that there is not, or a value that has no meaning."""
    known = ConsumerOptions.__annotations__
    for name in options.keys() - known.keys():
        raise UsageError(f"A consumer has no option {name!r}.", hint=f"Options: {', '.join(known)}.")
    start = options.get("start", "earliest")
    if not isinstance(start, (datetime, Position)) and start not in ("earliest", "latest"):
        raise UsageError(f"start cannot be {start!r}.", hint="Use 'earliest', 'latest', a datetime or a Position.")
    if options.get("on_gone", "fail") not in get_args(OnGone):
        raise UsageError(
            f"on_gone cannot be {options.get('on_gone')!r}.", hint=f"Use one of {', '.join(get_args(OnGone))}."
        )
    if duration_of("lease", options.get("lease", LEASE)) == timedelta(0):
        raise UsageError("The lease cannot be zero.", hint="Give it some seconds.")
    if (idle_timeout := options.get("idle_timeout")) is not None:
        duration_of("idle_timeout", idle_timeout)


def settings_of(options: TopicOptions) -> dict[str, Any]:
    """The options with durations as `timedelta`, and the archive as a URL. Raises `UsageError` for what is neither."""
    return {name: None if value is None else _setting(name, value) for name, value in options.items()}


def _setting(name: str, value: Any) -> object:
    if name == "archive":
        return str(parse_store_url(value))
    return duration_of(name, value) if name in DURATIONS else value

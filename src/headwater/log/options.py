"""The keyword options of topics, producers and consumers, in one place for types and for the reference."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal, TypedDict, get_args

from headwater.errors import UsageError
from headwater.log.topic import Cleanup

Policy = Literal["block", "error", "drop_newest", "drop_oldest"]
OnGone = Literal["fail", "earliest"]
GroupStart = Literal["earliest", "latest"]


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

    start: GroupStart
    lease: timedelta
    on_gone: OnGone
    member: str
    patience: timedelta | None


def check_consumer_options(options: ConsumerOptions) -> None:
    """Raises `UsageError` for an option that there is not, or a value that has no meaning."""
    known = ConsumerOptions.__annotations__
    for name in options.keys() - known.keys():
        raise UsageError(f"A consumer has no option {name!r}.", hint=f"Options: {', '.join(known)}.")
    for name, choices in (("start", get_args(GroupStart)), ("on_gone", get_args(OnGone))):
        if options.get(name, choices[0]) not in choices:
            raise UsageError(f"{name} cannot be {options.get(name)!r}.", hint=f"Use one of {', '.join(choices)}.")
    for name in ("lease", "patience"):
        duration = options.get(name)
        if isinstance(duration, timedelta) and duration < (timedelta.resolution if name == "lease" else timedelta(0)):
            raise UsageError(f"{name} cannot be {duration}.", hint="Give it a longer time.")

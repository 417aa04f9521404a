"""The options of `headwater log create` and `alter` that are settings of a topic."""

from __future__ import annotations

from typing import Annotated, Literal, cast

import typer

from headwater.cli.quantities import parse_size
from headwater.log.options import TopicOptions
from headwater.log.topic import DURATIONS
from headwater.model.durations import parse_duration

NONE = "none"
_SIZES = ("retention_bytes", "segment_bytes_max", "hold_bytes_max")
_LIFTED = ("retention_age", "retention_bytes", "hold_age_max", "hold_bytes_max", "dead_letter", "archive")

Cleanup = Annotated[
    Literal["delete", "compact", "none"] | None,
    typer.Option(
        help="What happens to old records: delete them by age and size, compact to the newest per key, or keep all.",
        show_default=False,
    ),
]
RetentionAge = Annotated[
    str | None, typer.Option(metavar="DURATION", help="Delete records older than this, such as 7d; none: never.")
]
RetentionBytes = Annotated[
    str | None,
    typer.Option(metavar="SIZE", help="Delete the oldest records beyond this size, such as 1GiB; none: never."),
]
DeadLetter = Annotated[
    str | None,
    typer.Option(metavar="TOPIC", help="The topic for records that do not fit; none: an append refuses them."),
]
SegmentBytesMax = Annotated[
    str | None, typer.Option(metavar="SIZE", help="The size at which a new segment begins.", rich_help_panel="Tuning")
]
SegmentAgeMax = Annotated[
    str | None,
    typer.Option(metavar="DURATION", help="The age at which a new segment begins.", rich_help_panel="Tuning"),
]
Archive = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="Where sealed segments move: a directory or s3://bucket/prefix. Retention then says what stays local, and "
        "nothing is deleted; none: nothing moves.",
    ),
]
TombstoneGrace = Annotated[
    str | None,
    typer.Option(
        metavar="DURATION", help="How long compaction keeps a deleted key's tombstone.", rich_help_panel="Tuning"
    ),
]
HoldAgeMax = Annotated[
    str | None,
    typer.Option(
        metavar="DURATION",
        help="How much longer records are kept for pipelines and groups that still need them, such as 7d; none: until "
        "they have them.",
    ),
]
HoldBytesMax = Annotated[
    str | None,
    typer.Option(metavar="SIZE", help="The maximum size kept for them, such as 16GiB; none: no limit."),
]
Views = Annotated[
    Literal["forget", "keep"] | None,
    typer.Option(
        help="What views do when retention deletes records: forget them, or keep what they derived from them.",
    ),
]


def settings_given(**given: str | None) -> TopicOptions:
    """The settings that were given; `none` lifts a limit."""
    return cast("TopicOptions", {name: _value(name, text) for name, text in given.items() if text is not None})


def _value(name: str, text: str) -> object:
    if text == NONE and name in _LIFTED:
        return None
    if name in DURATIONS:
        return parse_duration(text)
    return parse_size(text) if name in _SIZES else text

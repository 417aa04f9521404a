"""Time as records: the ticks of a log's clock and the watermarks of its topics, each in a topic of its own.

The time of a source at a position is its newest record up to there, so it is a function of the log as everything else
is. A bookmark moves with each record, on the condition that nobody else has moved it: time never goes back, no
matter how many writers there are.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from headwater.errors import TopicExists, UnknownTopic, UsageError
from headwater.model.position import Position
from headwater.system.clock import instant, microseconds

if TYPE_CHECKING:
    from headwater.log.port import Log

CLOCK = "clock"
"""The time source that is the log's clock."""
RETENTION = "30 days"
"""How long the records of a time source are kept: what a rebuild needs is the newest one."""

_PREFIX = "headwater."
_WATERMARK = "watermark."


def watermark_of(topic: str) -> str:
    """The time source that is the watermark of a topic."""
    return f"{_WATERMARK}{topic}"


def watermarked(source: str) -> str | None:
    """The topic whose watermark a time source is; None if it is the clock."""
    return source.removeprefix(_WATERMARK) if source.startswith(_WATERMARK) else None


def records_of(source: str) -> str:
    """The topic that has the records of a time source."""
    return f"{_PREFIX}{source}"


def create_source(log: Log, source: str) -> None:
    """Makes the topic of a time source, if it is missing."""
    # It may be kept for longer than usual.
    with suppress(TopicExists):
        log.create(records_of(source), "at timestamp NOT NULL", retention_age=RETENTION, exist_ok=True)


def keep_source(log: Log, source: str) -> None:
    """Keeps all records of a time source from now on: what depends on the older ones can be built again."""
    create_source(log, source)
    settings = log.topic(records_of(source)).settings
    if settings.retention_age is not None or settings.cleanup != "none":
        log.alter(records_of(source), retention_age=None, cleanup="none")


def advance(log: Log, source: str, moment: datetime) -> Position:
    """Appends a record that says how far the time of a source has come; none if it is there already.

    Raises `UsageError` if it is further already: time does not go back.
    """
    name, wanted = records_of(source), microseconds(moment)
    _check_there(log, source)
    while True:
        reached = log.bookmark(name)
        if isinstance(reached, int) and reached >= wanted:
            if reached > wanted:
                raise _goes_back(source, instant(wanted), instant(reached))
            return log.position()
        with log.commit(on_conflict="return") as commit:
            commit.append(name, [{"at": instant(wanted)}])
            commit.bookmark(name, wanted, expect=reached)
        if commit.conflict is None:
            return commit.position


def time_of(log: Log, source: str, position: Position) -> datetime | None:
    """How far the time of a source has come at a position; None if it has said nothing yet, or no longer has it."""
    name = records_of(source)
    try:
        first, end = log.offsets(name, at=position)[0]
    except UnknownTopic:
        return None
    if end <= first:
        return None
    (batch,) = log.batches(name, start={0: end - 1}, end={0: end}, columns=["at"])
    moment = batch.records["at"][-1].as_py()
    assert isinstance(moment, datetime)
    return moment.astimezone(UTC)


def _check_there(log: Log, source: str) -> None:
    try:
        log.topic(records_of(source))
    except UnknownTopic:
        create_source(log, source)


def _goes_back(source: str, wanted: datetime, reached: datetime) -> UsageError:
    topic = watermarked(source)
    what = "The clock of the log" if topic is None else f"The watermark of topic {topic!r}"
    return UsageError(
        f"{what} is at {reached.isoformat()} and cannot go back to {wanted.isoformat()}.",
        hint="Give it a later time.",
    )

"""Places in a log as people name them: where to begin and where to end a read."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal

from headwater.errors import UsageError
from headwater.model.durations import is_duration, parse_duration
from headwater.model.position import Position

_POSITION = "position:"
_HINT = "Use {words}an offset (42), a time (2026-01-31T12:00:00Z), how long ago (10m), or position:42."


def parse_start(text: str) -> Literal["earliest", "latest"] | int | datetime | Position:
    """Where to begin. Raises `UsageError`."""
    if text == "earliest":
        return "earliest"
    if text == "latest":
        return "latest"
    return _parse(text, "begin", _HINT.format(words="earliest, latest, "))


def parse_end(text: str) -> int | datetime | Position:
    """Where to end. Raises `UsageError`."""
    return _parse(text, "end", _HINT.format(words=""))


def _parse(text: str, purpose: str, hint: str) -> int | datetime | Position:
    if text.startswith(_POSITION):
        return Position.parse(text.removeprefix(_POSITION))
    if text.isascii() and text.isdigit():
        return int(text)
    if is_duration(text):
        return datetime.now(UTC) - parse_duration(text)
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{text!r} is not a place to {purpose}.", hint=hint) from None
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)

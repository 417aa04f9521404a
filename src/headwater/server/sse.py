"""Server-sent events as bytes, and the marks by which a stream of changes is resumed."""

from __future__ import annotations

import json
import re
from typing import NamedTuple

from headwater.errors import UsageError
from headwater.model.position import Position

CONTENT_TYPE = "text/event-stream"
HEARTBEAT = b": still here\n\n"
RETRY = b"retry: 1000\n\n"
"""How long a client should wait before it connects again, in milliseconds."""


class Mark(NamedTuple):
    """How far a follower of a view is. Marks of one view are ordered as its changes are."""

    position: Position
    generation: int

    def __str__(self) -> str:
        return f"{self.position}.{self.generation}"

    @classmethod
    def parse(cls, text: str) -> Mark:
        """What `str` gave. Raises `UsageError`."""
        position, _, generation = text.rpartition(".")
        try:
            if re.fullmatch(r"[0-9]{1,18}", generation, re.ASCII):
                return cls(Position.parse(position), int(generation))
        except UsageError:
            pass
        raise UsageError(
            f"{text!r} is not the id of an event.", hint="Send the id of the last event, or no Last-Event-ID."
        )


def event(data: object, *, name: str, mark: object = None) -> bytes:
    """One event: a name, JSON in one line, and what a client sends as Last-Event-ID to continue after it."""
    lines = [f"event: {name}", f"data: {to_json(data)}"]
    if mark is not None:
        lines.insert(0, f"id: {mark}")
    return ("\n".join(lines) + "\n\n").encode()


def to_json(data: object) -> str:
    """JSON in one line. What has no form of its own in JSON is its text."""
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"), default=str)

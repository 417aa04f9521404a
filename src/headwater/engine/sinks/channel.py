"""The port of channels: a way to reach people or a program with one message at a time, such as mail or a chat."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import ClassVar, Literal

Event = Literal["added", "changed", "removed", "fired", "repeated", "cleared"]
"""What happened: to a row of a view, or to an alert."""
ENDINGS: frozenset[Event] = frozenset({"removed", "cleared"})
"""The events that end what an earlier one has begun."""


@dataclass(frozen=True, slots=True)
class Notice:
    """One event of a sink or an alert that is called `name`.

    `row` has JSON values: the row as it is now, or as it was last if it is gone. `key` is the text of its key, empty
    without one. `at` is ISO 8601.
    """

    name: str
    view: str
    event: Event
    key: str
    row: Mapping[str, object]
    position: str
    at: str


@dataclass(frozen=True, slots=True)
class Message:
    """What is sent at once. The same id always comes with the same notices."""

    id: str
    notices: tuple[Notice, ...]

    def to_json(self) -> dict[str, object]:
        """The message as it is written down before it is sent."""
        return {"id": self.id, "notices": [asdict(notice) for notice in self.notices]}

    @classmethod
    def from_json(cls, held: Mapping[str, object]) -> Message:
        """The message that `to_json` gave."""
        notices = held["notices"]
        assert isinstance(notices, list)
        return cls(str(held["id"]), tuple(Notice(**notice) for notice in notices))


class Sender(ABC):
    """A connection of a channel; it is used by one thread, except for `close`."""

    @abstractmethod
    def send(self, message: Message) -> None:
        """Returns when the other side has taken the message. With an id that was sent before, it is the same message.

        Raises `TargetFailed`, and is called again after a pause; or `MessageRefused` if this message will never be
        taken, but others may be.
        """

    @abstractmethod
    def close(self) -> None:
        """Breaks off what is under way, and sends nothing more. Called from any thread, more than once."""


class Channel(ABC):
    """How people or a program are reached. It is only a description: several sinks and alerts may share it.

    Its `repr` shows no secret.
    """

    kind: ClassVar[str]
    """What sinks with this channel are called in status, flow and metrics."""
    takes_several: ClassVar[bool] = False
    """Whether a message may have several notices; otherwise it has exactly one."""
    needs_key: ClassVar[bool] = False
    """Whether notices need the key of their row."""
    events: frozenset[Event]
    """The events of a view's rows that are sent; of an alert, all are."""
    digest: timedelta | None = None
    """For how long notices are gathered into one message, from the first of them on."""

    @property
    @abstractmethod
    def address(self) -> str:
        """Where messages go, without any secret. Asked by any process; must not look outside."""

    @abstractmethod
    def open(self) -> Sender:
        """What sends. Raises `UsageError` if the settings, or a secret that they name, are wrong."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.address!r})"


def dumps(value: object) -> str:
    """JSON without spaces, with text as it is."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)

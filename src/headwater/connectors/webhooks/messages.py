"""Changes of a view as messages: a few of one or more positions in each, in order, and none of them too large."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Literal

from headwater.engine.sinks.port import CannotContinue, Mark
from headwater.engine.sinks.progress import mark_json, mark_of
from headwater.engine.subscription import Changes
from headwater.model.encoding import format_instant, json_rows

MESSAGE_CHANGES_MAX = 1000
MESSAGE_BYTES_MAX = 256 << 10
"""Of the changes in one message. A row that is larger goes alone."""
_SLICE = 100
"""Rows that are encoded at once: of a whole view only a few are ever held as text."""

Kind = Literal["changes", "snapshot", "gap"]


@dataclass(frozen=True, slots=True)
class Message:
    """What is posted. The same id always comes with the same body.

    `mark` is what is reached when it has arrived: None within the content of a view, which begins again if it is
    interrupted.
    """

    id: str
    body: str
    mark: Mark | None

    def to_text(self) -> str:
        """The message as it is written down before it is sent."""
        return json.dumps({"id": self.id, "body": self.body, "mark": mark_json(self.mark)})

    @classmethod
    def parse(cls, text: str) -> Message:
        """The message that `to_text` gave."""
        held = json.loads(text)
        return cls(held["id"], held["body"], mark_of(held["mark"]))


@dataclass(slots=True)
class Packer:
    """Numbers the messages of a webhook and puts changes into them."""

    name: str
    view: str
    sequence: int
    mark: Mark | None
    _kind: Kind = "changes"
    _squashed: bool = False
    _part: int = 0
    _position: str = ""
    _changes: list[str] = field(default_factory=list)
    _bytes: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether every change that it was given is in a message."""
        return not self._changes

    def pack(self, changes: Changes, *, more: bool) -> Iterator[Message]:
        """The messages that are full; and with what is left, unless there is more to come. Raises `CannotContinue`.

        Squashed changes share no message with others.
        """
        if self._changes and (changes.snapshot or changes.squashed):
            yield self._message(complete=True)
        self._squashed = changes.squashed
        if changes.snapshot:
            self._kind, self._part, self.mark = "snapshot", 1, None
            self._position = str(changes.position)
        yield from self._take(changes)
        self.mark = Mark(changes.position, changes.generation)
        if changes.snapshot:
            yield self._message(complete=True)
            self._kind = "changes"
        elif self._changes and (changes.squashed or not more):
            yield self._message(complete=True)
        self._squashed = False

    def gap(self, mark: Mark, reason: str) -> Message:
        """A message that says that changes up to a mark are not known any more."""
        self._kind, self._position, self.mark = "gap", str(mark.position), mark
        made = self._message(complete=True, reason=reason)
        self._kind = "changes"
        return made

    def _take(self, step: Changes) -> Iterator[Message]:
        """Adds the changes of a step; the messages that are full, all but the last."""
        position, before = step.position, self.mark
        done = 0 if before is None else before.rows
        # A difference between two generations is never made the same way twice.
        if before is not None and done and (before.next, before.generation) != (position, step.generation):
            raise CannotContinue
        for row, text in enumerate(_encoded(step, done), start=done):
            size = len(text.encode())
            full = len(self._changes) >= MESSAGE_CHANGES_MAX or self._bytes + size > MESSAGE_BYTES_MAX
            if self._changes and full:
                if before is not None:
                    self.mark = replace(before, next=position, rows=row) if row else before
                yield self._message(complete=row == 0)
            self._changes.append(text)
            self._bytes += size
            self._position = str(position)

    def _message(self, *, complete: bool, **more: object) -> Message:
        self.sequence += 1
        about: dict[str, object] = {
            "type": f"view.{self._kind}",
            "timestamp": format_instant(datetime.now(UTC)),
            "webhook": self.name,
            "view": self.view,
            "sequence": self.sequence,
            "position": self._position,
            "complete": complete,
            **({"part": self._part} if self._kind == "snapshot" else {}),
            **({"squashed": True} if self._squashed else {}),
            **more,
        }
        head = json.dumps(about, ensure_ascii=False, separators=(",", ":"))
        body = f'{head[:-1]},"changes":[{",".join(self._changes)}]}}'
        # Full stops part the id from what is signed with it.
        identity = f"{self.name}_{self.sequence}_{self._position}".replace(".", "~")
        self._changes, self._bytes, self._part = [], 0, self._part + 1
        return Message(identity, body, self.mark)


def _encoded(step: Changes, start: int) -> Iterator[str]:
    """The changes of a step from one row on, as JSON."""
    position = str(step.position)
    for first in range(start, step.rows.num_rows, _SLICE):
        table = step.rows.slice(first, _SLICE)
        weights = step.weights.slice(first, _SLICE).to_pylist()
        rows = json_rows(table) if table.num_columns else ({} for _ in weights)
        for weight, row in zip(weights, rows, strict=True):
            change = {"position": position, "weight": weight, "row": row}
            yield json.dumps(change, ensure_ascii=False, separators=(",", ":"), default=str)

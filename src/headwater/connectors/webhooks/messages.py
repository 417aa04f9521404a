"""Changes of a view as messages: a few of one or more positions in each, in order, and none of them too large."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Literal

from headwater.engine.subscription import Changes
from headwater.model.encoding import format_instant, json_rows

MESSAGE_CHANGES_MAX = 1000
MESSAGE_BYTES_MAX = 256 << 10
"""Of the changes in one message. A row that is larger goes alone."""
_SLICE = 100
"""Rows that are encoded at once: of a whole view only a few are ever held as text."""

Kind = Literal["changes", "snapshot", "gap"]


@dataclass(frozen=True, slots=True)
class Place:
    """How far a view was sent: up to a position, as a generation has it, and `rows` of what comes at `next`."""

    position: str
    generation: int
    next: str = ""
    rows: int = 0


@dataclass(frozen=True, slots=True)
class Message:
    """What is posted. The same id always comes with the same body.

    `place` is what is reached when it has arrived: None within the content of a view, which is not gone on with.
    """

    id: str
    body: str
    place: Place | None


class BrokenOff(Exception):
    """A step of which a part has arrived cannot be gone on with: what is at its place now is something else."""


@dataclass(slots=True)
class Packer:
    """Numbers the messages of a webhook and puts changes into them."""

    name: str
    view: str
    sequence: int
    place: Place | None
    _kind: Kind = "changes"
    _part: int = 0
    _position: str = ""
    _changes: list[str] = field(default_factory=list)
    _bytes: int = 0

    def pack(self, steps: Iterable[Changes | None]) -> Iterator[Message | None]:
        """Messages from steps as they come, None where there is no step now: what is there then waits no longer.

        Raises `BrokenOff`.
        """
        for step in steps:
            if step is None:
                yield self._message(complete=True) if self._changes else None
                continue
            if step.snapshot:
                if self._changes:
                    yield self._message(complete=True)
                self._kind, self._part, self.place = "snapshot", 1, None
                self._position = str(step.position)
            yield from self._take(step)
            self.place = Place(str(step.position), step.generation)
            if step.snapshot:
                yield self._message(complete=True)
                self._kind = "changes"

    def gap(self, place: Place, reason: str) -> Message:
        """A message that says that changes up to a place are not known any more."""
        self._kind, self._position, self.place = "gap", place.position, place
        made = self._message(complete=True, reason=reason)
        self._kind = "changes"
        return made

    def _take(self, step: Changes) -> Iterator[Message]:
        """Adds the changes of a step; the messages that are full, all but the last."""
        position, before = str(step.position), self.place
        done = 0 if before is None else before.rows
        # A difference between two generations is never made the same way twice.
        if before is not None and done and (before.next, before.generation) != (position, step.generation):
            raise BrokenOff
        for row, text in enumerate(_encoded(step, done), start=done):
            size = len(text.encode())
            full = len(self._changes) >= MESSAGE_CHANGES_MAX or self._bytes + size > MESSAGE_BYTES_MAX
            if self._changes and full:
                if before is not None:
                    self.place = replace(before, next=position, rows=row) if row else before
                yield self._message(complete=row == 0)
            self._changes.append(text)
            self._bytes += size
            self._position = position

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
            **more,
        }
        head = json.dumps(about, ensure_ascii=False, separators=(",", ":"))
        body = f'{head[:-1]},"changes":[{",".join(self._changes)}]}}'
        # Full stops part the id from what is signed with it.
        identity = f"{self.name}_{self.sequence}_{self._position}".replace(".", "~")
        self._changes, self._bytes, self._part = [], 0, self._part + 1
        return Message(identity, body, self.place)


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

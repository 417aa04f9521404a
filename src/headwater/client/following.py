"""A subscription without I/O: lines of server-sent events in, changes out, and from where to resume."""

from __future__ import annotations

import json
from typing import Any, Literal

from headwater.client.answers import Change, Row
from headwater.model.position import Position


class Following:
    """The state of a subscription over any number of connections.

    A large change comes in several events, the last of which has the id. A connection may end between them, so a
    change is returned once it is complete. `after` is the id to resume with.
    """

    def __init__(self, after: str | None = None) -> None:
        self.after = after
        self._rows: list[tuple[Row, int]] = []
        self._kind: Literal["snapshot", "change"] = "change"
        self._name, self._id, self._data = "", "", ""

    def connected(self) -> None:
        """A connection begins: what was incomplete at the end of the last one will be sent again."""
        self._rows, self._name, self._id, self._data = [], "", "", ""

    def line(self, line: str) -> Change | None:
        """Takes one line; the change that it completes, if it does."""
        if line:
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if name == "event":
                self._name = value
            elif name == "id":
                self._id = value
            elif name == "data":
                self._data += value
            return None
        event, mark, data = self._name, self._id, self._data
        self._name, self._id, self._data = "", "", ""
        return self._event(event, mark, json.loads(data)) if data else None

    def _event(self, name: str, mark: str, data: Any) -> Change | None:
        if name == "reset":
            self.after, self._rows = None, []
        if name not in ("snapshot", "change"):
            return None
        self._kind = "snapshot" if name == "snapshot" else "change"
        self._rows += [(change["row"], change["weight"]) for change in data["changes"]]
        if not mark:
            return None
        self.after, rows, self._rows = mark, self._rows, []
        return Change(self._kind, mark, Position.parse(data["position"]), rows)

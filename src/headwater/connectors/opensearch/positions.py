"""Where the sinks of a cluster are: one document for each, which no process changes after another took it over."""

from __future__ import annotations

import time
import uuid
from dataclasses import asdict, dataclass, replace
from typing import Any
from urllib.parse import quote

from headwater.connectors.opensearch.requests import Answer, Requests
from headwater.errors import TargetFailed

SECOND = 1 << 31
"""Versions begin with the time, so that they rise even if the position was lost; each second has this many."""
_SETTINGS = {
    "settings": {"number_of_shards": 1, "auto_expand_replicas": "0-1"},
    "mappings": {"dynamic": False, "properties": {}},
}


@dataclass(frozen=True, slots=True)
class Position:
    """How far a sink is: the `stamp` of what the index has completely, and of what is `under_way`, if anything is.

    It holds for the index with this `uuid`; one that has been made since has another. `version` is the last one that
    documents were written with.
    """

    index: str
    uuid: str
    version: int
    stamp: str | None = None
    under_way: str | None = None
    holder: str = ""
    """Which process wrote it."""


class Positions:
    """The position of one sink. Of several processes that write it, only the one that took it over last can."""

    def __init__(self, requests: Requests, index: str, owner: str) -> None:
        self._requests, self._index = requests, index
        self._path = f"/{quote(index, safe='')}/_doc/{quote(owner, safe='')}"
        self._read: dict[str, Any] = {}
        self._holder = uuid.uuid4().hex

    def take_over(self, index: str, identity: str) -> Position:
        """The position in an index, which from now on only this one can move. Raises `TargetFailed`."""
        found = Position(index, identity, int(time.time()) * SECOND)
        held = self._look()
        if held is None:
            self._requests.ask("PUT", f"/{quote(self._index, safe='')}", _SETTINGS, expected=(400,))
        else:
            same = (held.index, held.uuid) == (index, identity)
            found = replace(held if same else found, version=max(held.version, found.version))
        self.save(found)
        return found

    def save(self, position: Position) -> None:
        """Returns when the cluster has it. Raises `TargetFailed`, also if another process has taken over."""
        body = asdict(replace(position, holder=self._holder))
        answer = self._requests.ask("PUT", self._path, body, expected=(409,), **self._read)
        if answer.status == 409:
            # It may have been this process, whose request arrived while its answer did not.
            held = self._look()
            if held is None or held.holder != self._holder:
                raise TargetFailed("Another process is writing to this index", "refused")
            answer = self._requests.ask("PUT", self._path, body, **self._read)
        self._note(answer)

    def _look(self) -> Position | None:
        answer = self._requests.ask("GET", self._path, expected=(404,))
        if answer.status == 404:
            self._read = {"op_type": "create"}
            return None
        self._note(answer)
        return Position(**answer.said["_source"])

    def _note(self, answer: Answer) -> None:
        self._read = {"if_seq_no": answer.said["_seq_no"], "if_primary_term": answer.said["_primary_term"]}

    def forget(self) -> None:
        """Removes it."""
        self._requests.ask("DELETE", self._path, expected=(404,))

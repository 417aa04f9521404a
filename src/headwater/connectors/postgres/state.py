"""The state of a source's snapshots: a bookmark that any process may change, none behind another's back.

creating    the slot is being made; if it is there, it is ours
first       the slot is there; the first snapshot is being read, and nothing of it is in the log
streaming   the first snapshot is in the log; `jobs` are incremental snapshots that are still to be taken
dropped     slot and publications were removed; a capture begins anew
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Callable
from typing import Any

from headwater.connectors.postgres.options import CaptureOptions
from headwater.log.port import Log

CREATING, FIRST, STREAMING, DROPPED = "creating", "first", "streaming", "dropped"

# What is longer is kept compressed: a bookmark has an end, and thousands of tables have many columns.
PLAIN_BYTES_MAX = 64 << 10
_PACKED = "packed"

State = dict[str, Any]


def packed(value: object) -> object:
    """A value as a bookmark keeps it, however large it is."""
    text = json.dumps(value, sort_keys=True)
    if len(text) <= PLAIN_BYTES_MAX:
        return value
    return {_PACKED: base64.b85encode(zlib.compress(text.encode())).decode()}


def unpacked(value: object) -> object:
    """The value that a bookmark keeps."""
    if isinstance(value, dict) and _PACKED in value:
        return json.loads(zlib.decompress(base64.b85decode(value[_PACKED])))
    return value


def read_state(log: Log, options: CaptureOptions) -> State:
    """The state as it is; empty before the beginning."""
    state: Any = log.bookmark(options.names.snapshot)
    return state or {}


def is_paused(log: Log, options: CaptureOptions) -> bool:
    """Whether somebody wants capture to rest; the database keeps its changes meanwhile."""
    return log.bookmark(options.names.paused) is True


def set_paused(log: Log, options: CaptureOptions, *, paused: bool) -> None:
    """Lets capture rest, or go on, in whichever process it runs."""
    with log.commit() as commit:
        commit.bookmark(options.names.paused, paused)


def change_state(log: Log, options: CaptureOptions, change: Callable[[State], State]) -> None:
    """Changes the state, however often others do so meanwhile."""
    name = options.names.snapshot
    while True:
        state: Any = log.bookmark(name)
        with log.commit(on_conflict="return") as commit:
            commit.bookmark(name, change(state or {}), expect=state)
        if commit.conflict is None:
            return

"""What the server answers, as values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from headwater.model.position import Position

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Appended:
    """Records that are durable at a position. `duplicate`: they were there, from an earlier append with the same key.

    `dead_letters` counts those that did not fit and went to the topic's dead-letter topic.
    """

    position: Position
    records: int
    dead_letters: int
    duplicate: bool


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows as of a position. `complete` is False if there are more than the server or the caller's `limit` allows."""

    position: Position
    rows: Sequence[Row]
    complete: bool


@dataclass(frozen=True, slots=True)
class Change:
    """What has changed in a view: rows with weights, +1 for one that appeared and -1 for one that was retracted.

    A `snapshot` has the content, which replaces everything known before. `id` resumes a subscription after this change.
    """

    kind: Literal["snapshot", "change"]
    id: str
    position: Position
    rows: Sequence[tuple[Row, int]]

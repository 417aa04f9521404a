"""A record: one immutable entry of a topic, as a reader sees it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from headwater.model.position import Position
from headwater.model.types import Offset

SYSTEM_COLUMNS = ("_partition", "_offset", "_commit", "_received_at", "_deleted", "_headers")
"""What a reader gets with every record, and what no topic may call a column of its own."""

SQL_COLUMNS = ("_received_at", "_commit", "_partition", "_offset", "_headers")
"""Those that SQL sees by their names, though `*` does not have them. Whether a record is a tombstone, SQL sees by what
is there: a table has no row then."""

AMENDED = "headwater.amended"
"""The header of a record that was put back by `log.amend`: it is never judged late."""


@dataclass(frozen=True, slots=True)
class Record:
    """`value` is None for a tombstone: the key's row is deleted. `at` is when the log received the record."""

    topic: str
    partition: int
    offset: Offset
    position: Position
    at: datetime
    key: object
    value: Mapping[str, object] | None
    headers: Mapping[str, str] = field(default_factory=dict)

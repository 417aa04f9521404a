"""Names: what topics, slots, publications and bookmarks of a source are called, and identifiers in SQL."""

from __future__ import annotations

import re
from dataclasses import dataclass

from headwater.cdc.postgres.identity import quote_identifier
from headwater.system.names import check_name

_NOT_IN_TOPICS = re.compile(r"[^A-Za-z0-9_-]")
_NOT_IN_SLOTS = re.compile(r"[^a-z0-9_]")
_SLOT_LENGTH_MAX = 63
DEFAULT_SCHEMA = "public"


@dataclass(frozen=True, slots=True)
class Names:
    """What belongs to a source, by its name."""

    source: str

    def __post_init__(self) -> None:
        check_name("source", self.source)

    @property
    def slot(self) -> str:
        cleaned = _NOT_IN_SLOTS.sub("_", self.source.lower())
        return f"headwater_{cleaned}"[:_SLOT_LENGTH_MAX]

    @property
    def publication(self) -> str:
        return self.slot

    @property
    def append_only(self) -> str:
        """The publication of tables that only ever get rows, because nothing identifies theirs."""
        return f"{self.slot[: _SLOT_LENGTH_MAX - 7]}_append"

    @property
    def watermark(self) -> str:
        """The prefix of messages that headwater writes into the WAL for itself."""
        return f"headwater.{self.source}"

    @property
    def position(self) -> str:
        """The bookmark that says how far the WAL was captured."""
        return f"{self.source}.capture"

    @property
    def tables(self) -> str:
        """The bookmark that says which tables there are, and in what state."""
        return f"{self.source}.tables"

    @property
    def snapshot(self) -> str:
        """The bookmark that says what is still to be read."""
        return f"{self.source}.snapshot"

    @property
    def publications(self) -> str:
        """The bookmark that says which publications the stream relies on."""
        return f"{self.source}.publications"

    @property
    def paused(self) -> str:
        """The bookmark that says whether capture rests."""
        return f"{self.source}.paused"

    @property
    def history(self) -> str:
        """The topic of what happened to tables: found, altered, renamed, stopped."""
        return f"{self.source}._schema"

    def topic(self, schema: str, table: str) -> str:
        """The topic of a table: `shop.orders`, or `shop.billing.orders` outside the default schema."""
        parts = [self.source, *([] if schema == DEFAULT_SCHEMA else [schema]), table]
        return check_name("topic", ".".join([parts[0], *(_NOT_IN_TOPICS.sub("_", part) for part in parts[1:])]))


def quoted(name: str) -> str:
    """An identifier in SQL, whatever characters it has."""
    return quote_identifier(name)


def qualified(schema: str, table: str) -> str:
    """A table in SQL."""
    return f"{quoted(schema)}.{quoted(table)}"


def literal(text: str) -> str:
    """A text in SQL."""
    return "'" + text.replace("'", "''") + "'" if "\\" not in text else " E'" + _doubled(text) + "'"


def _doubled(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "''")

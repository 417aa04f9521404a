"""The tables of a source as they are captured: each with its topic, its columns so far, and whether it continues.

What the stream says about a table is compared with what was known. A column more, or a wider type, is applied to the
topic; a column less stays in the topic, and is null from there on; a renamed table keeps its topic. What the log's
rules do not allow stops the capture of that table, with the reason; the others continue.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headwater.cdc.headers import HEADERS, SPECIAL
from headwater.cdc.postgres.lsn import ZERO, Lsn
from headwater.cdc.postgres.relations import WHOLE_ROW, Column, Relation
from headwater.connectors.postgres.inventory import SourceTable, is_chosen
from headwater.connectors.postgres.occurrences import ROW
from headwater.connectors.postgres.options import CaptureOptions
from headwater.errors import InvalidRecords, SchemaError, TopicExists, UnknownTopic
from headwater.log.commit import Commit
from headwater.log.port import Log
from headwater.log.topic import Topic
from headwater.model.evolution import is_wider

# What is longer is kept compressed: a bookmark has an end, and thousands of tables have many columns.
PLAIN_BYTES_MAX = 64 << 10
_PACKED = "packed"
HISTORY_SCHEMA = "lsn string, relation string, topic string, event string, detail string"
DROPPED = "The table was dropped."
REMOVED = "The source does not name it any more."
NOTHING_TO_DO = {DROPPED: "dropped", REMOVED: "removed"}
"""Why a table is stopped about which nobody needs to do anything, and how `status` calls that. Its topic is free."""


@dataclass(frozen=True)
class Table:
    """A captured table. `stopped` is why it is not captured any more; None while it is.

    Transactions that end at `since` or before are in the rows that were read of it, and not taken from the stream. The
    rows of a `counted` one, which has no key, are identified by all their values and counted; see `occurrences`. Of a
    partitioned one, `parts` are the partitions and `files` theirs. It was found under the name `found_as`.
    """

    relation: Relation
    topic: str
    key: tuple[str, ...]
    stopped: str | None = None
    since: Lsn = ZERO
    counted: bool = False
    parts: tuple[int, ...] = ()
    files: tuple[int | None, ...] = ()
    found_as: tuple[str, str] = ("", "")

    @property
    def name(self) -> str:
        return self.relation.name

    @property
    def append_only(self) -> bool:
        """Whether nothing identifies its rows, so that they can only become more."""
        return not self.key and not self.counted

    @property
    def topic_key(self) -> tuple[str, ...]:
        return (ROW.name,) if self.counted else self.key

    @property
    def topic_schema(self) -> pa.Schema:
        return self.relation.arrow.append(ROW) if self.counted else self.relation.arrow

    def to_json(self) -> dict[str, object]:
        relation = self.relation
        return {
            "oid": relation.oid,
            "schema": relation.schema,
            "table": relation.table,
            "identity": relation.identity,
            "columns": [[column.name, column.type, column.modifier] for column in relation.columns],
            "topic": self.topic,
            "key": list(self.key),
            "stopped": self.stopped,
            "since": str(self.since),
            "counted": self.counted,
            "parts": list(self.parts),
            "files": list(self.files),
            "found_as": list(self.found_as),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Table:
        columns = tuple(Column(*column) for column in value["columns"])
        relation = Relation(value["oid"], value["schema"], value["table"], value["identity"], columns)
        since = Lsn.parse(value["since"])
        return cls(relation, value["topic"], tuple(value["key"]), value["stopped"], since, value["counted"],
                   tuple(value["parts"]), tuple(value["files"]), tuple(value["found_as"]))  # fmt: skip


@dataclass(slots=True)
class Event:
    """Something that happened to a table, for the topic of the source's history."""

    lsn: str
    relation: str
    topic: str
    event: str
    detail: str


class TablesMoved(Exception):
    """Another process has changed what is known of the tables: the one that works with them starts over."""


@dataclass(slots=True)
class Tables:
    """All tables of a source, by their number. `changed` and `events` wait for the next commit."""

    log: Log
    options: CaptureOptions
    by_oid: dict[int, Table] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    changed: bool = False
    incomplete: dict[int, bool] = field(default_factory=dict)
    """Tables whose rows in the log may differ from those in the database without a change in the stream; and whether
    the log may also have rows that the database does not have."""
    stored: Any = None
    """What the log has of them."""
    _moving: Any = None

    def load(self) -> None:
        """Brings the tables to what the log knows of them."""
        self.stored = self.log.bookmark(self.options.names.tables)
        known: Any = unpacked(self.stored) or {}
        self.by_oid = {int(oid): Table.from_json(value) for oid, value in known.items()}
        self.events, self.changed, self.incomplete = [], False, {}

    def to_json(self) -> object:
        """All tables, as a bookmark holds them."""
        return packed({str(oid): table.to_json() for oid, table in self.by_oid.items()})

    def moves(self, commit: Commit) -> None:
        """Adds what has changed to a commit, which conflicts if another process has changed them."""
        self._moving = self.to_json() if self.changed else self.stored
        if self.changed:
            commit.bookmark(self.options.names.tables, self._moving, expect=self.stored)
        if self.events:
            commit.append(self.options.names.history, [asdict(event) for event in self.events])

    def committed(self) -> None:
        """What was added to a commit is in the log."""
        self.stored, self.changed, self.events = self._moving, False, []

    def conflicted(self, bookmark: str) -> None:
        """Another process moved a bookmark. Raises `TablesMoved` if it is that of the tables."""
        if bookmark == self.options.names.tables:
            raise TablesMoved

    def reject(self, error: InvalidRecords | SchemaError, lsn: Lsn) -> None:
        """Stops the table whose rows do not fit its topic. Raises the error if it is about none."""
        topic = error.topic if isinstance(error, InvalidRecords) else None
        table = next((each for each in self.active() if each.topic == topic), None)
        if table is None:
            raise error
        self.stop(table, error.message, lsn)

    def read_again(self, oid: int, *, purge: bool = False) -> None:
        """A table has to be read; with `purge`, rows that only the log has are to go."""
        self.incomplete[oid] = self.incomplete.get(oid, False) or purge

    def set_parts(self, table: Table, parts: tuple[int, ...], files: tuple[int | None, ...]) -> None:
        """Takes notice of partitions that came, went, or were rewritten."""
        self._set(replace(table, parts=parts, files=files), ZERO)

    def recognise(self, there: Mapping[int, SourceTable]) -> None:
        """Forgets tables whose numbers are those of others: a database that was restored renumbers its tables.

        What has the name of one that is forgotten is found again, and takes over its topic.
        """
        names = {each.name for each in there.values()}
        for oid, table in list(self.by_oid.items()):
            found = there.get(oid)
            renamed = table.name not in names and found is not None and found.relation.columns == table.relation.columns
            if found is not None and found.name != table.name and not renamed:
                self.note(table, ZERO, "forgotten", f"its number is that of {found.name} now")
                del self.by_oid[oid]
                self.changed = True

    def is_wanted(self, table: Table) -> bool:
        """Whether the source names a table, under its name or, if it was renamed, under the one that it had."""
        names = ((table.relation.schema, table.relation.table), table.found_as)
        return any(is_chosen(*name, self.options.patterns, self.options.schemas) for name in names)

    def active(self) -> Iterable[Table]:
        return [table for table in self.by_oid.values() if table.stopped is None]

    def named(self, name: str) -> Table | None:
        """The table of this name, with its schema or, in the default one, without; or with this topic."""
        # The newest first: one of the same name may have been dropped.
        for table in reversed(self.by_oid.values()):
            if name in (table.name, table.topic) or f"public.{name}" == table.name:
                return table
        return None

    def add(
        self,
        relation: Relation,
        key: tuple[str, ...],
        lsn: Lsn = ZERO,
        *,
        parts: tuple[int, ...] = (),
        files: tuple[int | None, ...] = (),
    ) -> Table:
        """A table that was not captured so far; its topic is made unless it is there. It has still to be read."""
        topic = self.options.names.topic(relation.schema, relation.table)
        counted = not key and relation.identity == WHOLE_ROW and not self.options.is_outbox(relation.name)
        found_as = (relation.schema, relation.table)
        table = Table(relation, topic, key, counted=counted, parts=parts, files=files, found_as=found_as)
        reason = self._make_topic(table)
        without = "none: rows are counted" if counted else "none: rows are only appended"
        self.note(table, lsn, "found", f"key {', '.join(key) or without}")
        self._set(replace(table, stopped=reason), lsn)
        if reason is None:
            # The topic may have rows of a table of the same name that was dropped.
            self.read_again(relation.oid, purge=any(end for _, end in self.log.offsets(topic).values()))
        return self.by_oid[relation.oid]

    def describe(self, relation: Relation, lsn: Lsn, find_key: Callable[[Relation], tuple[str, ...] | None]) -> None:
        """Takes notice of what the stream says about a table. `find_key` knows a new one's key; None: not ours."""
        table = self.by_oid.get(relation.oid)
        if table is None:
            key = find_key(relation)
            if key is not None:
                self.add(relation, key, lsn)
            return
        before = table.relation
        if before.name != relation.name:
            self.note(table, lsn, "renamed", f"{before.name} is {relation.name} now")
        if before.columns == relation.columns and before.identity == relation.identity:
            if before.name != relation.name:
                self._set(replace(table, relation=relation), lsn)
            return
        if table.stopped is not None:
            return
        self._alter(table, relation, lsn)

    def stop(self, table: Table, reason: str, lsn: Lsn) -> None:
        """Ends the capture of a table."""
        self._set(replace(table, stopped=reason), lsn)

    def read_at(self, table: Table, lsn: Lsn) -> None:
        """All rows of a table were read as they were at this place; the stream counts from there."""
        self._set(replace(table, since=lsn), lsn)

    def truncated(self, table: Table, lsn: Lsn) -> None:
        """Notes that a table was emptied; of one without a key, the rows that are in the log stay there."""
        kept = "the topic has no key, and keeps its records" if table.append_only else ""
        self.note(table, lsn, "truncated", kept)

    def recreate_topic(self, table: Table) -> None:
        """Somebody has dropped the topic of a table: it gets a new one, and has still to be read."""
        self.note(table, ZERO, "topic recreated", "it was dropped")
        self._set(replace(table, stopped=self._make_topic(table)), ZERO)

    def resume(self, table: Table, found: SourceTable) -> Table:
        """Captures a stopped table again, as it is in the database now; it has still to be read."""
        counted = found.counted and not self.options.is_outbox(found.name)
        resumed = replace(
            table, relation=found.relation, key=found.key, counted=counted, parts=found.parts, files=found.files,
            stopped=None,
        )  # fmt: skip
        reason = self._make_topic(resumed)
        if reason is None:
            self.note(resumed, ZERO, "resumed", "")
        self._set(replace(resumed, stopped=reason), ZERO)
        return self.by_oid[table.relation.oid]

    def _alter(self, table: Table, relation: Relation, lsn: Lsn) -> None:
        reason = _key_lost(table, relation)
        detail = _difference(table.relation, relation)
        if reason is None:
            reason = self._evolve(table, relation)
        self.note(table, lsn, "altered", detail)
        self._set(replace(table, relation=relation, stopped=reason), lsn)
        known = {column.name: column for column in table.relation.columns}
        # Rows that are there may have got values in these columns without a change of their own in the stream.
        if any(known.get(column.name) != column for column in relation.columns):
            self.read_again(relation.oid)

    def _make_topic(self, table: Table) -> str | None:
        """Makes the topic, or evolves the one that is there; why that is not possible."""
        others = [each for each in self.by_oid.values() if each.topic == table.topic]
        for other in others:
            if other.relation.oid != table.relation.oid and other.stopped not in NOTHING_TO_DO:
                return f"Its topic would be {table.topic!r}, and that is the topic of {other.name}."
        try:
            self.log.topic(table.topic)
        except UnknownTopic:
            try:
                self.log.create(
                    table.topic, table.topic_schema, key=table.topic_key, partitions=self.options.partitions,
                    cleanup="compact" if table.topic_key and self.options.history == "current" else "none",
                )  # fmt: skip
            except (SchemaError, TopicExists) as error:
                return error.message
            return None
        topic = self.log.topic(table.topic)
        if table.append_only and any(end for _, end in self.log.offsets(table.topic).values()):
            return f"Topic {table.topic!r} already has records, which cannot be matched without a key: drop the topic."
        if topic.key != table.topic_key:
            return f"Topic {table.topic!r} has the key {_listed(topic.key)}, and the table {_listed(table.topic_key)}."
        return self._evolve(table, table.relation)

    def _evolve(self, table: Table, relation: Relation) -> str | None:
        topic = self.log.topic(table.topic)
        try:
            schema = evolved(topic, relation)
            if not schema.equals(topic.schema):
                self.log.alter(table.topic, schema=schema)
        except SchemaError as error:
            return error.message
        return None

    def _set(self, table: Table, lsn: Lsn) -> None:
        before = self.by_oid.get(table.relation.oid)
        if table.stopped is not None and (before is None or before.stopped is None):
            self.note(table, lsn, "stopped", table.stopped)
        self.by_oid[table.relation.oid] = table
        self.changed = True

    def note(self, table: Table, lsn: Lsn, event: str, detail: str) -> None:
        """Adds to the history of the source."""
        self.events.append(Event(str(lsn), table.name, table.topic, event, detail))


def evolved(topic: Topic, relation: Relation) -> pa.Schema:
    """The topic's schema with room for the relation's rows. Raises `SchemaError` where a type changed otherwise."""
    fields = {each.name: each for each in topic.schema}
    for column in relation.arrow:
        known = fields.get(column.name)
        if known is None or is_wider(known.type, column.type):
            fields[column.name] = column
        elif known.type != column.type and not is_wider(column.type, known.type):
            raise SchemaError(
                f"Column {column.name!r} of {relation.name} has the type {column.type} now, "
                f"and {known.type} in topic {topic.name!r}.",
                column=column.name,
            )
    return pa.schema(list(fields.values()))


def unfit_key(table: Table, rows: pa.Table) -> str | None:
    """Why rows that were read cannot be records: a key that its column cannot hold. None if they can."""
    for name in table.key:
        column = rows[name].combine_chunks()
        if column.null_count:
            [row] = rows.slice(pc.index(column.is_null(), True).as_py(), 1).to_pylist()
            text = json.loads(dict(row[HEADERS.name])[SPECIAL])[name]
            return key_not_held(table, name, text)
    return None


def key_not_held(table: Table, column: str, text: str) -> str:
    """Why a table is stopped whose topic has no place for one of its keys."""
    return f"Key column {column!r} of topic {table.topic!r} cannot hold {text!r}."


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"


def _key_lost(table: Table, relation: Relation) -> str | None:
    if table.counted and relation.identity != WHOLE_ROW:
        return "The old row of a change is not sent any more: its replica identity was FULL, and is not."
    if relation.identity == WHOLE_ROW:
        missing = [name for name in table.key if name not in relation.names]
        return f"Key column {missing[0]!r} was dropped or renamed." if missing else None
    if table.key and set(relation.identified_by) != set(table.key):
        now = ", ".join(relation.identified_by) or "nothing"
        return f"Rows are identified by {now} now, and by {', '.join(table.key)} in topic {table.topic!r}."
    return None


def _difference(before: Relation, after: Relation) -> str:
    """What has changed about the columns, in words."""
    old, new = ({column.name: column for column in each.columns} for each in (before, after))
    words = [f"+ {name} {new[name].type}" for name in new if name not in old]
    words += [f"- {name}" for name in old if name not in new]
    words += [
        f"{name}: {old[name].type} -> {new[name].type}"
        for name in new
        if name in old and (old[name].type, old[name].modifier) != (new[name].type, new[name].modifier)
    ]
    return "; ".join(words) or "replica identity"


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

"""A topic: its name, its schema with its history, and its settings."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from typing import Any, Literal, get_args

import pyarrow as pa

from headwater.errors import SchemaError, UsageError
from headwater.log.arguments import is_whole
from headwater.model.ddl import check_schema, format_ddl, parse_ddl
from headwater.model.durations import duration_of
from headwater.model.record import SYSTEM_COLUMNS
from headwater.system.names import check_name

Cleanup = Literal["delete", "compact", "none"]
Memory = Literal["forget", "keep"]
"""What views over a topic do when retention deletes records: forget them as well, or keep what they made of them."""
History = Literal["all", "newest", "archive", "forget", "keep"]
"""What views see of a topic's past: everything, the newest record per key, everything because old records move to an
archive, or, where retention deletes records, one of `Memory`."""
PARTITIONS_MAX = 4096
# 64 MiB seals in about half a second and is what Parquet readers like; see docs/benchmarks.md.
SEGMENT_BYTES_DEFAULT = 64 << 20
# A cap on bytes is kept with segments of at most this part of it, so that it holds nearly what it may.
RING_SEGMENTS_MIN = 8

DEAD_LETTER_SCHEMA = parse_ddl(
    "topic string NOT NULL, reason string NOT NULL, field string, expected string, got string, original binary NOT NULL"
)


HOLD_AGE_DEFAULT = timedelta(days=7)
HOLD_BYTES_DEFAULT = 16 << 30
"""How much longer than its retention, and how much more, a topic keeps for followers that are behind."""

DURATIONS = ("retention_age", "segment_age_max", "tombstone_grace", "hold_age_max")
"""The settings that are durations."""


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """What may change over a topic's life, besides its schema. Durations are in the microseconds' precision.

    `cleanup` says what happens to old records: `delete` removes whole segments by age and bytes, `compact` keeps the
    newest record per key forever, `none` keeps everything whatever the log's own limit says.

    With an `archive` (a path, or a URL with file: or s3:) sealed segments move there. Nothing is deleted then, and
    retention says what stays on this machine as well.

    Records that retention would delete, and tombstones that compaction would drop, wait for followers that still need
    them: at most `hold_age_max` longer, and at most `hold_bytes_max` of them (None: no limit).

    `views` says what deleting records means for views: they `forget` them, so that a view is its SQL over what the log
    keeps; or they `keep` what they made of them.
    """

    retention_age: timedelta | None = None
    retention_bytes: int | None = None
    cleanup: Cleanup = "delete"
    dead_letter: str | None = None
    segment_bytes_max: int = SEGMENT_BYTES_DEFAULT
    segment_age_max: timedelta = timedelta(days=1)
    tombstone_grace: timedelta = timedelta(days=1)
    archive: str | None = None
    hold_age_max: timedelta | None = HOLD_AGE_DEFAULT
    hold_bytes_max: int | None = HOLD_BYTES_DEFAULT
    views: Memory = "forget"

    def check(self, *, key: tuple[str, ...]) -> TopicSettings:
        """The settings themselves. Raises `UsageError` for a combination that has no meaning."""
        if self.cleanup not in get_args(Cleanup):
            raise UsageError(f"{self.cleanup!r} is not a way to clean up.", hint="Use 'delete', 'compact' or 'none'.")
        if self.views not in get_args(Memory):
            raise UsageError(f"Invalid views={self.views!r}: expected 'forget' or 'keep'.")
        if self.hold_bytes_max is not None and not is_whole(self.hold_bytes_max, 0):
            raise UsageError(f"hold_bytes_max must be a number of bytes, not {self.hold_bytes_max!r}.")
        if self.cleanup == "compact" and not key:
            raise UsageError("A topic without a key cannot be compacted.", hint="Give it key columns: key='id'.")
        limited = self.retention_age is not None or self.retention_bytes is not None
        if limited and self.cleanup != "delete" and self.archive is None:
            raise UsageError(
                f"Retention has no effect with cleanup={self.cleanup!r}.",
                hint="Use cleanup='delete' for retention, or an archive, of which it limits the local part.",
            )
        for name in ("retention_bytes", "segment_bytes_max"):
            value = getattr(self, name)
            if value is not None and not is_whole(value, 1):
                raise UsageError(f"{name} must be a number of bytes, more than 0, not {value!r}.")
        for name in DURATIONS:
            value = getattr(self, name)
            if value is not None:
                duration_of(name, value)
        return self

    def to_json(self) -> str:
        """One line for the catalog; durations as seconds."""
        values = {k: v.total_seconds() if isinstance(v, timedelta) else v for k, v in asdict(self).items()}
        return json.dumps(values)

    @classmethod
    def from_json(cls, text: str) -> TopicSettings:
        values: dict[str, Any] = json.loads(text)
        for name in DURATIONS:
            if values[name] is not None:
                values[name] = timedelta(seconds=values[name])
        return cls(**values)


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as the catalog has it. `schemas` holds every version, the current one last.

    `partition_by` are the columns by which records are divided among partitions, where these are not the key's.
    """

    id: int
    name: str
    schemas: tuple[pa.Schema, ...]
    key: tuple[str, ...]
    partitions: int
    event_time: str | None
    settings: TopicSettings
    partition_by: tuple[str, ...] = ()

    @property
    def schema(self) -> pa.Schema:
        return self.schemas[-1]

    @property
    def schema_version(self) -> int:
        return len(self.schemas) - 1

    @property
    def division(self) -> tuple[str, ...]:
        """The columns whose values decide on a record's partition; none if records go to one after the other."""
        return self.partition_by or self.key

    @property
    def deletes(self) -> bool:
        """Whether retention, or the cap of the log, may delete its records."""
        return self.settings.cleanup == "delete" and self.settings.archive is None

    @property
    def keeps_in_views(self) -> bool:
        """Whether views remember what they made of records that are deleted."""
        return self.deletes and self.settings.views == "keep"

    @property
    def is_capped(self) -> bool:
        """Whether the cap of the log may delete its records.

        A row of a table that has not changed lately is no less true: only a retention of its own deletes it.
        """
        return self.deletes and (not self.key or self._has_retention)

    @property
    def _has_retention(self) -> bool:
        return self.settings.retention_age is not None or self.settings.retention_bytes is not None

    @property
    def history(self) -> History:
        """What views see of its past."""
        if self.settings.archive is not None:
            return "archive"
        if self.settings.cleanup == "compact":
            return "newest"
        return self.settings.views if self.deletes and self._has_retention else "all"

    @property
    def roll_bytes(self) -> int:
        """At how many bytes a new segment begins: retention deletes whole segments, so a small cap needs small ones."""
        if self.settings.retention_bytes is None:
            return self.settings.segment_bytes_max
        share = self.settings.retention_bytes // (RING_SEGMENTS_MIN * self.partitions)
        return max(1, min(self.settings.segment_bytes_max, share))

    def same_as(self, other: Topic) -> bool:
        """Whether both are defined alike, whatever their ids and their history."""
        return replace(self, id=0, schemas=self.schemas[-1:]) == replace(other, id=0, schemas=other.schemas[-1:])

    def describe(self) -> dict[str, object]:
        """For people and for `--json`."""
        settings = json.loads(self.settings.to_json())
        return {
            "topic": self.name,
            "schema": format_ddl(self.schema),
            "schema_version": self.schema_version,
            "key": list(self.key),
            "partitions": self.partitions,
            "partition_by": list(self.partition_by),
            "event_time": self.event_time,
            **settings,
        }


def define_topic(
    name: str,
    schema: str | pa.Schema,
    *,
    key: str | Sequence[str] | None,
    partitions: int,
    event_time: str | None,
    settings: TopicSettings,
    partition_by: str | Sequence[str] | None = None,
) -> Topic:
    """A topic that does not exist yet, checked. Raises `UsageError` with what is wrong."""
    check_name("topic", name)
    if settings.dead_letter is not None:
        check_name("topic", settings.dead_letter)
        if settings.dead_letter == name:
            raise UsageError("A topic cannot be its own dead-letter topic.")
    if not is_whole(partitions, 1) or partitions > PARTITIONS_MAX:
        raise UsageError(f"A topic has 1 to {PARTITIONS_MAX} partitions, not {partitions!r}.")
    columns = parse_schema(schema)
    keys = _plain_columns(columns, key, "key")
    division = _plain_columns(columns, partition_by, "partition")
    if keys and not set(division) <= set(keys):
        column = next(column for column in division if column not in keys)
        raise SchemaError(
            f"Topic {name!r} cannot be partitioned by {column!r}: the records of one key would be in two partitions.",
            column=column,
            hint=f"Use columns of the key ({', '.join(keys)}), or leave the key out: then the topic is a stream.",
        )
    if event_time is not None and not pa.types.is_timestamp(_field(columns, event_time, "event time").type):
        raise SchemaError(f"Event time column {event_time!r} is not a timestamp.", column=event_time)
    # Named like the key, it says what holds anyhow.
    division = () if division == keys else division
    return Topic(0, name, (columns,), keys, partitions, event_time, settings.check(key=keys), division)


def parse_schema(schema: str | pa.Schema) -> pa.Schema:
    """A schema given as DDL or Arrow, in its canonical form. Raises `SchemaError`."""
    if not isinstance(schema, (str, pa.Schema)):
        raise SchemaError(
            f"A schema is Spark DDL or an Arrow schema, not a {type(schema).__name__}.",
            hint="Write it as text: 'id bigint, name string'.",
        )
    columns = parse_ddl(schema) if isinstance(schema, str) else check_schema(schema)
    for name in columns.names:
        if name.lower() in SYSTEM_COLUMNS:
            raise SchemaError(
                f"Column {name!r} has a name that the log uses itself.",
                column=name,
                hint=f"Rename it. The log's own are {', '.join(SYSTEM_COLUMNS)}.",
            )
    return columns


def _plain_columns(columns: pa.Schema, given: str | Sequence[str] | None, role: str) -> tuple[str, ...]:
    """The named columns, each of a plain type. Raises `SchemaError`."""
    names = (given,) if isinstance(given, str) else tuple(given or ())
    for column in names:
        if pa.types.is_nested(_field(columns, column, role).type):
            raise SchemaError(
                f"{role.capitalize()} column {column!r} is nested.", column=column, hint="Use a column of a plain type."
            )
    if len(set(names)) < len(names):
        raise SchemaError(f"A {role} column is named twice.", column=names[0])
    return names


def _field(columns: pa.Schema, name: str, role: str) -> pa.Field:
    if name not in columns.names:
        raise SchemaError(
            f"The {role} column {name!r} is not in the schema.",
            column=name,
            hint=f"The columns are {', '.join(columns.names)}.",
        )
    return columns.field(name)

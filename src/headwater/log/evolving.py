"""A topic as a program defines it: created, or brought to its definition as far as the log allows that."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa

from headwater.errors import SchemaError, TopicDiffers, TopicExists, UnknownTopic
from headwater.log.options import TopicOptions, settings_of
from headwater.log.port import Log
from headwater.log.topic import Topic, TopicSettings, define_topic
from headwater.model.ddl import format_type
from headwater.model.evolution import evolves

TRIES_MAX = 10
"""How often a topic is looked at that other programs create or change at the same time."""


def ensure_topic(
    log: Log,
    name: str,
    schema: str | pa.Schema,
    *,
    key: str | Sequence[str] | None,
    partitions: int | None,
    partition_by: str | Sequence[str] | None,
    event_time: str | None,
    settings: TopicOptions,
) -> Topic:
    """The topic, created if it is missing, altered if it is defined otherwise and the log allows the change.

    Settings and partitions that are not given stay as they are: another program may have chosen them. Columns in
    another order are no difference. Raises `TopicDiffers`, with the differences line by line, and changes nothing then.
    """
    chosen = settings_of(settings)
    wanted = define_topic(
        name, schema, key=key, partitions=1 if partitions is None else partitions, partition_by=partition_by,
        event_time=event_time, settings=TopicSettings(**chosen),
    )  # fmt: skip
    for turn in range(TRIES_MAX):
        try:
            found = log.topic(name)
            differences = tuple(_differences(found, wanted, partitions))
            if differences:
                raise TopicDiffers(name, differences)
            changes = _changes(found, wanted, partitions, chosen)
            return log.alter(name, **changes) if changes else found
        except UnknownTopic:
            try:
                return log.create(
                    name, schema, key=key, partitions=wanted.partitions, partition_by=partition_by,
                    event_time=event_time, **settings,
                )  # fmt: skip
            except TopicExists:
                if turn == TRIES_MAX - 1:
                    raise
        except SchemaError:
            # Another program has changed the columns since they were looked at.
            if turn == TRIES_MAX - 1:
                raise
    raise AssertionError("the last turn returns or raises")


def declare_topic(
    log: Log,
    name: str,
    schema: str | pa.Schema,
    *,
    key: str | Sequence[str] | None,
    partitions: int | None,
    partition_by: str | Sequence[str] | None,
    event_time: str | None,
    settings: TopicOptions,
    missing: list[str] | None,
) -> Topic:
    """As `ensure_topic`, or, given `missing`, as it is or would be: if there is none, its name is added there."""
    if missing is None:
        return ensure_topic(
            log, name, schema, key=key, partitions=partitions, partition_by=partition_by, event_time=event_time,
            settings=settings,
        )  # fmt: skip
    with suppress(UnknownTopic):
        return log.topic(name)
    missing.append(name)
    return define_topic(
        name, schema, key=key, partitions=partitions or 1, partition_by=partition_by, event_time=event_time,
        settings=TopicSettings(**settings_of(settings)),
    )  # fmt: skip


def _changes(found: Topic, wanted: Topic, partitions: int | None, chosen: dict[str, Any]) -> dict[str, Any]:
    """What has to be altered."""
    changes: dict[str, Any] = {
        name: value for name, value in chosen.items() if getattr(found.settings, name) != getattr(wanted.settings, name)
    }
    if _fields(found.schema) != _fields(wanted.schema):
        changes["schema"] = wanted.schema
    if partitions is not None and partitions != found.partitions:
        changes["partitions"] = partitions
    return changes


def _fields(schema: pa.Schema) -> dict[str, tuple[pa.DataType, bool]]:
    return {field.name: (field.type, field.nullable) for field in schema}


def _differences(found: Topic, wanted: Topic, partitions: int | None) -> Iterator[str]:
    """What the log does not allow to be changed, one line for each."""
    for field in found.schema:
        if field.name not in wanted.schema.names:
            yield f"column {field.name}: {_type(field)} in the log, missing in the application"
        elif not evolves(pa.schema([field]), pa.schema([wanted.schema.field(field.name)])):
            defined = _type(wanted.schema.field(field.name))
            yield f"column {field.name}: {_type(field)} in the log, {defined} in the application"
    for field in wanted.schema:
        if field.name not in found.schema.names and not field.nullable:
            yield f"column {field.name}: missing in the log, {_type(field)} in the application"
    for what, there, defined in (
        ("key", _listed(found.key), _listed(wanted.key)),
        ("partition_by", _listed(found.partition_by), _listed(wanted.partition_by)),
        ("event_time", found.event_time or "none", wanted.event_time or "none"),
    ):
        if there != defined:
            yield f"{what}: {there} in the log, {defined} in the application"
    if partitions is not None and (partitions < found.partitions or (found.division and partitions > found.partitions)):
        yield f"partitions: {found.partitions} in the log, {partitions} in the application"


def _type(field: pa.Field) -> str:
    return format_type(field.type) + ("" if field.nullable else " NOT NULL")


def _listed(columns: Sequence[str]) -> str:
    return ", ".join(columns) or "none"

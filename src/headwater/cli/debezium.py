"""Debezium's change events on the command line: lines of a file as records of a topic, and records as lines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headwater.cdc.debezium import from_debezium, to_debezium, truncates
from headwater.cli.inputs import InputBatch
from headwater.errors import UsageError
from headwater.log.port import Log
from headwater.model.record import Record


def as_records(log: Log, topic: str, batch: InputBatch) -> tuple[list[dict[str, Any]], list[int]]:
    """The records of a batch of change events, and the line of each. Raises `UsageError` with the line."""
    found = log.topic(topic)
    records: list[dict[str, Any]] = []
    numbers: list[int] = []
    assert isinstance(batch.rows, bytes)
    for line, number in zip(batch.rows.split(b"\n"), batch.numbers, strict=True):
        try:
            events = list(from_debezium(line, found.schema, found.key))
            if truncates(line):
                events = _tombstones(log, topic, found.key, records)
        except UsageError as error:
            raise UsageError(f"Line {number}: {error.message}", hint=error.hint) from None
        records += events
        numbers += [number] * len(events)
    return records, numbers


def _tombstones(log: Log, topic: str, key: tuple[str, ...], before: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One for every key that the topic has, or gets with the records before."""
    if not key:
        raise UsageError("The table was truncated, but its topic has no key by which to delete its rows.")
    there = log.table(topic).select(list(key)).to_pylist()
    keys = {tuple(row[name] for name in key) for row in [*there, *before]}
    return [{**dict(zip(key, each, strict=True)), "_deleted": True, "_headers": {"op": "t"}} for each in keys]


def event_line(log: Log) -> Callable[[Record], str]:
    """Writes a record as a change event, without the end of the line."""

    def write(record: Record) -> str:
        topic = log.topic(record.topic)
        [event] = to_debezium([record], topic.schema, topic.key, source=record.topic.partition(".")[0])
        return event

    return write

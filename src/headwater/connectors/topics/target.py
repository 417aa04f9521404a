"""A topic as a target: a delivery is one commit, with the position as a bookmark in it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Unpack, get_args

import numpy as np
import pyarrow as pa

from headwater.connectors.topics.records import WRITINGS, Format
from headwater.engine.sinks.keyed import net_of
from headwater.engine.sinks.target import Assignment, Delivery, Target
from headwater.errors import (
    Conflict,
    HeadwaterError,
    InvalidRecords,
    TargetFailed,
    UnknownTopic,
    UsageError,
)
from headwater.log.opening import open_log
from headwater.log.options import TopicOptions
from headwater.log.port import Log
from headwater.log.topic import Topic as LogTopic
from headwater.model.position import Position
from headwater.system.names import check_name
from headwater.views.zset import WEIGHT, consolidate, negate, with_weights

IDLE_STEPS_MAX = 1000
"""How many commits of the log the kept position may be behind while nothing changes: to keep it is a commit itself."""


class Topic(Target):
    """Holds a view in a topic of a log, exactly once: every record comes in one commit with the position.

    `format` says how rows are written. With "rows" the topic has the columns of the view and the key of the sink, and a
    tombstone for each row that is gone; with "json" and "debezium" it has the columns `key` and `value`, both texts. A
    missing topic is created, with `partitions` and `settings`; it is compacted unless they say otherwise. The topic
    belongs to the sink: nothing else should write to it.
    """

    kind: ClassVar[str] = "topic"

    def __init__(
        self,
        name: str,
        *,
        log: Log | str | Path,
        format: Format = "rows",  # noqa: A002 - the word for it
        partitions: int = 1,
        **settings: Unpack[TopicOptions],
    ) -> None:
        if format not in get_args(Format):
            raise UsageError(f"Invalid format={format!r}.", hint="Use 'rows', 'json' or 'debezium'.")
        self.name, self._given, self._format = check_name("topic", name), log, WRITINGS[format]
        self._partitions = partitions
        self._settings: TopicOptions = {"cleanup": "compact", **settings}
        self._log: Log | None = None
        self._thread = 0
        self._assignment: Assignment | None = None
        self._held: dict[str, Any] | None = None
        self._kept: Position | None = None

    def __repr__(self) -> str:
        return f"Topic({self.address!r})"

    @property
    def address(self) -> str:
        return f"{self._given.url if isinstance(self._given, Log) else self._given}#{self.name}"

    def open(self, assignment: Assignment) -> str | None:
        self._assignment, self._kept, self._thread = assignment, None, threading.get_ident()
        with _failing():
            if self._log is None:
                self._log = self._given if isinstance(self._given, Log) else open_log(self._given)
            found: Any = self._log.bookmark(self._bookmark)
            self._held, topic = found, self._topic()
        if self._held is None or topic is None or self._held["topic"] != topic.id:
            return None
        stamp: str = self._held["stamp"]
        return stamp

    def deliver(self, delivery: Delivery) -> None:
        near = self._kept is not None and self._kept.behind(delivery.mark.position) < IDLE_STEPS_MAX
        if delivery.is_move and near:
            # A commit of ours moves the log, and so the view: it must not follow itself forever.
            return
        with _failing():
            self._deliver(delivery)
        self._kept = delivery.mark.position

    def close(self) -> None:
        # There is nothing that waits for long; the thread that opened the log closes it, when it does not use it.
        if threading.get_ident() != self._thread or self._log is None:
            return
        if self._log is not self._given:
            self._log.close()
        self._log = None

    def rows(self, columns: pa.Schema) -> Iterator[pa.Table]:
        assert self._log is not None, "it was opened"
        assert self._assignment is not None, "it was opened"
        with _failing():
            if self._topic() is not None:
                yield self._format.rows(self._log.table(self.name), columns, self._assignment.key)

    def forget(self) -> None:
        assert self._log is not None, "it was opened"
        with _failing():
            self._log.bookmarks.forget([self._bookmark])

    @property
    def _bookmark(self) -> str:
        assert self._assignment is not None, "it was opened"
        return f"sink.{self._assignment.owner}"

    def _deliver(self, delivery: Delivery) -> None:
        assert self._log is not None, "it was opened"
        topic = self._topic() if delivery.is_move else self._prepared(delivery.rows.schema)
        if topic is None:
            raise TargetFailed(f"Topic {self.name!r} is missing", "refused")
        held = {"topic": topic.id, "stamp": delivery.stamp}
        with self._log.commit(on_conflict="return") as commit:
            if not delivery.is_move:
                self._append(commit, delivery)
            commit.bookmark(self._bookmark, held, expect=self._held)
        if isinstance(commit.conflict, Conflict) and commit.conflict.actual != held:
            raise TargetFailed("Another process is writing to this topic", "refused")
        self._held = held

    def _append(self, commit: Any, delivery: Delivery) -> None:
        """Adds the records of a delivery to a commit. Rows that do not fit are refused, and their keys deleted."""
        assert self._assignment is not None, "it was opened"
        if delivery.content:
            delivery = self._difference(delivery)
        key = self._assignment.key
        records, gone = self._format.records(delivery, key)
        try:
            if records.num_rows:
                commit.append(self.name, records)
        except InvalidRecords as error:
            places = np.array([each.index for each in error.rejected])
            refused = delivery.upserts.take(pa.array(places))
            self._assignment.refuse(refused, [each.reason for each in error.rejected])
            fitting = np.delete(np.arange(records.num_rows), places)
            if len(fitting):
                commit.append(self.name, records.take(pa.array(fitting)))
            keys = records.take(pa.array(places)).select(self._format.key(key))
            gone = pa.concat_tables([gone, keys.cast(gone.schema)])
        if gone.num_rows:
            commit.delete(self.name, gone)

    def _difference(self, delivery: Delivery) -> Delivery:
        """What the content changes in the topic: nothing, for rows that it has already."""
        assert self._log is not None, "it was opened"
        assert self._assignment is not None, "it was opened"
        columns, key = delivery.rows.schema, self._assignment.key
        there = self._format.rows(self._log.table(self.name), columns, key)
        if not there.num_rows:
            return delivery
        before = with_weights(there, np.ones(there.num_rows, np.int64))
        after = with_weights(delivery.upserts, np.ones(delivery.upserts.num_rows, np.int64))
        changes = consolidate(pa.concat_tables([negate(before), after]))
        net = net_of(changes, key)
        rows, weights = changes.drop_columns([WEIGHT]), changes[WEIGHT]
        return Delivery(delivery.mark, delivery.stamp, rows, weights, net.upserts, net.deletes, content=False)

    def _topic(self) -> LogTopic | None:
        assert self._log is not None, "it was opened"
        try:
            return self._log.topic(self.name)
        except UnknownTopic:
            return None

    def _prepared(self, columns: pa.Schema) -> LogTopic:
        """The topic, which is created or gets the columns that it lacks."""
        assert self._log is not None, "it was opened"
        assert self._assignment is not None, "it was opened"
        schema, key = self._format.schema(columns), self._format.key(self._assignment.key)
        topic = self._topic()
        if topic is None:
            return self._log.create(self.name, schema, key=key, partitions=self._partitions, **self._settings)
        if topic.key != key:
            raise TargetFailed(f"Topic {self.name!r} has the key {', '.join(topic.key) or 'none'}", "refused")
        missing = [field for field in schema if field.name not in topic.schema.names]
        if missing:
            topic = self._log.alter(self.name, schema=pa.schema([*topic.schema, *missing]))
        return topic


@contextmanager
def _failing() -> Iterator[None]:
    """What a log raises, as a target's failure: a person has to mend what is wrong with a call."""
    try:
        yield
    except TargetFailed:
        raise
    except UsageError as error:
        raise TargetFailed(error.message.rstrip("."), "refused") from error
    except HeadwaterError as error:
        raise TargetFailed(error.message.rstrip(".")) from error

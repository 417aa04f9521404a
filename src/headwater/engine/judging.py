"""Judging the records of a log: what is known of the lateness of a topic, moved on from position to position.

It follows from the log alone, so it can be made again by reading the log from its beginning. A pipeline keeps it with
each batch so that it does not have to be.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pyarrow as pa

from headwater.engine.definition import Definition
from headwater.engine.lateness import COMMIT, HEADERS, RECEIVED_AT, Lateness, LateRecords, LateRule, Moments, judge
from headwater.errors import UnknownTopic, UsageError
from headwater.log.cutting import OffsetRange
from headwater.log.port import Log, Start
from headwater.log.times import CLOCK, records_of, watermark_of
from headwater.model.position import START, Position

ROWS_MAX = 4_000_000
"""More records than this are judged part by part, when what was known is made again."""


@dataclass(frozen=True, slots=True)
class Judged:
    """The lateness of a topic's records up to a position, by a rule."""

    rule: LateRule
    position: Position
    lateness: Lateness

    def to_json(self) -> Mapping[str, Any]:
        return {
            "rule": self.rule.to_json(), "position": str(self.position), "lateness": self.lateness.to_json()
        }  # fmt: skip

    @classmethod
    def from_json(cls, topic: str, value: Mapping[str, Any]) -> Self:
        lateness = Lateness.from_json(value["lateness"])
        return cls(LateRule.from_json(topic, value["rule"]), Position.parse(value["position"]), lateness)


def judging_of(log: Log, definition: Definition, known: Callable[[], Mapping[str, Judged]]) -> Judging:
    """What judges the records of the topics that a definition reads. `known` is asked only if it judges any."""
    topics = definition.topics
    rules = {name: LateRule.from_json(name, topic.late) for name, topic in topics.items() if topic.late}
    return Judging(log, rules, known() if rules else {})


class Judging:
    """Judges the records of a pipeline's topics, batch by batch. `known`: what was kept with its last batch."""

    def __init__(self, log: Log, rules: Mapping[str, LateRule], known: Mapping[str, Judged]) -> None:
        self._log, self._rules, self._known = log, rules, dict(known)

    def judge(
        self, start: Position, end: Position, ranges: Sequence[OffsetRange]
    ) -> tuple[Mapping[str, Judged], Mapping[str, LateRecords]]:
        """What is known at the end of a batch, and which of its records are late, by topic.

        `ranges` is where its records are, which may be fewer than there once were.
        """
        after, late = dict[str, Judged](), dict[str, LateRecords]()
        for topic, rule in self._rules.items():
            before, records = self._at(topic, rule, start), self._records(topic, rule, ranges)
            lateness, late[topic] = _judged(self._log, rule, before, records, start, end)
            after[topic] = Judged(rule, end, lateness)
        return after, late

    def _records(self, topic: str, rule: LateRule, ranges: Sequence[OffsetRange]) -> pa.Table:
        found = [
            batch.records
            for one in ranges
            if one.topic == topic
            for batch in self._log.batches(
                topic, start=one.first, end=one.end, columns=rule.columns, partition=one.partition
            )
        ]
        return _together(self._log, topic, rule.columns, found)

    def keep(self, judged: Mapping[str, Judged]) -> None:
        """Continues from there."""
        self._known = dict(judged)

    def check(self, forgotten: Sequence[OffsetRange]) -> None:
        """Raises `UsageError` if records are to be forgotten by which others were judged."""
        for one in forgotten:
            if one.topic in self._rules:
                raise UsageError(
                    f"Retention deletes records of topic {one.topic!r}, and its late records cannot be told without "
                    "them.",
                    hint="Keep them in an archive (archive=URL) or in the views (views='keep'), and rebuild the views.",
                )

    def _at(self, topic: str, rule: LateRule, position: Position) -> Lateness:
        """What is known of a topic at a position: as it was kept, or made again from the log."""
        known = self._known.get(topic)
        if known is not None and known.rule == rule and known.position == position:
            return known.lateness
        return judged_through(self._log, rule, Lateness(), START, position)


def judged_through(log: Log, rule: LateRule, before: Lateness, start: Position, end: Position) -> Lateness:
    """What is known of a topic at a position, given what is known at an earlier one."""
    topic = rule.watermark.topic
    ends = [sum(last for _, last in log.offsets(topic, at=position).values()) for position in (start, end)]
    middle = log.between(start, end) if ends[1] - ends[0] > ROWS_MAX else None
    if middle is None:
        records = _read(log, topic, rule.columns, start, end)
        return _judged(log, rule, before, records, start, end)[0]
    return judged_through(log, rule, judged_through(log, rule, before, start, middle), middle, end)


def _judged(
    log: Log, rule: LateRule, before: Lateness, records: pa.Table, start: Position, end: Position
) -> tuple[Lateness, LateRecords]:
    """As `judge`, with what time sources say between two positions."""
    ticks = _moments(log, CLOCK, start, end) if rule.watermark.idle is not None else Moments.none()
    return judge(rule, before, records, ticks, _moments(log, watermark_of(rule.watermark.topic), start, end))


def _moments(log: Log, source: str, start: Position, end: Position) -> Moments:
    try:
        found = _read(log, records_of(source), ["at", COMMIT], start, end)
    except UnknownTopic:
        return Moments.none()
    moments = found["at"].cast(pa.timestamp("us", tz="UTC")).cast(pa.int64()).to_numpy()
    return Moments(found[COMMIT].to_numpy().astype(np.int64), moments)


def _read(log: Log, topic: str, columns: Sequence[str], start: Position, end: Position) -> pa.Table:
    # Of the past, what is kept counts.
    first: Start = "earliest" if start == START else start
    found = [one.records for one in log.batches(topic, start=first, end=end, columns=columns)]
    return _together(log, topic, columns, found)


def _together(log: Log, topic: str, columns: Sequence[str], found: Sequence[pa.Table]) -> pa.Table:
    if found:
        return pa.concat_tables(found).select(list(columns))
    at = pa.timestamp("us", tz="UTC")
    system = {COMMIT: pa.int64(), HEADERS: pa.map_(pa.string(), pa.string()), RECEIVED_AT: at}
    schema = log.topic(topic).schema
    return pa.schema([(name, system.get(name) or schema.field(name).type) for name in columns]).empty_table()

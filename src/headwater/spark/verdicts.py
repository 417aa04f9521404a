"""Which records were late, record by record, for verification: the definition read aloud, over plain values.

It is the oracle for `engine/lateness.py`, which computes the same in columns, and shares nothing with it but the rule.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta
from itertools import groupby

import pyarrow as pa

from headwater.engine.lateness import LATE_BY, REASON, WATERMARK, LateRule
from headwater.errors import UnknownTopic
from headwater.log.port import Log
from headwater.log.times import CLOCK, records_of, watermark_of
from headwater.model.position import Position
from headwater.model.record import AMENDED

_MICROSECOND = timedelta(microseconds=1)
_TIME = pa.timestamp("us", tz="UTC")


def with_verdicts(log: Log, records: pa.Table, rule: LateRule, position: Position) -> pa.Table:
    """The records of a topic up to a position, with the columns that tell of those that are dropped; null in others."""
    topic, future = rule.watermark.topic, _future(records, rule)
    events = _events(records, rule, future)
    # What a commit says about time comes before its records.
    said = [(commit, 0, None, moment, None) for commit, moment in _said(log, watermark_of(topic), position)]
    if rule.watermark.idle is not None:
        said += [(commit, 1, None, moment, None) for commit, moment in _said(log, CLOCK, position)]
    producers, late, reached = _Producers(rule), dict[int, int](), dict[int, int | None]()
    everything = sorted([*said, *events], key=lambda one: one[:2])
    for _, commit in groupby(everything, key=lambda one: one[0]):
        happened, before = list(commit), producers.watermark
        for _, kind, number, at, name in happened:
            if number is not None:
                reached[number] = before
            if number is not None and at is not None and before is not None and at < before - producers.allowance:
                late[number] = before
            if kind == 0 and at is not None:
                producers.promise(at)
            elif kind == 1 and at is not None:
                producers.tick(at)
            elif at is not None:
                producers.hear(name or "", at)
        producers.advance()
    times = {number: at for _, _, number, at, _ in events}
    numbers = range(records.num_rows)
    watermarks = [reached[number] if number in late or number in future else None for number in numbers]
    late_by = [(late[number] - (times[number] or 0)) / 1e6 if number in late else None for number in numbers]
    reasons = ["late" if number in late else "future" if number in future else None for number in numbers]
    found = records.append_column(WATERMARK, pa.array(watermarks, pa.int64()).cast(_TIME))
    found = found.append_column(LATE_BY, pa.array(late_by, pa.float64()))
    return found.append_column(REASON, pa.array(reasons, pa.string()))


def _future(records: pa.Table, rule: LateRule) -> set[int]:
    """The records with an event time in the future, by their numbers."""
    limit = rule.watermark.future_max
    if limit is None:
        return set()
    rows = enumerate(records.select([rule.watermark.event_time, "_received_at", "_headers"]).to_pylist())
    return {
        number
        for number, row in rows
        if row[rule.watermark.event_time] is not None
        and AMENDED not in dict(row["_headers"] or ())
        and _utc(row[rule.watermark.event_time]) > _utc(row["_received_at"]) + limit
    }


def _utc(at: datetime) -> datetime:
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at


class _Producers:
    """What producers have sent so far, and the watermark that follows."""

    def __init__(self, rule: LateRule) -> None:
        self.allowance = rule.allowance // _MICROSECOND
        self.watermark: int | None = None
        self._delay = rule.watermark.delay // _MICROSECOND
        self._idle = None if rule.watermark.idle is None else rule.watermark.idle // _MICROSECOND
        self._newest: dict[str, int] = {}
        self._heard: dict[str, int | None] = {}
        self._clock: int | None = None

    def promise(self, moment: int) -> None:
        self.watermark = moment if self.watermark is None else max(self.watermark, moment)

    def tick(self, moment: int) -> None:
        if self._clock is None:
            self._heard = dict.fromkeys(self._heard, moment)
        self._clock = moment

    def hear(self, name: str, at: int) -> None:
        self._newest[name] = max(at, self._newest.get(name, at))
        self._heard[name] = self._clock

    def advance(self) -> None:
        active = [newest for name, newest in self._newest.items() if not self._is_idle(self._heard[name])]
        if active:
            self.promise(min(active) - self._delay)

    def _is_idle(self, heard: int | None) -> bool:
        if self._idle is None or self._clock is None or heard is None:
            return False
        return heard <= self._clock - self._idle


_Event = tuple[int, int, int | None, int | None, str | None]
"""A commit, what kind of thing happened in it, the number of the record, its time and its producer."""


def _events(records: pa.Table, rule: LateRule, future: Collection[int]) -> Sequence[_Event]:
    times = records[rule.watermark.event_time].cast(_TIME).cast(pa.int64()).to_pylist()
    commits, headers = records["_commit"].to_pylist(), records["_headers"].to_pylist()
    column = rule.watermark.producer
    names = [None] * len(times) if column is None else records[column].cast(pa.string()).to_pylist()
    return [
        (commit, 2, number, None if AMENDED in dict(header or ()) or number in future else at, name)
        for number, (commit, at, header, name) in enumerate(zip(commits, times, headers, names, strict=True))
    ]


def _said(log: Log, source: str, position: Position) -> list[tuple[int, int]]:
    """What a time source says, with the commit in which it does."""
    try:
        found = log.scan(records_of(source), end=position)
    except UnknownTopic:
        return []
    moments = found["at"].cast(_TIME).cast(pa.int64()).to_pylist()
    return list(zip(found["_commit"].to_pylist(), moments, strict=True))

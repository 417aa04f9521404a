"""Lateness: which records of a topic came too late, as a function of nothing but the log before each of them.

After every commit of the topic, every tick of the clock (if producers can be idle) and every watermark record, the
watermark follows from what came up to there. A record is judged by the watermark *before* its own commit. So the
verdict is the same however the log is cut into batches, and whenever they are read.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Self, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headwater.engine.watermarks import WatermarkRule
from headwater.model.record import AMENDED

COMMIT, HEADERS, RECEIVED_AT = "_commit", "_headers", "_received_at"
WATERMARK, LATE_BY, REASON = "_watermark", "_late_by", "_reason"
"""What SQL gets with a dropped record: the watermark when it came, by how many seconds it was late, and why it was
dropped: `late`, or `future` for an event time that cannot be."""
NEVER = -(2**62)
"""Stands for a moment that has not come yet: before all others."""
_EVER = 2**62
_CELLS_MAX = 1 << 22
"""How many pairs of a point in the log and a producer are looked at together."""

Numbers: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class LateRule:
    """Records whose event time is more than `allowance` before the watermark when they come are dropped.

    So are those whose event time is in the future, by the watermark's own rule.
    """

    watermark: WatermarkRule
    allowance: timedelta = timedelta(0)

    @property
    def columns(self) -> list[str]:
        """What has to be known of a record."""
        received = [] if self.watermark.future_max is None else [RECEIVED_AT]
        return [*self.watermark.columns, COMMIT, HEADERS, *received]

    @property
    def future_max(self) -> int | None:
        """As that of the watermark, in microseconds."""
        return None if self.watermark.future_max is None else _microseconds(self.watermark.future_max)

    def to_json(self) -> tuple[Any, ...]:
        rule = self.watermark
        idle = None if rule.idle is None else _microseconds(rule.idle)
        allowance = _microseconds(self.allowance)
        return (rule.event_time, _microseconds(rule.delay), rule.producer, idle, self.future_max, allowance)

    @classmethod
    def from_json(cls, topic: str, value: Sequence[Any]) -> Self:
        event_time, delay, producer, idle, future_max, allowance = value
        rule = WatermarkRule(
            topic, event_time, _duration(delay), producer,
            None if idle is None else _duration(idle), None if future_max is None else _duration(future_max),
        )  # fmt: skip
        return cls(rule, _duration(allowance))


@dataclass(frozen=True, slots=True)
class Moments:
    """Records of a time source: the commit of each, in order, and the moment that it says, in microseconds."""

    commits: Numbers
    moments: Numbers

    @classmethod
    def none(cls) -> Self:
        return cls(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))


@dataclass(frozen=True, slots=True)
class Lateness:
    """What the records of a topic up to a position say about its watermark, and the books: in = out + late.

    `producers` has the newest event time of each, and the clock when it was last heard of; `reached` is the watermark,
    `clock` the newest tick, and `began` the first one. `records` came in. `late` of them were dropped, the latest was
    late by `late_by`, and `future` were dropped because of an event time in the future. Moments are in microseconds,
    and `NEVER` as long as there is none.
    """

    producers: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    reached: int = NEVER
    clock: int = NEVER
    began: int = NEVER
    records: int = 0
    late: int = 0
    late_by: int = 0
    future: int = 0

    @property
    def watermark(self) -> int | None:
        """How far the watermark has come."""
        return None if self.reached == NEVER else self.reached

    def idle(self, rule: WatermarkRule) -> list[str]:
        """The producers that have been silent for too long to be waited for, by name."""
        return sorted(name for name in self.producers if self._is_idle(name, rule))

    def behind(self, rule: WatermarkRule, count: int) -> list[str]:
        """The active producers that hold the watermark back, the furthest behind first."""
        active = ((newest, name) for name, (newest, _) in self.producers.items() if not self._is_idle(name, rule))
        return [name for _, name in sorted(active)[:count]]

    def _is_idle(self, name: str, rule: WatermarkRule) -> bool:
        if rule.idle is None or self.clock == NEVER:
            return False
        _, seen = self.producers[name]
        return max(seen, self.began) <= self.clock - _microseconds(rule.idle)

    def to_json(self) -> dict[str, Any]:
        return {
            "producers": {name: list(one) for name, one in self.producers.items()},
            "reached": self.reached, "clock": self.clock, "began": self.began,
            "records": self.records, "late": self.late, "late_by": self.late_by, "future": self.future,
        }  # fmt: skip

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        producers = {name: (newest, seen) for name, (newest, seen) in value["producers"].items()}
        return cls(**{**value, "producers": producers})


@dataclass(frozen=True, slots=True)
class Dropped:
    """Which of some records are dropped; and of each of these the watermark before it, and whether it is late.

    One that is not late is from the future.
    """

    flags: Flags
    watermarks: Numbers
    late: Flags


@dataclass(frozen=True, slots=True)
class LateRecords:
    """The dropped records of a batch: the watermark before each commit that has any, by the commit's number.

    A record of one of these `commits` is late if its event time is more than `allowance` before that watermark, and
    from the future if it is more than `future_max` after the log received it.
    """

    event_time: str
    allowance: int
    future_max: int | None
    commits: Numbers
    watermarks: Numbers

    @property
    def columns(self) -> list[str]:
        """What has to be read of a record to tell."""
        if not len(self.commits):
            return []
        return [self.event_time, COMMIT, HEADERS, *([] if self.future_max is None else [RECEIVED_AT])]

    def found(self, records: pa.Table) -> Dropped:
        """Which records are dropped."""
        if not len(self.commits) or not records.num_rows:
            none = np.zeros(records.num_rows, dtype=np.bool_)
            return Dropped(none, np.empty(0, dtype=np.int64), none[:0])
        commits = records[COMMIT].to_numpy()
        places = np.minimum(np.searchsorted(self.commits, commits), len(self.commits) - 1)
        times, judged = _times(records, self.event_time)
        judged &= self.commits[places] == commits
        future = judged & _future(records, times, self.future_max)
        late = judged & ~future & (times < self.watermarks[places] - self.allowance)
        dropped = late | future
        return Dropped(dropped, self.watermarks[places[dropped]], late[dropped])

    def to_json(self) -> Sequence[Any]:
        sink = pa.BufferOutputStream()
        table = pa.table({"commits": self.commits, "watermarks": self.watermarks})
        with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
            writer.write_table(table)
        return [self.event_time, self.allowance, self.future_max, base64.b64encode(sink.getvalue()).decode()]

    @classmethod
    def from_json(cls, value: Sequence[Any]) -> Self:
        event_time, allowance, future_max, text = value
        table = pa.ipc.open_stream(base64.b64decode(text)).read_all()
        return cls(event_time, allowance, future_max, table["commits"].to_numpy(), table["watermarks"].to_numpy())


def judge(
    rule: LateRule, before: Lateness, records: pa.Table, ticks: Moments, marks: Moments
) -> tuple[Lateness, LateRecords]:
    """What is known after some commits, and which of their records are late.

    `records` are all records of the topic in these commits, in any order, with the rule's columns; `ticks` and `marks`
    are those of the log's clock and of the topic's watermark in the same stretch of the log.
    """
    ticks = Moments.none() if rule.watermark.idle is None else ticks
    commits = records[COMMIT].to_numpy()
    times, judged = _times(records, rule.watermark.event_time)
    future = judged & _future(records, times, rule.future_max)
    judged &= ~future
    points = _distinct(np.concatenate([commits, ticks.commits, marks.commits]))
    began = before.began if before.began != NEVER or not len(ticks.moments) else int(ticks.moments[0])
    clocks = np.maximum.accumulate(np.append(before.clock, _at(points, ticks)))[1:]
    producers = _Producers(rule.watermark, before.producers, began)
    places = np.searchsorted(points, commits)
    promised = producers.promised(places[judged], times[judged], _names(records, rule.watermark, judged), clocks)
    reached = np.maximum.accumulate(np.append(before.reached, np.maximum(promised, _at(points, marks))))
    watermarks, allowance = reached[places], _microseconds(rule.allowance)
    late = judged & (times < watermarks - allowance)
    after = Lateness(
        producers.known,
        int(reached[-1]),
        int(clocks[-1]) if len(clocks) else before.clock,
        began,
        before.records + records.num_rows,
        before.late + int(late.sum()),
        max(before.late_by, int((watermarks[late] - times[late]).max(initial=0))),
        before.future + int(future.sum()),
    )
    affected = _distinct(places[late | future])
    dropped = LateRecords(
        rule.watermark.event_time, allowance, rule.future_max, points[affected], reached[affected]
    )  # fmt: skip
    return after, dropped


class _Producers:
    """The producers of a topic on their way through some points of the log."""

    def __init__(self, rule: WatermarkRule, known: Mapping[str, tuple[int, int]], began: int) -> None:
        self._delay = _microseconds(rule.delay)
        self._idle = None if rule.idle is None else _microseconds(rule.idle)
        self._began = began
        self._numbers = {name: number for number, name in enumerate(known)}
        self._newest = np.array([newest for newest, _ in known.values()], dtype=np.int64)
        self._seen = np.array([seen for _, seen in known.values()], dtype=np.int64)

    @property
    def known(self) -> dict[str, tuple[int, int]]:
        return {
            name: (int(self._newest[number]), int(self._seen[number])) for name, number in self._numbers.items()
        }  # fmt: skip

    def promised(self, places: Numbers, times: Numbers, names: pa.DictionaryArray, clocks: Numbers) -> Numbers:
        """What the active producers promise after each point; `places` are the points of events."""
        producers = self._numbered(names)
        order = np.argsort(places, kind="stable")
        places, times, producers = places[order], times[order], producers[order]
        promised = np.full(len(clocks), NEVER, dtype=np.int64)
        for first, end in self._blocks(len(clocks), len(names.dictionary)):
            low, high = np.searchsorted(places, [first, end])
            mine = slice(low, high)
            newest = self._through(places[mine] - first, times[mine], producers[mine], clocks[first:end])
            promised[first:end] = np.where(newest == _EVER, NEVER, newest - self._delay)
        return promised

    def _through(self, places: Numbers, times: Numbers, producers: Numbers, clocks: Numbers) -> Numbers:
        """The newest event time of the active producer that is furthest behind, after each of some points.

        Only those with events at these points need a column each.
        """
        touched, columns = np.unique(producers, return_inverse=True)
        newest = np.full((len(clocks) + 1, len(touched)), NEVER, dtype=np.int64)
        newest[0] = self._newest[touched]
        np.maximum.at(newest, (places + 1, columns), times)
        np.maximum.accumulate(newest, axis=0, out=newest)
        active = newest[1:] != NEVER
        rest = np.ones(len(self._newest), dtype=np.bool_)
        rest[touched] = False
        rest &= self._newest != NEVER
        behind = self._behind(rest, clocks)
        if self._idle is not None:
            seen = np.full(newest.shape, NEVER, dtype=np.int64)
            seen[0] = self._seen[touched]
            seen[places + 1, columns] = clocks[places]
            np.maximum.accumulate(seen, axis=0, out=seen)
            heard = np.maximum(seen[1:], self._began)
            active &= (heard > clocks[:, None] - self._idle) | (clocks == NEVER)[:, None]
            self._seen[touched] = seen[-1]
        found = np.where(active, newest[1:], _EVER).min(axis=1, initial=_EVER)
        self._newest[touched] = newest[-1]
        furthest: Numbers = np.minimum(found, behind)
        return furthest

    def _behind(self, rest: Flags, clocks: Numbers) -> Numbers:
        """The same for producers that have no events at these points."""
        if self._idle is None:
            return np.full(len(clocks), self._newest[rest].min(initial=_EVER), dtype=np.int64)
        heard = np.maximum(self._seen[rest], self._began)
        order = np.argsort(heard, kind="stable")
        least = np.minimum.accumulate(np.append(self._newest[rest][order], _EVER)[::-1])[::-1]
        active = np.searchsorted(heard[order], clocks - self._idle, side="right")
        behind: Numbers = least[np.where(clocks == NEVER, 0, active)]
        return behind

    def _numbered(self, names: pa.DictionaryArray) -> Numbers:
        """The producer of each event by its number; those that are new get the next ones."""
        numbers = [self._numbers.setdefault(name, len(self._numbers)) for name in names.dictionary.to_pylist()]
        joined = np.full(len(self._numbers) - len(self._newest), NEVER, dtype=np.int64)
        self._newest, self._seen = np.append(self._newest, joined), np.append(self._seen, joined)
        numbered: Numbers = np.array(numbers, dtype=np.int64)[names.indices.to_numpy()]
        return numbered

    @staticmethod
    def _blocks(points: int, producers: int) -> Iterator[tuple[int, int]]:
        size = max(1, _CELLS_MAX // max(1, producers))
        return ((first, min(points, first + size)) for first in range(0, points, size))


def _times(records: pa.Table, event_time: str) -> tuple[Numbers, Flags]:
    """The event time of each record, and whether it is judged by it: it has one, and the record is not amended."""
    times = records[event_time].cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())
    amended = pc.is_valid(pc.map_lookup(records[HEADERS], pa.scalar(AMENDED), "first"))
    judged = pc.and_not(pc.is_valid(times), amended)
    return pc.fill_null(times, 0).to_numpy(), judged.to_numpy().astype(np.bool_)


def _future(records: pa.Table, times: Numbers, future_max: int | None) -> Flags:
    """Which event times are too far after the log received the records."""
    if future_max is None:
        return np.zeros(len(times), dtype=np.bool_)
    received = records[RECEIVED_AT].cast(pa.timestamp("us", tz="UTC")).cast(pa.int64()).to_numpy()
    flags: Flags = times > received + future_max
    return flags


def _names(records: pa.Table, rule: WatermarkRule, chosen: Flags) -> pa.DictionaryArray:
    """The producer of each of these records; without a column, and where it is null, it has no name."""
    count = int(chosen.sum())
    if rule.producer is None:
        return pa.repeat("", count).dictionary_encode()
    names = pc.fill_null(records[rule.producer].cast(pa.string()), "").filter(pa.array(chosen))
    encoded = names.combine_chunks().dictionary_encode()
    return pa.concat_arrays(encoded.chunks) if isinstance(encoded, pa.ChunkedArray) else encoded


def _distinct(numbers: Numbers) -> Numbers:
    """Each number once, in order; sorting is far quicker than numpy's `unique` where most are distinct."""
    ordered = np.sort(numbers)
    first: Flags = np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)]
    distinct: Numbers = ordered[first]
    return distinct


def _at(points: Numbers, source: Moments) -> Numbers:
    """What a time source says at each point; `NEVER` where it says nothing."""
    said = np.full(len(points), NEVER, dtype=np.int64)
    np.maximum.at(said, np.searchsorted(points, source.commits), source.moments)
    return said


def _microseconds(duration: timedelta) -> int:
    return duration // timedelta(microseconds=1)


def _duration(microseconds: int) -> timedelta:
    return timedelta(microseconds=microseconds)

"""The rules of the state machine that read: ranges by offset, time and position, and tables of the past."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Literal

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from headwater.errors import PositionGone, RecordsGone, UsageError
from tests.property.log_under_test import PICKS, LogUnderTest, choose, moment, observed, position
from tests.property.model import End, Gone, Start

PLACES = st.sampled_from(["offset", "position", "time"])


class ReadingRules(LogUnderTest):
    """Every way to look at the log; what it holds as a whole is looked at after every step anyway."""

    @precondition(lambda self: self.model.topics and self.has_news("read"))
    @rule(
        count=st.integers(1, 3), pick=PICKS, start=st.sampled_from(["earliest", "latest"]) | PLACES,
        end=st.none() | PLACES, first=PICKS, last=PICKS, by=st.sampled_from(["records", "batches", "following"]),
    )  # fmt: skip
    def read(
        self, count: int, pick: int, start: str, end: Literal["offset", "position", "time"] | None, first: int,
        last: int, by: str,
    ) -> None:  # fmt: skip
        self.looked("read")
        names = sorted(self.model.topics)
        names = [*names[pick % len(names) :], *names[: pick % len(names)]][:count]
        beginning: Start = start if start in ("earliest", "latest") else (start, self.place_of(start, first))  # type: ignore[assignment]
        ending: End = None if end is None else (end, self.place_of(end, last))
        log, places = self.log, _places(beginning, ending)
        if end == "position" and by != "following" and self.place_of(end, last) > self.model.commit:
            with pytest.raises(UsageError):
                list(log.read(names, **places))
            return
        try:
            expected = self.expected(self.model.read(names, beginning, ending))
        except Gone:
            with pytest.raises((RecordsGone, PositionGone)):
                list(log.read(names, **places))
            return
        if by == "batches":
            found = [
                (batch.topic, batch.partition, offset)
                for batch in log.batches(names, **places)
                for offset in batch.records["_offset"].to_pylist()
            ]
            assert sorted(found) == sorted(item[:3] for item in expected)
        else:
            follow = by == "following"
            assert observed(log.read(names, **places, follow=follow, idle_timeout=timedelta(0))) == expected

    def place_of(self, kind: str, pick: int) -> int:
        """An offset, commit or time that lies in the log, or just outside."""
        if kind == "position":
            return pick % (self.model.commit + 2)
        partitions = [partition for topic in self.model.topics.values() for partition in topic.partitions]
        if kind == "offset":
            return pick % (max(partition.end for partition in partitions) + 2)
        times = [entry.at for partition in partitions for entry in partition.history] or [self.clock.now()]
        return choose(times, pick) + pick % 3 - 1

    @precondition(lambda self: self.model.topics and self.has_news("table"))
    @rule(pick=PICKS, commit=PICKS)
    def table(self, pick: int, commit: int) -> None:
        self.looked("table")
        topic = self.topic_of(pick, keyed=True)
        if topic is not None:
            self.compare_table(self.log, topic, commit % (self.model.commit + 2))


def _places(start: Start, end: End) -> dict[str, Any]:
    """The arguments of a read."""
    return {"start": start if isinstance(start, str) else _place(*start), "end": None if end is None else _place(*end)}


def _place(kind: str, value: int) -> object:
    return position(value) if kind == "position" else moment(value) if kind == "time" else value

"""What lets the watermark of a topic follow its records while an application runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from headwater.engine.judging import judged_through
from headwater.engine.lateness import Lateness, LateRule
from headwater.engine.parts import Part, Report, Stop
from headwater.engine.watermarks import WatermarkRule
from headwater.log.port import Log
from headwater.log.times import CLOCK, create_source, records_of, time_of, watermark_of
from headwater.model.position import START, Position
from headwater.system.clock import instant

LOOK = timedelta(milliseconds=200)
"""How long it waits for records at a time, so that it ends soon when it is asked to."""
SHOWN = 5
"""How many producers that hold a watermark back are named."""


@dataclass(frozen=True, slots=True)
class WatermarkState:
    """Where the watermark of a topic is, by how much it is behind the clock, and why.

    `late` counts the events that came after it had passed them, dropped or not, and `late_by` is by how much, at most.
    """

    topic: str
    watermark: datetime | None
    behind: timedelta | None
    producers: int
    held_back_by: tuple[str, ...]
    idle: tuple[str, ...]
    late: int = 0
    late_by: timedelta = timedelta(0)

    def to_json(self) -> dict[str, Any]:
        return {
            "topic": self.topic,
            "watermark": None if self.watermark is None else self.watermark.isoformat(),
            "behind_seconds": None if self.behind is None else self.behind.total_seconds(),
            "producers": self.producers,
            "held_back_by": list(self.held_back_by),
            "idle": list(self.idle),
            "late": self.late,
            "late_by_seconds": self.late_by.total_seconds(),
        }


class Watermarking(Part):
    """Appends a record whenever the watermark of a topic advances, for as long as a view `reads` it.

    What is known of producers moves with that record, in a bookmark, on the condition that nobody else has moved it. So
    several processes may do so at once, and the one that begins again continues where the last record was made.
    """

    def __init__(self, log: Log, rule: WatermarkRule, reads: Callable[[], bool]) -> None:
        self._log, self.rule, self._reads = log, rule, reads
        self.source = watermark_of(rule.topic)
        self._remembered = f"headwater.producers.{rule.topic}"
        self._position, self._lateness = START, Lateness()
        self._known: object = None

    @property
    def name(self) -> str:
        return f"watermark of {self.rule.topic}"

    def run(self, stop: Stop, report: Report) -> None:
        del report
        while not stop.is_set():
            if self._reads():
                self.advance()
                self._log.wait(self._position, LOOK)
            else:
                stop.wait(LOOK.total_seconds())

    def advance(self) -> None:
        """Takes the records so far into account, and appends the watermark if it has advanced."""
        create_source(self._log, self.source)
        done = False
        while not done:
            self._look()
            wanted = self._lateness.watermark
            reached = self._log.bookmark(records_of(self.source))
            done = wanted is None or (isinstance(reached, int) and wanted <= reached) or self._append(wanted, reached)

    def state(self) -> WatermarkState:
        """Where the watermark is, and what it would need to advance."""
        self._look()
        reached, clock = (time_of(self._log, source, self._position) for source in (self.source, CLOCK))
        behind = None if reached is None or clock is None else max(timedelta(0), clock - reached)
        return WatermarkState(
            self.rule.topic,
            reached,
            behind,
            len(self._lateness.producers),
            tuple(self._lateness.behind(self.rule, SHOWN)),
            tuple(self._lateness.idle(self.rule)),
            self._lateness.late,
            timedelta(microseconds=self._lateness.late_by),
        )

    def _look(self) -> None:
        """Takes what has come since into account."""
        self._continue()
        end = self._log.position()
        self._lateness = judged_through(self._log, LateRule(self.rule), self._lateness, self._position, end)
        self._position = end

    def _append(self, wanted: int, reached: object) -> bool:
        value = {"position": str(self._position), "lateness": self._lateness.to_json()}
        with self._log.commit(on_conflict="return") as commit:
            commit.append(records_of(self.source), [{"at": instant(wanted)}])
            commit.bookmark(records_of(self.source), wanted, expect=reached)
            commit.bookmark(self._remembered, value)
        if commit.conflict is not None:
            return False
        self._known = value
        return True

    def _continue(self) -> None:
        """Begins with what was remembered with the last record, unless this is who remembered it."""
        value = self._log.bookmark(self._remembered)
        if isinstance(value, Mapping) and value != self._known and "lateness" in value:
            self._known = value
            self._position = Position.parse(value["position"])
            self._lateness = Lateness.from_json(value["lateness"])

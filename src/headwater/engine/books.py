"""The books of a topic of which late records are dropped: in = out + late + future."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from headwater.engine.judging import Judged


@dataclass(frozen=True, slots=True)
class Books:
    """What has become of the records of a topic up to the position of the views.

    `records` came in. `late` of them were dropped, the latest by `late_by` behind the watermark, and `future` because
    of an event time in the future. Views have the rest.
    """

    topic: str
    records: int
    late: int
    late_by: timedelta
    future: int = 0

    @property
    def out(self) -> int:
        """The records that reach views."""
        return self.records - self.late - self.future

    def to_json(self) -> dict[str, Any]:
        return {
            "topic": self.topic, "in": self.records, "out": self.out, "late": self.late,
            "late_by_seconds": self.late_by.total_seconds(), "future": self.future,
        }  # fmt: skip


def books_of(judged: Mapping[str, Judged]) -> list[Books]:
    """The books of topics, by name."""
    return [
        Books(topic, known.records, known.late, timedelta(microseconds=known.late_by), known.future)
        for topic, known in sorted((topic, one.lateness) for topic, one in judged.items())
    ]

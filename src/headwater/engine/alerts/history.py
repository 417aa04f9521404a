"""The history of alerts: a topic with a record each time that one fires or clears."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Literal

from headwater.engine.sinks.channel import Event, Notice
from headwater.errors import UnknownTopic
from headwater.log.port import Log
from headwater.model.ddl import parse_ddl
from headwater.model.encoding import format_instant

HISTORY_SCHEMA = parse_ddl(
    "id string NOT NULL, alert string NOT NULL, view string NOT NULL, key string NOT NULL, event string NOT NULL, "
    "at timestamp NOT NULL, since timestamp NOT NULL, position string NOT NULL, row string NOT NULL"
)
Turn = Literal["fired", "cleared"]


@dataclass(frozen=True, slots=True)
class AlertRecord:
    """An alert that fired or cleared `at` an instant, for the row with a `key`, which was there `since` another.

    Both records of one alert have the same `id`. `row` is JSON: the row as it was last.
    """

    id: str
    alert: str
    view: str
    key: str
    event: Turn
    at: datetime
    since: datetime
    position: str
    row: str

    def to_json(self) -> dict[str, object]:
        """The record as people and programs get it: the row as an object."""
        instants = {"at": format_instant(self.at), "since": format_instant(self.since)}
        return {**asdict(self), **instants, "row": json.loads(self.row)}

    def notice(self, event: Event) -> Notice:
        """The record as a notice of its event, or of another one."""
        row: Any = json.loads(self.row)
        return Notice(self.alert, self.view, event, self.key, row, self.position, format_instant(self.at))


class History:
    """Reads the history of an application's alerts. It may be missing, and is empty then."""

    def __init__(self, log: Log, topic: str) -> None:
        self.log, self.topic = log, topic

    def records(self, start: int = 0) -> Iterator[tuple[int, AlertRecord]]:
        """The records from an offset on, or from the first one that is kept, each with its offset."""
        try:
            first, end = self.log.offsets(self.topic).get(0, (0, 0))
        except UnknownTopic:
            return
        # Behind the end of a topic that was dropped and created again, everything is new.
        start = first if start > end else max(start, first)
        if start >= end:
            return
        names = HISTORY_SCHEMA.names
        for row in self.log.scan(self.topic, start=start, end=end).to_pylist():
            yield row["_offset"], AlertRecord(**{name: row[name] for name in names})

    def of(self, alert: str) -> list[AlertRecord]:
        """The records of one alert."""
        return [record for _, record in self.records() if record.alert == alert]


def firing(records: Iterable[AlertRecord]) -> list[AlertRecord]:
    """The records of the alerts that have fired and not cleared, in the order in which they fired."""
    found: dict[tuple[str, str], AlertRecord] = {}
    for record in records:
        found.pop((record.alert, record.key), None)
        if record.event == "fired":
            found[record.alert, record.key] = record
    return list(found.values())

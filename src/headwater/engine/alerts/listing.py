"""The alerts of an application as people see them: what fires, what has happened lately, and how receivers are."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass

from headwater.engine.alerts.history import AlertRecord, History, firing
from headwater.engine.alerts.notifier import Notifier
from headwater.engine.alerts.rule import Rule
from headwater.model.encoding import format_instant

RECENT_DEFAULT = 100


@dataclass(frozen=True, slots=True)
class Alert:
    """An alert with what tells its receivers."""

    rule: Rule
    notifiers: tuple[Notifier, ...]

    def to_json(self, number: int) -> dict[str, object]:
        """The alert with how many of its rows are `firing`."""
        rule = self.rule
        return {
            "name": rule.name,
            "view": rule.view,
            "key": list(rule.key),
            "after_seconds": rule.after.total_seconds(),
            "repeat_seconds": None if rule.repeat is None else rule.repeat.total_seconds(),
            "digest_seconds": None if rule.digest is None else rule.digest.total_seconds(),
            "quiet": None if rule.quiet is None else str(rule.quiet),
            "firing": number,
            "receivers": [notifier.status() for notifier in self.notifiers],
        }


def listing(alerts: Sequence[Alert], history: History, recent_max: int = RECENT_DEFAULT) -> dict[str, object]:
    """All alerts, those that fire with the longest first, and the newest records of the history, newest first."""
    records = [record for _, record in history.records()]
    fires = sorted(firing(records), key=lambda record: record.at)
    numbers = Counter(record.alert for record in fires)
    newest = deque(records, maxlen=recent_max)
    return {
        "alerts": [alert.to_json(numbers[alert.rule.name]) for alert in alerts],
        "firing": [_firing(record) for record in fires],
        "recent": [record.to_json() for record in reversed(newest)],
    }


def _firing(record: AlertRecord) -> dict[str, object]:
    held = record.to_json()
    del held["event"], held["at"]
    return {**held, "fired_at": format_instant(record.at)}

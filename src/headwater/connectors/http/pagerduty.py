"""A service of PagerDuty, by its Events API v2: incidents are triggered, and resolved when their cause is gone."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import ClassVar, Literal, get_args

from headwater.connectors.http.channel import ROW_EVENTS, HttpChannel, Values
from headwater.connectors.templates import TextTemplate
from headwater.engine.sinks.channel import ENDINGS, Event, Sender, dumps
from headwater.errors import UsageError
from headwater.model.secrets import Secret, reveal

EVENTS_URL = "https://events.pagerduty.com/v2/enqueue"
SUMMARY_LENGTH_MAX = 1024
DEDUP_KEY_LENGTH_MAX = 255
DEFAULT_SUMMARY = "$_name: $_key"
Severity = Literal["critical", "error", "warning", "info"]


class PagerDuty(HttpChannel):
    """Triggers an incident for each row of a view, or each alert, and resolves it when the row is gone.

    `routing_key` is the integration key of the service. The incident's `dedup_key` is made of the sink's name and the
    row's key, so that each row has one incident, however often it changes. For the European service region, `url` is
    https://events.eu.pagerduty.com/v2/enqueue.
    """

    kind: ClassVar[str] = "pagerduty"
    needs_key: ClassVar[bool] = True

    def __init__(
        self,
        routing_key: str | Secret,
        summary: str = DEFAULT_SUMMARY,
        *,
        severity: Severity = "error",
        source: str = "headwater",
        on: Event | Iterable[Event] = ROW_EVENTS,
        url: str = EVENTS_URL,
        allow_private: bool = False,
    ) -> None:
        if severity not in get_args(Severity):
            raise UsageError(f"Invalid severity={severity!r}.", hint=f"Use one of {', '.join(get_args(Severity))}.")
        if not routing_key:
            raise UsageError("PagerDuty needs a routing key.", hint='Write hw.sinks.Secret.env("PAGERDUTY_KEY").')
        self._routing_key, self._severity, self._source = routing_key, severity, source
        self._summary = TextTemplate(summary)
        super().__init__(url, self._event, on=on, allow_private=allow_private)

    def open(self) -> Sender:
        reveal(self._routing_key)
        return super().open()

    def _event(self, values: Values) -> str:
        ends = values["_event"] in ENDINGS
        event: dict[str, object] = {
            "routing_key": reveal(self._routing_key),
            "event_action": "resolve" if ends else "trigger",
            "dedup_key": dedup_key(str(values["_name"]), str(values["_key"])),
        }
        if not ends:
            event["client"] = "headwater"
            event["payload"] = {
                "summary": self._summary.render(values)[:SUMMARY_LENGTH_MAX] or str(values["_name"]),
                "source": self._source,
                "severity": self._severity,
                "timestamp": values["_at"],
                "component": values["_view"],
                "custom_details": values["_row"],
            }
        return dumps(event)


def dedup_key(name: str, key: str) -> str:
    """What tells one incident from another: a readable text if it is short enough."""
    plain = f"headwater:{name}:{key}"
    if len(plain) <= DEDUP_KEY_LENGTH_MAX:
        return plain
    return f"headwater:{name}:"[:128] + hashlib.sha256(plain.encode()).hexdigest()

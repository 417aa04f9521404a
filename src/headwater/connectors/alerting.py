"""The alerts of an application, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from headwater.connectors.connections import Connected, Connections
from headwater.engine.alerts.history import HISTORY_SCHEMA, History
from headwater.engine.alerts.listing import RECENT_DEFAULT, Alert, listing
from headwater.engine.alerts.notifier import Notifier
from headwater.engine.alerts.rule import Rule, quiet_hours
from headwater.engine.alerts.target import AlertTarget
from headwater.engine.sinks.channel import Channel
from headwater.errors import UsageError
from headwater.log.port import Log
from headwater.model.durations import Duration, duration_of


class Alerts:
    """What an application declares; each alert is a sink of its view, and a part for each of its receivers."""

    def __init__(
        self, log: Log, directory: Path, connections: Connections, create: Callable[[str, pa.Schema], object]
    ) -> None:
        self._log, self._directory, self._connections, self._create = log, directory, connections, create
        self.history = History(log, f"{directory.name}.alerts")
        self.declared: dict[str, Alert] = {}

    def add(self, rule: Rule, to: Channel | Sequence[Channel]) -> None:
        """Declares an alert. Raises `UsageError`."""
        if rule.name in self.declared:
            raise UsageError(f"There is already an alert named {rule.name!r}.", hint="Give one of them another name.")
        channels = (to,) if isinstance(to, Channel) else tuple(to)
        for channel in channels:
            if not isinstance(channel, Channel):
                raise UsageError(
                    f"Alert {rule.name!r} cannot be sent to {channel!r}.",
                    hint="Give it channels such as hw.sinks.Mail(…) or hw.sinks.Slack(…).",
                )
        target = AlertTarget(rule, self._directory, self._log, self.history.topic)
        self._create(self.history.topic, HISTORY_SCHEMA)
        self._connections.add_sink(rule.sink, rule.view, target, rule.key, None, None, None, {})
        notifiers = tuple(
            Notifier(rule, number, channel, self._directory, self.history) for number, channel in enumerate(channels)
        )
        self.declared[rule.name] = Alert(rule, notifiers)


class Alerting(Connected):
    """An application, as far as it is about its connections and alerts."""

    _alerts: Alerts
    _keys: dict[str, tuple[str, ...]]

    def alert(
        self,
        name: str,
        *,
        view: str,
        to: Channel | Sequence[Channel] = (),
        key: str | Sequence[str] = (),
        after: Duration = 0,
        repeat: Duration | None = None,
        quiet: tuple[str, str] | None = None,
        time_zone: str = "UTC",
        digest: Duration | None = None,
    ) -> None:
        """Fires when a row appears in a view, or has been there for `after`, and clears when it is retracted.

        Every row of the view, by its `key` (the view's own unless given), is one alert: it fires once, however often
        the row changes. What fires and clears is recorded in the topic "APP.alerts", exactly once, and every channel in
        `to` is told, at least once. Rows that are there when the alert is declared fire, too.

        `repeat` tells again what still fires. During the `quiet` hours, such as ("22:00", "07:00") in the `time_zone`,
        nobody is told: what still fires afterwards is sent then. `digest` gathers for so long before it tells. The
        machine's clock counts.
        """
        columns = (key,) if isinstance(key, str) and key else tuple(key) or self._keys.get(view, ())
        if not columns:
            raise UsageError(
                f"Alert {name!r} needs a key: it tells one alert from another.",
                hint=f'Define view {view!r} before it, with key="id", or give the alert a key.',
            )
        rule = Rule(
            name,
            view,
            columns,
            duration_of("after", after),
            None if repeat is None else (duration_of("repeat", repeat) or None),
            quiet_hours(quiet, time_zone),
            None if digest is None else (duration_of("digest", digest) or None),
        )
        self._alerts.add(rule, to)

    @property
    def alerts(self) -> Mapping[str, Alert]:
        """The alerts, each with what tells its receivers."""
        return dict(self._alerts.declared)

    @property
    def notifiers(self) -> Sequence[Notifier]:
        """What tells the receivers of all alerts while the application runs."""
        return [notifier for alert in self._alerts.declared.values() for notifier in alert.notifiers]

    def list_alerts(self, recent: int = RECENT_DEFAULT) -> dict[str, object]:
        """All alerts, what fires now, and the newest records of their history; see `GET /alerts`."""
        return listing(list(self._alerts.declared.values()), self._alerts.history, recent)

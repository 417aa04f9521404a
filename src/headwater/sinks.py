"""Targets and channels of sinks: `hw.sinks.Postgres("postgresql://…", table="revenue")`.

Drivers are imported when asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headwater.connectors.registry import channel_class, channel_names, target_class, target_names
from headwater.engine.sinks.channel import Channel, Message, Notice, Sender
from headwater.engine.sinks.target import Assignment, Delivery, Target
from headwater.engine.subscription import Changes
from headwater.model.secrets import Secret

if TYPE_CHECKING:
    from headwater.connectors.delta.target import Delta
    from headwater.connectors.http.channel import Http
    from headwater.connectors.http.pagerduty import PagerDuty
    from headwater.connectors.http.slack import Slack
    from headwater.connectors.http.teams import Teams
    from headwater.connectors.iceberg.target import Iceberg
    from headwater.connectors.mail.channel import Mail
    from headwater.connectors.parquet.target import Parquet
    from headwater.connectors.postgres.target.target import Postgres
    from headwater.connectors.redis.target import Redis

__all__ = [
    "Assignment",
    "Changes",
    "Channel",
    "Delivery",
    "Delta",
    "Http",
    "Iceberg",
    "Mail",
    "Message",
    "Notice",
    "PagerDuty",
    "Parquet",
    "Postgres",
    "Redis",
    "Secret",
    "Sender",
    "Slack",
    "Target",
    "Teams",
]


def __getattr__(name: str) -> Any:
    """A class of targets or channels."""
    if name in channel_names():
        return channel_class(name)
    if name not in target_names():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return target_class(name)


def __dir__() -> list[str]:
    return __all__

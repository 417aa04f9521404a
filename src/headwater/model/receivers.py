"""Receivers: ways in which records come to a topic from outside, as an application declares them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, get_args

from headwater.errors import UsageError

WebhookStyle = Literal["standard", "github", "stripe"]

WEBHOOK_SCHEMA = "id string NOT NULL, event string, body string NOT NULL, sent_at timestamp"
"""A webhook as a record: who sent it calls it `id`, and `body` is the JSON that was signed."""

STATSD_SCHEMA = (
    "name string NOT NULL, type string NOT NULL, value double, text string, rate double, tags map<string, string>"
)
"""A StatsD sample as a record; a set has a `text` instead of a `value`."""


@dataclass(frozen=True, slots=True)
class WebhookIn:
    """Webhooks that others send: where they go, and how they prove who they are."""

    name: str
    topic: str
    style: WebhookStyle
    secrets: tuple[str, ...] = field(repr=False)

    def check(self) -> WebhookIn:
        """The hook itself. Raises `UsageError`."""
        if self.style not in get_args(WebhookStyle):
            raise UsageError(
                f"{self.style!r} is not a webhook style.", hint=f"Use one of {', '.join(get_args(WebhookStyle))}."
            )
        if not self.secrets or not all(self.secrets):
            raise UsageError(f"WebhookIn {self.name!r} has no secret.", hint="Take it from the environment: secret=….")
        return self


@dataclass(frozen=True, slots=True)
class Statsd:
    """StatsD samples over UDP: where they are listened for, and the topic that they go to."""

    topic: str
    host: str
    port: int

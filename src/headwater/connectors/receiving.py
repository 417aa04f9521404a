"""What an application receives from outside through the server: webhooks and StatsD samples."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence

from headwater.log.topic import Topic
from headwater.model.receivers import STATSD_SCHEMA, WEBHOOK_SCHEMA, Statsd, WebhookIn, WebhookStyle
from headwater.system.names import check_name


class Receiving:
    """The receivers of an application. Each has its records in a topic, which is created."""

    _webhooks_in: dict[str, WebhookIn]
    _statsd: Statsd | None

    @abstractmethod
    def topic(self, name: str, schema: str) -> Topic:
        """A topic of the log, which is created if it is missing."""

    def webhook_in(
        self, name: str, topic: str, *, secret: str | Sequence[str], style: WebhookStyle = "standard"
    ) -> None:
        """Webhooks that the server receives at `/hooks/{name}`, each once, as records of a topic, which is created.

        `style` says how they are signed: `standard` (Standard Webhooks), `github` or `stripe`. Of several secrets one
        has to fit, so that they can be changed. Take them from the environment, not from the code.
        """
        check_name("webhook", name)
        secrets = (secret,) if isinstance(secret, str) else tuple(secret)
        self._webhooks_in[name] = WebhookIn(name, topic, style, secrets).check()
        self.topic(topic, WEBHOOK_SCHEMA)

    def statsd(self, topic: str = "metrics", *, host: str = "127.0.0.1", port: int = 8125) -> None:
        """StatsD samples that the server receives over UDP, as records of a topic, which is created."""
        self._statsd = Statsd(topic, host, port)
        self.topic(topic, STATSD_SCHEMA)

    @property
    def webhooks_in(self) -> Mapping[str, WebhookIn]:
        """The webhooks that the server takes."""
        return dict(self._webhooks_in)

    @property
    def statsd_receiver(self) -> Statsd | None:
        """Where the server listens for StatsD samples, if it does."""
        return self._statsd

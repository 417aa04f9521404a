"""A webhook as a sink: every change of a view is posted to an address, signed, each message until it has arrived."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import ClassVar

from headwater.connectors.webhooks.messages import Message, Packer
from headwater.connectors.webhooks.posting import Poster
from headwater.connectors.webhooks.target import Target, parse_target
from headwater.engine.sinks.port import CannotContinue, Journal, Mark, Sink
from headwater.engine.subscription import Changes
from headwater.errors import UsageError
from headwater.model import signing

AGENT = "headwater"


class Webhook(Sink):
    """Posts messages, in order. A message is written down with its id and body before it is sent.

    So whatever happens, the same id comes with the same body. `repr` and everything it says show no secret.
    """

    kind: ClassVar[str] = "webhook"

    def __init__(
        self, name: str, view: str, address: Target, secrets: Sequence[str], poster: Poster | None = None
    ) -> None:
        if not secrets or not all(secrets):
            raise UsageError(f"Webhook {name!r} has no secret.", hint="Take it from the environment: secret=….")
        self.address = address
        self._name, self._view, self._secrets = name, view, tuple(secrets)
        self._given, self._poster = poster, poster
        self._packer = Packer(name, view, 0, None)
        self._messages: Iterator[Message] = iter(())
        self._writing: object = None
        self._journal: Journal | None = None

    @property
    def target(self) -> str:
        return str(self.address)

    def open(self, journal: Journal) -> Mark | None:
        self._journal, self._writing = journal, None
        self._poster = self._given or Poster(self.address)
        self._send(iter(()))
        self._packer = Packer(self._name, self._view, journal.deliveries, journal.mark)
        return journal.mark

    def write(self, changes: Changes, *, more: bool) -> None:
        assert self._journal is not None, "it was opened"
        if self._writing is not changes:
            if self._packer.is_empty:
                self._packer.mark = self._journal.mark
            self._writing, self._messages = changes, self._packer.pack(changes, more=more)
        try:
            self._send(self._messages)
        except CannotContinue:
            self._packer = Packer(self._name, self._view, self._journal.deliveries, self._journal.mark)
            raise

    def gap(self, mark: Mark, reason: str) -> None:
        if self._writing is not mark:
            self._writing, self._messages = mark, iter((self._packer.gap(mark, reason),))
        self._send(self._messages)

    def close(self) -> None:
        if self._poster is not None:
            self._poster.close()

    def _send(self, messages: Iterator[Message]) -> None:
        """Posts the message that is under way, if there is one, and then the others. Raises `TargetFailed`."""
        assert self._journal is not None, "it was opened"
        if self._journal.under_way is not None:
            self._post(self._journal, Message.parse(self._journal.under_way))
        for message in messages:
            self._journal.begin(message.to_text())
            self._post(self._journal, message)

    def _post(self, journal: Journal, message: Message) -> None:
        assert self._poster is not None, "it was opened"
        body, now = message.body.encode(), datetime.now(UTC)
        signed = signing.headers(self._secrets, message.id, body, now)
        failure = self._poster.post({**signed, "content-type": "application/json", "user-agent": AGENT}, body)
        if failure is not None:
            raise failure
        journal.end(message.mark)


def open_webhook(
    name: str, view: str, url: str, *, secret: str | Sequence[str] = (), allow_private: bool = False
) -> Webhook:
    """The webhook that a URL and its options mean. Raises `UsageError`, which shows neither."""
    secrets = (secret,) if isinstance(secret, str) else tuple(secret)
    return Webhook(name, view, parse_target(url, allow_private=allow_private), secrets)

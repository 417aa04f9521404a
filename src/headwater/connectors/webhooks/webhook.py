"""A webhook of an application as a sink of a view: what one does with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from headwater.connectors.webhooks.options import WebhookOptions
from headwater.connectors.webhooks.progress import ProgressFile, Status
from headwater.connectors.webhooks.sender import Sender
from headwater.engine.reading import Reader
from headwater.engine.subscription import rows_behind
from headwater.model.position import Position


@dataclass(frozen=True, slots=True)
class WebhookStatus:
    """How far a webhook is. `lag` is how many changed rows are still to be sent, as far as they are kept."""

    target: str
    status: Status
    position: str | None
    lag: int | None
    messages: int
    failures: int
    error: str | None
    failed_at: str | None
    delivered_at: str | None


class Webhook:
    """Sends each change of a view, in order, to an address. `repr` and everything it says show no secret."""

    def __init__(self, directory: Path, options: WebhookOptions) -> None:
        self._directory, self.options = directory, options.check()

    def __repr__(self) -> str:
        return f"Webhook({self.name!r}, view={self.view!r}, target={str(self.options.target)!r})"

    @property
    def name(self) -> str:
        return self.options.name

    @property
    def view(self) -> str:
        return self.options.view

    def sender(self, *, say: Callable[[str], None] = lambda _: None) -> Sender:
        """What sends it when it is run."""
        return Sender(self._directory, self.options, say=say)

    def status(self, reader: Reader) -> WebhookStatus:
        """How far it is, whichever process sends it."""
        progress = ProgressFile(self._directory, self.name).load(self.view)
        place, lag = progress.place, None
        if place is not None:
            lag = max(0, rows_behind(reader, self.view, Position.parse(place.position), place.generation) - place.rows)
        return WebhookStatus(
            target=str(self.options.target),
            status=progress.status,
            position=None if place is None else place.position,
            lag=lag,
            messages=progress.sequence - (progress.message is not None),
            failures=progress.failures,
            error=progress.error,
            failed_at=progress.failed_at,
            delivered_at=progress.delivered_at,
        )

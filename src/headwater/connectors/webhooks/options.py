"""What an application says about a webhook that it sends."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, get_args

from headwater.connectors.webhooks.target import Target
from headwater.errors import UsageError

Start = Literal["now", "content"]


@dataclass(frozen=True, slots=True)
class WebhookOptions:
    """`start` says whether the content of the view comes first, or only what changes from now on."""

    name: str
    view: str
    target: Target
    secrets: tuple[str, ...] = field(repr=False)
    start: Start = "now"

    def check(self) -> WebhookOptions:
        """The options themselves. Raises `UsageError`."""
        if self.start not in get_args(Start):
            raise UsageError(f"A webhook cannot start with {self.start!r}.", hint="Use 'now' or 'content'.")
        if not self.secrets or not all(self.secrets):
            raise UsageError(f"Webhook {self.name!r} has no secret.", hint="Take it from the environment: secret=….")
        return self

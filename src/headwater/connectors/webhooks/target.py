"""The address of a webhook, taken apart and checked."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import urlsplit

from headwater.errors import UsageError

_PORTS = {"https": 443, "http": 80}


@dataclass(frozen=True, slots=True)
class Target:
    """Where webhooks are sent. What it shows of itself ends with the host: a path may hold a secret."""

    scheme: str
    host: str
    port: int
    path: str = field(repr=False)
    allow_private: bool = False

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}" + ("" if self.port == _PORTS[self.scheme] else f":{self.port}")


def parse_target(url: str, *, allow_private: bool) -> Target:
    """Where a URL leads. Raises `UsageError`, which does not show the URL."""
    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").encode("idna").decode(), parts.port
    except ValueError:
        raise UsageError(
            "The URL of the webhook is not valid.", hint="Write it like https://example.com/hook."
        ) from None
    if parts.scheme not in _PORTS or not host:
        raise UsageError("The URL of a webhook must be an HTTP URL.", hint="Write it like https://example.com/hook.")
    if parts.scheme == "http" and not allow_private:
        raise UsageError(
            "Webhooks are sent over HTTPS only.", hint="allow_private=True also allows http://, for your own network."
        )
    if "@" in parts.netloc:
        raise UsageError("The URL of a webhook has a user or a password.", hint="Its signature proves who sends it.")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if not path.isascii() or any(character <= " " or character == "\x7f" for character in host + path):
        raise UsageError(
            "The URL of a webhook has characters that URLs cannot have.", hint="Escape them, such as %20 for a space."
        )
    return Target(parts.scheme, host, _PORTS[parts.scheme] if port is None else port, path, allow_private)

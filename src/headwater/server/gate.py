"""The gate in front of every request: which hosts, which origins, and the headers that every answer has.

A browser lets any page send requests to an address on this machine. A page of somebody else cannot read the answers,
unless a name of theirs comes to mean this machine (DNS rebinding): so without tokens only names of this machine are
answered. And it cannot send anything but reads, because browsers say where a request comes from.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headwater.errors import Refused
from headwater.server.answers import failure
from headwater.server.protocol import AUTHORITY

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:[0-9]{1,5})?")
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Content-Security-Policy": "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'",
}


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address, or whether a name means such a one."""
    if host in ("localhost", "localhost."):
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def check_host(host: str) -> None:
    """Raises `Refused` if a request was sent to a name that is not this machine's own."""
    if not is_loopback(_name(host)):
        raise Refused(
            421,
            "unknown_host",
            "This server does not answer to that name.",
            hint="Use localhost, or create a token: `headwater token`.",
        )


def host_of(scope: Scope) -> str:
    """The one host that a request was sent to, empty in old HTTP without one. Raises `Refused`.

    What is in front of the server may go by another one of several hosts than the server does.
    """
    hosts: list[str] = [value.decode("latin-1").lower() for name, value in scope["headers"] if name == b"host"]
    in_uri = scope.get("extensions", {}).get(AUTHORITY, {}).get("text")
    if len(hosts) > 1 or (in_uri is not None and [in_uri.lower()] != hosts):
        raise _wrong_host("The request names several hosts.")
    if not hosts and scope["http_version"] == "1.0":
        return ""
    if not hosts or not _HOST.fullmatch(hosts[0]):
        raise _wrong_host("The request names no host, or something else in its place.")
    return hosts[0]


def check_origin(method: str, headers: Mapping[str, str]) -> None:
    """Raises `Refused` for what a page from elsewhere makes a browser send. Names of headers are in lower case."""
    site = headers.get("sec-fetch-site")
    foreign = site not in (None, "same-origin", "none")
    if method in SAFE_METHODS:
        if foreign and site == "cross-site" and headers.get("sec-fetch-mode") != "navigate":
            raise _foreign()
        return
    origin = headers.get("origin")
    if foreign or (origin is not None and urlsplit(origin).netloc.lower() != headers.get("host", "").lower()):
        raise _foreign()


def proves_origin(headers: Mapping[str, str]) -> bool:
    """Whether a browser has said that a request comes from a page of this server."""
    return headers.get("sec-fetch-site") in ("same-origin", "none") or "origin" in headers


class Gate:
    """Wraps an application. Where tokens are needed, they are what counts, and not the name of the host."""

    def __init__(self, app: ASGIApp, *, needs_tokens: Callable[[], bool]) -> None:
        self._app, self._needs_tokens = app, needs_tokens

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        headers = Headers(scope=scope)
        try:
            host = host_of(scope)
            if not self._needs_tokens():
                check_host(host)
            check_origin(scope["method"], headers)
        except Refused as refused:
            await failure(refused)(scope, receive, with_headers)
            return
        await self._app(scope, receive, with_headers)


def _name(host: str) -> str:
    if host.startswith("["):
        return host.partition("]")[0].removeprefix("[")
    return host.partition(":")[0].lower()


def _wrong_host(message: str) -> Refused:
    return Refused(400, "wrong_host", message, hint="Send one Host header, with a name or an address, and a port.")


def _foreign() -> Refused:
    return Refused(403, "foreign_origin", "The request comes from another site's page.")

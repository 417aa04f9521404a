"""One POST to an address that was checked: within a time, without redirects, and with an answer nobody has to read."""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus

from headwater.connectors.webhooks.addresses import Endpoint, NotPublic, resolve
from headwater.connectors.webhooks.target import Target
from headwater.errors import MessageRefused, TargetFailed

CONNECT_SECONDS_MAX = 10.0
POST_SECONDS_MAX = 30.0
"""From the first connection on, however slowly an answer comes."""
ANSWER_BYTES_MAX = 64 << 10
"""So much of an answer is taken, and forgotten: only its status counts."""

_REFUSES_MESSAGE = frozenset(
    {HTTPStatus.BAD_REQUEST, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.UNPROCESSABLE_ENTITY}
)
_PASSING = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS})


class Poster:
    """Posts, one at a time, each within some seconds."""

    def __init__(self, target: Target, seconds_max: float = POST_SECONDS_MAX) -> None:
        self._target, self._seconds_max = target, seconds_max
        self._context = ssl.create_default_context() if target.scheme == "https" else None
        self._socket: socket.socket | None = None
        self._ends_at = 0.0
        self._closed = False

    def close(self) -> None:
        """Ends what is under way, from any thread; nothing is posted any more."""
        self._closed = True
        self._abort()

    def post(self, headers: Mapping[str, str], body: bytes) -> TargetFailed | None:
        """Sends it; None if it was taken."""
        target = self._target
        try:
            # The one and only time that the name is looked up: what is checked is what is connected to.
            endpoints = resolve(target.host, target.port, allow_private=target.allow_private)
        except NotPublic as error:
            return TargetFailed(f"{target} is at {error.address}, which is not a public address", "refused")
        except OSError as error:
            return TargetFailed(f"{target} is not found: {_said(error)}")
        self._ends_at = time.monotonic() + self._seconds_max
        # A timeout of the socket is for each piece that comes, and pieces may come for ever.
        limit = threading.Timer(self._seconds_max, self._abort)
        limit.daemon = True
        limit.start()
        try:
            with self._connected(endpoints) as connected:
                return self._exchange(connected, headers, body)
        except (OSError, http.client.HTTPException) as error:
            said = "it takes too long" if time.monotonic() >= self._ends_at else _said(error)
            return TargetFailed(f"{target} does not answer: {said}")
        finally:
            limit.cancel()
            self._socket = None

    def _abort(self) -> None:
        connected = self._socket
        if connected is not None:
            with suppress(OSError):
                connected.shutdown(socket.SHUT_RDWR)

    def _connected(self, endpoints: list[Endpoint]) -> socket.socket:
        """A connection to the first that takes it, which has shown its certificate if it needs one."""
        failure: OSError = TimeoutError()
        for endpoint in endpoints:
            left = self._ends_at - time.monotonic()
            if self._closed or left <= 0:
                break
            self._socket = plain = socket.socket(endpoint.family, socket.SOCK_STREAM)
            try:
                plain.settimeout(min(CONNECT_SECONDS_MAX, left))
                plain.connect(endpoint.address)
                if self._context is None:
                    return plain
                # The name of the certificate is that of the URL, whatever address it has.
                self._socket = wrapped = self._context.wrap_socket(plain, server_hostname=self._target.host)
            except OSError as error:
                plain.close()
                failure = error
            else:
                return wrapped
        raise failure

    def _exchange(self, connected: socket.socket, headers: Mapping[str, str], body: bytes) -> TargetFailed | None:
        target = self._target
        if self._context is None:
            connection = http.client.HTTPConnection(target.host, target.port)
        else:
            connection = http.client.HTTPSConnection(target.host, target.port, context=self._context)
        connection.auto_open = 0  # it must not connect by itself, to an address that nobody has checked
        connection.sock = connected
        connected.settimeout(self._seconds_max)
        try:
            connection.request("POST", target.path, body, {**headers, "Connection": "close"})
            answer = connection.getresponse()
            if time.monotonic() >= self._ends_at or self._closed:
                raise TimeoutError  # headers that break off are the end of the headers for the library
            with suppress(OSError, http.client.HTTPException):
                answer.read(ANSWER_BYTES_MAX)
            return judged(str(target), answer.status, answer.getheader("Retry-After"))
        finally:
            connection.close()


def judged(target: str, status: int, retry_after: str | None = None) -> TargetFailed | None:
    """What an answer means; None if the webhook was taken."""
    if 200 <= status < 300:
        return None
    reason = f"{target} answers {status} {http.client.responses.get(status, '')}".rstrip()
    if status == HTTPStatus.GONE:
        return TargetFailed(reason, "gone")
    if 300 <= status < 400:
        return TargetFailed(f"{reason}, and redirects are not followed", "refused")
    if status in _REFUSES_MESSAGE:
        return MessageRefused(reason)
    if status < 500 and status not in _PASSING:
        return TargetFailed(reason, "refused")
    return TargetFailed(reason, "passing", _seconds_until(retry_after))


def _seconds_until(retry_after: str | None) -> float | None:
    """What `Retry-After` asks for, which is a number of seconds or a date; None if it is neither."""
    if not retry_after or not retry_after.isascii():
        return None
    if retry_after.isdigit():
        return float(retry_after)
    try:
        at = parsedate_to_datetime(retry_after)
    except ValueError:
        return None
    at = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    return max(0.0, (at - datetime.now(UTC)).total_seconds())


def _said(error: Exception) -> str:
    """What went wrong, in the words of the system, never in those of the receiver."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is wrong: {error.verify_message}"
    if isinstance(error, TimeoutError):
        return "it takes too long"
    if isinstance(error, http.client.RemoteDisconnected):
        return "it ends the connection"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return "what it says is not HTTP"

"""Requests to a cluster, one at a time: each is answered, or fails as a target does; none of them shows a secret."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from opensearchpy.connection import Urllib3HttpConnection
from opensearchpy.exceptions import ConnectionError as NotConnected
from opensearchpy.exceptions import ConnectionTimeout, SSLError

from headwater.connectors.secrets import password_in
from headwater.errors import TargetFailed, UsageError

REQUEST_SECONDS_MAX = 60.0
REASON_LENGTH_MAX = 500
"""How much of what a cluster says about a failure is kept."""
_PASSING = frozenset({408, 425, 429, 502, 503, 504})
_PORTS = {"https": 443, "http": 9200}


@dataclass(frozen=True, slots=True)
class Cluster:
    """Where a cluster is, and what proves who asks. `str` and `repr` show no secret."""

    scheme: str
    host: str
    port: int
    prefix: str
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    api_key: str | None = field(default=None, repr=False)
    ca_certificate: str | None = None

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}{self.prefix}"


def parse_cluster(
    url: str, *, password_file: str | Path | None, api_key: str | None, ca_certificate: str | Path | None
) -> Cluster:
    """The cluster that a URL means. Raises `UsageError`, which does not show the URL."""
    hint = "It is like https://search.example.com:9200."
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise UsageError("The URL of the OpenSearch cluster is not valid.", hint=hint) from None
    if parts.scheme not in _PORTS or not host:
        raise UsageError("The URL of the OpenSearch cluster is not an HTTP URL.", hint=hint)
    user, password = (None if part is None else unquote(part) for part in (parts.username, parts.password))
    if password_file is not None:
        password = password_in(password_file)
    if password is not None and user is None:
        raise UsageError("A password for OpenSearch needs a user.", hint="Write the user into the URL: https://USER@…")
    if api_key is not None and password is not None:
        raise UsageError("OpenSearch takes a password or an API key, not both.")
    certificate = None if ca_certificate is None else str(ca_certificate)
    path = parts.path.rstrip("/")
    return Cluster(parts.scheme, host, port or _PORTS[parts.scheme], path, user, password, api_key, certificate)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a cluster answers: its status, what it says, and after how many seconds it wants to be asked again."""

    status: int
    said: Any
    retry_after: float | None = None

    @property
    def reason(self) -> str:
        """Why it did not do it, in its own words."""
        error = self.said.get("error", self.said) if isinstance(self.said, dict) else self.said
        return reason_of(error) or f"it answers {self.status}"


def reason_of(error: Any) -> str:
    """What an error of a cluster says: the reason, and what it was caused by."""
    if not isinstance(error, dict):
        return str(error or "")[:REASON_LENGTH_MAX]
    words = f"{error.get('type', '')}: {error.get('reason', '')}".strip(": ")
    cause = error.get("caused_by")
    return (f"{words} ({reason_of(cause)})" if isinstance(cause, dict) else words)[:REASON_LENGTH_MAX]


class _Connection(Urllib3HttpConnection):
    """The driver's connection, which leaves it to the sink to say what is wrong, and says it once."""

    def log_request_fail(self, *_: Any, **__: Any) -> None:
        pass

    def _raise_warnings(self, warning_headers: Any) -> None:
        pass


class Requests:
    """One connection to a cluster."""

    def __init__(self, cluster: Cluster, seconds_max: float = REQUEST_SECONDS_MAX) -> None:
        self._cluster = cluster
        secure = cluster.scheme == "https"
        self._connection: Any = _Connection(
            host=cluster.host,
            port=cluster.port,
            url_prefix=cluster.prefix,
            use_ssl=secure,
            http_auth=None if cluster.password is None else (cluster.user, cluster.password),
            headers={} if cluster.api_key is None else {"Authorization": f"ApiKey {cluster.api_key}"},
            timeout=seconds_max,
            pool_maxsize=1,
            ca_certs=cluster.ca_certificate if secure else None,
        )
        self._turn, self._closed = threading.Lock(), False
        self._sockets: list[socket.socket] = []
        self._connection.pool.ConnectionCls = self._remembering(self._connection.pool.ConnectionCls)

    def close(self) -> None:
        """Breaks off what is under way, from any thread; every request fails from now on."""
        with self._turn:
            self._closed = True
            sockets, self._sockets = self._sockets, []
        for each in sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        self._connection.close()

    def ask(
        self, method: str, path: str, body: object = None, *, expected: tuple[int, ...] = (), **parameters: object
    ) -> Answer:
        """The answer to a request; `body` is JSON, or text that is sent as it is.

        Raises `TargetFailed` unless it succeeds or its status is among the `expected` ones.
        """
        text = body if isinstance(body, str | None) else json.dumps(body)
        kind = "application/x-ndjson" if isinstance(body, str) else "application/json"
        if self._closed:
            raise TargetFailed("The connection was closed")
        try:
            status, headers, said = self._connection.perform_request(
                method,
                path,
                params={name: _parameter(value) for name, value in parameters.items()},
                body=None if text is None else text.encode("utf-8", "surrogatepass"),
                ignore=range(300, 600),
                headers={"content-type": kind},
            )
        except SSLError:
            raise TargetFailed(f"{self._cluster} has a certificate that is not trusted", "refused") from None
        except ConnectionTimeout:
            raise TargetFailed(f"{self._cluster} takes too long") from None
        except (NotConnected, OSError, AttributeError) as error:
            # The driver has no pool any more after another thread has closed it.
            if isinstance(error, AttributeError) and not self._closed:
                raise
            raise TargetFailed(f"{self._cluster} does not answer") from None
        answer = Answer(status, _parsed(said), _seconds(headers))
        if status in expected or 200 <= status < 300:
            return answer
        raise self.failure(answer)

    def failure(self, answer: Answer) -> TargetFailed:
        """What an answer means that is no success."""
        kind = "passing" if answer.status in _PASSING or answer.status >= 500 else "refused"
        reason = f"{self._cluster} answers {answer.status}: {answer.reason}"
        return TargetFailed(reason, "passing" if kind == "passing" else "refused", answer.retry_after)

    def _remembering(self, kind: Any) -> Any:
        """The class of connections, each of which hands over its socket, so that `close` can break it off."""
        requests = self

        class Remembered(kind):  # type: ignore[misc]
            def connect(self) -> None:
                super().connect()
                with requests._turn:
                    requests._sockets = [self.sock]

        return Remembered


def _parameter(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _parsed(said: str) -> Any:
    try:
        return json.loads(said) if said else None
    except ValueError:
        return said


def _seconds(headers: Mapping[str, str]) -> float | None:
    given = {name.lower(): value for name, value in headers.items()}.get("retry-after", "")
    return float(given) if given.isascii() and given.isdigit() else None

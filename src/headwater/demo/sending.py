"""Sends records and questions to a server of this machine over HTTP, on a connection that is kept."""

from __future__ import annotations

import http.client
import json
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from headwater.errors import Determinate

ANSWER_SECONDS_MAX = 60.0


class Client:
    """One connection, opened again after whatever happened to it. For one thread."""

    def __init__(self, url: str) -> None:
        self._place = urlsplit(url).netloc
        self._connection: http.client.HTTPConnection | None = None

    def get(self, path: str) -> Any:
        """The answer. Raises `Determinate` if there is none, or if it is an error."""
        return self._ask("GET", path, None, {})

    def post(self, path: str, body: object = None, *, key: str | None = None) -> Any:
        """The answer. With a `key`, records that are sent again are appended once."""
        headers = {"Content-Type": "application/json"}
        if key is not None:
            headers["Idempotency-Key"] = key
        return self._ask("POST", path, None if body is None else json.dumps(body).encode(), headers)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _ask(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> Any:
        if self._connection is None:
            self._connection = http.client.HTTPConnection(self._place, timeout=ANSWER_SECONDS_MAX)
        try:
            self._connection.request(method, path, body, headers)
            answered = self._connection.getresponse()
            text = answered.read()
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise Determinate(f"The server at {self._place} does not answer.") from error
        if answered.status >= 400:
            raise Determinate(f"{method} {path}: {_message(text) or answered.status}")
        return json.loads(text)


def _message(text: bytes) -> str:
    with suppress(ValueError, KeyError, TypeError):
        return str(json.loads(text)["error"]["message"])
    return ""

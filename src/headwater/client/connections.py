"""What both clients do with httpx: addresses, time limits, and what a failure means."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import httpx

from headwater.client.protocol import Request
from headwater.errors import AnswerLost, ServerUnavailable

ANSWER_SECONDS = 30.0
"""How long an answer may take, in addition to what the request itself waits for."""
SILENCE_SECONDS = 60.0
"""How long a stream may be silent. The server sends something every few seconds."""


def settings(url: str, token: str | None, options: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of an httpx client."""
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    return {"base_url": url, "headers": headers, "timeout": ANSWER_SECONDS, **options}


def arguments(request: Request) -> dict[str, Any]:
    """The arguments of a request of httpx."""
    return {
        "method": request.method,
        "url": request.path,
        "params": dict(request.parameters),
        "headers": dict(request.headers),
        "content": request.body,
        "timeout": ANSWER_SECONDS + request.seconds,
    }


def lost(error: httpx.TransportError) -> AnswerLost | ServerUnavailable:
    """The error for a failed connection: nothing was sent, or the request may have happened."""
    reason = str(error) or type(error).__name__
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout):
        message = f"The server cannot be reached: {reason}."
        return ServerUnavailable(message, status=0, code="unreachable", hint="Check its address.", details={})
    return AnswerLost(reason)

"""Answers at the pace of their clients: no faster than they are taken, and for no longer than they are wanted."""

from __future__ import annotations

import asyncio

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headwater.server.answers import PIECE_BYTES
from headwater.server.service import Service

DROPPED = "headwater_answers_dropped_total"


class Pace:
    """Wraps an application. Sends bodies in pieces, each when the client has taken the one before.

    A client that stalls is dropped, and one that stalls for a moment, if there are too many: its answer is not
    complete, and the connection ends.
    """

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app, self._budget, self._counters = app, service.answers, service.counters
        self._stall_seconds = service.limits.stream_stall_seconds_max

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def paced(message: Message) -> None:
            body = message.get("body", b"")
            if len(body) <= PIECE_BYTES:
                await send(message)
                return
            try:
                await self._send_pieces(body, message, send)
            except TimeoutError:
                self._counters.add(DROPPED)

        await self._app(scope, receive, paced)

    async def _send_pieces(self, body: bytes, message: Message, send: Send) -> None:
        with self._budget.hold() as hold:
            hold.take(len(body))
            for start in range(0, len(body), PIECE_BYTES):
                piece = body[start : start + PIECE_BYTES]
                more = message.get("more_body", False) or start + PIECE_BYTES < len(body)
                async with asyncio.timeout(self._stall_seconds) as timer:
                    with hold.waiting(timer):
                        await send({"type": "http.response.body", "body": piece, "more_body": more})
                hold.moved()

"""Answers: JSON with the position that it shows, errors in one form, and streams of events."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import nullcontext, suppress
from http import HTTPStatus
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from headwater.errors import HeadwaterError, InternalError, Refused
from headwater.model.position import Position
from headwater.server import sse
from headwater.server.budget import Hold
from headwater.server.failures import error_body, status_of

POSITION_HEADER = "Headwater-Position"
HEARTBEAT_SECONDS = 15.0
PIECE_BYTES = 64 << 10
"""As much of an answer is handed to the event loop at a time, which keeps it until the client takes it."""
_log = logging.getLogger("headwater.server")
T = TypeVar("T")


def answer(body: object, position: Position | None = None, *, status: int = 200) -> Response:
    """JSON. With a position it is in the header as well; the caller has put it into the body."""
    headers = {} if position is None else {POSITION_HEADER: str(position)}
    return Response(sse.to_json(body), status, headers, media_type="application/json")


def failure(error: HeadwaterError) -> Response:
    """What went wrong."""
    headers = error.headers if isinstance(error, Refused) else {}
    return Response(sse.to_json(error_body(error)), status_of(error), headers, media_type="application/json")


def last_words(error: HeadwaterError) -> bytes:
    """What went wrong, as all that a connection is sent before it is closed, without an application."""
    body = sse.to_json(error_body(error)).encode()
    status = HTTPStatus(status_of(error))
    headers = error.headers if isinstance(error, Refused) else {}
    fields = {**headers, "Content-Type": "application/json", "Content-Length": len(body), "Connection": "close"}
    lines = [f"HTTP/1.1 {status.value} {status.phrase}", *(f"{name}: {value}" for name, value in fields.items())]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


async def while_connected(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """What the work gives; it is cancelled when the client goes away. Raises `ClientDisconnect`."""
    working, gone = asyncio.ensure_future(work), asyncio.ensure_future(_gone(request.receive))
    try:
        await asyncio.wait({working, gone}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        raise ClientDisconnect
    finally:
        working.cancel()
        gone.cancel()
        await asyncio.wait({working, gone})


class EventStream(Response):
    """Events until they end, or until the client is gone or takes nothing for `stall_seconds`.

    `on_end` is called when the stream is over, whatever ended it, with whether that was because the client stalled. A
    `hold` is what the events hold in memory: a client that stalls for a moment may have to give way for it.
    """

    media_type = sse.CONTENT_TYPE

    def __init__(
        self,
        events: AsyncIterator[bytes],
        *,
        stall_seconds: float,
        on_end: Callable[[bool], None] = lambda _: None,
        hold: Hold | None = None,
    ) -> None:
        super().__init__()
        self._events, self._stall_seconds, self._on_end = events, stall_seconds, on_end
        self._hold = hold
        self.check: Callable[[], None] = lambda: None
        """Called before each event: raises `HeadwaterError` if the client may have no more of them."""
        # A stream has no length; nothing between us and the client may keep it back.
        del self.headers["content-length"]
        self.headers["X-Accel-Buffering"] = "no"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        sending = asyncio.ensure_future(self._send_all(send))
        gone = asyncio.ensure_future(_gone(receive))
        stalled = False
        with self._hold or nullcontext():
            try:
                await asyncio.wait({sending, gone}, return_when=asyncio.FIRST_COMPLETED)
                if sending.done():
                    stalled = sending.result()
            finally:
                # Whatever went wrong, the stream does not count as open any more.
                try:
                    await self._end(sending, gone)
                finally:
                    self._on_end(stalled)

    async def _end(self, *tasks: asyncio.Future[Any]) -> None:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        aclose: Callable[[], Awaitable[None]] | None = getattr(self._events, "aclose", None)
        if aclose is not None:
            await aclose()

    async def _send_all(self, send: Send) -> bool:
        """Whether the client has stalled."""
        try:
            await self._send(send, {"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            await self._send(send, {"type": "http.response.body", "body": sse.RETRY, "more_body": True})
            async for event in self._events:
                self.check()
                # In pieces, so that no more than one of them waits in memory for a client that is slow.
                for start in range(0, len(event), PIECE_BYTES):
                    piece = event[start : start + PIECE_BYTES]
                    await self._send(send, {"type": "http.response.body", "body": piece, "more_body": True})
            await self._send(send, {"type": "http.response.body", "body": b"", "more_body": False})
        except HeadwaterError as error:
            with suppress(TimeoutError):
                await self._told(send, error)
        except TimeoutError:
            return True
        except Exception:  # noqa: BLE001 - a bug must not show its inside to a client
            _log.exception("A stream failed")
            with suppress(TimeoutError, OSError):
                await self._told(send, InternalError("unexpected"))
        return False

    async def _send(self, send: Send, message: Message) -> None:
        """Sends a message. Raises `TimeoutError` if the client takes nothing for too long."""
        async with asyncio.timeout(self._stall_seconds) as timer:
            if self._hold is None:
                await send(message)
                return
            with self._hold.waiting(timer):
                await send(message)
        self._hold.moved()

    async def _told(self, send: Send, error: HeadwaterError) -> None:
        """Says in the stream what ends it."""
        body = sse.event(error_body(error), name="error")
        await self._send(send, {"type": "http.response.body", "body": body, "more_body": False})


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass

"""One connection as the event loop sees it: uvicorn's, with limits on what comes before a request.

uvicorn times out a connection between two requests only. Here headers have a time and a size, from the first byte on,
and so does a connection that says nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Literal

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from headwater.errors import Refused
from headwater.server.answers import last_words
from headwater.server.limits import Limits

AUTHORITY = "headwater.authority"
"""The extension of a request's scope with the host of an absolute URI in its first line."""
Reason = Literal["header_seconds_max", "header_bytes_max"]


class Connection(HttpToolsProtocol):
    """Calls `on_limit` when a limit ends it, and `on_end` when it has ended, whatever ended it."""

    def __init__(
        self,
        config: uvicorn.Config,
        state: ServerState,
        limits: Limits,
        on_limit: Callable[[Reason], None],
        on_end: Callable[[], None],
    ) -> None:
        super().__init__(config, state, {})
        self._limits, self._on_limit, self._on_end = limits, on_limit, on_end
        self._deadline: asyncio.TimerHandle | None = None
        self._in_headers = True
        self._requests = self._header_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        self._expect_nothing()
        super().connection_lost(exc)
        self._on_end()

    def data_received(self, data: bytes) -> None:
        if self._deadline is None and self.cycle.response_complete:
            self._expect_headers()
        before, requests = self._in_headers, self._requests
        super().data_received(data)
        # Of data in which headers end or begin, what belongs to them is not known, and is not much.
        if before and requests == self._requests:
            self._header_bytes += len(data)
            if self._header_bytes > self._limits.header_bytes_max:
                self._refuse("header_bytes_max", Refused(431, "headers_too_large", "The headers are too large."))

    def on_headers_complete(self) -> None:
        self._in_headers = False
        self._requests += 1
        self._header_bytes = 0
        if not self.url.startswith(b"/"):
            authority = self.url.partition(b"://")[2].partition(b"/")[0].decode("latin-1")
            self.scope["extensions"] = {AUTHORITY: {"text": authority}}
        super().on_headers_complete()
        self._expect_nothing()

    def on_message_complete(self) -> None:
        self._in_headers = True
        super().on_message_complete()

    def _expect_headers(self) -> None:
        self._deadline = self.loop.call_later(self._limits.header_seconds_max, self._too_late)

    def _expect_nothing(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _too_late(self) -> None:
        self._deadline = None
        self._refuse("header_seconds_max", Refused(408, "too_slow", "The headers did not arrive in time."))

    def _refuse(self, reason: Reason, refused: Refused) -> None:
        if self.transport.is_closing():
            return
        self._on_limit(reason)
        # Nobody reads an answer who has asked nothing yet, or has not taken the answer before.
        if self._header_bytes and not self.transport.get_write_buffer_size():
            self.transport.write(last_words(refused))
            self.transport.close()
        else:
            self.transport.abort()

"""Splits what an HTTP client sends into its requests, so that one of them can be sent again."""

from __future__ import annotations

import re
from collections.abc import Iterator

_END = b"\r\n\r\n"
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_START = re.compile(rb"[A-Z]+ \S+ HTTP/1\.[01]\r\n")


class Splitter:
    """Takes the bytes of one connection as they come. Bodies have a Content-Length, or there is none."""

    def __init__(self) -> None:
        self._held = b""

    def split(self, piece: bytes) -> Iterator[bytes]:
        """The requests that are complete with this piece."""
        self._held += piece
        while (request := self._request()) is not None:
            self._held = self._held[len(request) :]
            yield request

    def _request(self) -> bytes | None:
        if self._held and _START.match(self._held) is None and b"\r\n" in self._held:
            # It was not listened to from the beginning of a request on.
            self._held = b""
        end = self._held.find(_END)
        if end < 0:
            return None
        length = _LENGTH.search(self._held, 0, end + 2)
        total = end + len(_END) + (0 if length is None else int(length[1]))
        return self._held[:total] if len(self._held) >= total else None

"""The acceptor: takes connections from a listening socket, as many as there may be.

It does not leave this to the event loop, which would accept all that wait before it calls the first protocol, and with
them take every descriptor of the process. Here a connection is counted before anything else is done for it.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress

from headwater.errors import Refused
from headwater.server.answers import last_words
from headwater.server.connections import Connections

ACCEPTS_AT_ONCE = 64
"""Connections that are accepted before the event loop does anything else."""
PAUSE_SECONDS = 0.5
"""How long nothing is accepted when there are no descriptors left, which would fail again at once."""
_NONE_LEFT = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_REFUSAL = last_words(
    Refused(
        503,
        "too_many_connections",
        "There are too many connections at the moment.",
        hint="Close some, or try again soon.",
        headers={"Retry-After": "1"},
    )
)


class Acceptor:
    """Accepts from `start` to `close`. `protocol` makes the protocol of a connection, which tells when it has ended."""

    def __init__(
        self,
        listening: socket.socket,
        connections: Connections,
        protocol: Callable[[Callable[[], None]], asyncio.Protocol],
        *,
        tls: ssl.SSLContext | None,
        handshake_seconds: float,
    ) -> None:
        self._listening, self._connections, self._protocol = listening, connections, protocol
        self._tls, self._handshake_seconds = tls, handshake_seconds
        self._loop = asyncio.get_running_loop()
        self._pause: asyncio.TimerHandle | None = None
        self._opening: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        self._pause = None
        self._listening.setblocking(False)
        self._loop.add_reader(self._listening, self._accept)

    def close(self) -> None:
        """Accepts nothing more. Connections stay, but for those whose handshake is not done."""
        self._loop.remove_reader(self._listening)
        if self._pause is not None:
            self._pause.cancel()
        for task in self._opening:
            task.cancel()

    def _accept(self) -> None:
        for _ in range(ACCEPTS_AT_ONCE):
            try:
                accepted, address = self._listening.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in _NONE_LEFT:
                    self._rest()
                    return
                continue  # the client is gone already
            self._open(accepted, str(address[0]))

    def _rest(self) -> None:
        self._connections.count_refused("descriptors")
        self._loop.remove_reader(self._listening)
        self._pause = self._loop.call_later(PAUSE_SECONDS, self.start)

    def _open(self, accepted: socket.socket, address: str) -> None:
        ended = self._connections.add(address, accepted.fileno())
        accepted.setblocking(False)
        if ended is None:
            self._refuse(accepted)
            return
        task = self._loop.create_task(self._connect(accepted, ended))
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)

    def _refuse(self, accepted: socket.socket) -> None:
        with accepted, suppress(OSError):
            if self._tls is None:
                accepted.send(_REFUSAL)

    async def _connect(self, accepted: socket.socket, ended: Callable[[], None]) -> None:
        seconds = None if self._tls is None else self._handshake_seconds
        try:
            await self._loop.connect_accepted_socket(
                lambda: self._protocol(ended), accepted, ssl=self._tls, ssl_handshake_timeout=seconds
            )
        except BaseException as error:
            # The protocol does not hear of a handshake that fails.
            ended()
            accepted.close()
            if not isinstance(error, OSError):
                raise

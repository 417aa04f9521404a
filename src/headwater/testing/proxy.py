"""A TCP proxy in front of a server, which cuts connections, swallows and delays bytes, and repeats requests."""

from __future__ import annotations

import queue
import random
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from headwater.testing.http_requests import Splitter

PIECE = 4096
LATE_SECONDS_MAX = 0.3
"""How late a repeated request comes."""

Server = tuple[str, int] | Path
"""A host and a port, or the path of a Unix socket."""


class Proxy:
    """Forwards bytes in both directions, and does what it is told to in between. Faults may be changed at any time.

    `cutting`    each connection ends after a random number of bytes, in the middle of a piece
    `delay`      how many seconds each piece is held back at most; pieces of a client that is gone still arrive, late
    `dropping`   bytes vanish; a connection that lost some is dead, and is cut when the fault ends
    `repeating`  how likely an HTTP request comes again, a little later, over a connection of its own
    """

    def __init__(self, server: Server, seed: int) -> None:
        self._server, self.random = server, random.Random(seed)  # noqa: S311 - no secret
        self.cutting, self.dropping, self.delay, self.repeating = False, False, 0.0, 0.0
        self.cut = self.dropped = self.repeated = self.bytes_in = 0
        self._turn = threading.Lock()
        self._awaited: tuple[int, Callable[[], None]] | None = None
        self._connections: list[_Connection] = []
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def after(self, count: int, action: Callable[[], None]) -> None:
        """Lets `action` run once, when clients have sent this many more bytes, and before those are forwarded."""
        with self._turn:
            self._awaited = (self.bytes_in + count, action)

    def expire(self) -> None:
        """Lets the action of `after` run now, unless it has run."""
        self._act(due=True)

    def heal(self) -> None:
        """Ends all faults; connections that lost bytes are cut."""
        was_dropping = self.dropping
        self.cutting, self.dropping, self.delay, self.repeating = False, False, 0.0, 0.0
        if was_dropping:
            self.cut_all()

    def cut_all(self) -> None:
        """Ends all connections."""
        with self._turn:
            connections, self._connections = self._connections, []
        for each in connections:
            each.cut()

    def close(self) -> None:
        """Ends all connections, and takes no more."""
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self.cut_all()

    def took(self, piece: bytes) -> None:
        """Notes what a client has sent, before it is forwarded."""
        with self._turn:
            self.bytes_in += len(piece)
        self._act(due=False)

    def connect(self) -> socket.socket:
        """A connection to the server. Raises `OSError`."""
        if isinstance(self._server, Path):
            made = socket.socket(socket.AF_UNIX)
            made.connect(str(self._server))
            return made
        return socket.create_connection(self._server)

    def repeat(self, request: bytes) -> None:
        """Sends a request once more, a little later, and ignores the answer."""
        self.repeated += 1
        late = self.random.uniform(0, LATE_SECONDS_MAX)
        threading.Thread(target=self._send_late, args=(request, late), daemon=True).start()

    def _act(self, *, due: bool) -> None:
        with self._turn:
            if self._awaited is None or not (due or self.bytes_in >= self._awaited[0]):
                return
            (_, action), self._awaited = self._awaited, None
        action()

    def _send_late(self, request: bytes, seconds: float) -> None:
        time.sleep(seconds)
        with suppress(OSError), self.connect() as connection:
            connection.settimeout(10)
            connection.sendall(request)
            connection.recv(PIECE)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                try:
                    server = self.connect()
                except OSError:
                    client.close()
                    continue
                made = _Connection(self, client, server)
                with self._turn:
                    self._connections = [each for each in self._connections if not each.is_over] + [made]
                made.start()


class _Connection:
    """One connection of a client, and the one to the server that belongs to it."""

    def __init__(self, proxy: Proxy, client: socket.socket, server: socket.socket) -> None:
        self._proxy, self._client, self._server = proxy, client, server
        self._left = proxy.random.randrange(200, 20_000)
        self.is_over = False

    def start(self) -> None:
        for one, other, inward in ((self._client, self._server, True), (self._server, self._client, False)):
            pieces: queue.SimpleQueue[tuple[float, bytes]] = queue.SimpleQueue()
            for work in (lambda o=one, p=pieces, i=inward: self._take(o, p, inward=i),
                         lambda o=other, p=pieces: self._bring(o, p)):  # fmt: skip
                threading.Thread(target=work, daemon=True).start()

    def cut(self) -> None:
        """Ends it at once, without a farewell."""
        self.is_over = True
        for each in (self._client, self._server):
            with suppress(OSError):
                # Reset, as a middlebox does.
                each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _take(self, one: socket.socket, pieces: queue.SimpleQueue[tuple[float, bytes]], *, inward: bool) -> None:
        proxy, splitter = self._proxy, Splitter()
        with suppress(OSError):
            while piece := one.recv(PIECE):
                if inward:
                    proxy.took(piece)
                if proxy.dropping:
                    proxy.dropped += 1
                    continue
                if inward and proxy.repeating:
                    for request in splitter.split(piece):
                        if proxy.random.random() < proxy.repeating:
                            proxy.repeat(request)
                if proxy.cutting and not self._survives(piece, pieces):
                    return
                pieces.put((time.monotonic() + proxy.random.uniform(0, proxy.delay), piece))
        # What was taken is still brought.
        pieces.put((0.0, b""))

    def _survives(self, piece: bytes, pieces: queue.SimpleQueue[tuple[float, bytes]]) -> bool:
        before, self._left = self._left, self._left - len(piece)
        if self._left >= 0:
            return True
        self._proxy.cut += before >= 0
        # A part of it arrives.
        pieces.put((0.0, piece[: len(piece) // 2]))
        pieces.put((0.0, b""))
        return False

    def _bring(self, other: socket.socket, pieces: queue.SimpleQueue[tuple[float, bytes]]) -> None:
        with suppress(OSError):
            while (found := pieces.get())[1]:
                at, piece = found
                time.sleep(max(0.0, at - time.monotonic()))
                other.sendall(piece)
        self.is_over = True
        for each in (self._client, self._server):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()


@contextmanager
def proxied(server: Server, seed: int = 1) -> Iterator[Proxy]:
    """A proxy that is closed after the block."""
    made = Proxy(server, seed)
    try:
        yield made
    finally:
        made.close()

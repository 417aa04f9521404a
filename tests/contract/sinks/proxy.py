"""A proxy before a target's server, which cuts connections after some bytes, wherever that is."""

from __future__ import annotations

import random
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_PIECE = 4096


class Proxy:
    """Hands bytes on in both directions. While it is `cutting`, each connection ends after a random number of them."""

    def __init__(self, port: int, seed: int) -> None:
        self._server, self._random = port, random.Random(seed)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self.cutting, self.cut = False, 0
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                try:
                    server = socket.create_connection(("127.0.0.1", self._server))
                except OSError:
                    client.close()
                    continue
                limit = [self._random.randrange(200, 20_000)]
                for one, other in ((client, server), (server, client)):
                    threading.Thread(target=self._hand_on, args=(one, other, limit), daemon=True).start()

    def _hand_on(self, one: socket.socket, other: socket.socket, limit: list[int]) -> None:
        with suppress(OSError):
            while piece := one.recv(_PIECE):
                limit[0] -= len(piece) if self.cutting else 0
                if limit[0] < 0:
                    # A part of it arrives.
                    other.sendall(piece[: len(piece) // 2])
                    self.cut += 1
                    break
                other.sendall(piece)
        for each in (one, other):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()


@contextmanager
def proxied(port: int, seed: int = 1) -> Iterator[Proxy]:
    made = Proxy(port, seed)
    try:
        yield made
    finally:
        made.close()

"""A socket in front of a server's that loses what passes at the moment of a commit."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from pathlib import Path
from typing import Literal

Mode = Literal["open", "lose answer", "lose request", "closed"]


class StoreLine:
    """Passes everything on, until a client says COMMIT: then the answer, or the request itself, is lost.

    After that connections work again; with `stays_closed` none is taken any more.
    """

    def __init__(self, folder: Path, server: Path) -> None:
        folder.mkdir()
        self._server = str(server / ".s.PGSQL.5432")
        self.mode: Mode = "open"
        self.stays_closed = False
        self.lost = 0
        self._sockets: list[socket.socket] = []
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(folder / ".s.PGSQL.5432"))
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for one in self._sockets:
            one.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self.mode == "closed":
                client.close()
                continue
            server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            server.connect(self._server)
            self._sockets += [client, server]
            threading.Thread(target=self._pump, args=(client, server), daemon=True).start()
            threading.Thread(target=self._pump, args=(server, client), daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while content := source.recv(1 << 16):
                if b"COMMIT\0" in content and self.mode.startswith("lose"):
                    if self.mode == "lose answer":
                        self._complete(content, source, target)
                    self.mode = "closed" if self.stays_closed else "open"
                    self.lost += 1
                    break
                target.sendall(content)
        for one in (source, target):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def _complete(self, content: bytes, client: socket.socket, server: socket.socket) -> None:
        """Lets the server commit; what it answers goes nowhere, because the client's side is closed already."""
        client.shutdown(socket.SHUT_RDWR)
        server.sendall(content)
        # The server ends the connection when it has carried out what it was sent, and finds nobody there.
        server.shutdown(socket.SHUT_WR)

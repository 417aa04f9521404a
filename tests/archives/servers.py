"""A server that speaks S3 over HTTP (moto's), and a line to it that can be cut, or go silent."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from typing import Literal

import httpx
from pyarrow import fs

READY_SECONDS_MAX = 90
Mode = Literal["open", "silent", "closed"]


class S3Server:
    """moto's server in a process of its own, with one bucket."""

    def __init__(self) -> None:
        self.port = _free_port()
        # Its warnings are none of ours, and would be errors in this process.
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + READY_SECONDS_MAX
        while True:
            with suppress(httpx.TransportError):
                httpx.put(f"{self.url}/bucket").raise_for_status()
                return
            assert time.monotonic() < deadline, "moto's server did not start"
            time.sleep(0.1)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def system(self) -> fs.S3FileSystem:
        """What a stranger sees of the server."""
        return fs.S3FileSystem(endpoint_override=f"127.0.0.1:{self.port}", scheme="http")

    def keys(self, prefix: str) -> set[str]:
        """The names of all objects below a prefix of the bucket."""
        found = self.system.get_file_info(fs.FileSelector(f"bucket/{prefix}", recursive=True))
        return {info.path.removeprefix("bucket/") for info in found if info.type == fs.FileType.File}

    def put(self, key: str, content: bytes) -> None:
        with self.system.open_output_stream(f"bucket/{key}") as stream:
            stream.write(content)

    def get(self, key: str) -> bytes:
        with self.system.open_input_stream(f"bucket/{key}") as stream:
            return bytes(stream.read())

    def ask_for_credentials(self, *, required: bool) -> None:
        """From now on requests need valid credentials, or do not."""
        count = "0" if required else "inf"
        httpx.post(f"{self.url}/moto-api/reset-auth", content=count).raise_for_status()

    def close(self) -> None:
        self._process.terminate()
        self._process.wait()


class Line:
    """A port that leads to another one: `open`, `silent` (takes requests, and never answers), or `closed`."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._mode: Mode = "open"
        self._sockets: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.requests = 0
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def switch(self, mode: Mode) -> None:
        """Ends all connections; those that come are treated in the new way."""
        self._mode = mode
        for one in self._sockets:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        self._sockets.clear()

    def close(self) -> None:
        self.switch("closed")
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self._mode == "closed":
                client.close()
                continue
            self._sockets.append(client)
            if self._mode == "open":
                server = socket.create_connection(("127.0.0.1", self._target))
                self._sockets.append(server)
                for pair in ((client, server), (server, client)):
                    threading.Thread(target=self._pump, args=pair, daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while content := source.recv(1 << 16):
                self.requests += 1
                target.sendall(content)
        for one in (source, target):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
    return port

"""How the demo's server asks the supervisor for something: a line of JSON through a socket, and a line back."""

from __future__ import annotations

import json
import queue
import socket
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headwater.errors import Determinate

ANSWER_SECONDS_MAX = 90.0
LINE_BYTES_MAX = 64 << 10

Message = dict[str, Any]


@dataclass
class Asked:
    """A request that waits for the supervisor."""

    request: Message
    _answer: queue.SimpleQueue[Message] = field(default_factory=queue.SimpleQueue)

    def answer(self, message: Message) -> None:
        self._answer.put(message)

    def wait(self) -> Message:
        try:
            return self._answer.get(timeout=ANSWER_SECONDS_MAX)
        except queue.Empty:
            return {"error": "The supervisor did not answer in time."}


class Listener:
    """Takes requests into a queue, from which the supervisor's main thread takes them."""

    def __init__(self, path: Path) -> None:
        self.requests: queue.SimpleQueue[Asked] = queue.SimpleQueue()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.bind(str(path))
        path.chmod(0o600)
        self._socket.listen()
        threading.Thread(target=self._accept, name="headwater-demo-control", daemon=True).start()

    def close(self) -> None:
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _accept(self) -> None:
        with suppress(OSError):  # it was closed
            while True:
                connection, _ = self._socket.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, suppress(OSError, ValueError):
            connection.settimeout(ANSWER_SECONDS_MAX)
            asked = Asked(json.loads(_line(connection)))
            self.requests.put(asked)
            connection.sendall(json.dumps(asked.wait()).encode() + b"\n")


def ask(path: Path, seconds: float = ANSWER_SECONDS_MAX, **request: object) -> Message:
    """What the supervisor answers. Raises `Determinate` if it does not in time, or says that it cannot be done."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(seconds)
            connection.connect(str(path))
            connection.sendall(json.dumps(request).encode() + b"\n")
            answered: Message = json.loads(_line(connection))
    except (OSError, ValueError) as error:
        raise Determinate("The demo's supervisor does not answer.", hint="Start the demo again.") from error
    if "error" in answered:
        raise Determinate(str(answered["error"]))
    return answered


def _line(connection: socket.socket) -> bytes:
    received = b""
    while not received.endswith(b"\n") and len(received) < LINE_BYTES_MAX:
        part = connection.recv(4096)
        if not part:
            break
        received += part
    return received

"""Who takes webhooks in tests: a real HTTP server that answers as it is told, and adds up what it has taken."""

from __future__ import annotations

import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from headwater.model.receivers import WebhookIn
from headwater.server.signatures import check

SECRET = "it is a secret"
Answer = Callable[["Receiver", BaseHTTPRequestHandler], None]


def status(code: int, **headers: str) -> Answer:
    """Answers with a status."""

    def answer(_: Receiver, request: BaseHTTPRequestHandler) -> None:
        request.send_response(code)
        for name, value in {"Content-Length": "0", **headers}.items():
            request.send_header(name.replace("_", "-"), value)
        request.end_headers()

    return answer


@dataclass
class Receiver:
    """Everything that has come, in order, with its id; `answers` are given first, and then 204."""

    port: int = 0
    scheme: str = "http"
    came: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    taken: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    bodies: dict[str, bytes] = field(default_factory=dict)
    hosts: list[str] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"{self.scheme}://localhost:{self.port}/hook?key=hush"

    def take(self, request: BaseHTTPRequestHandler) -> None:
        length = int(request.headers["Content-Length"])
        body = request.rfile.read(length)
        if len(body) < length:
            raise ConnectionAbortedError("the sender was killed while it sent")
        headers = {name.lower(): value for name, value in request.headers.items()}
        identity = check(WebhookIn("h", "t", "standard", (SECRET,)), headers, body, datetime.now(UTC)).id
        assert self.bodies.setdefault(identity, body) == body, "the same id has the same body"
        assert request.path == "/hook?key=hush"
        self.hosts.append(headers["host"])
        came = (identity, json.loads(body))
        self.came.append(came)
        answer = self.answers.pop(0) if self.answers else None
        if answer is None:
            self.taken.append(came)
            answer = status(204)
        answer(self, request)

    def messages(self) -> list[dict[str, Any]]:
        """What was taken, each id once."""
        return list(dict(self.taken).values())

    def rows(self) -> dict[str, int]:
        """What it all adds up to."""
        return added_up(self.messages())


def added_up(messages: list[dict[str, Any]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for message in messages:
        if message["type"] == "view.snapshot" and message["part"] == 1:
            total = {}
        for change in message["changes"]:
            text = change["row"]["text"]
            total[text] = total.get(text, 0) + change["weight"]
    return {text: weight for text, weight in total.items() if weight}


@contextmanager
def receiving(certificate: tuple[Path, Path] | None = None, port: int = 0) -> Iterator[Receiver]:
    """Takes webhooks within the block; with a certificate and its key, over TLS."""
    receiver = Receiver(scheme="http" if certificate is None else "https")
    wrong: list[BaseException] = []

    class Handler(BaseHTTPRequestHandler):
        timeout = 20

        def do_POST(self) -> None:
            try:
                receiver.take(self)
            except (OSError, ValueError):
                self.close_connection = True  # the sender is gone
            except BaseException as error:
                wrong.append(error)
                raise

        def log_message(self, *_: object) -> None:
            pass

    class Quiet(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: object, client_address: object) -> None:
            pass

    with Quiet(("127.0.0.1", port), Handler) as server:
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        receiver.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield receiver
        finally:
            server.shutdown()
            thread.join(20)
    assert not wrong, wrong


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "it did not come to be in time"
        time.sleep(0.005)


def slowly(seconds: float, pieces: int) -> Answer:
    """Answers as a server that never stops saying a little more."""

    def answer(_: Receiver, request: BaseHTTPRequestHandler) -> None:
        with suppress(OSError):
            request.wfile.write(b"HTTP/1.1 200 OK\r\n")
            for number in range(pieces):
                request.wfile.write(b"x-%d: y\r\n" % number)
                request.wfile.flush()
                time.sleep(seconds / pieces)

    return answer

"""A program that takes messages over HTTP in tests, and answers as it is told."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.webhooks.receiver import Answer, status

HUSH = "hush-hush"
"""A part of the URL that must not be shown anywhere."""
_UNUSED: Any = None


@dataclass
class Post:
    """A request that came, whatever was answered."""

    id: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Posts:
    """Everything that came, in order; `answers` are given first, and then 202."""

    port: int = 0
    came: list[Post] = field(default_factory=list)
    taken: list[Post] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://localhost:{self.port}/{HUSH}?token={HUSH}"

    def take(self, request: BaseHTTPRequestHandler) -> None:
        length = int(request.headers["Content-Length"])
        body = request.rfile.read(length)
        if len(body) < length:
            return  # the sender was killed while it sent
        headers = {name.lower(): value for name, value in request.headers.items()}
        post = Post(headers["idempotency-key"], headers, body)
        self.came.append(post)
        answer = self.answers.pop(0) if self.answers else None
        if answer is None:
            self.taken.append(post)
            answer = status(202)
        answer(_UNUSED, request)

    def once(self) -> list[Any]:
        """The bodies that were taken, each id once; the same id always has the same body."""
        found: dict[str, bytes] = {}
        for post in self.taken:
            assert found.setdefault(post.id, post.body) == post.body
        return [json.loads(body) for body in found.values()]


@contextmanager
def taking_posts(port: int = 0) -> Iterator[Posts]:
    posts = Posts()

    class Handler(BaseHTTPRequestHandler):
        timeout = 20

        def do_POST(self) -> None:
            try:
                posts.take(self)
            except OSError:
                self.close_connection = True  # the sender is gone

        def log_message(self, *_: object) -> None:
            pass

    class Quiet(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: object, client_address: object) -> None:
            pass

    with Quiet(("127.0.0.1", port), Handler) as server:
        posts.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield posts
        finally:
            server.shutdown()
            thread.join(20)


def cut(_: object, request: BaseHTTPRequestHandler) -> None:
    """Answers nothing, and ends the connection."""
    request.connection.close()

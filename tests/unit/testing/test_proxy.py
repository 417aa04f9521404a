"""The proxy forwards everything, and each of its faults does what it is called."""

from __future__ import annotations

import http.server
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.testing.http_requests import Splitter
from headwater.testing.proxy import Proxy, proxied
from tests.webhooks.receiver import until


@contextmanager
def echoing(came: list[bytes]) -> Iterator[int]:
    """A server that sends back what comes, and its port."""

    def serve(connection: socket.socket) -> None:
        with suppress(OSError), connection:
            while piece := connection.recv(4096):
                came.append(piece)
                connection.sendall(piece)

    def accept() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=serve, args=(listening.accept()[0],), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=accept, daemon=True).start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def came() -> list[bytes]:
    return []


@pytest.fixture
def proxy(came: list[bytes]) -> Iterator[Proxy]:
    with echoing(came) as port, proxied(("127.0.0.1", port), seed=1) as made:
        yield made


def client(proxy: Proxy) -> socket.socket:
    return socket.create_connection(("127.0.0.1", proxy.port), timeout=20)


def received(connection: socket.socket, count: int) -> bytes:
    held = b""
    while len(held) < count and (piece := connection.recv(65536)):
        held += piece
    return held


def test_everything_is_forwarded(proxy: Proxy) -> None:
    sent = bytes(range(256)) * 400
    with client(proxy) as connection:
        threading.Thread(target=connection.sendall, args=(sent,), daemon=True).start()
        assert received(connection, len(sent)) == sent


def test_a_connection_is_cut_in_the_middle(proxy: Proxy, came: list[bytes]) -> None:
    proxy.cutting = True
    sent = b"x" * 100_000
    with client(proxy) as connection:
        with suppress(OSError):
            connection.sendall(sent)
        with suppress(ConnectionError):
            assert len(received(connection, len(sent))) < len(sent)
    assert proxy.cut == 1
    assert len(b"".join(came)) < len(sent)
    proxy.heal()
    with client(proxy) as connection:
        connection.sendall(b"again")
        assert received(connection, 5) == b"again"


def test_bytes_vanish_and_the_connection_ends_with_the_fault(proxy: Proxy, came: list[bytes]) -> None:
    with client(proxy) as connection:
        connection.sendall(b"one")
        assert received(connection, 3) == b"one"
        proxy.dropping = True
        connection.sendall(b"two")
        until(lambda: proxy.dropped == 1)
        proxy.heal()
        with suppress(ConnectionError):
            assert received(connection, 3) == b""
    assert came == [b"one"]


def test_what_a_client_sent_before_it_was_killed_still_arrives_late(proxy: Proxy, came: list[bytes]) -> None:
    proxy.delay = 0.3
    with client(proxy) as connection:
        connection.sendall(b"late")
    until(lambda: came == [b"late"])


def test_an_action_runs_in_the_middle_of_what_is_sent(proxy: Proxy, came: list[bytes]) -> None:
    seen: list[int] = []
    proxy.after(6, lambda: seen.append(len(b"".join(came))))
    with client(proxy) as connection:
        connection.sendall(b"12345")
        assert received(connection, 5) == b"12345"
        assert seen == []
        connection.sendall(b"678")
        assert received(connection, 3) == b"678"
    assert seen == [5]
    proxy.after(1000, lambda: seen.append(-1))
    proxy.expire()
    proxy.expire()
    assert seen == [5, -1]


def test_a_request_comes_again() -> None:
    bodies: list[bytes] = []

    class Receiver(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(self.rfile.read(int(self.headers["content-length"])))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with (
        http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver) as server,
        proxied(("127.0.0.1", server.server_port)) as proxy,
    ):
        threading.Thread(target=server.serve_forever, daemon=True).start()
        proxy.repeating = 1.0
        with client(proxy) as connection:
            connection.sendall(b"POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\n12")
            time.sleep(0.05)
            connection.sendall(b"345")
            until(lambda: bodies == [b"12345", b"12345"])
        server.shutdown()


@given(st.lists(st.binary(max_size=50), max_size=5), st.lists(st.integers(1, 40), min_size=1))
def test_requests_are_told_apart_wherever_they_are_cut(bodies: list[bytes], sizes: list[int]) -> None:
    requests = [b"PUT /a HTTP/1.1\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body) for body in bodies]
    requests.append(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
    found: list[bytes] = []
    sent, splitter, at = b"".join(requests), Splitter(), 0
    while at < len(sent):
        size = sizes[at % len(sizes)]
        found += splitter.split(sent[at : at + size])
        at += size
    assert found == requests

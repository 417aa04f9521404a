"""Clients that take all they can get and give nothing: they hold their own connections, and nothing of others."""

from __future__ import annotations

import errno
import hashlib
import hmac
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest

from headwater.log.embedded.position import commit_of
from headwater.server import memory, running
from headwater.server.keeper import Failed, Keeper
from headwater.server.limits import Limits
from headwater.server.running import Address, Server
from headwater.server.service import Running, Service
from tests.server.shop import SECRET, Shop, application, opened

FEW_FILES = 512
HALF_A_HEADER = b"GET /views HTTP/1.1\r\nHost: localhost\r\nX-Half: "


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "it did not come to be in time"
        time.sleep(0.05)


def connected(port: int, sent: bytes) -> socket.socket:
    made = socket.create_connection(("127.0.0.1", port), timeout=30)
    made.sendall(sent)
    return made


@contextmanager
def many(port: int, count: int, sent: bytes) -> Iterator[list[socket.socket]]:
    """Connections that have sent something; some of them may be closed by the server."""
    with ExitStack() as stack:
        made = []
        for _ in range(count):
            opened_ = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=30))
            try:
                opened_.sendall(sent)
            except OSError:
                continue
            made.append(opened_)
        yield made


def said(connection: socket.socket) -> bytes:
    """All that comes until the server closes."""
    found = b""
    try:
        while part := connection.recv(65536):
            found += part
    except ConnectionResetError:
        pass
    return found


def refused(shop: Shop, reason: str) -> float:
    return shop.service.counters.get("headwater_connections_refused_total", reason=reason)


def test_connections_leave_the_log_its_descriptors(tmp_path: Path) -> None:
    """More of them than there are descriptors, each with half a header: what else the process does continues."""
    with subprocess.Popen(
        [sys.executable, Path(__file__).with_name("few_files.py"), tmp_path, str(FEW_FILES)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": ":".join(sys.path)},
    ) as process:  # fmt: skip
        assert process.stdout is not None
        try:
            port = int(process.stdout.readline())
            with many(port, FEW_FILES + 100, HALF_A_HEADER):
                before = int(process.stdout.readline())
                appended = [int(process.stdout.readline() or 0) for _ in range(30)]
                assert appended == list(range(before + 1, before + 31))
            # The connections are gone, and the server says how many it has refused.
            with httpx.Client(base_url=f"http://localhost:{port}", timeout=30) as client:
                text = client.get("/metrics").text
            (line,) = [one for one in text.splitlines() if 'refused_total{reason="descriptors"}' in one]
            assert float(line.split()[-1]) > 100
            assert process.poll() is None
        finally:
            process.kill()


def test_headers_that_do_not_come_are_not_waited_for(tmp_path: Path) -> None:
    with opened(tmp_path, limits={"header_seconds_max": 1}) as shop:
        port = shop.server.port
        second = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
        with connected(port, HALF_A_HEADER) as half, connected(port, b"") as silent, connected(port, second) as kept:
            assert kept.recv(65536).startswith(b"HTTP/1.1 200")
            kept.sendall(HALF_A_HEADER)
            assert said(half).startswith(b"HTTP/1.1 408")
            assert said(silent) == b""
            assert said(kept).startswith(b"HTTP/1.1 408")
        assert shop.service.counters.get("headwater_connections_ended_total", limit="header_seconds_max") == 3
        # Between two requests a connection may rest for longer, and a stream for as long as it likes.
        with connected(port, second) as idle, connected(port, second.replace(b"healthz", b"flow")) as other:
            for connection in (idle, other):
                connection.recv(65536)
            time.sleep(1.5)
            idle.sendall(second)
            assert idle.recv(65536).startswith(b"HTTP/1.1 200")


def test_headers_have_a_size(tmp_path: Path) -> None:
    with opened(tmp_path, limits={"header_bytes_max": 10_000}) as shop:
        line = b"X-%d: " % 1 + b"x" * 1000 + b"\r\n"
        with connected(shop.server.port, HALF_A_HEADER) as endless:
            try:
                for _ in range(2000):
                    endless.sendall(line)
            except OSError:
                pass
            assert said(endless)[:12] in (b"HTTP/1.1 431", b"")
        assert shop.service.counters.get("headwater_connections_ended_total", limit="header_bytes_max") == 1
        assert shop.client.get("/healthz", headers={"X-Long": "x" * 9000}).status_code == 200
        body = {"url": "x" * 500_000}
        assert shop.client.post("/topics/clicks/records", json=body).status_code == 200
        assert shop.client.post("/topics/clicks/records", json=body).status_code == 200


@pytest.mark.parametrize(
    ("limit", "reason"), [("connections_max", "total"), ("connections_per_address_max", "address")]
)
def test_connections_are_counted(tmp_path: Path, limit: str, reason: str) -> None:
    with opened(tmp_path, limits={limit: 20}) as shop:
        with many(shop.server.port, 19, HALF_A_HEADER):
            until(lambda: len(shop.service.connections) == 19)
            assert shop.client.get("/healthz").status_code == 200
            with socket.create_connection(("127.0.0.1", shop.server.port), timeout=30) as more:
                answered = said(more)
            assert answered.startswith(b"HTTP/1.1 503")
            assert json.loads(answered.partition(b"\r\n\r\n")[2])["error"]["code"] == "too_many_connections"
            assert refused(shop, reason) == 1
            assert f'headwater_connections_refused_total{{reason="{reason}"}} 1' in shop.client.get("/metrics").text
        until(lambda: len(shop.service.connections) == 1)
        assert httpx.get(f"{shop.server.url}/healthz").status_code == 200


class Reluctant(socket.socket):
    """Has no descriptor to give, the first time."""

    failed = False

    def accept(self) -> tuple[socket.socket, Any]:
        if not self.failed:
            self.failed = True
            raise OSError(errno.EMFILE, "Too many open files")
        return super().accept()


def test_the_server_survives_that_no_descriptor_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = running.listen
    monkeypatch.setattr(running, "listen", lambda address: Reluctant(fileno=real(address).detach()))
    with opened(tmp_path) as shop:
        assert shop.client.get("/healthz").status_code == 200
        assert refused(shop, "descriptors") == 1


def hook_headers() -> bytes:
    return (
        b"POST /hooks/github HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Content-Length: 1000\r\n\r\n"
    )


def test_slow_bodies_hold_up_nobody(tmp_path: Path) -> None:
    """One byte of the body of as many webhooks as there may be appends."""
    with opened(tmp_path, limits={"appends_waiting_max": 8, "body_seconds_max": 2}) as shop:
        with many(shop.server.port, 64, hook_headers() + b"{") as slow:
            until(lambda: shop.service.bodies.bytes == 64)
            assert shop.service.appends == 0
            for _ in range(10):
                shop.append({"url": "a"})
            assert said(slow[0]).startswith(b"HTTP/1.1 408")
        until(lambda: shop.service.bodies.bytes == 0)


def test_a_slow_body_gives_way_to_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.server.service.BODY_PATIENCE_SECONDS", 0.5)
    head = hook_headers().replace(b"1000", b"200000")
    with opened(tmp_path, limits={"bodies_bytes_max": 400_000}) as shop:
        with many(shop.server.port, 4, head + b"x" * 90_000) as slow:
            until(lambda: shop.service.bodies.bytes == 360_000)
            large = {"url": "x" * 100_000}
            assert shop.client.post("/topics/clicks/records", json=large).status_code in (200, 429)
            time.sleep(0.6)
            shop.append(large)
            assert any(said(one).startswith(b"HTTP/1.1 429") for one in slow[:1])
        until(lambda: shop.service.bodies.bytes == 0)
        too_large = {"url": "x" * 500_000}
        answered = shop.client.post("/topics/clicks/records", json=too_large)
        assert (answered.status_code, answered.json()["error"]["code"]) == (429, "too_many")


def test_stalled_readers_hold_no_more_than_the_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a large view: pages of it, and followers of its content; when they are gone, so is what they held."""
    monkeypatch.setattr("headwater.server.service.ANSWER_PATIENCE_SECONDS", 0.1)
    monkeypatch.setattr("headwater.server.running.GIVE_BACK_EVERY_SECONDS", 0.2)
    monkeypatch.setattr(memory, "UNUSED_BYTES", 4 << 20)
    given_back: list[int] = []
    real = memory.give_back

    def give_back() -> None:
        real()
        given_back.append(1)

    monkeypatch.setattr(memory, "give_back", give_back)
    budget = 8 << 20
    with opened(tmp_path, limits={"answers_bytes_max": budget, "ring_bytes_max": 1 << 20}) as shop:
        shop.publish(*((number, "x" * 400, 1) for number in range(3, 8003)), position=1)
        for path, count in (("/views/v?limit=10000", 12), ("/views/v/changes", 12)):
            ask = f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
            with ExitStack() as stack:
                for _ in range(count):
                    made = stack.enter_context(socket.socket())
                    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                    made.connect(("127.0.0.1", shop.server.port))
                    made.sendall(ask)
                    until(lambda: shop.service.answers.bytes > 0)
                    time.sleep(0.15)
                assert shop.service.answers.bytes <= budget
                assert shop.client.get("/views/v?limit=10000").json()["matching"] == 8002
            until(lambda: shop.service.answers.bytes == 0)
        assert shop.service.counters.get("headwater_answers_dropped_total") > 0
        assert shop.service.counters.get("headwater_streams_stalled_total") > 0
        until(lambda: bool(given_back))
        until(lambda: pa.total_allocated_bytes() < budget)


@pytest.mark.parametrize(
    ("first", "hosts", "status"),
    [
        ("/healthz", ["localhost"], 200),
        ("/healthz", ["127.0.0.1:1234"], 200),
        ("/healthz", ["[::1]:1234"], 200),
        ("http://localhost/healthz", ["localhost"], 200),
        ("/healthz", ["localhost", "localhost"], 400),
        ("/healthz", ["localhost", "evil.example"], 400),
        ("/healthz", ["evil@localhost"], 400),
        ("/healthz", ["localhost:80@evil.example"], 400),
        ("/healthz", ["localhost/x"], 400),
        ("/healthz", [""], 400),
        ("/healthz", [], 400),
        ("http://evil.example/healthz", ["localhost"], 400),
        ("http://evil@localhost/healthz", ["localhost"], 400),
        ("http://evil.example/healthz", ["evil.example"], 421),
    ],
)
def test_a_request_is_sent_to_one_host(shop: Shop, first: str, hosts: list[str], status: int) -> None:
    lines = [f"GET {first} HTTP/1.1", *(f"Host: {host}" for host in hosts), "Connection: close", "", ""]
    with connected(shop.server.port, "\r\n".join(lines).encode()) as connection:
        assert said(connection).startswith(b"HTTP/1.1 %d" % status)


def test_a_name_that_is_given_twice_is_refused_wherever_json_comes_in(shop: Shop) -> None:
    kind = {"Content-Type": "application/json"}
    for body, content_type in (
        (b'{"user":1,"user":2}', "application/json"),
        (b'[{"user":1},{"user":1,"user":2}]', "application/json"),
        (b'{"user":1}\n{"user":1,"user":2}\n', "application/x-ndjson"),
    ):
        answered = shop.client.post("/topics/clicks/records", content=body, headers={"Content-Type": content_type})
        assert answered.status_code == 422
        (record,) = answered.json()["error"]["records"]
        assert (record["field"], record["reason"]) == ("user", "field 'user': expected one value, got several")
    assert commit_of(shop.app.log.position()) == 0
    # Nothing is lost where there is a dead-letter topic; and a fix is read as strictly.
    sent = shop.client.post("/topics/orders/records", content=b'{"id":1,"id":2}', headers=kind)
    assert sent.json()["dead_letters"] == 1
    (letter,) = shop.client.get("/dead-letters").json()["letters"]
    assert letter["original"]["text"] == '{"id":1,"id":2}'
    fixed = shop.client.post(f"/dead-letters/{letter['id']}/send", content=b'{"id":1,"id":1}', headers=kind)
    assert fixed.json()["dead_letters"] == 1
    asked = shop.client.post("/query", content=b'{"sql":"SELECT 1","sql":"SELECT 2"}', headers=kind)
    assert (asked.status_code, asked.json()["error"]["message"]) == (
        400, "The name 'sql' is given more than once in one object.",
    )  # fmt: skip


def test_a_webhook_with_a_name_twice_is_refused(shop: Shop) -> None:
    body = b'{"action":"push","action":"delete"}'
    signed = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
    headers = {
        "Content-Type": "application/json", "X-Hub-Signature-256": f"sha256={signed}", "X-GitHub-Delivery": "1",
    }  # fmt: skip
    answered = shop.client.post("/hooks/github", content=body, headers=headers)
    assert answered.status_code == 400
    assert "'action'" in answered.json()["error"]["message"]


def test_a_server_that_fails_is_started_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever ends its event loop: it is there again at its port, and says so."""
    monkeypatch.setattr("headwater.server.keeper.PAUSE_SECONDS", 0.05)
    state, servers, failures = Running(), list[Server](), list[Failed]()

    def end() -> None:
        raise SystemExit("the loop is gone")

    with application(tmp_path) as app:

        def make(address: Address) -> Server:
            if len(servers) == 1:
                servers.append(servers[0])
                raise OSError(24, "Too many open files")
            servers.append(Server(Service(app, limits=Limits(), running=state), address))
            return servers[-1]

        def tell(failed: Failed) -> None:
            state.server_restarts += 1
            failures.append(failed)

        with Keeper(make, Address(port=0), tell) as keeper:
            url = keeper.url
            assert httpx.get(f"{url}/healthz").status_code == 200
            loop = servers[0]._loop
            assert loop is not None
            loop.call_soon_threadsafe(end)
            until(lambda: len(servers) == 3 and servers[2]._ready.is_set())
            assert (keeper.url, httpx.get(f"{url}/healthz").status_code) == (url, 200)
            assert "headwater_server_restarts_total{} 2" in httpx.get(f"{url}/metrics").text
            assert [one.is_bug for one in failures] == [True, False]
            assert failures[1].pause_seconds > failures[0].pause_seconds
            assert "everything else keeps running" in str(failures[0])
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{url}/healthz")

"""One post to a real server: the time it may take, redirects, names, certificates, and what is never shown."""

from __future__ import annotations

import socket
import subprocess
import threading
import time
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from headwater.connectors.webhooks import addresses
from headwater.connectors.webhooks.posting import Poster
from headwater.connectors.webhooks.target import parse_target
from headwater.errors import TargetFailed
from headwater.model import signing
from tests.webhooks.receiver import SECRET, Receiver, receiving, slowly, status


def post(url: str, *, allow_private: bool = True, seconds_max: float = 20.0) -> TargetFailed | None:
    body = b'{"changes": []}'
    headers = signing.headers([SECRET], "id_1_1", body, datetime.now(UTC))
    failure = Poster(parse_target(url, allow_private=allow_private), seconds_max).post(headers, body)
    assert failure is None or ("hush" not in failure.reason and SECRET not in failure.reason)
    return failure


def test_it_is_taken() -> None:
    with receiving() as receiver:
        assert post(receiver.url) is None
        assert receiver.hosts == [f"localhost:{receiver.port}"]
        assert len(receiver.taken) == 1


def test_this_machine_is_not_sent_to_unless_it_is_allowed() -> None:
    with receiving() as receiver:
        failure = post(receiver.url.replace("http:", "https:"), allow_private=False)
        assert failure is not None
        assert failure.kind == "refused"
        assert "which is not a public address" in failure.reason
        assert receiver.came == []


def test_a_redirect_is_a_failure_and_is_not_followed() -> None:
    with receiving() as receiver, receiving() as elsewhere:
        receiver.answers.append(status(307, Location=elsewhere.url))
        failure = post(receiver.url)
        assert failure is not None
        assert failure.reason.endswith("answers 307 Temporary Redirect, and redirects are not followed")
        assert (len(receiver.came), elsewhere.came) == (1, [])


def test_nobody_listens() -> None:
    with receiving() as receiver:
        url = receiver.url
    failure = post(url)
    assert failure is not None
    assert (failure.kind, failure.reason) == (
        "passing", f"{url.partition('/hook')[0]} does not answer: Connection refused",
    )  # fmt: skip


def test_an_answer_that_comes_drop_by_drop_is_not_waited_for() -> None:
    with receiving() as receiver:
        receiver.answers.append(slowly(10, 50))
        began = time.monotonic()
        failure = post(receiver.url, seconds_max=1.0)
        assert failure is not None
        assert "it takes too long" in failure.reason
        assert time.monotonic() - began < 5


def test_an_answer_without_an_end_is_not_read_to_its_end() -> None:
    def endless(_: Receiver, request: BaseHTTPRequestHandler) -> None:
        request.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            request.wfile.write(b"x" * 65536)

    with receiving() as receiver:
        receiver.answers.append(endless)
        assert post(receiver.url) is None


@pytest.mark.parametrize("said", [b"", b"SSH-2.0-OpenSSH_9.2 hush\r\n", b"HTTP/1.1 hush\r\n\r\n", b"\xff" * 100_000])
def test_what_is_no_answer_is_a_failure(said: bytes) -> None:
    with receiving() as receiver:

        def answer(_: Receiver, request: BaseHTTPRequestHandler) -> None:
            request.wfile.write(said)

        receiver.answers.append(answer)
        failure = post(receiver.url)
        assert failure is not None
        assert failure.kind == "passing"
        assert failure.reason.endswith(("what it says is not HTTP", "it ends the connection", "reset by peer"))


def test_a_post_is_ended_from_another_thread() -> None:
    with receiving() as receiver:
        receiver.answers.append(slowly(20, 20))
        poster = Poster(parse_target(receiver.url, allow_private=True))
        headers = signing.headers([SECRET], "id_1_1", b"{}", datetime.now(UTC))
        ending = threading.Timer(0.5, poster.close)
        ending.start()
        began = time.monotonic()
        assert poster.post(headers, b"{}") is not None
        assert time.monotonic() - began < 10
        assert poster.post(headers, b"{}") is not None
        ending.join()
        assert len(receiver.came) == 1


def certificate(directory: Path, name: str) -> tuple[Path, Path]:
    made, key = directory / f"{name}.pem", directory / f"{name}.key"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-days", "1", "-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}"]
    subprocess.run([*command, "-keyout", key, "-out", made], check=True, capture_output=True)
    return made, key


@pytest.mark.parametrize(
    ("name", "trusted", "reason"),
    [
        ("hooks.example.com", True, None),
        ("hooks.example.com", False, "its certificate is wrong"),
        ("other.example.com", True, "Hostname mismatch"),
    ],
)
def test_the_certificate_is_that_of_the_name_whatever_the_address(
    name: str, trusted: bool, reason: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = certificate(tmp_path, name)
    empty = tmp_path / "nobody.pem"
    empty.touch()
    monkeypatch.setenv("SSL_CERT_FILE", str(made[0] if trusted else empty))
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path / "none"))
    asked: list[str] = []

    def lookup(host: str, port: int, **options: object) -> list[tuple[Any, ...]]:
        # The first time it is an address that is checked; who asked again would be led elsewhere.
        asked.append(host)
        address = "127.0.0.1" if len(asked) == 1 else "127.0.0.99"
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    assert addresses.resolve.__kwdefaults__ is not None
    monkeypatch.setitem(addresses.resolve.__kwdefaults__, "lookup", lookup)
    with receiving(made) as receiver:
        failure = post(receiver.url.replace("localhost", "hooks.example.com"))
        assert asked == ["hooks.example.com"]
        if reason is None:
            assert failure is None
            assert receiver.hosts == [f"hooks.example.com:{receiver.port}"]
        else:
            assert failure is not None
            assert reason in failure.reason
            assert receiver.came == []

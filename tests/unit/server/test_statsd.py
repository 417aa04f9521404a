"""StatsD: samples become records, and what is lost is counted."""

from __future__ import annotations

import socket
import time
from contextlib import suppress
from pathlib import Path

import pytest

from headwater.errors import UsageError
from headwater.log.embedded.log import EmbeddedLog
from headwater.model.receivers import STATSD_SCHEMA, Statsd
from headwater.server.statsd import Listener, kernel_drops, parse


def sample(line: bytes) -> dict[str, object] | None:
    (found,) = parse(line)
    return found


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b"hits:1|c", {"name": "hits", "type": "c", "value": 1.0, "text": None, "rate": 1.0, "tags": {}}),
        (b"hits:3|c|@0.1", {"name": "hits", "type": "c", "value": 3.0, "text": None, "rate": 0.1, "tags": {}}),
        (b"t:3.5|ms|#a:b,c", {"name": "t", "type": "ms", "value": 3.5, "text": None, "rate": 1.0,
                              "tags": {"a": "b", "c": ""}}),
        (b"g:-2|g", {"name": "g", "type": "g", "value": -2.0, "text": "-2", "rate": 1.0, "tags": {}}),
        (b"users:ada|s", {"name": "users", "type": "s", "value": None, "text": "ada", "rate": 1.0, "tags": {}}),
    ],
)  # fmt: skip
def test_a_sample(line: bytes, expected: dict[str, object]) -> None:
    assert sample(line) == expected


@pytest.mark.parametrize(
    "line", [b"x", b"x:1", b":1|c", b"x:|c", b"x:1|z", b"x:y|c", b"x:nan|g", b"x:1|c|@2", b"x:1|c|@0", b"\xff:1|c"]
)
def test_what_is_no_sample(line: bytes) -> None:
    assert sample(line) is None


def test_a_datagram_has_many_lines() -> None:
    assert [one and one["name"] for one in parse(b"a:1|c\n\nb\nc:1|c\n")] == ["a", None, "c"]


def test_samples_become_records_and_the_rest_is_counted(tmp_path: Path) -> None:
    with EmbeddedLog(tmp_path / "data", upkeep=False) as log:
        log.create("metrics", STATSD_SCHEMA)
        listener = Listener(Statsd("metrics", "127.0.0.1", 0), log)
        listener.start()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sending:
            for number in range(100):
                sending.sendto(b"hits:%d|c\nbroken" % number, ("127.0.0.1", listener.port))
        until = time.monotonic() + 20
        while listener.counts.datagrams < 100 and time.monotonic() < until:
            time.sleep(0.02)
        with pytest.raises(UsageError, match="is not available"):
            Listener(Statsd("metrics", "127.0.0.1", listener.port), log).start()
        listener.stop()
        counts = listener.counts
        assert (counts.datagrams, counts.samples, counts.malformed) == (100, 100, 100)
        assert [record.value["value"] for record in log.read("metrics") if record.value] == list(map(float, range(100)))


def test_what_the_log_refuses_is_counted(tmp_path: Path) -> None:
    with EmbeddedLog(tmp_path / "data", upkeep=False) as log:
        listener = Listener(Statsd("gone", "127.0.0.1", 0), log)
        listener._append([{"name": "a"}])
        assert (listener.counts.samples, listener.counts.refused) == (0, 1)


def test_what_the_kernel_drops_is_counted() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        listening.bind(("127.0.0.1", 0))
        assert kernel_drops(listening) == 0
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sending:
            for _ in range(500):
                sending.sendto(bytes(500), listening.getsockname())
        taken = 0
        listening.settimeout(0)
        with suppress(BlockingIOError):
            while listening.recv(1000):
                taken += 1
        assert kernel_drops(listening) == 500 - taken > 0

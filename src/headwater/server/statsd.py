"""StatsD over UDP: samples become records of a topic, and what was lost on the way is counted where it can be told.

UDP loses datagrams silently. What can be known here: what the kernel dropped because this process did not take it in
time (it counts that per socket), lines that are no samples, and samples that the log refused.
"""

from __future__ import annotations

import logging
import math
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from headwater.errors import HeadwaterError, UsageError
from headwater.log.port import Log
from headwater.model.receivers import Statsd
from headwater.system.background import Background

DATAGRAM_BYTES_MAX = 65_535
BUFFER_BYTES = 8 << 20
"""What the kernel is asked to hold for us; it may give less."""
GATHER_SECONDS = 0.1
GATHER_SAMPLES_MAX = 10_000
"""Samples are appended together, after so long or when they are this many."""
_TYPES = frozenset({"c", "g", "ms", "h", "s", "d"})
_KERNEL = Path("/proc/net/udp")
_log = logging.getLogger("headwater.server")


@dataclass(slots=True)
class StatsdCounts:
    """What came, and what became of it."""

    datagrams: int = 0
    samples: int = 0
    malformed: int = 0
    refused: int = 0
    dropped_by_kernel: int = 0


def parse(datagram: bytes) -> Iterator[dict[str, object] | None]:
    """The samples of a datagram, one per line; None for a line that is none."""
    for line in datagram.split(b"\n"):
        if line.strip():
            yield _sample(line.strip())


def _sample(line: bytes) -> dict[str, object] | None:
    try:
        text = line.decode()
    except UnicodeDecodeError:
        return None
    name, colon, rest = text.partition(":")
    value, _, parts = rest.partition("|")
    kind, *options = parts.split("|")
    if not name or not colon or not value or kind not in _TYPES:
        return None
    number = None if kind == "s" else _number(value)
    if kind != "s" and number is None:
        return None
    rate: float | None = 1.0
    tags: dict[str, str] = {}
    for option in options:
        if option.startswith("@"):
            rate = _number(option[1:])
        elif option.startswith("#"):
            tags = dict(tag.partition(":")[::2] for tag in option[1:].split(",") if tag)
    if rate is None or not 0 < rate <= 1:
        return None
    # A gauge with a sign is a change of it, which its number alone does not tell.
    shown = value if kind == "s" or (kind == "g" and value[0] in "+-") else None
    return {"name": name, "type": kind, "value": number, "text": shown, "rate": rate, "tags": tags}


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


class Listener:
    """Takes samples in a thread of its own."""

    def __init__(self, receiver: Statsd, log: Log) -> None:
        self.receiver, self._log = receiver, log
        self.counts = StatsdCounts()
        self.port = receiver.port
        self._ended = threading.Event()
        self._socket: socket.socket | None = None
        self._thread: Background | None = None

    def start(self) -> None:
        """Listens from now on. Raises `UsageError` if the port is taken."""
        listening = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        with suppress(OSError):
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
        try:
            listening.bind((self.receiver.host, self.receiver.port))
        except OSError as error:
            listening.close()
            raise UsageError(
                f"UDP port {self.receiver.port} of {self.receiver.host} is not available: {error.strerror}.",
                hint="Another process may be using it. Choose another port in app.statsd(…).",
            ) from error
        listening.settimeout(GATHER_SECONDS)
        self.port = listening.getsockname()[1]
        self._socket = listening
        self._thread = Background("statsd", lambda: self._run(listening)).start()

    def stop(self) -> None:
        """Appends what has come, and ends."""
        self._ended.set()
        if self._thread is not None and self._socket is not None:
            self._thread.stop()
            self._socket.close()

    def to_json(self) -> dict[str, object]:
        return {
            "topic": self.receiver.topic,
            "host": self.receiver.host,
            "port": self.port,
            "datagrams": self.counts.datagrams,
            "samples": self.counts.samples,
            "malformed": self.counts.malformed,
            "refused": self.counts.refused,
            "dropped_by_kernel": self.counts.dropped_by_kernel,
        }

    def _run(self, listening: socket.socket) -> None:
        while not self._ended.is_set():
            rows = self._gather(listening)
            if rows:
                self._append(rows)
            self.counts.dropped_by_kernel = kernel_drops(listening)

    def _gather(self, listening: socket.socket) -> list[dict[str, object]]:
        rows: list[dict[str, object]] = []
        until = time.monotonic() + GATHER_SECONDS
        while time.monotonic() < until and len(rows) < GATHER_SAMPLES_MAX:
            try:
                datagram = listening.recv(DATAGRAM_BYTES_MAX)
            except TimeoutError:
                break
            self.counts.datagrams += 1
            for row in parse(datagram):
                if row is None:
                    self.counts.malformed += 1
                else:
                    rows.append(row)
        return rows

    def _append(self, rows: list[dict[str, object]]) -> None:
        try:
            self._log.append(self.receiver.topic, rows)
            self.counts.samples += len(rows)
        except HeadwaterError:
            # Nobody waits for an answer: that they are lost is told by the count.
            self.counts.refused += len(rows)
        except Exception:  # noqa: BLE001 - one failure must not end the listening
            _log.exception("StatsD samples could not be appended")
            self.counts.refused += len(rows)


def kernel_drops(listening: socket.socket) -> int:
    """Datagrams that the kernel has dropped because the socket's buffer was full; 0 where it does not tell."""
    inode = str(os.fstat(listening.fileno()).st_ino)
    with suppress(OSError, ValueError, IndexError):
        for line in _KERNEL.read_text().splitlines()[1:]:
            fields = line.split()
            if fields[9] == inode:
                return int(fields[-1])
    return 0

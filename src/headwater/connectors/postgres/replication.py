"""The stream of changes: receives what the server sends, and tells it what need not be sent again."""

from __future__ import annotations

import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import psycopg
from psycopg import pq

from headwater.cdc.postgres.lsn import ZERO, Lsn
from headwater.cdc.postgres.transactions import EPOCH
from headwater.connectors.postgres.address import wait
from headwater.connectors.postgres.naming import literal, quoted
from headwater.connectors.postgres.options import CaptureOptions
from headwater.errors import SlotLost, SourceUnavailable

# What is decoded and committed together at most: enough to share an fsync, little enough to be quick and small.
MESSAGES_MAX = 40_000
BYTES_MAX = 16 << 20
# While changes come one behind the other, they are gathered for as long as the last ones took to be committed, so that
# who is behind shares an fsync among more of them; at most so long, and not if none comes for the gap.
GATHER_SECONDS_MAX = 0.1
GAP_SECONDS = 0.001
# How long a capture with nothing to do waits before it looks around.
IDLE_SECONDS = 0.5
_WAL, _KEEPALIVE = ord("w"), ord("k")
_STATUS = struct.Struct(">cQQQqB")
# The states in which PostgreSQL says that what was asked for is gone: undefined object, object not in the right state.
_GONE = (b"42704", b"55000")


@dataclass(slots=True)
class Received:
    """What has come: payloads, and how far the server's reading of the WAL has got with them (0: it did not say)."""

    payloads: list[memoryview] = field(default_factory=list)
    bytes: int = 0
    reached: Lsn = ZERO
    reply_wanted: bool = False

    @property
    def is_full(self) -> bool:
        return len(self.payloads) >= MESSAGES_MAX or self.bytes >= BYTES_MAX


class Replication:
    """A running stream. Not for use by several threads."""

    def __init__(self, options: CaptureOptions, start: Lsn, version: int, publications: Sequence[str]) -> None:
        self._options = options
        self._connection = options.address.replicate()
        names = options.names
        # Protocol 2 brings transactions before they are committed, so that the server needs no room for them.
        settings = {
            "proto_version": "2",
            "publication_names": ",".join(map(quoted, publications)),
            "messages": "true",
            "streaming": "on",
        }
        if version >= 16:
            settings |= {"origin": "any"}
        listed = ", ".join(f"{name} {literal(value)}" for name, value in settings.items())
        command = f"START_REPLICATION SLOT {quoted(names.slot)} LOGICAL {start} ({listed})"
        result = self._connection.exec_(command.encode())
        if result.status != pq.ExecStatus.COPY_BOTH:
            state = result.error_field(pq.DiagnosticField.SQLSTATE)
            reason = " ".join(self._connection.get_error_message().split())
            self.close()
            if state in _GONE:
                raise SlotLost(names.slot, str(start), reason.rstrip("."))
            raise SourceUnavailable(str(options.address), reason.rstrip("."))
        self._connection.nonblocking = 1
        self.confirmed = start
        self._given_at = time.monotonic()

    def receive(self, idle_timeout: float) -> Received:
        """What has come by now; waits for it, at most this many seconds. Raises `SourceUnavailable`."""
        received = Received()
        gather = min(time.monotonic() - self._given_at, GATHER_SECONDS_MAX)
        try:
            self._take(received)
            if not received.payloads and not received.reply_wanted:
                if not self._wait(idle_timeout):
                    return received
                self._take(received)
            until = time.monotonic() + gather
            while not received.is_full and self._wait(GAP_SECONDS if time.monotonic() < until else 0):
                self._take(received)
        except psycopg.OperationalError as error:
            raise self._options.address.unavailable(error) from error
        finally:
            self._given_at = time.monotonic()
        return received

    def confirm(self, lsn: Lsn, *, ask: bool = False) -> None:
        """Tells the server that everything before this place is durable; with `ask`, it says how far it is."""
        now = int((time.time() - EPOCH.timestamp()) * 1e6)
        self.confirmed = max(self.confirmed, lsn)
        message = _STATUS.pack(b"r", self.confirmed, self.confirmed, self.confirmed, now, int(ask))
        try:
            self._connection.put_copy_data(message)
            while self._connection.flush():
                wait(self._connection.socket, None, writing=True)
        except psycopg.OperationalError as error:
            raise self._options.address.unavailable(error) from error

    def close(self) -> None:
        self._connection.finish()

    def _wait(self, seconds: float) -> bool:
        """Whether something came within the time, which libpq then has."""
        readable = wait(self._connection.socket, seconds)
        if readable:
            self._connection.consume_input()
        return readable

    def _take(self, received: Received) -> None:
        take, keep = self._connection.get_copy_data, received.payloads.append
        while not received.is_full:
            length, payload = take(1)
            if length == 0:
                return
            if length < 0:
                raise self._ended()
            if payload[0] == _WAL:
                keep(payload)
                received.bytes += length
            elif payload[0] == _KEEPALIVE:
                reached, _, wanted = struct.unpack_from(">QQB", payload, 1)
                received.reached = Lsn(reached)
                received.reply_wanted |= bool(wanted)

    def _ended(self) -> SlotLost | SourceUnavailable:
        result = self._connection.get_result()
        said = "" if result is None else self._connection.get_error_message()
        reason = " ".join(said.split()).rstrip(".") or "it has ended the stream"
        state = None if result is None else result.error_field(pq.DiagnosticField.SQLSTATE)
        if state in _GONE:
            # A publication that was dropped: the slot cannot be read past where it was missing.
            return SlotLost(self._options.names.slot, str(self.confirmed), reason)
        return SourceUnavailable(str(self._options.address), reason)

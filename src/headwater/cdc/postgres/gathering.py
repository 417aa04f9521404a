"""Puts what a server sends together to whole transactions, whatever their size.

Small ones are kept in memory and come out many at a time. One that is larger than `OPEN_BYTES_MAX`, or that the server
streams before it is committed, is spooled to a file; if it is rolled back, the file goes and nobody has seen it.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from headwater.cdc.postgres.stretch import (
    BEGIN,
    COMMIT,
    MESSAGE,
    ORIGIN,
    PADDING,
    RELATION,
    ROLLED_BACK,
    STREAM_ABORT,
    STREAM_COMMIT,
    STREAM_START,
    STREAM_STOP,
    TYPE,
    XLOG_HEADER,
    Stretch,
    of_kinds,
    read_integers,
    stretch_of,
)
from headwater.cdc.postgres.transactions import Transaction, instant, owners, transaction_of, transactions_of
from headwater.cdc.spool import PIECE_BYTES, Spool

Payload = bytes | memoryview
# A transaction of which so much has come is written to a file until its end comes.
OPEN_BYTES_MAX = 32 << 20
_BODY = XLOG_HEADER + 1
_XID = 4
_STREAM = (STREAM_START, STREAM_STOP, STREAM_COMMIT, STREAM_ABORT)


class SpooledMessages:
    """Messages of one transaction in a file. In a `streamed` one each says which subtransaction it is of."""

    def __init__(self, file: Path, *, streamed: bool) -> None:
        self._spool, self._streamed = Spool(file), streamed
        self._aborted: set[int] = set()

    @property
    def bytes(self) -> int:
        return self._spool.bytes

    def add(self, payloads: Sequence[Payload]) -> None:
        """Adds messages behind those that are there."""
        self._spool.add(payloads)

    def abort(self, subtransaction: int) -> None:
        """Takes the messages of a subtransaction away: it was rolled back."""
        self._aborted.add(subtransaction)

    def stretches(self, bytes_max: int = PIECE_BYTES) -> Iterator[Stretch]:
        """The messages that count, in their order, some megabytes at a time."""
        for content, ends in self._spool.pieces(bytes_max):
            yield _stretch(content, ends, self._aborted, streamed=self._streamed)

    def close(self) -> None:
        """Removes the file."""
        self._spool.close()


@dataclass(frozen=True, slots=True)
class Small:
    """Whole transactions, in memory. `owner` says for each message to which of them it belongs."""

    stretch: Stretch
    owner: np.ndarray
    transactions: list[Transaction]


@dataclass(frozen=True, slots=True)
class Large:
    """One whole transaction, in a file. Close it when it is done with."""

    messages: SpooledMessages
    transaction: Transaction

    def close(self) -> None:
        self.messages.close()


class Gatherer:
    """Give it what comes, in order; it gives back what is complete, in order."""

    def __init__(self, directory: Path, *, open_bytes_max: int = OPEN_BYTES_MAX) -> None:
        self._directory, self._open_bytes_max = directory, open_bytes_max
        self._open: list[Payload] = []
        self._open_bytes = 0
        self._large: SpooledMessages | None = None
        self._streams: dict[int, SpooledMessages] = {}
        self._stream: int | None = None
        self._origins: dict[int, str] = {}
        self._spools = 0

    @property
    def is_idle(self) -> bool:
        """Whether everything that came has come out again; what is streamed, and not yet committed, does not count."""
        return not self._open and self._large is None and self._stream is None

    @property
    def spooled_bytes(self) -> int:
        """How much lies in files."""
        spools = [*self._streams.values(), *([self._large] if self._large else [])]
        return sum(spool.bytes for spool in spools)

    def feed(self, payloads: Sequence[Payload]) -> Iterator[Small | Large]:
        """What is complete with these payloads, each of the kind 'w'."""
        kinds = np.frombuffer(bytes([payload[XLOG_HEADER] for payload in payloads]), np.uint8)
        begin = 0
        for at in np.flatnonzero(of_kinds(kinds, _STREAM)).tolist():
            yield from self._ordinary(payloads[begin:at], kinds[begin:at])
            yield from self._control(int(kinds[at]), bytes(payloads[at][_BODY:]))
            begin = at + 1
        yield from self._ordinary(payloads[begin:], kinds[begin:])

    def close(self) -> None:
        """Forgets what is not complete."""
        for spool in (*self._streams.values(), *([self._large] if self._large else [])):
            spool.close()
        self._streams, self._large, self._open, self._stream = {}, None, [], None

    def _ordinary(self, payloads: Sequence[Payload], kinds: np.ndarray) -> Iterator[Small | Large]:
        if not len(payloads):
            return
        if self._stream is not None:
            if kinds[0] == ORIGIN:
                # The only message inside a streamed transaction that does not say of which it is.
                self._origins[self._stream] = _origin(bytes(payloads[0][_BODY:]))
                payloads = payloads[1:]
            self._streams[self._stream].add(payloads)
            return
        if self._large is not None:
            end = np.flatnonzero(kinds == COMMIT)
            until = int(end[0]) + 1 if len(end) else len(payloads)
            self._large.add(payloads[:until])
            if not len(end):
                return
            yield self._finished_large(bytes(payloads[until - 1][_BODY:]))
            payloads, kinds = payloads[until:], kinds[until:]
        yield from self._gathered(payloads, kinds)

    def _gathered(self, payloads: Sequence[Payload], kinds: np.ndarray) -> Iterator[Small | Large]:
        complete = _complete(kinds, begun=bool(self._open))
        if complete:
            stretch = stretch_of([*self._open, *payloads[:complete]])
            self._open, self._open_bytes = [], 0
            owner = owners(stretch)
            yield Small(stretch, owner, transactions_of(stretch, owner))
        rest = payloads[complete:]
        self._open += rest
        self._open_bytes += sum(map(len, rest))
        if self._open_bytes > self._open_bytes_max:
            self._large = self._new_spool(streamed=False)
            self._large.add(self._open)
            self._open, self._open_bytes = [], 0

    def _finished_large(self, commit: bytes) -> Large:
        spool, self._large = self._large, None
        assert spool is not None
        first = next(spool.stretches(1 << 16))
        xid = int(first.integers(first.bodies[:1] + 16)[0])
        origin = None
        if len(first) > 1 and first.kinds[1] == ORIGIN:
            origin = _origin(first.body(1))
        end, at = struct.unpack_from(">QQ", commit, 9)
        return Large(spool, transaction_of(xid, end, instant(at), origin))

    def _control(self, kind: int, body: bytes) -> Iterator[Large]:
        if kind == STREAM_STOP:
            self._stream = None
            return
        (xid,) = struct.unpack_from(">I", body)
        if kind == STREAM_START:
            self._stream = xid
            if xid not in self._streams:
                self._streams[xid] = self._new_spool(streamed=True)
        elif kind == STREAM_COMMIT:
            end, at = struct.unpack_from(">QQ", body, 13)
            yield Large(self._streams.pop(xid), transaction_of(xid, end, instant(at), self._origins.pop(xid, None)))
        else:
            (subtransaction,) = struct.unpack_from(">I", body, 4)
            if subtransaction == xid:
                self._streams.pop(xid).close()
                self._origins.pop(xid, None)
            else:
                self._streams[xid].abort(subtransaction)

    def _new_spool(self, *, streamed: bool) -> SpooledMessages:
        self._directory.mkdir(parents=True, exist_ok=True)
        self._spools += 1
        return SpooledMessages(self._directory / f"{self._spools}.spool", streamed=streamed)


def _stretch(content: bytes, ends: np.ndarray, aborted: Collection[int], *, streamed: bool) -> Stretch:
    data = np.frombuffer(content + PADDING, np.uint8)
    starts = np.concatenate([[0], ends[:-1]]) + XLOG_HEADER
    bodies = starts + 1 + (_XID if streamed else 0)
    kinds = data[starts]
    stretch = Stretch(data, kinds, bodies, ends)
    if not streamed or not aborted:
        return stretch
    gone = np.isin(read_integers(data, starts + 1), list(aborted))
    # The server describes a table once in a transaction, also if that is in a part which is rolled back afterwards.
    kinds[gone & (kinds == RELATION)] = ROLLED_BACK
    return stretch.take(~gone | of_kinds(kinds, (TYPE, ROLLED_BACK)))


def _origin(body: bytes) -> str:
    return body[8:].split(b"\0", 1)[0].decode()


def _complete(kinds: np.ndarray, *, begun: bool) -> int:
    """How many messages belong to whole transactions."""
    commits = np.flatnonzero(kinds == COMMIT)
    complete = int(commits[-1]) + 1 if len(commits) else 0
    if complete == 0 and begun:
        return 0
    # Messages outside a transaction are complete as they are.
    while complete < len(kinds) and kinds[complete] == MESSAGE:
        complete += 1
    assert complete == len(kinds) or kinds[complete] == BEGIN, "a transaction begins with BEGIN"
    return complete

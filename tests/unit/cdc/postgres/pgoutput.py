"""Writes pgoutput messages as a server does, so that what reads them is tested without one."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

UNCHANGED = object()


@dataclass(frozen=True)
class Writer:
    """Messages of a transaction; with an `xid`, those of a streamed one."""

    xid: int | None = None

    def row(self, kind: str, oid: int, new: Sequence[object] = (), old: Sequence[object] = ()) -> bytes:
        body = struct.pack(">I", oid)
        if old:
            body += b"K" + _tuple(old)
        if new:
            body += b"N" + _tuple(new)
        return self._message(kind, body)

    def relation(self, oid: int, table: str, columns: Sequence[tuple[str, int]], key: str) -> bytes:
        body = struct.pack(">I", oid) + b"public\0" + table.encode() + b"\0d" + struct.pack(">H", len(columns))
        for name, kind in columns:
            body += bytes([name == key]) + name.encode() + b"\0" + struct.pack(">Ii", kind, -1)
        return self._message("R", body)

    def _message(self, kind: str, body: bytes) -> bytes:
        own = b"" if self.xid is None else struct.pack(">I", self.xid)
        return payload(kind.encode() + own + body)


def payload(message: bytes) -> bytes:
    return b"w" + bytes(24) + message


def begin(xid: int) -> bytes:
    return payload(b"B" + struct.pack(">QQI", 0, 0, xid))


def commit(end: int) -> bytes:
    return payload(b"C" + struct.pack(">BQQQ", 0, end - 8, end, 0))


def stream_start(xid: int, *, first: bool = True) -> bytes:
    return payload(b"S" + struct.pack(">IB", xid, first))


def stream_stop() -> bytes:
    return payload(b"E")


def stream_commit(xid: int, end: int) -> bytes:
    return payload(b"c" + struct.pack(">IBQQQ", xid, 0, end - 8, end, 0))


def stream_abort(xid: int, subtransaction: int) -> bytes:
    return payload(b"A" + struct.pack(">II", xid, subtransaction))


def message(lsn: int, prefix: str, content: bytes, *, transactional: bool) -> bytes:
    return payload(
        b"M"
        + struct.pack(">BQ", transactional, lsn)
        + prefix.encode()
        + b"\0"
        + struct.pack(">I", len(content))
        + content
    )


def _tuple(values: Sequence[object]) -> bytes:
    data = struct.pack(">H", len(values))
    for value in values:
        if value is None:
            data += b"n"
        elif value is UNCHANGED:
            data += b"u"
        else:
            text = str(value).encode()
            data += b"t" + struct.pack(">I", len(text)) + text
    return data

"""The transactions of a stretch: who they are, when they were committed, and which messages are theirs."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np
import numpy.typing as npt

from headwater.cdc import transactions
from headwater.cdc.postgres.lsn import Lsn
from headwater.cdc.postgres.stretch import BEGIN, COMMIT, MESSAGE, ORIGIN, Stretch, read_longs

# PostgreSQL counts microseconds from here.
EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
TRANSACTIONAL = 1


Transaction = transactions.Transaction[Lsn]
"""A transaction of PostgreSQL. `end` is the place in the WAL behind its commit.

A message outside any transaction (`pg_logical_emit_message(false, …)`) is one without an `id`.
"""


@dataclass(frozen=True, slots=True)
class LogicalMessage:
    """What a program wrote into the WAL with `pg_logical_emit_message`."""

    transactional: bool
    lsn: Lsn
    prefix: str
    content: bytes


def transaction_of(xid: int, end: int, committed_at: datetime | None, origin: str | None = None) -> Transaction:
    """A transaction, with what every record of it carries."""
    place = Lsn(end)
    headers = {"lsn": str(place)}
    if xid:
        headers["xid"] = str(xid)
    if committed_at is not None:
        headers["committed_at"] = committed_at.isoformat()
    if origin:
        headers["origin"] = origin
    return transactions.Transaction(xid, place, committed_at, headers)


def instant(microseconds: int) -> datetime:
    """The time that PostgreSQL writes as microseconds since 2000."""
    return EPOCH + timedelta(microseconds=int(microseconds))


def read_message(body: bytes) -> LogicalMessage:
    """The content of a message of the kind 'M'."""
    flags, lsn = struct.unpack_from(">BQ", body)
    end = body.index(b"\0", 9)
    (length,) = struct.unpack_from(">I", body, end + 1)
    return LogicalMessage(bool(flags & TRANSACTIONAL), Lsn(lsn), body[9:end].decode(), body[end + 5 : end + 5 + length])


def owners(stretch: Stretch) -> npt.NDArray[np.int64]:
    """For each message of a stretch of whole transactions, the number of its transaction in the stretch."""
    begins = stretch.kinds == BEGIN
    ends = stretch.kinds == COMMIT
    outside = (np.cumsum(begins) - np.cumsum(ends) == 0) & ~ends
    begins |= outside & (stretch.kinds == MESSAGE)
    return np.cumsum(begins) - 1


def transactions_of(stretch: Stretch, owner: npt.NDArray[np.int64]) -> list[Transaction]:
    """The transactions of a stretch of whole ones, in their order."""
    count = int(owner[-1]) + 1 if len(owner) else 0
    found: list[Transaction | None] = [None] * count
    begins, commits = np.flatnonzero(stretch.kinds == BEGIN), np.flatnonzero(stretch.kinds == COMMIT)
    xids = stretch.integers(stretch.bodies[begins] + 16)
    ends = read_longs(stretch.data, stretch.bodies[commits] + 9)
    times = read_longs(stretch.data, stretch.bodies[commits] + 17)
    origins = _origins(stretch, owner)
    for number, xid, end, at in zip(owner[commits].tolist(), xids.tolist(), ends.tolist(), times.tolist(), strict=True):
        found[number] = transaction_of(xid, end, instant(at), origins.get(number))
    for number, one in enumerate(found):
        if one is None:
            # Where it begins in the WAL is all that a message outside a transaction says of itself.
            [at] = np.flatnonzero(owner == number)
            found[number] = transaction_of(0, read_message(stretch.body(int(at))).lsn + 1, None)
    return [one for one in found if one is not None]


def _origins(stretch: Stretch, owner: npt.NDArray[np.int64]) -> dict[int, str]:
    """The origins that transactions name, by their number: where a change was made that was replicated to here."""
    places: Sequence[int] = np.flatnonzero(stretch.kinds == ORIGIN).tolist()
    return {int(owner[at]): stretch.body(at)[8:].split(b"\0", 1)[0].decode() for at in places}

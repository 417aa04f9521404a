"""A stretch of pgoutput messages: their bytes in one array, and where each begins, so that numpy reads all at once.

    payload = 'w', start of WAL, end of WAL, time (25 bytes) | message
    message = kind (1 byte) | inside a streamed transaction: xid (4 bytes) | body

Numbers are big-endian. `Stretch` finds the body; what is in it, `tuples` and `messages` know.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Positions: TypeAlias = npt.NDArray[np.int64]
Bytes: TypeAlias = npt.NDArray[np.uint8]

XLOG_HEADER = 25
# Behind the last byte, so that a look at the length of a value that is not there stays inside the array.
PADDING = b"\0" * 16

BEGIN, COMMIT, INSERT, UPDATE, DELETE, TRUNCATE = (ord(kind) for kind in "BCIUDT")
RELATION, TYPE, ORIGIN, MESSAGE = (ord(kind) for kind in "RYOM")
# Not of the protocol: the description of a table by a subtransaction that was rolled back; see `gathering`.
ROLLED_BACK = ord("r")
STREAM_START, STREAM_STOP, STREAM_COMMIT, STREAM_ABORT = (ord(kind) for kind in "SEcA")


@dataclass(frozen=True, slots=True)
class Stretch:
    """Messages one behind the other. `bodies` is where each one's body begins, `ends` where it ends."""

    data: Bytes
    kinds: Bytes
    bodies: Positions
    ends: Positions

    def __len__(self) -> int:
        return len(self.kinds)

    def body(self, at: int) -> bytes:
        """The bytes of one message's body."""
        return self.data[self.bodies[at] : self.ends[at]].tobytes()

    def take(self, which: Positions | npt.NDArray[np.bool_] | slice) -> Stretch:
        """Some of the messages, over the same bytes."""
        return Stretch(self.data, self.kinds[which], self.bodies[which], self.ends[which])

    def integers(self, at: Positions) -> npt.NDArray[np.int64]:
        """The unsigned 4-byte numbers at places in the data."""
        return read_integers(self.data, at)


def stretch_of(payloads: Sequence[bytes | memoryview]) -> Stretch:
    """The messages of payloads of the kind 'w', outside a streamed transaction."""
    data = np.frombuffer(b"".join([*payloads, PADDING]), np.uint8)
    ends = np.cumsum(np.fromiter(map(len, payloads), np.int64, len(payloads)))
    starts = np.concatenate([[0], ends[:-1]]) + XLOG_HEADER if len(payloads) else ends
    return Stretch(data, data[starts], starts + 1, ends)


def read_integers(data: Bytes, at: Positions) -> npt.NDArray[np.int64]:
    """The unsigned 4-byte numbers, big-endian, at places in the data."""
    parts = [data[at + offset].astype(np.int64) << shift for offset, shift in enumerate((24, 16, 8, 0))]
    return parts[0] | parts[1] | parts[2] | parts[3]


def read_longs(data: Bytes, at: Positions) -> npt.NDArray[np.int64]:
    """The 8-byte numbers, big-endian, at places in the data."""
    return read_integers(data, at) << 32 | read_integers(data, at + 4)


def of_kinds(kinds: Bytes, wanted: Iterable[int]) -> npt.NDArray[np.bool_]:
    """Which messages are of one of some kinds."""
    table = np.zeros(256, np.bool_)
    table[list(wanted)] = True
    return table[kinds]

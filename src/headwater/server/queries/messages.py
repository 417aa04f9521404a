"""What the server, the fork server and its workers tell each other."""

from __future__ import annotations

import json
import struct
from dataclasses import asdict, dataclass
from typing import Any

LENGTH = struct.Struct("!I")
"""In front of each message of a stream: its length."""
READY = b"!"
"""A worker can take its first query."""
CONTROL_BYTES_MAX = 4096
"""Of one message between the server and the fork server."""


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """What all queries of a server have in common: the log, the views' directory, how much each query may use, and
    after how many a worker ends."""

    log: str
    directory: str
    seconds_max: float
    answer_bytes_max: int
    memory_bytes_max: int
    views_bytes_max: int
    cpu_seconds_max: int
    threads_max: int
    queries_max: int


@dataclass(frozen=True, slots=True)
class Question:
    """One query; `at_least` is a position, as text."""

    sql: str
    rows_max: int
    at_least: str | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """What comes before an answer's body: its status, and `body_bytes`.

    `limit` is what ended the query, `failure` what only the server's log is told, and `is_last` whether the worker ends
    now.
    """

    status: int
    body_bytes: int
    position: str | None = None
    limit: str | None = None
    failure: str | None = None
    is_last: bool = False


def encode(message: Question | Reply | WorkerOptions) -> bytes:
    """A message as JSON."""
    return json.dumps(asdict(message)).encode()


def framed(message: Question | Reply) -> bytes:
    """A message for a stream, its length in front."""
    content = encode(message)
    return LENGTH.pack(len(content)) + content


def decode(content: bytes) -> dict[str, Any]:
    """The fields of a message."""
    fields: dict[str, Any] = json.loads(content)
    return fields

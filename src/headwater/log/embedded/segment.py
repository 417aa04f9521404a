"""The bytes of an unsealed segment: frames, each one Arrow record batch with a header and a checksum.

    frame   = header (56 bytes) | body (Arrow IPC record batch message, a multiple of 8 bytes)
    header  = magic, flags, schema version, rows, body bytes, first offset, commit, time, checksum

The checksum (XXH3, 64 bits) covers the header before it and the body. Offset, commit and time of a record follow
from its frame's header; in a frame of many commits the header has the first one, and a column says whose each record
is. Frames stand one behind the other from byte 0 to the segment's committed end, which the
catalog knows; what is behind that end does not exist.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import xxhash

from headwater.errors import Corrupt

MAGIC = b"HWF1"
HEADER = struct.Struct("<4sHHIIQQQqQ")
CHECKED_BYTES = HEADER.size - 8

DELETED = pa.field("_deleted", pa.bool_())
HEADERS = pa.field("_headers", pa.map_(pa.string(), pa.string()))
COMMITS = pa.field("_commit", pa.int64())
HAS_DELETED, HAS_HEADERS, HAS_COMMITS = 1, 2, 4


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame as it lies in a buffer: what its header says, and where its body is."""

    flags: int
    schema_version: int
    rows: int
    offset: int
    commit: int
    at: int
    start: int
    body: int
    end: int


def stored_schema(schema: pa.Schema, flags: int) -> pa.Schema:
    """The columns of a frame's body: the topic's, all nullable, and the system columns that the flags name."""
    fields = [field.with_nullable(True) for field in schema]
    if flags & HAS_DELETED:
        fields.append(DELETED)
    if flags & HAS_HEADERS:
        fields.append(HEADERS)
    if flags & HAS_COMMITS:
        fields.append(COMMITS)
    return pa.schema(fields)


def encode_frame(
    batch: pa.RecordBatch, *, schema_version: int, offset: int, commit: int, at: int
) -> list[bytes | memoryview]:
    """The frame's bytes, in parts, so that the body is not copied. The batch is in `stored_schema` order."""
    names = batch.schema.names
    columns = ((DELETED, HAS_DELETED), (HEADERS, HAS_HEADERS), (COMMITS, HAS_COMMITS))
    flags = sum(flag for column, flag in columns if column.name in names)
    body = memoryview(batch.serialize())
    head = HEADER.pack(MAGIC, flags, 0, schema_version, batch.num_rows, len(body), offset, commit, at, 0)[
        :CHECKED_BYTES
    ]
    return [head + struct.pack("<Q", _checksum(head, body)), body]


def walk_frames(buffer: memoryview, *, complete: bool, segment: str, offset: int, end_offset: int) -> Iterator[Frame]:
    """All whole frames in the buffer, each checked. `offset` is the first one's, `end_offset` the segment's.

    Stops before a frame that the buffer holds only in part, unless the buffer is `complete`, that is, ends where
    the segment does. Raises `Corrupt`.
    """
    start = 0
    while start < len(buffer):
        frame = read_header(buffer, start)
        if not complete and (frame is None or frame.end > len(buffer)) and _may_continue(buffer, start):
            return
        problem = _problem(buffer, frame, offset)
        if frame is None or problem:
            known = frame is not None and frame.offset == offset and frame.rows > 0
            last = frame.offset + frame.rows - 1 if frame is not None and known else end_offset - 1
            raise Corrupt(segment, offset, min(last, end_offset - 1), problem)
        yield frame
        offset, start = frame.offset + frame.rows, frame.end


def read_header(buffer: memoryview, start: int) -> Frame | None:
    """The frame whose header is at `start`, unchecked; None if there is none."""
    if len(buffer) - start < HEADER.size:
        return None
    magic, flags, _, version, rows, length, offset, commit, at, _ = HEADER.unpack_from(buffer, start)
    if magic != MAGIC:
        return None
    body = start + HEADER.size
    return Frame(flags, version, rows, offset, commit, at, start, body, body + length)


def read_body(buffer: pa.Buffer, frame: Frame, schema: pa.Schema) -> pa.RecordBatch:
    """The frame's records, whose `stored_schema` is given; they stay in the buffer, nothing is copied."""
    return pa.ipc.read_record_batch(buffer.slice(frame.body, frame.end - frame.body), schema)


def _may_continue(buffer: memoryview, start: int) -> bool:
    found = bytes(buffer[start : start + len(MAGIC)])
    return MAGIC.startswith(found)


def _problem(buffer: memoryview, frame: Frame | None, offset: int) -> str:
    if frame is None:
        return "a frame does not begin where it should"
    if frame.end > len(buffer):
        return "a frame ends behind the segment's end"
    stored: int = HEADER.unpack_from(buffer, frame.start)[9]
    if _checksum(buffer[frame.start : frame.start + CHECKED_BYTES], buffer[frame.body : frame.end]) != stored:
        return "the checksum does not match"
    if frame.offset != offset:
        return f"a frame says offset {frame.offset}"
    return ""


def _checksum(head: bytes | memoryview, body: memoryview) -> int:
    digest = xxhash.xxh3_64(head)
    digest.update(body)
    return digest.intdigest()

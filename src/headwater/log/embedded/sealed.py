"""Sealed segments: plain Parquet files that any tool reads, and that say of every byte whether it is as it was written.

The footer has a checksum of every row group, and the catalog one of the footer. So nothing is decoded before it was
checked, and damage in one row group leaves the others readable.
"""

from __future__ import annotations

import io
import json
import mmap
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import xxhash

from headwater.errors import Corrupt
from headwater.log.embedded.segment import DELETED, HEADERS
from headwater.log.maintenance import Segment

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer as Buffer

CHECKSUMS = "headwater.checksums"
"""In a file's footer: for every row group where it ends, and the checksum (XXH3) of its bytes, as JSON."""

# How every Parquet file ends: the length of the footer before this, and a magic word.
_FOOTER_END = struct.Struct("<I4s")
FOOTER_BYTES = 64 << 10
"""Nearly all footers are smaller, so that one request fetches them."""
ROW_GROUP_ROWS = 131_072
# A column with more different values than fit here is written plainly. Arrow's own limit, 1 MiB, would make a
# dictionary of 131,072 different numbers first: twice the time to seal, and larger files that are slower to read.
DICTIONARY_BYTES_MAX = 128 << 10
OFFSET = pa.field("_offset", pa.int64())
COMMIT = pa.field("_commit", pa.int64())
AT = pa.field("_received_at", pa.timestamp("us", "UTC"))
PARTITION = pa.field("_partition", pa.int32())
_PLAIN = dict.fromkeys(("_offset", "_commit", "_received_at"), "DELTA_BINARY_PACKED")


def sealed_schema(schema: pa.Schema) -> pa.Schema:
    """The columns of a sealed segment: the topic's, all nullable, then the system columns but the partition."""
    return pa.schema([*(field.with_nullable(True) for field in schema), OFFSET, COMMIT, AT, DELETED, HEADERS])


@dataclass(frozen=True, slots=True)
class SealedSize:
    """What the catalog keeps of a sealed file: its bytes, its rows, and the checksum of its footer."""

    bytes: int
    rows: int
    checksum: int


def write_sealed(path: Path, tables: Iterable[pa.Table], schema: pa.Schema) -> SealedSize:
    """Writes a new Parquet file (not yet synced). Tables come in `sealed_schema` order."""
    rows, groups = 0, list[tuple[int, int]]()
    columns = [field.name for field in sealed_schema(schema)]
    with path.open("wb", buffering=0) as file:
        sink = _Summing(file)
        with pq.ParquetWriter(
            sink,
            sealed_schema(schema),
            compression="zstd",
            use_dictionary=[name for name in columns if name not in _PLAIN],
            dictionary_pagesize_limit=DICTIONARY_BYTES_MAX,
            column_encoding=_PLAIN,
            write_page_checksum=True,
        ) as writer:
            for table in _regrouped(tables):
                writer.write_table(table.select(columns), row_group_size=ROW_GROUP_ROWS)
                groups.append(sink.part())
                rows += table.num_rows
            if not groups:
                # What stands before the footer then is the magic word that every file begins with.
                sink.part()
            writer.add_key_value_metadata({CHECKSUMS: json.dumps(groups)})
        end, checksum = sink.part()
    return SealedSize(end, rows, checksum)


class _Summing(io.RawIOBase):
    """A file to write to that knows how far it has come, and the checksum of each part."""

    def __init__(self, file: io.RawIOBase | io.FileIO) -> None:
        self._file = file
        self._end, self._digest = 0, xxhash.xxh3_64()

    def writable(self) -> bool:
        return True

    def write(self, content: Buffer) -> int:
        rest = memoryview(content).cast("B")
        self._digest.update(rest)
        self._end += len(rest)
        while rest:
            rest = rest[self._file.write(rest) or 0 :]
        return memoryview(content).nbytes

    def part(self) -> tuple[int, int]:
        """Where the part that was written last ends, and its checksum; the next one begins."""
        checksum, self._digest = _signed(self._digest.intdigest()), xxhash.xxh3_64()
        return self._end, checksum


def _signed(unsigned: int) -> int:
    """As SQLite keeps it: a signed 64-bit number."""
    return unsigned - (1 << 64) if unsigned >= 1 << 63 else unsigned


def _checksum(content: memoryview) -> int:
    return _signed(xxhash.xxh3_64_intdigest(content))


class Fill(Protocol):
    """Puts a range of a file in its place in a buffer; `fresh`, not from any cache."""

    def __call__(self, begin: int, end: int, *, fresh: bool) -> None: ...


def _there(begin: int, end: int, *, fresh: bool) -> None:
    """For a buffer that holds all of the file."""


class SealedFile:
    """The bytes of one sealed segment. The footer is checked at once, every row group before it is read.

    With `fill`, the content is a buffer that it fills in where it is needed. Raises `Corrupt`, with the offsets of the
    row group if it is one.
    """

    def __init__(self, segment: Segment, content: bytes | mmap.mmap, fill: Fill = _there) -> None:
        self.file, self._segment, self._content, self._fill = segment.file, segment, memoryview(content), fill
        if len(content) != segment.bytes:
            raise self._corrupt(f"the file has {len(content)} bytes of {segment.bytes}")
        if not (self._has_footer(fresh=False) or self._has_footer(fresh=True)):
            raise self._corrupt("the footer's checksum does not match")
        self._parquet = pq.ParquetFile(pa.BufferReader(pa.py_buffer(content)))
        self._groups: list[tuple[int, int]] = json.loads(self._parquet.metadata.metadata[CHECKSUMS.encode()])
        self._first_offsets, self._last_offsets = _offsets(self._parquet.metadata)
        self._checked: set[int] = set()
        self.schema: pa.Schema = self._parquet.schema_arrow.remove_metadata()
        self.columns: list[str] = self.schema.names

    def _has_footer(self, *, fresh: bool) -> bool:
        """Fetches the footer; whether it is as it was written."""
        size = len(self._content)
        self._fill(max(0, size - FOOTER_BYTES), size, fresh=fresh)
        footer = size - _FOOTER_END.size - int(_FOOTER_END.unpack_from(self._content, size - 8)[0])
        if 0 <= footer < size - FOOTER_BYTES:
            self._fill(footer, size, fresh=fresh)
        return footer >= 0 and _checksum(self._content[footer:]) == self._segment.checksum

    def read(self, offset: int, columns: list[str]) -> tuple[pa.Table, int] | None:
        """The rest of the row group that has the offset or the next one behind it, and where reading continues."""
        group = int(np.searchsorted(self._last_offsets, offset))
        if group == len(self._last_offsets):
            return None
        last = group == len(self._last_offsets) - 1
        next_offset = self._segment.end_offset if last else int(self._last_offsets[group]) + 1
        self.check(group)
        return self._parquet.read_row_group(group, columns=columns), next_offset

    @property
    def content(self) -> memoryview:
        """All bytes of the file, as far as they were checked."""
        return self._content

    @property
    def groups(self) -> range:
        return range(len(self._groups))

    def group(self, group: int) -> pa.Table:
        """All of one row group."""
        self.check(group)
        return self._parquet.read_row_group(group)

    def check(self, group: int) -> None:
        """Raises `Corrupt` if the row group is not as it was written."""
        if group in self._checked:
            return
        begin = self._groups[group - 1][0] if group else 0
        end, checksum = self._groups[group]
        if not any(self._is_sound(begin, end, checksum, fresh=fresh) for fresh in (False, True)):
            first, last = int(self._first_offsets[group]), int(self._last_offsets[group])
            raise Corrupt(self.file, first, last, "the checksum does not match")
        self._checked.add(group)

    def _is_sound(self, begin: int, end: int, checksum: int, *, fresh: bool) -> bool:
        self._fill(begin, end, fresh=fresh)
        return _checksum(self._content[begin:end]) == checksum

    def _corrupt(self, reason: str) -> Corrupt:
        return Corrupt(self.file, self._segment.base_offset, self._segment.end_offset - 1, reason)


def _offsets(metadata: pq.FileMetaData) -> tuple[np.ndarray, np.ndarray]:
    """The first and the last offset of every row group."""
    names = [metadata.schema.column(i).path for i in range(metadata.num_columns)]
    column = names.index(OFFSET.name)
    groups = [metadata.row_group(i).column(column).statistics for i in range(metadata.num_row_groups)]
    return np.array([group.min for group in groups], np.int64), np.array([group.max for group in groups], np.int64)


def _regrouped(tables: Iterable[pa.Table]) -> Iterable[pa.Table]:
    """The same rows in tables of one row group each, so that small frames do not make small row groups."""
    waiting: list[pa.Table] = []
    rows = 0
    for table in tables:
        waiting.append(table)
        rows += table.num_rows
        while rows >= ROW_GROUP_ROWS:
            whole = pa.concat_tables(waiting)
            yield whole.slice(0, ROW_GROUP_ROWS)
            waiting, rows = [whole.slice(ROW_GROUP_ROWS)], rows - ROW_GROUP_ROWS
    if rows:
        yield pa.concat_tables(waiting)

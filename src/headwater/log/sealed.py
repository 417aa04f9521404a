"""Sealed segments: plain Parquet files that any tool reads, each with a checksum of all its bytes in the catalog."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import xxhash

from headwater.errors import Corrupt
from headwater.log.segment import DELETED, HEADERS
from headwater.log.segments import Segment

ROW_GROUP_ROWS = 131_072
OFFSET = pa.field("_offset", pa.int64())
COMMIT = pa.field("_commit", pa.int64())
AT = pa.field("_at", pa.timestamp("us", "UTC"))
PARTITION = pa.field("_partition", pa.int32())
_PLAIN = dict.fromkeys(("_offset", "_commit", "_at"), "DELTA_BINARY_PACKED")


def sealed_schema(schema: pa.Schema) -> pa.Schema:
    """The columns of a sealed segment: the topic's, all nullable, then the system columns but the partition."""
    return pa.schema([*(field.with_nullable(True) for field in schema), OFFSET, COMMIT, AT, DELETED, HEADERS])


def write_sealed(path: Path, tables: Iterable[pa.Table], schema: pa.Schema) -> int:
    """Writes a new Parquet file (not yet synced); the number of rows. Tables come in `sealed_schema` order."""
    rows = 0
    columns = [field.name for field in sealed_schema(schema)]
    with pq.ParquetWriter(
        path,
        sealed_schema(schema),
        compression="zstd",
        use_dictionary=[name for name in columns if name not in _PLAIN],
        column_encoding=_PLAIN,
        write_page_checksum=True,
    ) as writer:
        for table in _regrouped(tables):
            writer.write_table(table.select(columns), row_group_size=ROW_GROUP_ROWS)
            rows += table.num_rows
    return rows


def checksum_of(content: bytes) -> int:
    """As SQLite keeps it: a signed 64-bit number."""
    unsigned = xxhash.xxh3_64_intdigest(content)
    return unsigned - (1 << 64) if unsigned >= 1 << 63 else unsigned


class SealedFile:
    """One sealed segment, read into memory and checked once. Raises `Corrupt`, `FileNotFoundError`."""

    def __init__(self, directory: Path, segment: Segment) -> None:
        self.file, self.end_offset = segment.file, segment.end_offset
        content = (directory / segment.file).read_bytes()
        if checksum_of(content) != segment.checksum:
            reason = "the checksum does not match"
            if len(content) != segment.bytes:
                reason = f"the file has {len(content)} bytes of {segment.bytes}"
            raise Corrupt(segment.file, segment.base_offset, segment.end_offset - 1, reason)
        self._parquet = pq.ParquetFile(pa.BufferReader(content))
        self._last_offsets = _largest_offsets(self._parquet.metadata)
        self.columns: list[str] = self._parquet.schema_arrow.names

    def read(self, offset: int, columns: list[str]) -> tuple[pa.Table, int] | None:
        """The rest of the row group that has the offset or the next one behind it, and where reading goes on."""
        group = int(np.searchsorted(self._last_offsets, offset))
        if group == len(self._last_offsets):
            return None
        last = group == len(self._last_offsets) - 1
        next_offset = self.end_offset if last else int(self._last_offsets[group]) + 1
        return self._parquet.read_row_group(group, columns=columns), next_offset


def _largest_offsets(metadata: pq.FileMetaData) -> np.ndarray:
    names = [metadata.schema.column(i).path for i in range(metadata.num_columns)]
    column = names.index(OFFSET.name)
    groups = [metadata.row_group(i).column(column).statistics.max for i in range(metadata.num_row_groups)]
    return np.array(groups, dtype=np.int64)


def _regrouped(tables: Iterable[pa.Table]) -> Iterable[pa.Table]:
    """The same rows in tables of at least a row group each, so that small frames do not make small row groups."""
    waiting: list[pa.Table] = []
    rows = 0
    for table in tables:
        waiting.append(table)
        rows += table.num_rows
        if rows >= ROW_GROUP_ROWS:
            whole = pa.concat_tables(waiting)
            full = rows - rows % ROW_GROUP_ROWS
            yield whole.slice(0, full)
            waiting, rows = [whole.slice(full)], rows - full
    if rows:
        yield pa.concat_tables(waiting)

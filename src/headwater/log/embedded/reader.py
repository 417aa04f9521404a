"""Reading one partition: from an offset on, in Arrow batches, out of frames and Parquet alike."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Literal, Self

import numpy as np
import pyarrow as pa

from headwater.errors import Corrupt, RecordsGone, UnknownTopic
from headwater.log.embedded.catalog import Catalog
from headwater.log.embedded.files import SegmentFiles
from headwater.log.embedded.registry import Registry
from headwater.log.embedded.sealed import AT, COMMIT, OFFSET, PARTITION, SealedFile, sealed_schema
from headwater.log.embedded.segment import DELETED, HEADERS, Frame, read_body, stored_schema, walk_frames
from headwater.log.embedded.segments import mark_before, partition_range, segment_from
from headwater.log.maintenance import Segment
from headwater.log.reading import Batch
from headwater.log.topic import Topic
from headwater.model.evolution import conform, evolves
from headwater.model.record import SYSTEM_COLUMNS

# How much of a segment is read at once: enough for the disk, little enough to hand on soon.
READ_BYTES = 4 << 20
# A segment's file may be replaced between looking it up and opening it: look again this often.
LOOKS_MAX = 10
_STORED = (OFFSET, COMMIT, AT, DELETED, HEADERS)


class PartitionReader:
    """Not safe for use by several threads at once; it remembers where it was, so that continuing is cheap."""

    def __init__(
        self,
        files: SegmentFiles,
        catalog: Catalog,
        registry: Registry,
        topic: Topic,
        partition: int,
        columns: Sequence[str] | None = None,
    ) -> None:
        self._files, self._catalog, self._registry = files, catalog, registry
        self.topic, self.partition = topic, partition
        self._columns = list(columns) if columns is not None else None
        self._sealed: SealedFile | None = None
        self._file: tuple[str, int] | None = None
        self._place: tuple[int, int, int] | None = None
        self._last: tuple[int, int, Batch] | None = None

    def read(self, offset: int, *, until_commit: int | None = None, until_offset: int | None = None) -> Batch | None:
        """The next records from the offset on, up to a commit (included) and an offset (not included).

        None when there is none. Raises `RecordsGone` if retention deleted them, `Corrupt` if they are damaged.
        """
        while True:
            found = self._find(offset)
            if found is None:
                return None
            segment, batch = found
            if batch is None:
                offset = max(offset, segment.end_offset)
                continue
            cut = self._cut(batch, offset, until_commit, until_offset)
            if cut is None and batch.next_offset > offset and not self._past(batch, until_commit, until_offset):
                offset = batch.next_offset
                continue
            return cut

    def seek(self, column: str, value: int) -> int:
        """The first offset whose `_commit` is greater than the value, or whose `_received_at` is not less than it."""
        name = "commit_number" if column == COMMIT.name else "at"
        side: Literal["left", "right"] = "right" if column == COMMIT.name else "left"
        last = "last_commit > ?" if column == COMMIT.name else "last_at >= ?"
        with self._catalog.read() as tx:
            row = tx.execute(
                f"SELECT base_offset FROM segments WHERE topic_id = ? AND partition = ? AND {last} "
                "ORDER BY end_offset LIMIT 1",
                (self.topic.id, self.partition, value),
            ).fetchone()
            start, end = partition_range(tx, self.topic, self.partition)
            if row is None:
                return end
            segment = segment_from(tx, self.topic.id, self.partition, row[0])
            assert segment is not None
            offset = max(start, mark_before(tx, segment, name, value)[0])
        reader = PartitionReader(
            self._files, self._catalog, self._registry, self.topic, self.partition, [OFFSET.name, column]
        )
        with reader:
            while (batch := reader.read(offset)) is not None:
                index = int(np.searchsorted(_integers(batch.records[column]), value, side=side))
                if index < batch.records.num_rows:
                    return int(batch.records[OFFSET.name][index].as_py())
                offset = batch.next_offset
        return end

    def first(self) -> int:
        """The first offset that is kept."""
        with self._catalog.read() as tx:
            return partition_range(tx, self.topic, self.partition)[0]

    def empty(self) -> pa.Table:
        """No records, in the columns that this reader gives."""
        fields = {field.name: field for field in [*self.topic.schema, *_STORED, PARTITION]}
        return pa.schema([fields[name].with_nullable(True) for name in self._wanted()]).empty_table()

    def release(self) -> None:
        """Closes the file until the next read, which resumes at no extra cost."""
        if self._file is not None:
            os.close(self._file[1])
            self._file = None

    def close(self) -> None:
        self.release()
        self._sealed = self._last = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _find(self, offset: int) -> tuple[Segment, Batch | None] | None:
        for look in range(LOOKS_MAX):
            with self._catalog.read() as tx:
                start, end = partition_range(tx, self.topic, self.partition)
                if offset < start:
                    raise RecordsGone(self.topic.name, self.partition, offset, start - 1)
                segment = segment_from(tx, self.topic.id, self.partition, offset) if offset < end else None
                if segment is None:
                    return None
                place = self._remembered(segment, offset) or mark_before(tx, segment, "offset", offset)
            try:
                if segment.state == "sealed":
                    return segment, self._read_sealed(segment, offset)
                return segment, self._again(segment, offset) or self._read_frames(segment, *place)
            except FileNotFoundError as error:
                if look == LOOKS_MAX - 1:
                    self._catalog.check_in_place()
                    missing = "the file is missing" if segment.local else "the object is missing in the archive"
                    raise Corrupt(segment.file, segment.base_offset, segment.end_offset - 1, missing) from error
        raise AssertionError("unreachable")

    def _renew_topic(self) -> None:
        found = self._registry.topic(self.topic.name)
        if found.id != self.topic.id:
            raise UnknownTopic(self.topic.name)
        self.topic = found

    def _remembered(self, segment: Segment, offset: int) -> tuple[int, int] | None:
        if self._place is not None and self._place[:2] == (segment.id, offset):
            return offset, self._place[2]
        return None

    def _again(self, segment: Segment, offset: int) -> Batch | None:
        """The batch that was read last, if it has the offset: a follower's limit may have cut it short."""
        if self._last is not None and self._last[0] == segment.id:
            _, first, batch = self._last
            if first <= offset < batch.next_offset:
                return batch
        return None

    def _read_sealed(self, segment: Segment, offset: int) -> Batch | None:
        if self._sealed is None or self._sealed.file != segment.file:
            self._sealed = self._files.sealed(segment)
            if not evolves(self._sealed.schema, sealed_schema(self.topic.schema)):
                self._renew_topic()
        wanted = [OFFSET.name, COMMIT.name, *self._wanted()]
        found = self._sealed.read(offset, [name for name in dict.fromkeys(wanted) if name in self._sealed.columns])
        if found is None:
            return None
        table, next_offset = found
        return self._batch([table], {}, next_offset)

    def _read_frames(self, segment: Segment, offset: int, byte: int) -> Batch:
        size = READ_BYTES
        while True:
            content = self._content(segment, byte, min(size, segment.bytes - byte))
            complete = byte + len(content) >= segment.bytes
            frames = list(
                walk_frames(
                    memoryview(content), complete=complete, segment=segment.file, offset=offset,
                    end_offset=segment.end_offset,
                )
            )  # fmt: skip
            if frames:
                break
            size *= 4
        self._place = (segment.id, frames[-1].offset + frames[-1].rows, byte + frames[-1].end)
        batch = self.decode(pa.py_buffer(content), frames)
        self._last = (segment.id, frames[0].offset, batch)
        return batch

    def _content(self, segment: Segment, byte: int, size: int) -> bytes:
        if self._file is None or self._file[0] != segment.file:
            self.close()
            self._file = (segment.file, os.open(self._files.directory / segment.file, os.O_RDONLY | os.O_CLOEXEC))
        content = os.pread(self._file[1], size, byte)
        if len(content) < size:
            reason = f"the file has {byte + len(content)} bytes of {segment.bytes} committed ones"
            raise Corrupt(segment.file, segment.base_offset, segment.end_offset - 1, reason)
        return content

    def decode(self, buffer: pa.Buffer, frames: list[Frame]) -> Batch:
        """The records of frames that follow each other, in the topic's current schema."""
        newest = max(frame.schema_version for frame in frames)
        if newest > self.topic.schema_version:
            self._renew_topic()
        runs: list[tuple[tuple[int, int], pa.Schema, list[pa.RecordBatch]]] = []
        for frame in frames:
            kind = (frame.schema_version, frame.flags)
            if not runs or runs[-1][0] != kind:
                runs.append((kind, stored_schema(self.topic.schemas[frame.schema_version], frame.flags), []))
            runs[-1][2].append(read_body(buffer, frame, runs[-1][1]))
        rows = [frame.rows for frame in frames]
        tables = [pa.Table.from_batches(batches) for _, _, batches in runs]
        system = {
            OFFSET.name: pa.array(np.arange(frames[0].offset, frames[0].offset + sum(rows), dtype=np.int64)),
            COMMIT.name: _commits(frames, tables),
            AT.name: pa.array(np.repeat(np.array([frame.at for frame in frames], dtype=np.int64), rows)).cast(AT.type),
        }
        return self._batch(tables, system, frames[-1].offset + frames[-1].rows)

    def _batch(self, tables: list[pa.Table], system: dict[str, pa.Array], next_offset: int) -> Batch:
        """The columns that were asked for, in the topic's current schema, with offset and commit in any case."""
        rows = sum(table.num_rows for table in tables)
        fields = {field.name: field for field in [*self.topic.schema, *_STORED]}
        columns: dict[str, pa.Array | pa.ChunkedArray] = {}
        for name in dict.fromkeys([*self._wanted(), OFFSET.name, COMMIT.name]):
            if name == PARTITION.name:
                columns[name] = pa.repeat(pa.scalar(self.partition, PARTITION.type), rows)
            else:
                columns[name] = system[name] if name in system else _stacked(tables, fields[name])
        if DELETED.name in columns:
            columns[DELETED.name] = columns[DELETED.name].fill_null(False)
        return Batch(self.topic.name, self.partition, pa.table(columns), next_offset)

    def _cut(self, batch: Batch, offset: int, until_commit: int | None, until_offset: int | None) -> Batch | None:
        records = batch.records
        offsets = _integers(records[OFFSET.name])
        first, end = int(np.searchsorted(offsets, offset)), records.num_rows
        if until_commit is not None:
            end = int(np.searchsorted(_integers(records[COMMIT.name]), until_commit, side="right"))
        if until_offset is not None:
            end = min(end, int(np.searchsorted(offsets, until_offset)))
        if end <= first:
            return None
        next_offset = batch.next_offset if end == records.num_rows else int(offsets[end - 1]) + 1
        if until_offset is not None:
            next_offset = min(next_offset, until_offset)
        return Batch(
            batch.topic, batch.partition, records.slice(first, end - first).select(self._wanted()), next_offset
        )

    def _past(self, batch: Batch, until_commit: int | None, until_offset: int | None) -> bool:
        """Whether the batch reaches behind the limits, so that nothing can follow."""
        last = batch.records.num_rows - 1
        commit = batch.records[COMMIT.name][last].as_py()
        return (until_commit is not None and commit > until_commit) or (
            until_offset is not None and batch.next_offset >= until_offset
        )

    def _wanted(self) -> list[str]:
        return self._columns if self._columns is not None else [*self.topic.schema.names, *SYSTEM_COLUMNS]


def _commits(frames: list[Frame], tables: list[pa.Table]) -> pa.Array | pa.ChunkedArray:
    """The commit of each record: that of its frame, or in a frame of many commits, its own."""
    rows = [frame.rows for frame in frames]
    commits = np.repeat(np.array([frame.commit for frame in frames], dtype=np.int64), rows)
    at = 0
    for table in tables:
        if COMMIT.name in table.column_names:
            commits[at : at + table.num_rows] = table[COMMIT.name].to_numpy()
        at += table.num_rows
    return pa.array(commits)


def _stacked(tables: list[pa.Table], field: pa.Field) -> pa.ChunkedArray:
    """One column over all tables, in the field's type; nulls where a table was written before it had the column."""
    chunks: list[pa.Array] = []
    for table in tables:
        if field.name not in table.column_names:
            chunks.append(pa.nulls(table.num_rows, field.type))
        elif table.schema.field(field.name).type == field.type:
            chunks += table[field.name].chunks
        else:
            chunks += conform(table.select([field.name]), pa.schema([field.with_nullable(True)]))[field.name].chunks
    return pa.chunked_array(chunks, field.type)


def _integers(column: pa.ChunkedArray) -> np.ndarray:
    integers: np.ndarray = column.cast(pa.int64()).to_numpy()
    return integers

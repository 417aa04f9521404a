"""The active segments of all partitions: where new records are written, and when a new segment begins."""

from __future__ import annotations

import os
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.errors import Corrupt
from headwater.log.embedded.catalog import Durability
from headwater.log.embedded.segment import COMMITS, encode_frame
from headwater.log.topic import Topic
from headwater.system.sqlite import Connection
from headwater.system.storage import Storage, storage_error

# A commit may touch any number of partitions; no more of their files than this are open at once.
FILES_OPEN_MAX = 256
FRAME_ROWS_MAX = 65_536
FRAME_BYTES_MAX = 8 << 20
# This many bytes of frames are kept before they are written.
WRITE_BYTES_MAX = 32 << 20
# How many buffers one call of the operating system takes, at most.
WRITE_PARTS_MAX = 1000
# A reader that starts somewhere in a segment looks at most at this many bytes before it finds its place.
MARK_EVERY_BYTES = 256 << 10
SYNC_THREADS = 8

_TAIL = """
SELECT p.end_offset, s.id, s.file, s.base_offset, s.bytes, s.first_at, s.marked
FROM partitions p LEFT JOIN segments s ON s.id = p.active_segment
WHERE p.topic_id = ? AND p.partition = ?
"""
_NEW = """
INSERT INTO segments (topic_id, partition, base_offset, end_offset, first_commit, last_commit, first_at, last_at,
                      state, file, bytes, rows, marked)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'active', ?, 0, 0, 0)
"""


@dataclass(slots=True)
class _Tail:
    """The end of one partition, inside one transaction of the catalog."""

    segment: int
    file: str
    base_offset: int
    end_offset: int
    bytes: int
    marked: int


class Tails:
    """Writes frames behind the committed ends. All calls happen under the catalog's write lock.

    `append` any number of times, then `sync`, then the catalog's commit makes it true: `committed`. If anything fails
    before, `abandon`: the bytes behind the ends do not exist, and the next append writes over them.
    """

    def __init__(self, directory: Path, storage: Storage, durability: Durability) -> None:
        self._directory, self._storage = directory, storage
        self._durable = durability == "fsync"
        self._files: OrderedDict[str, int] = OrderedDict()
        self._touched: dict[str, int] = {}
        self._new_directories: set[Path] = set()
        self._pool: ThreadPoolExecutor | None = None
        self._rolled = False
        self.on_roll: Callable[[], None] = lambda: None

    def append(
        self, tx: Connection, topic: Topic, partition: int, tables: Sequence[pa.Table], commit: int, at: int
    ) -> tuple[int, int]:
        """Writes the records to the partition's active segment; the first offset and the end."""
        return self._append(tx, topic, partition, ((commit, batch) for batch in _batches(tables)), commit, commit, at)

    def append_each(
        self,
        tx: Connection,
        topic: Topic,
        partition: int,
        table: pa.Table,
        commits: npt.NDArray[np.int64],
        at: int,
    ) -> tuple[int, int]:
        """As `append`, for records of many commits: record i belongs to `commits[i]`, which never falls."""
        whole = table.append_column(COMMITS, pa.array(commits))
        batches = ((int(batch.column(COMMITS.name)[0].as_py()), batch) for batch in _batches([whole]))
        return self._append(tx, topic, partition, batches, int(commits[0]), int(commits[-1]), at)

    def _append(
        self,
        tx: Connection,
        topic: Topic,
        partition: int,
        batches: Iterable[tuple[int, pa.RecordBatch]],
        first_commit: int,
        last_commit: int,
        at: int,
    ) -> tuple[int, int]:
        tail = self._tail(tx, topic, partition, first_commit, at)
        self._check_file(tail)
        first, parts, position = tail.end_offset, [], tail.bytes
        marks: list[tuple[int, int, int, int, int]] = []
        for commit, batch in batches:
            frame = encode_frame(
                batch, schema_version=topic.schema_version, offset=tail.end_offset, commit=commit, at=at
            )
            if tail.bytes - tail.marked >= MARK_EVERY_BYTES:
                marks.append((tail.segment, tail.end_offset, commit, at, tail.bytes))
                tail.marked = tail.bytes
            parts += frame
            tail.bytes += sum(len(part) for part in frame)
            tail.end_offset += batch.num_rows
            if tail.bytes - position >= WRITE_BYTES_MAX or len(parts) >= WRITE_PARTS_MAX:
                # A commit may be larger than memory.
                self._write(tail.file, position, parts)
                parts, position = [], tail.bytes
        self._write(tail.file, position, parts)
        tx.execute(
            "UPDATE segments SET end_offset = ?, last_commit = ?, last_at = ?, bytes = ?, rows = rows + ?, marked = ? "
            "WHERE id = ?",
            (tail.end_offset, last_commit, at, tail.bytes, tail.end_offset - first, tail.marked, tail.segment),
        )
        tx.execute(
            "UPDATE partitions SET end_offset = ? WHERE topic_id = ? AND partition = ?",
            (tail.end_offset, topic.id, partition),
        )
        tx.executemany("INSERT INTO marks VALUES (?, ?, ?, ?, ?)", marks)
        return first, tail.end_offset

    def sync(self) -> None:
        """Returns when everything appended since the last call is on the disk, names of new files included."""
        files = [(self._files[file], self._directory / file) for file in self._touched if file in self._files]
        directories, self._new_directories = self._new_directories, set()
        self._touched = {}
        if not self._durable:
            return
        if len(files) == 1:
            self._sync(*files[0])
        elif files:
            self._pool = self._pool or ThreadPoolExecutor(SYNC_THREADS, thread_name_prefix="headwater-sync")
            list(self._pool.map(lambda file: self._sync(*file), files))
        for directory in sorted(directories):
            self._sync_directory(directory)

    def committed(self) -> None:
        """What was appended is true now; a segment that was complete can be sealed."""
        if self._rolled:
            self._rolled = False
            self.on_roll()

    def abandon(self) -> None:
        """Gives the room of an unfinished append back."""
        self._rolled = False
        touched, self._touched = self._touched, {}
        self._new_directories = set()
        for file, committed in touched.items():
            # The bytes do not exist either way: a disk that does not even truncate must not hide the first error.
            with suppress(OSError):
                self._storage.truncate(self._open(file), self._directory / file, committed)

    def forget(self, file: str) -> None:
        """Closes a file that nothing is written to any more."""
        if file in self._files:
            # Everything that counts was synced before.
            with suppress(OSError):
                self._storage.close(self._files.pop(file))

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown()
        for file in list(self._files):
            self.forget(file)

    def _tail(self, tx: Connection, topic: Topic, partition: int, commit: int, at: int) -> _Tail:
        end, segment, file, base, size, first_at, marked = tx.execute(_TAIL, (topic.id, partition)).fetchone()
        if segment is not None:
            age_max = topic.settings.segment_age_max.total_seconds() * 1e6
            if size < topic.roll_bytes and at - first_at < age_max:
                return _Tail(segment, file, base, end, size, marked)
            tx.execute("UPDATE segments SET state = 'closed' WHERE id = ?", (segment,))
            self._rolled = True
        return self._begin(tx, topic, partition, end, commit, at)

    def _begin(self, tx: Connection, topic: Topic, partition: int, end: int, commit: int, at: int) -> _Tail:
        file = new_file(topic.name, partition, end, "log")
        tx.execute(_NEW, (topic.id, partition, end, end, commit, commit, at, at, file))
        segment = tx.last_insert_rowid()
        tx.execute(
            "UPDATE partitions SET active_segment = ? WHERE topic_id = ? AND partition = ?",
            (segment, topic.id, partition),
        )
        self._make_directory((self._directory / file).parent)
        return _Tail(segment, file, end, end, 0, 0)

    def _make_directory(self, directory: Path) -> None:
        # The process that made a directory may have died before its name was on the disk: all of them are synced.
        path = [directory, *directory.parents]
        path = path[: path.index(self._directory) + 1]
        try:
            for missing in [each for each in reversed(path) if not each.exists()]:
                self._storage.make_directory(missing)
        except OSError as error:
            raise storage_error(error, directory) from error
        self._new_directories.update(path)

    def _write(self, file: str, position: int, parts: Sequence[bytes | memoryview]) -> None:
        path = self._directory / file
        try:
            fd = self._open(file)
            self._touched.setdefault(file, position)
            if os.fstat(fd).st_size > position:
                self._storage.truncate(fd, path, position)
            self._storage.write(fd, path, position, parts)
        except OSError as error:
            raise storage_error(error, path) from error

    def _check_file(self, tail: _Tail) -> None:
        """Nothing is written behind a file that has lost committed bytes: it would look whole again."""
        path = self._directory / tail.file
        size = path.stat().st_size if path.exists() else 0
        if size < tail.bytes:
            reason = f"the file has {size} bytes of {tail.bytes} committed ones"
            raise Corrupt(tail.file, tail.base_offset, tail.end_offset - 1, reason)

    def _open(self, file: str) -> int:
        if file not in self._files:
            self._forget_neighbours(file)
            while len(self._files) >= FILES_OPEN_MAX:
                idle = next((name for name in self._files if name not in self._touched), None)
                self.forget(idle if idle is not None else self._synced_oldest())
            self._files[file] = self._storage.open(self._directory / file)
        self._files.move_to_end(file)
        return self._files[file]

    def _synced_oldest(self) -> str:
        """The file that was used the longest ago; what this commit has written to it is on the disk."""
        file = next(iter(self._files))
        if self._durable:
            self._storage.sync(self._files[file], self._directory / file)
        return file

    def _forget_neighbours(self, file: str) -> None:
        """Closes the partition's earlier segments, ended by any process: an open file's room is not given back."""
        folder = Path(file).parent
        for other in [name for name in self._files if name not in self._touched and Path(name).parent == folder]:
            self.forget(other)

    def _sync(self, fd: int, path: Path) -> None:
        try:
            self._storage.sync(fd, path)
        except OSError as error:
            raise storage_error(error, path) from error

    def _sync_directory(self, path: Path) -> None:
        try:
            self._storage.sync_directory(path)
        except OSError as error:
            raise storage_error(error, path) from error


def new_file(topic: str, partition: int, base_offset: int, ending: str) -> str:
    """A name for a segment's file below the log's directory, never given out before: nobody has it open by chance."""
    return f"topics/{topic}/{partition}/{base_offset:020d}-{uuid.uuid4().hex[:12]}.{ending}"


def _batches(tables: Sequence[pa.Table]) -> Iterator[pa.RecordBatch]:
    """The tables' records in as few batches as frames may be large."""
    if len(tables) > 1:
        tables = _joined(tables)
    for table in tables:
        rows = max(1, min(FRAME_ROWS_MAX, int(FRAME_BYTES_MAX * table.num_rows / max(1, table.nbytes))))
        whole = table.combine_chunks() if table.num_rows <= rows else table
        yield from (batch for batch in whole.to_batches(max_chunksize=rows) if batch.num_rows)


def _joined(tables: Sequence[pa.Table]) -> list[pa.Table]:
    """Neighbours with the same columns as one table."""
    joined: list[list[pa.Table]] = []
    for table in tables:
        if joined and joined[-1][0].schema.equals(table.schema):
            joined[-1].append(table)
        else:
            joined.append([table])
    return [pa.concat_tables(run) for run in joined]

"""What the disk, SQLite and Arrow do by themselves: measured before the log, in the same run, on the same disk."""

from __future__ import annotations

import multiprocessing
import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from bench.report import Floor
from bench.samples import batches
from bench.timing import MILLISECONDS, latencies, percentile, rate

BLOCK = 4096
MEGABYTE = 1 << 20
# The file that is written to is used again from its start on, so that the disk does not fill up.
FILE_MEGABYTES_MAX = 512
READ_BATCHES = 200


@dataclass(frozen=True, slots=True)
class Floors:
    """The figures that the lines are compared with; rates per second, times in milliseconds."""

    fdatasync_p50: float
    fdatasync_p99: float
    synced_megabytes: float
    unsynced_megabytes: float
    sqlite_commit_p50: float
    arrow_written_rows: float
    arrow_read_rows: float
    parquet_read_rows: float
    pipe_p50: float
    pipe_p99: float

    def listed(self) -> list[Floor]:
        """As they are shown."""
        return [
            Floor("fdatasync, 4 KB appended, p50", self.fdatasync_p50, "ms"),
            Floor("fdatasync, 4 KB appended, p99", self.fdatasync_p99, "ms"),
            Floor("sequential write, fdatasync per 1 MB", self.synced_megabytes, "MB/s"),
            Floor("sequential write, never synced", self.unsynced_megabytes, "MB/s", "into the page cache"),
            Floor("SQLite commit, synchronous=FULL, p50", self.sqlite_commit_p50, "ms", "one row updated, WAL"),
            Floor("Arrow IPC write, fdatasync per batch", self.arrow_written_rows, "rows/s", "10,000-row batches"),
            Floor("Arrow IPC read", self.arrow_read_rows, "rows/s", "from the page cache, copied"),
            Floor("Parquet read, zstd", self.parquet_read_rows, "rows/s", "from the page cache"),
            Floor("a byte to another process, p50", self.pipe_p50, "ms", "pipe"),
            Floor("a byte to another process, p99", self.pipe_p99, "ms", "pipe"),
        ]


def measure(directory: Path, *, seconds: float, step: Callable[[str], None]) -> Floors:
    """All floors, each in this many seconds."""
    step("floor: fdatasync")
    syncs = _fdatasync(directory / "sync", seconds)
    step("floor: sequential write")
    synced = _sequential(directory / "synced", seconds, sync=True)
    unsynced = _sequential(directory / "unsynced", seconds, sync=False)
    step("floor: SQLite commit")
    commits = _sqlite(directory / "floor.db", seconds)
    step("floor: Arrow IPC")
    written = _arrow_write(directory / "written.arrow", seconds)
    read = _arrow_read(directory / "read.arrow", seconds)
    parquet = _parquet_read(directory / "read.parquet", seconds)
    step("floor: another process")
    pipes = _pipe(seconds)
    return Floors(
        fdatasync_p50=percentile(syncs, 0.5) * MILLISECONDS,
        fdatasync_p99=percentile(syncs, 0.99) * MILLISECONDS,
        synced_megabytes=synced,
        unsynced_megabytes=unsynced,
        sqlite_commit_p50=percentile(commits, 0.5) * MILLISECONDS,
        arrow_written_rows=written,
        arrow_read_rows=read,
        parquet_read_rows=parquet,
        pipe_p50=percentile(pipes, 0.5) * MILLISECONDS,
        pipe_p99=percentile(pipes, 0.99) * MILLISECONDS,
    )


class _Appender:
    """Writes to the end of a file that starts over when it is large."""

    def __init__(self, path: Path) -> None:
        self.fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._end = 0

    def write(self, content: bytes | pa.Buffer) -> None:
        size = len(content)
        if self._end + size > FILE_MEGABYTES_MAX * MEGABYTE:
            os.ftruncate(self.fd, 0)
            self._end = 0
        self._end += os.pwrite(self.fd, content, self._end)

    def close(self) -> None:
        os.close(self.fd)


def _fdatasync(path: Path, seconds: float) -> list[float]:
    block = os.urandom(BLOCK)
    with closing(_Appender(path)) as file:

        def append() -> None:
            file.write(block)
            os.fdatasync(file.fd)

        return latencies(append, seconds=seconds)


def _sequential(path: Path, seconds: float, *, sync: bool) -> float:
    content = os.urandom(MEGABYTE)
    with closing(_Appender(path)) as file:

        def append() -> int:
            file.write(content)
            if sync:
                os.fdatasync(file.fd)
            return 1

        return rate(append, seconds=seconds)


def _sqlite(path: Path, seconds: float) -> list[float]:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("CREATE TABLE ends (partition INTEGER PRIMARY KEY, end_offset INTEGER)")
        connection.execute("INSERT INTO ends VALUES (0, 0)")

        def commit() -> None:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("UPDATE ends SET end_offset = end_offset + 1")
            connection.execute("COMMIT")

        return latencies(commit, seconds=seconds)


def _arrow_write(path: Path, seconds: float) -> float:
    tables = batches()
    with closing(_Appender(path)) as file:

        def append() -> int:
            table = next(tables)
            file.write(table.to_batches()[0].serialize())
            os.fdatasync(file.fd)
            return int(table.num_rows)

        return rate(append, seconds=seconds)


def _arrow_read(path: Path, seconds: float) -> float:
    tables = batches()
    schema = next(tables).schema
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, schema) as writer:
        for _ in range(READ_BATCHES):
            writer.write_table(next(tables))

    def read() -> int:
        with pa.OSFile(str(path), "rb") as file, pa.ipc.open_stream(file) as reader:
            return sum(batch.num_rows for batch in reader)

    return rate(read, seconds=seconds)


def _parquet_read(path: Path, seconds: float) -> float:
    tables = batches()
    pq.write_table(pa.concat_tables([next(tables) for _ in range(READ_BATCHES)]), path, compression="zstd")
    return rate(lambda: int(pq.read_table(path).num_rows), seconds=seconds)


def _pipe(seconds: float) -> list[float]:
    """From one process to another: the times at which bytes were sent, compared with when they arrived."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    child = context.Process(target=_answer, args=(theirs,), daemon=True)
    child.start()
    ours.recv()
    sent: list[int] = []
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        sent.append(time.monotonic_ns())
        ours.send_bytes(b"!")
        time.sleep(0.01)
    ours.send_bytes(b"")
    arrived: list[int] = ours.recv()
    child.join()
    return [(after - before) / 1e9 for before, after in zip(sent, arrived, strict=True)]


def _answer(connection: Connection) -> None:
    arrived: list[int] = []
    connection.send("ready")
    while connection.recv_bytes():
        arrived.append(time.monotonic_ns())
    connection.send(arrived)

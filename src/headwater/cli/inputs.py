"""Records to append, from a file or a pipe, in batches that know where in the input each record stands."""

from __future__ import annotations

import os
import select
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.parquet as pq

from headwater.errors import UsageError

Format = Literal["jsonl", "parquet"]
STDIN = Path("-")

# One batch is one commit: large enough that its fsync costs little, small enough to be read soon.
BATCH_RECORDS_MAX = 10_000
BATCH_BYTES_MAX = 8 << 20
# How long a batch that is not full waits for more; a stream that pauses is not held back longer.
LINGER_SECONDS = 0.02
_CHUNK_BYTES = 1 << 20
_ENDINGS: dict[str, Format] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
    ".pq": "parquet",
}
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class InputBatch:
    """Consecutive records. `numbers` are their places in the input, counted from 1: lines, or rows.

    `done` of `total` of the input is read with it (`total` is None if nobody knows).
    """

    rows: bytes | pa.Table
    numbers: Sequence[int]
    done: int
    total: int | None


def check_file(file: Path) -> None:
    """Raises `UsageError` if there is nothing to read."""
    if file == STDIN:
        return
    if not file.exists():
        raise UsageError(f"There is no file {file}.", hint="Name a file, or - for standard input.")
    if file.is_dir():
        raise UsageError(f"{file} is a directory.", hint="Name a file, or - for standard input.")


def format_of(file: Path, given: Format | None) -> Format:
    """The format that was given, or the one of the file's ending. Raises `UsageError`."""
    if given is not None:
        return given
    if file == STDIN:
        return "jsonl"
    if file.suffix.lower() not in _ENDINGS:
        raise UsageError(
            f"The ending of {file} does not tell what is in it.", hint="Add --format jsonl or --format parquet."
        )
    return _ENDINGS[file.suffix.lower()]


def json_batches(file: Path, skip: int = 0) -> Iterator[InputBatch]:
    """JSON lines, without the first `skip` records. Blank lines are no records."""
    fd = os.dup(0) if file == STDIN else os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        status = os.fstat(fd)
        # A pipe has no size.
        total = status.st_size if stat.S_ISREG(status.st_mode) else None
        yield from _batched(fd, total, skip)
    finally:
        os.close(fd)


def parquet_batches(file: Path, skip: int = 0) -> Iterator[InputBatch]:
    """The rows of a Parquet file, without the first `skip`. Raises `UsageError` if it is none."""
    try:
        source = pa.BufferReader(_all_of_stdin()) if file == STDIN else pa.OSFile(str(file))
        with source, pq.ParquetFile(source) as parquet:
            yield from _parquet_batches(parquet, skip)
    except pa.ArrowInvalid as error:
        name = "Standard input" if file == STDIN else str(file)
        raise UsageError(f"{name} is not a Parquet file that can be read: {error}.") from error


def _parquet_batches(parquet: pq.ParquetFile, skip: int) -> Iterator[InputBatch]:
    total, row = parquet.metadata.num_rows, 0
    for batch in parquet.iter_batches(batch_size=BATCH_RECORDS_MAX):
        first = row
        row += batch.num_rows
        unread = max(0, skip - first)
        if unread < batch.num_rows:
            table = pa.Table.from_batches([batch.slice(unread)])
            yield InputBatch(table, range(first + unread + 1, row + 1), row, total)


def _all_of_stdin() -> bytes:
    parts = []
    while part := os.read(0, _CHUNK_BYTES):
        parts.append(part)
    return b"".join(parts)


def _batched(fd: int, total: int | None, skip: int) -> Iterator[InputBatch]:
    waiting: list[bytes] = []
    numbers: list[int] = []
    size = done = line_number = 0
    for lines in _lines(fd):
        for line in lines:
            line_number += 1
            done += len(line) + 1
            if not line or line.isspace():
                continue
            if skip:
                skip -= 1
                continue
            waiting.append(line)
            numbers.append(line_number)
            size += len(line)
            if len(waiting) >= BATCH_RECORDS_MAX or size >= BATCH_BYTES_MAX:
                yield InputBatch(b"\n".join(waiting), numbers, done, total)
                waiting, numbers, size = [], [], 0
        if not lines and waiting:
            yield InputBatch(b"\n".join(waiting), numbers, done, total)
            waiting, numbers, size = [], [], 0


def _lines(fd: int) -> Iterator[list[bytes]]:
    """Whole lines as they come; none of them means that the input pauses, or has ended."""
    begun: list[bytes] = []
    first = True
    while True:
        if not select.select([fd], [], [], LINGER_SECONDS)[0]:
            yield []
        chunk = os.read(fd, _CHUNK_BYTES)
        if first:
            chunk, first = chunk.removeprefix(_BYTE_ORDER_MARK), False
        if not chunk:
            break
        *lines, rest = chunk.split(b"\n")
        if lines:
            lines[0] = b"".join([*begun, lines[0]])
            begun = []
            yield lines
        begun.append(rest)
    if any(begun):
        yield [b"".join(begun)]
    yield []

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

from headwater.cli.beginning import (
    ROWS_COMPARED_MAX,
    Beginning,
    LineReading,
    check_not_shorter,
    check_same,
    table_beginning,
)
from headwater.errors import UsageError

Format = Literal["jsonl", "parquet", "debezium"]
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
_SEPARATED = {".csv", ".tsv"}
_UNPACKERS = {".gz": "zcat", ".bz2": "bzcat", ".xz": "xzcat", ".zst": "zstdcat"}
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class InputBatch:
    """Consecutive records. `numbers` are their places in the input, counted from 1: lines, or rows.

    `done` of `total` of the input is read with it (`total` is None if nobody knows). `beginning` is the input up to the
    end of the batch, if the input is to be recognised.
    """

    rows: bytes | pa.Table
    numbers: Sequence[int]
    done: int
    total: int | None
    beginning: Beginning | None = None


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
        raise _unreadable(file)
    return _ENDINGS[file.suffix.lower()]


def _unreadable(file: Path) -> UsageError:
    endings = [ending.lower() for ending in file.suffixes]
    only = f"{file} cannot be read: an append takes JSON lines and Parquet."
    if _SEPARATED.intersection(endings):
        copy = f"COPY (FROM '{file}') TO '{file.with_suffix('.parquet')}'"
        return UsageError(only, hint=f'Convert it first, with DuckDB for example: duckdb -c "{copy}"')
    if endings and endings[-1] in _UNPACKERS:
        unpack = f"{_UNPACKERS[endings[-1]]} {file} | headwater log append DIR TOPIC"
        unpack += " --format parquet" if ".parquet" in endings else ""
        return UsageError(only, hint=f"Decompress it on the way: {unpack}")
    return UsageError(
        f"The ending of {file} does not say which format it has.",
        hint="Add --format jsonl, --format parquet or --format debezium.",
    )


def json_batches(file: Path, skip: int = 0, known: Beginning | None = None) -> Iterator[InputBatch]:
    """JSON lines, without the first `skip` records, or without those that are known. Blank lines are no records.

    Raises `UsageError` if the input does not begin with what is known.
    """
    fd = os.dup(0) if file == STDIN else os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        status = os.fstat(fd)
        # A pipe has no size.
        total = status.st_size if stat.S_ISREG(status.st_mode) else None
        yield from _json_batches(fd, total, skip if known is None else known.records, known)
    finally:
        os.close(fd)


def parquet_batches(file: Path, skip: int = 0, known: Beginning | None = None) -> Iterator[InputBatch]:
    """The rows of a Parquet file, without the first `skip`, or without those that are known.

    Raises `UsageError` if it is no such file, or does not begin with what is known.
    """
    try:
        source = pa.BufferReader(_all_of_stdin()) if file == STDIN else pa.OSFile(str(file))
        with source, pq.ParquetFile(source) as parquet:
            yield from _parquet_batches(parquet, skip if known is None else known.records, known)
    except pa.ArrowInvalid as error:
        name = "Standard input" if file == STDIN else str(file)
        reason = str(error).rstrip(".")
        raise UsageError(
            f"{name} is not a Parquet file that can be read: {reason}.",
            hint="Add --format jsonl if it has JSON lines.",
        ) from error


def _json_batches(fd: int, total: int | None, skip: int, known: Beginning | None) -> Iterator[InputBatch]:
    reading = None if known is None else LineReading(known)
    records = 0
    for lines, numbers, done in _runs(fd, skip):
        records += len(lines)
        beginning = None if reading is None else reading.read(lines)
        if records > skip:
            yield InputBatch(b"\n".join(lines), numbers, done, total, beginning)
    if known is not None:
        check_not_shorter(known, records)


def _parquet_batches(parquet: pq.ParquetFile, skip: int, known: Beginning | None) -> Iterator[InputBatch]:
    total, row = parquet.metadata.num_rows, 0
    if known is not None:
        check_not_shorter(known, total)
    first_rows = parquet.schema_arrow.empty_table()
    for batch in parquet.iter_batches(batch_size=BATCH_RECORDS_MAX):
        first = row
        row += batch.num_rows
        table = pa.Table.from_batches([batch])
        if first < ROWS_COMPARED_MAX:
            first_rows = pa.concat_tables([first_rows, table]).slice(0, ROWS_COMPARED_MAX)
        if known is not None and first < known.records <= row:
            check_same(known, table_beginning(first_rows, known.records))
        unread = max(0, skip - first)
        if unread < batch.num_rows:
            beginning = None if known is None else table_beginning(first_rows, row)
            yield InputBatch(table.slice(unread), range(first + unread + 1, row + 1), row, total, beginning)


def _all_of_stdin() -> bytes:
    parts = []
    while part := os.read(0, _CHUNK_BYTES):
        parts.append(part)
    return b"".join(parts)


def _runs(fd: int, cut: int) -> Iterator[tuple[list[bytes], list[int], int]]:
    """The lines that are records, as many as make a batch, their numbers, and how much was read; cut at a record."""
    waiting: list[bytes] = []
    numbers: list[int] = []
    size = done = line_number = records = 0
    for lines in _lines(fd):
        for line in lines:
            line_number += 1
            done += len(line) + 1
            if not line or line.isspace():
                continue
            waiting.append(line)
            numbers.append(line_number)
            size += len(line)
            records += 1
            if len(waiting) >= BATCH_RECORDS_MAX or size >= BATCH_BYTES_MAX or records == cut:
                yield waiting, numbers, done
                waiting, numbers, size = [], [], 0
        if not lines and waiting:
            yield waiting, numbers, done
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

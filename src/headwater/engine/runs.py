"""Runs: immutable pieces of a Z-set on disk, sorted by hash, written by tasks and looked up in place.

A file of runs is a sequence of sections, each one Arrow IPC stream behind a header with its length and checksum. A file
never changes once it is written and its name is never used again, so a process that has opened a run may keep it. Small
sections, which share a file, are read; large ones are mapped, and in memory only as far as they were touched.
"""

from __future__ import annotations

import struct
import uuid
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from headwater.engine.blobs import Blobs, OpenBlob
from headwater.errors import BlobMissing, FileUnreadable, InternalError, StateCorrupt, UsageError
from headwater.views.zset import HASH, rows_at

LOWEST = -(2**63)
HIGHEST = 2**63 - 1
"""The first and the last hash."""

OPEN_RUNS_MAX = 4096
"""Runs that a process keeps open at once. A large one holds a memory map, of which Linux allows 65,530."""

SWEEP_OPENED = 64
"""After opening this many, a process lets go of runs whose file was removed: their bytes stay on disk until then."""

OWN_FILE_BYTES = 256 * 1024
"""A section of this size gets a file of its own, so that a small one beside it does not keep it on the disk."""

SUFFIX = ".runs"
_MAGIC = b"HWRUN\0\0\1"
_HEADER = struct.Struct("<8sQQ40x")
# Arrow reads buffers in place if they are aligned to this.
_ALIGNMENT = 64

Hashes = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Run:
    """Rows of one arrangement, sorted by hash: those in the section at byte `index` of `file` with low <= hash <= high.

    `rows` counts exactly these; `bytes` is their share of the section.
    """

    arrangement: str
    file: str
    index: int
    low: int
    high: int
    rows: int
    bytes: int

    def to_json(self) -> list[str | int]:
        return [self.arrangement, self.file, self.index, self.low, self.high, self.rows, self.bytes]

    @classmethod
    def from_json(cls, value: Sequence[str | int]) -> Run:
        arrangement, file, *numbers = value
        index, low, high, rows, size = (int(number) for number in numbers)
        return cls(str(arrangement), str(file), index, low, high, rows, size)

    def with_part(self, low: int, high: int, rows: int) -> Run:
        """The part of this run between two hashes, which has this many rows."""
        return replace(self, low=low, high=high, rows=rows, bytes=self.bytes * rows // max(self.rows, 1))


class RunWriter:
    """Writes the runs of one task: small ones into one file, large ones into a file each, durable after `close`.

    `low` and `high` is the hash range that the task owns: every row it adds lies in it.
    """

    def __init__(
        self,
        blobs: Blobs,
        *,
        name: str,
        low: int = LOWEST,
        high: int = HIGHEST,
    ) -> None:
        self.low, self.high = low, high
        self._blobs, self._name = blobs, name
        self._shared: list[bytes | memoryview] = []
        self._shared_file = self._new_file()
        self._shared_bytes = 0
        self._added: list[Run] = []
        self._rows: dict[str, int] = {}
        self._closed = False

    def add(self, arrangement: str, table: pa.Table, low: int | None = None, high: int | None = None) -> Run | None:
        """Adds a Z-set to an arrangement as one run, sorted by hash. None if there are no rows.

        `low` and `high` are the hashes that the task owns in this arrangement, if it owns others there. The run can be
        read only after `close`, which returns it, too.
        """
        run = self.write(arrangement, table, self.low if low is None else low, self.high if high is None else high)
        if run is not None:
            self._added.append(run)
            self._rows[arrangement] = self._rows.get(arrangement, 0) + run.rows
        return run

    def write(self, arrangement: str, table: pa.Table, low: int, high: int) -> Run | None:
        """As `add`, for rows that take the place of others: `close` makes them durable and does not return them."""
        if self._closed:
            raise UsageError("The writer is closed.", hint="Make another one.")
        if table.num_rows == 0:
            return None
        ordered, first, last = _sorted(table)
        if first < low or last > high:
            raise InternalError(f"Rows of {arrangement!r} lie outside the hash range of the task that adds them.")
        payload = _encode(ordered)
        file, index = self._place(payload)
        return Run(arrangement, file, index, low, high, ordered.num_rows, len(payload))

    def copy(self, file: str, runs: Sequence[Run]) -> dict[Run, Run]:
        """Copies sections of another file; by each run where it is after `close`. What cannot be read is left out."""
        copied: dict[Run, Run] = {}
        for run, payload in _sections(self._blobs, file, runs):
            place, index = self._place(memoryview(payload))
            copied[run] = replace(run, file=place, index=index)
        return copied

    @property
    def shared_bytes(self) -> int:
        """The size of the file of small sections so far."""
        return self._shared_bytes

    def rows(self, arrangement: str) -> int:
        """How many rows were added to an arrangement so far."""
        return self._rows.get(arrangement, 0)

    def close(self) -> list[Run]:
        """Makes everything durable and returns the runs that were added, in that order."""
        if not self._closed:
            self._closed = True
            if self._shared:
                # One buffer: it is written at once.
                self._blobs.put(self._shared_file, [b"".join(self._shared)])
            self._shared = []
        return list(self._added)

    def _place(self, payload: memoryview) -> tuple[str, int]:
        """Where a section goes."""
        header = _HEADER.pack(_MAGIC, len(payload), xxhash.xxh3_64_intdigest(payload))
        padding = bytes(-len(payload) % _ALIGNMENT)
        if len(payload) >= OWN_FILE_BYTES:
            file = self._new_file()
            self._blobs.put(file, [header, payload])
            return file, 0
        index = self._shared_bytes
        self._shared += [header, payload, padding]
        self._shared_bytes += len(header) + len(payload) + len(padding)
        return self._shared_file, index

    def _new_file(self) -> str:
        return f"{self._name}-{uuid.uuid4().hex}{SUFFIX}"


@dataclass(frozen=True, slots=True)
class OpenRun:
    """The whole section of a run."""

    table: pa.Table
    hashes: Hashes

    def bounds(self, low: int, high: int) -> tuple[int, int]:
        """The first row with low <= hash <= high, and the one behind the last."""
        start = 0 if low == LOWEST else int(np.searchsorted(self.hashes, np.int64(low), "left"))
        stop = len(self.hashes) if high == HIGHEST else int(np.searchsorted(self.hashes, np.int64(high), "right"))
        return start, max(start, stop)


def open_run(blobs: Blobs, run: Run) -> OpenRun:
    """Opens a run, or takes the one that this process has open. Raises `StateCorrupt`."""
    key = (blobs.address, run.file, run.index)
    found = _open_runs.get(key)
    if found is None:
        _places[blobs.address] = blobs
        found = _open_runs[key] = _open(blobs, run)
        if next(_opened) % SWEEP_OPENED == 0:
            _forget_removed()
        while len(_open_runs) > OPEN_RUNS_MAX:
            with suppress(KeyError):
                _open_runs.popitem(last=False)
        return found
    # Another thread may have dropped it meanwhile; what we hold stays good.
    with suppress(KeyError):
        _open_runs.move_to_end(key)
    return found


def is_open(address: str, file: str, index: int) -> bool:
    """Whether this process has the section at a place in a file open; `address` is that of its blobs."""
    return (address, file, index) in _open_runs


def keep_open(blobs: Blobs, runs: Iterable[Run]) -> None:
    """Lets go of the open runs of a place that are not among these."""
    address, kept = blobs.address, {(run.file, run.index) for run in runs}
    for key in list(_open_runs):
        if key[0] == address and key[1:] not in kept:
            _open_runs.pop(key, None)


def let_go(blobs: Blobs, sections: Iterable[tuple[str, int]]) -> None:
    """Lets go of runs by their file and place in it; a reader that still uses one keeps it."""
    for file, index in sections:
        _open_runs.pop((blobs.address, file, index), None)


def forget_open_runs() -> None:
    """Lets go of every run that this process has open."""
    _open_runs.clear()


def lookup(blobs: Blobs, runs: Sequence[Run], hashes: Hashes, schema: pa.Schema) -> pa.Table:
    """All rows of these runs whose hash is among `hashes` (sorted, each once); not consolidated.

    Costs by the number of hashes, not by the size of the runs. Raises `StateCorrupt`.
    """
    found = []
    for run in runs:
        wanted = hashes[np.searchsorted(hashes, run.low, "left") : np.searchsorted(hashes, run.high, "right")]
        if not len(wanted):
            continue
        opened = open_run(blobs, run)
        start, stop = opened.bounds(run.low, run.high)
        rows = matching(opened.hashes[start:stop], wanted)
        if len(rows):
            found.append(rows_at(opened.table, rows + start))
    return _concatenated(found, schema)


def between(blobs: Blobs, runs: Sequence[Run], firsts: Hashes, lasts: Hashes, schema: pa.Schema) -> pa.Table:
    """All rows of these runs whose hash is in one of some stretches, given by their first and last hashes, in order.

    Costs by the number of stretches and of rows that are found. Not consolidated. Raises `StateCorrupt`.
    """
    found = []
    for run in runs:
        near = (firsts <= run.high) & (lasts >= run.low)
        if not near.any():
            continue
        opened = open_run(blobs, run)
        start, stop = opened.bounds(run.low, run.high)
        begins = np.clip(np.searchsorted(opened.hashes, firsts[near], "left"), start, stop)
        ends = np.clip(np.searchsorted(opened.hashes, lasts[near], "right"), start, stop)
        rows = _numbers(begins, ends - begins)
        if len(rows):
            found.append(rows_at(opened.table, rows))
    return _concatenated(found, schema)


def load(blobs: Blobs, runs: Sequence[Run], schema: pa.Schema, *, once: bool = False) -> pa.Table:
    """All rows of these runs, not consolidated; read only `once`, they do not stay open. Raises `StateCorrupt`."""
    return _concatenated([rows_of(blobs, run, once=once) for run in runs], schema)


def rows_of(blobs: Blobs, run: Run, *, once: bool = False) -> pa.Table:
    """The rows of one run, sorted by hash, without copying them. Raises `StateCorrupt`."""
    opened = _open(blobs, run) if once else open_run(blobs, run)
    start, stop = opened.bounds(run.low, run.high)
    return opened.table.slice(start, stop - start)


def hashes_of(table: pa.Table) -> Hashes:
    """The column of hashes; a table in one piece is not copied."""
    column = table[HASH]
    if column.num_chunks == 1:
        return np.asarray(column.chunk(0).to_numpy(zero_copy_only=True))
    return np.asarray(column.to_numpy())


def matching(hashes: Hashes, wanted: Hashes) -> Hashes:
    """The numbers of the rows whose hash is wanted. Both are sorted, and what is wanted is there once."""
    if len(hashes) <= len(wanted):
        places = np.searchsorted(wanted, hashes)
        places[places == len(wanted)] = 0
        return np.flatnonzero(wanted[places] == hashes) if len(wanted) else np.zeros(0, dtype=np.int64)
    first = np.searchsorted(hashes, wanted, "left")
    count = np.searchsorted(hashes, wanted, "right") - first
    hit = np.flatnonzero(count)
    return _numbers(first[hit], count[hit])


def _numbers(first: Hashes, count: Hashes) -> Hashes:
    """Row numbers first, first + 1, ... of each stretch, as many as its count, without a loop."""
    ends = np.cumsum(count)
    numbers = np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - count, count)
    rows: Hashes = numbers + np.repeat(first, count)
    return rows


_open_runs: OrderedDict[tuple[str, str, int], OpenRun] = OrderedDict()
_places: dict[str, Blobs] = {}
"""The places of open runs, by address."""
_opened = count(1)


def _forget_removed() -> None:
    files: dict[str, set[str]] = {}
    for address, file, _ in list(_open_runs):
        files.setdefault(address, set()).add(file)
    removed = {(address, file) for address, names in files.items() for file in _places[address].dropped(names)}
    for key in list(_open_runs):
        if key[:2] in removed:
            _open_runs.pop(key, None)


def _concatenated(tables: Sequence[pa.Table], schema: pa.Schema) -> pa.Table:
    if not tables:
        return schema.empty_table()
    return pa.concat_tables([table if table.schema == schema else table.cast(schema) for table in tables])


def _sorted(table: pa.Table) -> tuple[pa.Table, int, int]:
    """The table in the order of hashes, with the first and the last of them."""
    hashes = hashes_of(table)
    if not bool(np.all(hashes[:-1] <= hashes[1:])):
        order = np.argsort(hashes)
        table, hashes = rows_at(table, order), hashes[order]
    return table, int(hashes[0]), int(hashes[-1])


def _encode(table: pa.Table) -> memoryview:
    table = table.combine_chunks().replace_schema_metadata(None)
    # Writing it nowhere first says how large it is: memory that grows is copied again and again.
    size = pa.MockOutputStream()
    _stream(table, size)
    buffer = pa.allocate_buffer(size.size())
    _stream(table, pa.FixedSizeBufferWriter(buffer))
    return memoryview(buffer)


def _stream(table: pa.Table, sink: pa.NativeFile) -> None:
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)


def _open(blobs: Blobs, run: Run) -> OpenRun:
    buffer = _section(blobs, run)
    try:
        table = pa.ipc.open_stream(buffer).read_all()
        return OpenRun(table, hashes_of(table))
    except (pa.ArrowInvalid, KeyError, OSError) as error:
        raise _damaged(run, str(error)) from error


def _sections(blobs: Blobs, file: str, runs: Sequence[Run]) -> list[tuple[Run, pa.Buffer]]:
    """What the sections of a file hold, as far as they can be read."""
    found: list[tuple[Run, pa.Buffer]] = []
    with suppress(BlobMissing, FileUnreadable), blobs.open(file) as blob:
        for run in runs:
            with suppress(StateCorrupt, FileUnreadable):
                found.append((run, _content(blob, run)))
    return found


def _section(blobs: Blobs, run: Run) -> pa.Buffer:
    try:
        with blobs.open(run.file) as blob:
            return _content(blob, run)
    except BlobMissing as error:
        raise _damaged(run, "it is missing") from error
    except FileUnreadable as error:
        raise _damaged(run, error.reason) from error


def _content(blob: OpenBlob, run: Run) -> pa.Buffer:
    """What a section holds. Raises `StateCorrupt` and what reading the blob raises."""
    header = blob.read(run.index, _HEADER.size)
    if header.size < _HEADER.size:
        raise _damaged(run, "it is too short")
    magic, length, checksum = _HEADER.unpack(header)
    start = run.index + _HEADER.size
    if magic != _MAGIC or blob.size < start + length:
        # Touching a mapped page behind the end of a file kills the process, so lengths are checked first.
        raise _damaged(run, "it is too short" if magic == _MAGIC else "its header does not match")
    # A map for each section would count the pages around it, too: 4 workers had 3 GiB of 90 MiB of files mapped.
    buffer = (blob.view if length >= OWN_FILE_BYTES else blob.read)(start, length)
    if buffer.size < length:
        raise _damaged(run, "it is too short")
    if xxhash.xxh3_64_intdigest(memoryview(buffer)) != checksum:
        raise _damaged(run, "the checksum does not match")
    return buffer


def _damaged(run: Run, reason: str) -> StateCorrupt:
    return StateCorrupt(run.file, run.arrangement, run.rows, reason)

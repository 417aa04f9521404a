"""Rows on their way into one commit: in memory while they are few, in files that are mapped when they are many."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.cdc.mapping import MappedFiles

# Above this, rows wait in a file.
MEMORY_BYTES_MAX = 16 << 20


@dataclass(slots=True)
class _File:
    path: Path
    schema: pa.Schema
    writer: pa.RecordBatchFileWriter | None

    def end(self) -> None:
        if self.writer is not None:
            self.writer.close()
            self.writer = None


class Staging:
    """Tables per topic, in order. Close it when the commit has happened: then its files go."""

    def __init__(self, directory: Path, *, memory_bytes_max: int = MEMORY_BYTES_MAX) -> None:
        self._directory, self._memory_bytes_max = directory, memory_bytes_max
        self._tables: dict[str, list[pa.Table]] = {}
        self._files: dict[str, list[_File]] = {}
        self._mapped = MappedFiles()
        self._made = 0
        self._bytes = 0
        self.rows = 0

    def append(self, topic: str, rows: pa.Table) -> None:
        """Rows behind those that the topic has already."""
        if not rows.num_rows:
            return
        self.rows += rows.num_rows
        self._bytes += rows.nbytes
        self._tables.setdefault(topic, []).append(rows)
        if self._bytes > self._memory_bytes_max:
            self._spill()

    def append_each(self, topic: str, rows: pa.Table, _numbers: npt.NDArray[np.int64], *, commits: int) -> None:
        """As `append`, of several `commits`, which are not told apart."""
        assert commits > 0
        self.append(topic, rows)

    def tables(self) -> Iterator[tuple[str, pa.Table]]:
        """All rows, per topic in the order in which they came."""
        if self._files:
            self._spill()
        for topic, files in self._files.items():
            yield from ((topic, self._read(file)) for file in files)
        for topic, tables in self._tables.items():
            yield from ((topic, table) for table in tables)

    def seen(self, topic: str) -> Iterator[pa.Table]:
        """What a topic has got so far, the newest first."""
        yield from reversed(self._tables.get(topic, []))
        for file in reversed(self._files.get(topic, [])):
            yield self._read(file)

    def trimmed(self) -> AbstractContextManager[None]:
        """While the block runs, little of the files is in memory."""
        return self._mapped.trimmed() if self._files else nullcontext()

    def close(self) -> None:
        self._mapped.close()
        for files in self._files.values():
            for file in files:
                file.end()
                file.path.unlink(missing_ok=True)
        self._files, self._tables = {}, {}

    def _read(self, file: _File) -> pa.Table:
        """The rows of a file, which takes no more from now on."""
        file.end()
        return self._mapped.read(file.path)

    def _spill(self) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        for topic, tables in self._tables.items():
            for table in tables:
                self._writer(topic, table.schema).write_table(table)
        self._tables, self._bytes = {}, 0

    def _writer(self, topic: str, schema: pa.Schema) -> pa.RecordBatchFileWriter:
        files = self._files.setdefault(topic, [])
        if not files or files[-1].writer is None or not files[-1].schema.equals(schema):
            path = self._directory / f"{self._made}.staged"
            self._made += 1
            files.append(_File(path, schema, pa.ipc.new_file(str(path), schema)))
        return files[-1].writer

"""The first snapshot: all tables as they are where the stream begins, read in parallel, brought in by one commit.

Chunks wait as files until all are read; then one commit holds every table, consistent with the slot's start. If it is
interrupted, what was read stays, and what is missing is read at a later place; see `beginning`.
"""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from headwater.cdc.headers import OPERATION
from headwater.cdc.mapping import MappedFiles
from headwater.cdc.postgres.lsn import Lsn
from headwater.connectors.postgres.copying import READ, Blocks, Copier, selected, with_headers
from headwater.connectors.postgres.inventory import Connection
from headwater.connectors.postgres.naming import qualified
from headwater.connectors.postgres.options import CaptureOptions
from headwater.connectors.postgres.setup import NewSlot
from headwater.connectors.postgres.tables import Table

# A chunk of 32 MiB is read in a fraction of a second, so that little is read twice after an interruption.
CHUNK_BLOCKS = 4096

Progress = Callable[[str, int, int], None]
"""Told of every chunk: the table, how many bytes are read, and how many there are."""

_PARTS = """
SELECT r.oid::int8, c.oid::int8, n.nspname, c.relname, pg_relation_size(c.oid) / current_setting('block_size')::int8
FROM unnest(%(oids)s::oid[]) r(oid) CROSS JOIN LATERAL pg_partition_tree(r.oid::regclass) t
JOIN pg_class c ON c.oid = t.relid JOIN pg_namespace n ON n.oid = c.relnamespace WHERE t.isleaf AND c.relkind = 'r'
UNION ALL
SELECT c.oid::int8, c.oid::int8, n.nspname, c.relname, pg_relation_size(c.oid) / current_setting('block_size')::int8
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid = ANY(%(oids)s::oid[]) AND c.relkind = 'r' AND NOT c.relispartition
  AND NOT EXISTS (SELECT 1 FROM pg_partition_tree(c.oid::regclass))
"""
_FILES = """
SELECT r.oid::int8, pg_relation_filenode(t.relid)::int8
FROM unnest(%(oids)s::oid[]) r(oid) CROSS JOIN LATERAL pg_partition_tree(r.oid::regclass) t WHERE t.isleaf
UNION ALL SELECT c.oid::int8, pg_relation_filenode(c.oid)::int8 FROM pg_class c WHERE c.oid = ANY(%(oids)s::oid[])
ORDER BY 1, 2
"""
_COLUMNS = """
SELECT attrelid::int8, attname::text, atttypid::int8, atttypmod FROM pg_attribute
WHERE attrelid = ANY(%(oids)s::oid[]) AND attnum > 0 AND NOT attisdropped ORDER BY attrelid, attnum
"""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A part of a table that is read at once. Its number is its place in the plan."""

    number: int
    oid: int
    blocks: Blocks


def layout_of(connection: Connection, tables: Sequence[Table]) -> dict[str, list[object]]:
    """What must stay as it is for blocks to hold the same rows: the files of each table, and its columns.

    `VACUUM FULL`, `CLUSTER` and some changes of a type rewrite a table, and rows move without a change of their own.
    """
    oids = [table.relation.oid for table in tables]
    files: dict[int, list[object]] = {oid: [] for oid in oids}
    columns: dict[int, list[object]] = {oid: [] for oid in oids}
    for oid, file in connection.execute(_FILES, {"oids": oids}):
        files[oid].append(file)
    for oid, *column in connection.execute(_COLUMNS, {"oids": oids}):
        columns[oid].append(column)
    return {str(oid): [files[oid], columns[oid]] for oid in oids}


def parts_of(connection: Connection, table: Table, only: Sequence[int] | None = None) -> list[Blocks]:
    """The whole table: one stretch of blocks, or one for each partition, or for `only` some of them."""
    found = _parts(connection, [table]).get(table.relation.oid, [])
    return [blocks for part, blocks in found if only is None or part in only]


def blocks_of(connection: Connection, tables: Sequence[Table]) -> list[tuple[Table, Blocks]]:
    """Whole tables, in chunks."""
    parts = _parts(connection, tables)
    return [
        (table, Blocks(part.table, first, min(first + CHUNK_BLOCKS, part.end)))
        for table in tables
        for _, part in parts.get(table.relation.oid, [])
        for first in range(0, part.end, CHUNK_BLOCKS)
    ]


def _parts(connection: Connection, tables: Sequence[Table]) -> dict[int, list[tuple[int, Blocks]]]:
    """By table, what has blocks of its own: the number of a partition, or its own, and all blocks."""
    found: dict[int, list[tuple[int, Blocks]]] = {}
    for oid, part, schema, name, count in connection.execute(_PARTS, {"oids": [each.relation.oid for each in tables]}):
        if count:
            found.setdefault(oid, []).append((part, Blocks(qualified(schema, name), 0, int(count))))
    return found


def chunk_query(table: Table, blocks: Blocks, where: str | None = None) -> str:
    """The rows of some blocks of a table."""
    condition = f" AND ({where})" if where else ""
    columns = selected(table.relation, digested=table.counted)
    return f"SELECT {columns} FROM ONLY {blocks.table} WHERE {blocks.condition}{condition}"


class FirstSnapshot:
    """The files of a snapshot, in a directory of their own: the plan, and a file per chunk that was read."""

    def __init__(self, directory: Path, options: CaptureOptions) -> None:
        self._directory, self._options = directory, options
        self._mapped = MappedFiles()
        self._known: dict[int, Path] | None = None

    @property
    def exists(self) -> bool:
        return (self._directory / "plan.json").exists()

    def begin(self, start: Lsn, tables: Sequence[Table], connection: Connection) -> list[Chunk]:
        """Writes the plan."""
        self.discard()
        self._directory.mkdir(parents=True)
        places = blocks_of(connection, tables)
        chunks = [Chunk(number, table.relation.oid, blocks) for number, (table, blocks) in enumerate(places)]
        plan = [[each.oid, each.blocks.table, each.blocks.first, each.blocks.end] for each in chunks]
        content = {"start": str(start), "chunks": plan, "layout": layout_of(connection, tables)}
        _write(self._directory / "plan.json", json.dumps(content).encode())
        return chunks

    def is_as_planned(self, connection: Connection, tables: Sequence[Table]) -> bool:
        """Whether the tables still lie in the blocks that were planned."""
        plan = json.loads((self._directory / "plan.json").read_bytes())
        return bool(plan["layout"] == layout_of(connection, tables))

    def chunks(self) -> tuple[str, list[Chunk]]:
        """Where the stream begins, and the plan."""
        self._mapped.close()
        self._known = None
        plan = json.loads((self._directory / "plan.json").read_bytes())
        chunks = [Chunk(n, oid, Blocks(*blocks)) for n, (oid, *blocks) in enumerate(plan["chunks"])]
        return plan["start"], chunks

    def read_at(self, chunk: Chunk) -> Lsn | None:
        """At which place of the WAL a chunk was read; None if it was not yet."""
        file = self._files().get(chunk.number)
        return None if file is None else Lsn.parse(file.stem.split("@")[1].replace("-", "/"))

    def forget(self, chunk: Chunk) -> None:
        """The chunk counts as not read."""
        file = self._files().pop(chunk.number, None)
        if file is not None:
            file.unlink()

    def read(
        self,
        tables: dict[int, Table],
        chunks: Sequence[Chunk],
        slot: NewSlot,
        progress: Progress,
        stop: threading.Event,
    ) -> bool:
        """Reads chunks, several at a time, as the slot's snapshot shows them. False if it was stopped before."""
        total = sum(chunk.blocks.end - chunk.blocks.first for chunk in chunks)
        done, lock, files = 0, threading.Lock(), self._files()
        waiting = iter(chunks)

        def work() -> None:
            nonlocal done
            copier = Copier(self._options.address, slot.snapshot)
            try:
                while not stop.is_set():
                    with lock:
                        chunk = next(waiting, None)
                    if chunk is None:
                        return
                    table = tables[chunk.oid]
                    file = self._stage(chunk, table, copier, slot.start)
                    copier.renew()
                    with lock:
                        files[chunk.number] = file
                        done += chunk.blocks.end - chunk.blocks.first
                        progress(table.name, done, total)
            finally:
                copier.close()

        workers = max(1, min(self._options.snapshot_workers, len(chunks)))
        with ThreadPoolExecutor(workers, thread_name_prefix="headwater-snapshot") as pool:
            for future in [pool.submit(work) for _ in range(workers)]:
                future.result()
        return all(self.read_at(chunk) is not None for chunk in chunks)

    def staged(self, chunk: Chunk) -> pa.Table:
        """The rows of a chunk that was read, mapped from its file."""
        return self._mapped.read(self._files()[chunk.number])

    def trimmed(self) -> AbstractContextManager[None]:
        """While the block runs, little of what is staged is in memory."""
        return self._mapped.trimmed()

    def discard(self) -> None:
        """Removes everything."""
        self._mapped.close()
        self._known = {}
        shutil.rmtree(self._directory, ignore_errors=True)

    def _stage(self, chunk: Chunk, table: Table, copier: Copier, lsn: Lsn) -> Path:
        headers = {"lsn": str(lsn)}
        path = self._directory / f"{chunk.number}@{str(lsn).replace('/', '-')}.arrow"
        unfinished = path.with_suffix(".part")
        schema = with_headers(table.topic_schema.empty_table(), headers).schema
        with pa.OSFile(str(unfinished), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
            for rows in copier.rows(table.relation, chunk_query(table, chunk.blocks)):
                writer.write_table(completed(rows, headers))
        # Only a file that is whole has its name, also after a power cut.
        _sync(unfinished)
        unfinished.rename(path)
        _sync(path.parent)
        return path

    def _files(self) -> dict[int, Path]:
        """The files of the chunks that were read, by their numbers."""
        if self._known is None:
            self._known = {int(file.name.partition("@")[0]): file for file in self._directory.glob("*@*.arrow")}
        return self._known


def blocks_read(directory: Path) -> tuple[int, int]:
    """How many blocks of a first snapshot that is under way are read, of how many; 0 of 0 if there is none."""
    try:
        plan = json.loads((directory / "plan.json").read_bytes())["chunks"]
        read = {int(file.name.split("@")[0]) for file in directory.glob("*@*.arrow")}
    except FileNotFoundError:
        return 0, 0
    sizes = [end - first for _, _, first, end in plan]
    return sum(size for number, size in enumerate(sizes) if number in read), sum(sizes)


def completed(rows: pa.Table, headers: Mapping[str, str]) -> pa.Table:
    """Rows that were read, with the headers that all of them have, and those of their own."""
    if "_headers" not in rows.column_names:
        return with_headers(rows, headers)
    # Of several batches that were put together, only those have any that need them.
    own = [dict(each or {OPERATION: chr(READ)}) for each in rows["_headers"].to_pylist()]
    column = pa.array([list({**each, **headers}.items()) for each in own], rows.schema.field("_headers").type)
    return rows.set_column(rows.schema.get_field_index("_headers"), rows.schema.field("_headers"), column)


def _write(path: Path, content: bytes) -> None:
    unfinished = path.with_suffix(".part")
    unfinished.write_bytes(content)
    _sync(unfinished)
    unfinished.rename(path)
    _sync(path.parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

"""Small Z-sets, stores and commits that the tests of the engine's storage are made of."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from headwater.engine.arrangements import arrangement_of
from headwater.engine.definition import DefinedView, Definition
from headwater.engine.manifest import Merge
from headwater.engine.merging import merge
from headwater.engine.opening import open_store
from headwater.engine.publication import BatchCommit, BatchStats
from headwater.engine.runs import Run, RunWriter, load
from headwater.engine.view_store import ViewStore
from headwater.log.embedded.position import commit_position
from headwater.model.position import Position
from headwater.system.clock import Clock
from headwater.system.storage import Storage
from headwater.views.zset import WEIGHT

COLUMNS = pa.schema([("key", pa.int64()), ("text", pa.string())])
SCHEMA = pa.schema([("_hash", pa.int64()), *COLUMNS, (WEIGHT, pa.int64())])


class Unsynced(Storage):
    """Files that are left to the operating system, for tests that write thousands of them."""

    def sync(self, fd: int, path: Path) -> None:
        pass

    def sync_directory(self, path: Path) -> None:
        pass


Content = Counter[tuple[int, int, str]]


def zset(*rows: tuple[int, int, str, int]) -> pa.Table:
    """A Z-set of (hash, key, text, weight)."""
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], SCHEMA)


def at(commit: int) -> Position:
    return commit_position(commit)


def content(table: pa.Table) -> Content:
    """What a Z-set adds up to."""
    total: Content = Counter()
    for hashed, key, text, weight in zip(*(column.to_pylist() for column in table.columns), strict=True):
        total[hashed, key, text] += weight
    return Counter({row: weight for row, weight in total.items() if weight})


def stored(store: ViewStore, generation: int, arrangement: str) -> Content:
    """What an arrangement holds."""
    return content(load(store.blobs, store.runs(generation).get(arrangement, []), SCHEMA))


def write(store: ViewStore, changes: Mapping[str, pa.Table]) -> list[Run]:
    """Writes one run for each arrangement, in one file."""
    writer = RunWriter(store.blobs, name="test")
    for arrangement, table in changes.items():
        writer.add(arrangement, table)
    return writer.close()


def definition(*views: str, columns: pa.Schema = COLUMNS, sql: str = "", reads: Sequence[str] = ()) -> Definition:
    return Definition(views={view: DefinedView(sql, columns, tuple(reads)) for view in views})


class Driver:
    """Publishes changes of views as a pipeline does, merging as it goes."""

    def __init__(
        self,
        directory: str | Path,
        fingerprint: str = "one",
        views: Sequence[str] = ("v",),
        *,
        defined: Definition | None = None,
        storage: Storage | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.clock = clock or Clock()
        self.store = open_store(directory, storage=storage, clock=self.clock)
        self.epoch = self.store.take_over()
        self.generation = self.store.open_generation(fingerprint, defined or definition(*views)).id
        self.batch = self.store.generation(self.generation).batch

    def publish(
        self,
        changes: Mapping[str, pa.Table],
        position: int | None = None,
        *,
        promote: bool = True,
        state: Mapping[str, pa.Table] | None = None,
        stats: Mapping[str, Any] | None = None,
    ) -> None:
        """One batch: each table is the change of a view, or of an operator's `state`."""
        runs = self.store.runs(self.generation)
        writer = RunWriter(self.store.blobs, name=f"batch-{self.batch + 1}")
        merges: list[Merge] = []
        for view, table in changes.items():
            writer.add(arrangement_of(view), table)
            merges.append(merge(self.store.blobs, writer, runs.get(arrangement_of(view), [])))
        for arrangement, table in (state or {}).items():
            writer.add(arrangement, table)
        added = writer.close()
        by_view = {view: [run for run in added if run.arrangement == arrangement_of(view)] for view in changes}
        self.batch += 1
        reached = at(self.batch if position is None else position)
        told = BatchStats(
            records=len(changes),
            seconds=0.01,
            changes={view: table.num_rows for view, table in changes.items()},
            committed_at=time.time_ns() // 1000,
        )
        told = replace(told, **(stats or {}))
        self.store.commit(
            BatchCommit(self.generation, self.epoch, self.batch, reached, added, merges, by_view, told, promote=promote)
        )

    def close(self) -> None:
        self.store.close()

"""Reading views: the content of several at one position, from any process, without holding up the pipeline."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Self

import numpy as np
import pyarrow as pa

from headwater.engine.arrangements import arrangement_of
from headwater.engine.blobs import Blobs
from headwater.engine.earlier import find_earlier
from headwater.engine.finding import consolidate_few, find
from headwater.engine.manifest import Manifest, Size, sizes
from headwater.engine.merging import consolidated
from headwater.engine.opening import open_store
from headwater.engine.publication import Excluded, Generation, Hold, Publication
from headwater.engine.runs import Hashes, Run, let_go, lookup, rows_of
from headwater.errors import InternalError, NotYet, StateCorrupt, UsageError
from headwater.model.position import Position
from headwater.views.zset import HASH, WEIGHT, consolidate, rows_at

WAIT = timedelta(seconds=30)
"""How long a read waits for a position unless it says otherwise."""

_Fetch = Callable[[Sequence[Run], pa.Schema], pa.Table]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The content of views at one position: data columns only, each row as often as it is there, in no order."""

    position: Position
    generation: int
    tables: Mapping[str, pa.Table]


def view_zset(blobs: Blobs, runs: Sequence[Run], schema: pa.Schema) -> pa.Table:
    """A view's content as a consolidated Z-set, sorted in no way. Raises `StateCorrupt`."""
    tables = [table.cast(schema) for run in runs if (table := rows_of(blobs, run)).num_rows]
    return consolidated(tables) if tables else schema.empty_table()


@dataclass(frozen=True, slots=True)
class _Known:
    """What a look at the store has found, when it had a version: what is published, and the runs of some views."""

    version: int
    generation: Generation | None
    runs: Mapping[str, list[Run]]


class Reader:
    """Reads what a pipeline has published in a directory. It may be opened before there is anything."""

    def __init__(self, address: str | Path) -> None:
        self.store = open_store(address, create=False)
        self._known = _Known(-1, None, {})
        self._sections: dict[str, set[tuple[str, int]]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.store.close()

    def position(self) -> Position | None:
        """The position of all views, None if nothing is published yet."""
        generation = self.current()
        return None if generation is None else generation.position

    def current(self) -> Generation | None:
        """What is published: the definition of the views, and how far they are. None if that is nothing yet."""
        return self.store.current()

    def views(self) -> list[str]:
        """The views that are published."""
        generation = self.current()
        return [] if generation is None else list(generation.definition.views)

    def sizes(self) -> dict[str, Size]:
        """The size on disk of every arrangement that makes up what is published: of state, and of views."""
        with self.store.read() as look:
            generation = look.current()
            found = [] if generation is None else look.runs(generation.id)
        return sizes(Manifest(found).runs())

    def generations(self) -> list[Generation]:
        """All generations that are kept, the oldest first."""
        return self.store.generations()

    def holds(self) -> list[Hold]:
        """What is kept for each follower of a view."""
        with self.store.read() as look:
            return look.holds()

    def read(self, views: Sequence[str], at_least: Position | None = None, timeout: timedelta = WAIT) -> Snapshot:
        """The content of these views, all at one position, which is `at_least` or later.

        Waits for that position, or for the first one if nothing is published yet. Raises `NotYet`, `UnknownView`.
        """
        return self._snapshot(views, self._all_rows, at_least, timeout)

    def read_at(self, views: Sequence[str], at: Position, timeout: timedelta = WAIT) -> Snapshot:
        """The content of these views as it was at a position that they have been at. Waits until they have come so far.

        Raises `NotYet`, `ViewPositionGone`, `ViewPositionBetween`, `UnknownView`.
        """
        self._manifest([], at, timeout)
        while True:
            with self.store.read() as look:
                found = find_earlier(look, views, at)
            try:
                tables = {}
                for view in views:
                    now = view_zset(self.store.blobs, found.runs[view], found.schemas[view])
                    tables[view] = content_rows(found.zset(self.store.blobs, view, now), view)
                return Snapshot(at, found.generation.id, tables)
            except StateCorrupt:
                # Files may have been merged, packed and collected since we looked.
                with self.store.read() as look:
                    if find_earlier(look, views, at) == found:
                        raise

    def earlier_bytes(self, views: Sequence[str], at: Position) -> int:
        """The size of the files that hold views as they were at a position; 0 if they cannot be read there."""
        try:
            with self.store.read() as look:
                found = find_earlier(look, views, at)
        except UsageError:
            return 0
        files = {run.file for runs in (*found.runs.values(), *found.changes.values()) for run in runs}
        return sum(self.store.blobs.size(file) or 0 for file in files)

    def file_bytes(self, views: Sequence[str]) -> int:
        """The size of the files that hold these views now, each mapped into memory when it is read."""
        runs = self._look(views).runs
        files = {run.file for view in views for run in runs.get(view, ())}
        # A file that was merged into another meanwhile is not read either.
        return sum(self.store.blobs.size(file) or 0 for file in files)

    def lookup(
        self, view: str, hashes: Hashes, at_least: Position | None = None, timeout: timedelta = WAIT
    ) -> Snapshot:
        """As `read`, only the rows of one view that have one of these hashes; costs by the number of hashes."""
        wanted = np.unique(hashes)

        def fetch(runs: Sequence[Run], schema: pa.Schema) -> pa.Table:
            return consolidate(lookup(self.store.blobs, runs, wanted, schema))

        return self._snapshot([view], fetch, at_least, timeout)

    def find(
        self,
        view: str,
        key: Mapping[str, pa.Array] | Callable[[pa.Schema], Mapping[str, pa.Array]],
        at_least: Position | None = None,
        timeout: timedelta = WAIT,
    ) -> Snapshot:
        """As `read`, only the rows of one view whose columns have these values, each an array of one value.

        The key may be made from the view's stored columns, as of the same moment. Costs by the number of rows that are
        found. Raises `UsageError` for a column that is nested or not there.
        """

        def fetch(runs: Sequence[Run], schema: pa.Schema) -> pa.Table:
            wanted = key(schema) if callable(key) else key
            return consolidate_few(find(self.store.blobs, runs, schema, wanted))

        return self._snapshot([view], fetch, at_least, timeout)

    def published(self, last: int) -> list[Publication]:
        """The last batches of what is published, the oldest first."""
        with self.store.read() as look:
            current = look.current()
            return [] if current is None else look.published(current.id, last)

    def excluded(self) -> list[Excluded]:
        """The records that views refuse, of what is published."""
        with self.store.read() as look:
            current = look.current()
            return [] if current is None else look.excluded(current.id)

    def ticket(self) -> int:
        """Take one, look, then `wait` with it: no commit in between is missed."""
        return self.store.ticket()

    def wait(self, ticket: int, seconds: float) -> None:
        """Returns when something was published after the ticket was taken, perhaps earlier, or after so long."""
        self.store.wait(ticket, seconds)

    def _all_rows(self, runs: Sequence[Run], schema: pa.Schema) -> pa.Table:
        return view_zset(self.store.blobs, runs, schema)

    def _snapshot(self, views: Sequence[str], fetch: _Fetch, at_least: Position | None, timeout: timedelta) -> Snapshot:
        while True:
            generation, runs = self._manifest(views, at_least, timeout)
            try:
                schemas = {view: generation.definition.view(view).stored_schema for view in views}
                tables = {view: content_rows(fetch(runs[view], schema), view) for view, schema in schemas.items()}
                return Snapshot(generation.position, generation.id, tables)
            except StateCorrupt:
                # A file may have been merged into another and collected since we looked; then there is a newer batch.
                if not self._has_moved(generation):
                    raise

    def _look(self, views: Sequence[str]) -> _Known:
        """What is published now, with the runs of these views, as far as they are; read only if that has changed."""
        version, known = self.store.version(), self._known
        if known.version == version and known.runs.keys() >= set(views):
            return known
        with self.store.read() as look:
            generation = look.current()
            runs = {}
            if generation is not None:
                there = generation.definition.views.keys()
                wanted = there & {*views, *(known.runs if known.version == version else ())}
                runs = {view: look.runs(generation.id, [arrangement_of(view)]) for view in wanted}
        for view, found in runs.items():
            now = {(run.file, run.index) for run in found}
            # What was merged since this view was last looked at takes memory for nothing.
            let_go(self.store.blobs, self._sections.get(view, set()) - now)
            self._sections[view] = now
        # What another thread has found meanwhile may be newer; then the version tells the next one to look again.
        self._known = known = _Known(version, generation, runs)
        return known

    def _has_moved(self, seen: Generation) -> bool:
        now = self.current()
        return now is None or (now.id, now.batch) != (seen.id, seen.batch)

    def _manifest(
        self, views: Sequence[str], at_least: Position | None, timeout: timedelta
    ) -> tuple[Generation, dict[str, list[Run]]]:
        deadline = time.monotonic() + timeout.total_seconds()
        ticket = None
        while True:
            known = self._look(views)
            generation = known.generation
            if generation is not None and (at_least is None or at_least <= generation.position):
                for view in views:
                    generation.definition.view(view)
                return generation, {view: known.runs[view] for view in views}
            if ticket is None:
                ticket = self.ticket()
                continue
            left = deadline - time.monotonic()
            if left <= 0:
                wanted = None if at_least is None else str(at_least)
                raise NotYet(wanted, None if generation is None else str(generation.position), timeout.total_seconds())
            self.wait(ticket, left)
            ticket = self.ticket()


def content_rows(content: pa.Table, view: str) -> pa.Table:
    """The data columns, each row as often as its weight says."""
    weights: Hashes = content[WEIGHT].to_numpy()
    rows = content.drop_columns([HASH, WEIGHT])
    if len(weights) and weights.min() < 0:
        raise InternalError(f"View {view!r} holds a row less than no times.")
    if bool(np.all(weights == 1)):
        return rows
    return rows_at(rows, np.repeat(np.arange(len(weights)), weights))

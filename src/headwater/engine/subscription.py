"""Subscriptions: a view's content at a position, and then every change to it, in order, from any process."""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Self

import pyarrow as pa

from headwater.engine.arrangements import arrangement_of
from headwater.engine.publication import Generation
from headwater.engine.reading import Reader, view_zset
from headwater.engine.runs import Run, load
from headwater.engine.store import current_generation, read_generation, read_generations, read_runs
from headwater.errors import StateCorrupt, UsageError, ViewPositionGone
from headwater.model.position import Position
from headwater.system.sqlite import Connection
from headwater.views.zset import HASH, WEIGHT, consolidate, negate


@dataclass(frozen=True, slots=True)
class Changes:
    """What happened to a view up to `position`: rows and by how much the number of each changed, none of them by 0.

    With `snapshot` it is the whole content, and takes the place of whatever was known before.
    """

    position: Position
    generation: int
    rows: pa.Table
    weights: pa.ChunkedArray
    snapshot: bool


@dataclass(frozen=True, slots=True)
class _Step:
    """Changes of one batch that are to be read from their runs."""

    batch: int
    position: Position
    runs: tuple[Run, ...]


@dataclass(frozen=True, slots=True)
class _Place:
    """How far a subscription is."""

    generation: Generation
    position: Position
    batch: int


class Subscription:
    """Follows one view. Iterate over it, or ask it with `poll`.

    Without `after` the content comes first. With it, the changes behind that position come, as long as they are kept;
    `after` is the position of `Changes` or of a `Snapshot`. When the pipeline's definition has changed, the difference
    between the old content and the new one comes as one change, or, if the columns are others, the new content. Should
    the new definition have been switched to at the very position `after`, then only `generation` tells which of the two
    contents is known; without it that is the new one.
    """

    def __init__(
        self, directory: Path, view: str, after: Position | None = None, *, generation: int | None = None
    ) -> None:
        self.view = view
        self._reader = Reader(directory)
        self._after, self._after_generation = after, generation
        self._place: _Place | None = None
        self._steps: deque[_Step] = deque()
        self._ended = threading.Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the subscription, also for a thread that waits in it."""
        self._ended.set()
        self._reader.close()

    def __iter__(self) -> Iterator[Changes]:
        while not self._ended.is_set():
            found = self.poll(None)
            if found is not None:
                yield found

    @property
    def reached(self) -> tuple[Position, int] | None:
        """The position up to which everything was given, and its generation; None before the first look."""
        return None if self._place is None else (self._place.position, self._place.generation.id)

    def poll(self, timeout: timedelta | None = timedelta(0)) -> Changes | None:
        """The next changes; None if there were none for so long. Raises `PositionGone`, `UnknownView`."""
        deadline = None if timeout is None else time.monotonic() + timeout.total_seconds()
        while not self._ended.is_set():
            ticket = self._reader.ticket()
            try:
                found = self._next()
            except UsageError:
                if self._ended.is_set():
                    return None
                raise
            if found is not None:
                return found
            left = float("inf") if deadline is None else deadline - time.monotonic()
            if left <= 0:
                return None
            self._reader.wait(ticket, left)
        return None

    def _next(self) -> Changes | None:
        if self._place is None:
            return self._begin()
        while True:
            while self._steps:
                found = self._take(self._place, self._steps.popleft())
                if found is not None:
                    return found
            with self._reader.transaction() as tx:
                current = None if tx is None else current_generation(tx)
                if tx is None or current is None:
                    return None
                self._steps += self._steps_after(tx, self._place)
                if self._steps:
                    continue
                if current.id == self._place.generation.id:
                    return None
                old = _view_runs(tx, self._place.generation.id, self.view)
                new = _view_runs(tx, current.id, self.view)
            return self._switch(self._place.generation, old, current, new)

    def _begin(self) -> Changes | None:
        with self._reader.transaction() as tx:
            current = None if tx is None else current_generation(tx)
            if tx is None or current is None:
                return None
            if self._after is not None:
                generation = self._resumed(tx, current, self._after)
                self._place = _Place(generation, self._after, _batch_at(tx, generation.id, self._after))
            runs = _view_runs(tx, current.id, self.view)
        if self._place is not None:
            return self._next()
        return self._content(current, runs)

    def _resumed(self, tx: Connection, current: Generation, after: Position) -> Generation:
        """The generation that readers saw at a position."""
        current.definition.view(self.view)
        if not after <= current.position:
            raise UsageError(
                f"View {self.view!r} is at position {current.position}, which is before {after}.",
                hint="Subscribe with the position of a read or of a change, or without one.",
            )
        for found in reversed(read_generations(tx)):
            promoted = found.promoted_position
            if promoted is not None and promoted <= after and self._after_generation in (None, found.id):
                return found
        raise ViewPositionGone(self.view, str(after), str(current.promoted_position or current.position))

    def _steps_after(self, tx: Connection, place: _Place) -> list[_Step]:
        """The kept changes behind a place; none of those in between may be forgotten."""
        number, after = place.generation.id, place.position
        row = tx.execute(
            "SELECT position FROM forgotten WHERE generation = ? AND view = ? AND batch > ?",
            (number, self.view, place.batch),
        ).fetchone()
        if row is not None and not Position.parse(row[0]) <= after:
            raise ViewPositionGone(self.view, str(after), row[0])
        if read_generation(tx, number) is None:
            current = current_generation(tx)
            raise ViewPositionGone(self.view, str(after), str(after if current is None else current.position))
        steps: dict[tuple[int, str], list[Run]] = {}
        query = (
            "SELECT batch, position, run FROM changes WHERE generation = ? AND view = ? AND batch > ? ORDER BY batch"
        )
        for batch, position, run in tx.execute(query, (number, self.view, place.batch)):
            steps.setdefault((batch, position), []).append(Run.from_json(json.loads(run)))
        return [_Step(batch, Position.parse(position), tuple(runs)) for (batch, position), runs in steps.items()]

    def _take(self, place: _Place, step: _Step) -> Changes | None:
        """The changes of one step, None if they come to nothing, or have to be looked up again."""
        schema = _schema(place.generation, self.view)
        try:
            found = consolidate(_without_hash(load(self._reader.runs_directory, step.runs, schema, once=True)))
        except StateCorrupt:
            # It may have been packed or become too old since we looked, which another look tells.
            with self._reader.transaction() as tx:
                steps = [] if tx is None else self._steps_after(tx, place)
            if not steps or steps[0] == step:
                raise
            self._steps = deque(steps)
            return None
        self._place = _Place(place.generation, step.position, step.batch)
        return self._changes(place.generation, step.position, found) if found.num_rows else None

    def _content(self, current: Generation, runs: Sequence[Run]) -> Changes | None:
        """The whole content; None if it has to be looked up again, because its files were collected meanwhile."""
        try:
            found = view_zset(self._reader.runs_directory, runs, _schema(current, self.view))
        except StateCorrupt:
            if self._runs_are(current.id, runs):
                raise
            return self._next()
        self._place = _Place(current, current.position, current.batch)
        return self._changes(current, current.position, _without_hash(found), snapshot=True)

    def _switch(
        self, former: Generation, old: Sequence[Run], current: Generation, new: Sequence[Run]
    ) -> Changes | None:
        schema = _schema(current, self.view)
        if not schema.equals(_schema(former, self.view)):
            return self._content(current, new)
        directory = self._reader.runs_directory
        try:
            before, after = view_zset(directory, old, schema), view_zset(directory, new, schema)
        except StateCorrupt:
            if self._runs_are(former.id, old) and self._runs_are(current.id, new):
                raise
            return self._next()
        difference = consolidate(_without_hash(pa.concat_tables([negate(before), after])))
        self._place = _Place(current, current.position, current.batch)
        return self._changes(current, current.position, difference) if difference.num_rows else self._next()

    def _runs_are(self, generation: int, runs: Sequence[Run]) -> bool:
        with self._reader.transaction() as tx:
            return tx is not None and set(_view_runs(tx, generation, self.view)) == set(runs)

    def _changes(
        self, generation: Generation, position: Position, found: pa.Table, *, snapshot: bool = False
    ) -> Changes:
        return Changes(position, generation.id, found.drop_columns([WEIGHT]), found[WEIGHT], snapshot)


def subscribe(
    directory: Path, view: str, after: Position | None = None, *, generation: int | None = None
) -> Subscription:
    """Follows a view: its content, unless `after` says what is known already, and then every change."""
    return Subscription(directory, view, after, generation=generation)


def rows_behind(reader: Reader, view: str, position: Position, generation: int) -> int:
    """How many changed rows of a view come behind a position that a generation had, of those that are kept."""
    query = "SELECT run FROM changes WHERE generation = ? AND view = ? AND batch > ?"
    with reader.transaction() as tx:
        current = None if tx is None else current_generation(tx)
        if tx is None or current is None:
            return 0
        places = [(number, view, _batch_at(tx, number, position)) for number in {generation, current.id}]
        found = [run for place in places for (run,) in tx.execute(query, place)]
    return sum(Run.from_json(json.loads(run)).rows for run in found)


def _batch_at(tx: Connection, generation: int, position: Position) -> int:
    """The last batch of a generation that does not go beyond a position, of those that are kept; 0 if there is none."""
    query = "SELECT batch, position FROM published WHERE generation = ? ORDER BY batch DESC"
    found = (batch for batch, reached in tx.execute(query, (generation,)) if Position.parse(reached) <= position)
    return next(found, 0)


def _view_runs(tx: Connection, generation: int, view: str) -> list[Run]:
    return read_runs(tx, generation, [arrangement_of(view)])


def _schema(generation: Generation, view: str) -> pa.Schema:
    return generation.definition.view(view).stored_schema


def _without_hash(content: pa.Table) -> pa.Table:
    return content.drop_columns([HASH])

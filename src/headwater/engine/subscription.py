"""Subscriptions: a view's content at a position, and then every change to it, in order, from any process."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Self

import pyarrow as pa

from headwater.engine.arrangements import arrangement_of
from headwater.engine.opening import open_store
from headwater.engine.publication import Generation, ViewChange
from headwater.engine.reading import Reader, view_zset
from headwater.engine.runs import Run, load
from headwater.engine.view_store import Look, ViewStore
from headwater.errors import StateCorrupt, UsageError, ViewPositionGone
from headwater.model.position import Position
from headwater.views.zset import HASH, WEIGHT, consolidate, negate

PUBLISHED_LOOKED_AT = 200
"""How many of the last batches are looked at to tell how old a change is."""


@dataclass(frozen=True, slots=True)
class Changes:
    """What happened to a view up to `position`: rows and by how much the number of each changed, none of them by 0.

    With `snapshot` it is the whole content, and takes the place of whatever was known before. With `squashed` it is the
    difference that several changes made together: what the view was in between is no longer kept.
    """

    position: Position
    generation: int
    rows: pa.Table
    weights: pa.ChunkedArray
    snapshot: bool
    squashed: bool = False


@dataclass(frozen=True, slots=True)
class _Place:
    """How far a subscription is. `known_as` is the generation that it was told of, before views moved on unchanged."""

    generation: Generation
    position: Position
    batch: int
    known_as: int


class Subscription:
    """Follows one view. Iterate over it, or ask it with `poll`.

    Without `after` the content comes first. With it, the changes behind that position come, as long as they are kept;
    `after` is the position of `Changes` or of a `Snapshot`. When the pipeline's definition has changed, the difference
    between the old content and the new one comes as one change, or, if the columns are others, the new content. Should
    the new definition have been switched to at the very position `after`, then only `generation` tells which of the two
    contents is known; without it that is the new one.

    A `follower` is known to the store by its name: what it has not confirmed is kept for it, as single changes or
    squashed, however long it stays away.
    """

    def __init__(
        self,
        address: str | Path,
        view: str,
        after: Position | None = None,
        *,
        generation: int | None = None,
        follower: str | None = None,
    ) -> None:
        self.view = view
        self._store = open_store(address, create=False)
        self._after, self._after_generation = after, generation
        self._place: _Place | None = None
        self._follower = None if follower is None else _Follower(self._store, follower, view)
        self._steps: deque[ViewChange] = deque()
        self._ended = threading.Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the subscription, also for a thread that waits in it."""
        self._ended.set()
        self._store.close()

    def __iter__(self) -> Iterator[Changes]:
        while not self._ended.is_set():
            found = self.poll(None)
            if found is not None:
                yield found

    @property
    def reached(self) -> tuple[Position, int] | None:
        """The position up to which everything was given, and its generation; None before the first look."""
        return None if self._place is None else (self._place.position, self._place.known_as)

    def confirm(self, position: Position, generation: int) -> None:
        """Says that a follower has durably what it was given up to here, so that nothing of it is kept any longer."""
        if self._follower is not None:
            self._follower.confirm(position, generation)

    def poll(self, timeout: timedelta | None = timedelta(0)) -> Changes | None:
        """The next changes; None if there were none for so long. Raises `PositionGone`, `UnknownView`."""
        deadline = None if timeout is None else time.monotonic() + timeout.total_seconds()
        while not self._ended.is_set():
            ticket = self._store.ticket()
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
            self._store.wait(ticket, left)
        return None

    def _next(self) -> Changes | None:
        if self._place is None:
            return self._begin()
        while True:
            while self._steps:
                found = self._take(self._place, self._steps.popleft())
                if found is not None:
                    return found
            until = None if self._follower is None else self._follower.limit(self._place)
            with self._store.read() as look:
                current = look.current()
                if current is None:
                    return None
                self._place = _at_home(look, self._place, self.view)
                if self._follower is not None:
                    self._follower.move(look)
                self._steps += self._steps_after(look, self._place, until)
                if self._steps:
                    continue
                followed = self._place.generation.id
                last = look.generation(followed)
                ends_at = 0 if last is None else last.batch
                moved = current.id != followed
                old, new = (_view_runs(look, number, self.view) if moved else [] for number in (followed, current.id))
            if self._follower is not None and until is not None and ends_at > until:
                # The view has not changed up to there.
                self._follower.hold(followed, self._place.batch)
                continue
            if not moved:
                return None
            if self._follower is not None:
                self._follower.hold(current.id, current.batch)
            return self._switch(self._place.generation, old, current, new)

    def _begin(self) -> Changes | None:
        with self._store.read() as look:
            current = look.current()
            if current is None:
                return None
            if self._after is not None:
                generation = self._resumed(look, current, self._after)
                batch = look.batch_at(generation.id, self.view, self._after)
                known_as = self._after_generation or generation.id
                self._move(_Place(generation, self._after, batch, known_as))
            runs = _view_runs(look, current.id, self.view)
        if self._place is not None:
            return self._next()
        if self._follower is not None:
            self._follower.hold(current.id, current.batch)
        return self._content(current, runs)

    def _move(self, place: _Place) -> None:
        self._place = place
        if self._follower is not None:
            self._follower.passed(place)

    def _resumed(self, look: Look, current: Generation, after: Position) -> Generation:
        """The generation that readers saw at a position."""
        current.definition.view(self.view)
        if not after <= current.position:
            raise UsageError(
                f"View {self.view!r} is at position {current.position}, which is before {after}.",
                hint="Subscribe with the position of a read or of a change, or without one.",
            )
        kept = {found.id: found for found in look.generations()}
        if self._after_generation is not None:
            homes = [look.home(self._after_generation, self.view)]
        else:
            seen = [
                one for one in kept.values() if one.promoted_position is not None and one.promoted_position <= after
            ]
            homes = [look.home(one.id, self.view) for one in reversed(seen)]
        for number in homes:
            if number in kept and kept[number].promoted_position is not None and look.is_kept(number, self.view):
                return kept[number]
        raise ViewPositionGone(self.view, str(after), str(current.promoted_position or current.position))

    def _steps_after(self, look: Look, place: _Place, until: int | None = None) -> list[ViewChange]:
        """The kept changes behind a place, up to a batch; none of those in between may be forgotten."""
        number, after = place.generation.id, place.position
        forgotten = look.forgotten(number, self.view)
        if forgotten is not None and forgotten.batch > place.batch and not forgotten.position <= after:
            raise ViewPositionGone(self.view, str(after), str(forgotten.position))
        if not look.is_kept(number, self.view):
            current = look.current()
            raise ViewPositionGone(self.view, str(after), str(after if current is None else current.position))
        steps = look.changes(number, self.view, place.batch, until)
        if steps and steps[0].first is not None and steps[0].first <= after:
            # It has a part of what was squashed, and cannot tell the rest from it.
            raise ViewPositionGone(self.view, str(after), str(steps[0].position))
        return steps

    def _take(self, place: _Place, step: ViewChange) -> Changes | None:
        """The changes of one step, None if they come to nothing, or have to be looked up again."""
        schema = _schema(place.generation, self.view)
        try:
            found = consolidate(_without_hash(load(self._store.blobs, step.runs, schema, once=True)))
        except StateCorrupt:
            # It may have been packed or become too old since we looked, which another look tells.
            with self._store.read() as look:
                steps = self._steps_after(look, place, step.batch)
            if not steps or steps[0] == step:
                raise
            self._steps = deque(steps)
            return None
        self._move(replace(place, position=step.position, batch=step.batch))
        if not found.num_rows:
            return None
        return self._changes(place.known_as, step.position, found, squashed=step.first is not None)

    def _content(self, current: Generation, runs: Sequence[Run]) -> Changes | None:
        """The whole content; None if it has to be looked up again, because its files were collected meanwhile."""
        try:
            found = view_zset(self._store.blobs, runs, _schema(current, self.view))
        except StateCorrupt:
            if self._runs_are(current.id, runs):
                raise
            return self._next()
        self._move(_Place(current, current.position, current.batch, current.id))
        return self._changes(current.id, current.position, _without_hash(found), snapshot=True)

    def _switch(
        self, former: Generation, old: Sequence[Run], current: Generation, new: Sequence[Run]
    ) -> Changes | None:
        schema = _schema(current, self.view)
        if not schema.equals(_schema(former, self.view)):
            return self._content(current, new)
        blobs = self._store.blobs
        try:
            before, after = view_zset(blobs, old, schema), view_zset(blobs, new, schema)
        except StateCorrupt:
            if self._runs_are(former.id, old) and self._runs_are(current.id, new):
                raise
            return self._next()
        difference = consolidate(_without_hash(pa.concat_tables([negate(before), after])))
        self._move(_Place(current, current.position, current.batch, current.id))
        return self._changes(current.id, current.position, difference) if difference.num_rows else self._next()

    def _runs_are(self, generation: int, runs: Sequence[Run]) -> bool:
        with self._store.read() as look:
            return set(_view_runs(look, generation, self.view)) == set(runs)

    def _changes(
        self,
        generation: int,
        position: Position,
        found: pa.Table,
        *,
        snapshot: bool = False,
        squashed: bool = False,
    ) -> Changes:
        return Changes(position, generation, found.drop_columns([WEIGHT]), found[WEIGHT], snapshot, squashed)


class _Follower:
    """What the store keeps for a subscription that comes back under the same name."""

    def __init__(self, store: ViewStore, name: str, view: str) -> None:
        self._store, self._name, self._view = store, name, view
        self._passed: deque[_Place] = deque()
        self._held: dict[int, int] = {}
        self._until: tuple[int, int] | None = None

    def passed(self, place: _Place) -> None:
        """The subscription has come to a place; the first one is where the follower is."""
        self._passed.append(place)

    def confirm(self, position: Position, generation: int) -> None:
        """Forgets the places before this one; what an older generation held is given back at once."""
        places = enumerate(self._passed)
        number = next((at for at, one in places if one.position == position and one.known_as == generation), 0)
        for _ in range(number):
            self._passed.popleft()
        if len(self._held) > 1 and self._places().keys() != self._held.keys():
            last = self._passed[-1]
            self.hold(last.generation.id, last.batch)

    def move(self, look: Look) -> None:
        """Follows the history of the view, if another generation took the view over unchanged."""
        moved = deque(_at_home(look, place, self._view) for place in self._passed)
        if moved != self._passed:
            self._passed, self._until = moved, None

    def limit(self, place: _Place) -> int:
        """The batch up to which the subscription may take changes behind a place: until then they stay as they are."""
        if self._until is None or self._until[0] != place.generation.id or self._until[1] <= place.batch:
            return self.hold(place.generation.id, place.batch)
        return self._until[1]

    def hold(self, generation: int, batch: int) -> int:
        """Makes the store keep what comes behind a batch that the subscription is at, or is about to be."""
        self._held = self._places()
        self._held.setdefault(generation, batch)
        until = self._store.hold(self._name, self._view, self._held, batch)
        self._until = (generation, until)
        return until

    def _places(self) -> dict[int, int]:
        """The first place in each generation behind which something may not have arrived."""
        places: dict[int, int] = {}
        for place in self._passed:
            places.setdefault(place.generation.id, place.batch)
        return places


def subscribe(
    address: str | Path, view: str, after: Position | None = None, *, generation: int | None = None
) -> Subscription:
    """Follows a view: its content, unless `after` says what is known already, and then every change."""
    return Subscription(address, view, after, generation=generation)


def rows_behind(reader: Reader, view: str, position: Position, generation: int) -> int:
    """How many changed rows of a view come behind a position that a generation had, of those that are kept."""
    with reader.store.read() as look:
        current = look.current()
        numbers = set() if current is None else {look.home(generation, view), current.id}
        return sum(look.changed_rows(number, view, look.batch_at(number, view, position)) for number in numbers)


def seconds_behind(reader: Reader, view: str, position: Position, generation: int, now: float) -> float | None:
    """How long ago the first change of a view behind a position was committed, as far as that is kept; 0 without one.

    `now` is in seconds since 1970. None if what is known does not go back so far.
    """
    with reader.store.read() as look:
        current = look.current()
        if current is None:
            return None
        generation = look.home(generation, view)
        batch = look.batch_at(current.id, view, position)
        if generation == current.id and not look.changed_rows(current.id, view, batch):
            return 0.0
        batches = look.published(current.id, PUBLISHED_LOOKED_AT)
    waiting = (
        one for one in batches if one.batch > batch and (one.stats.changes.get(view) or generation != current.id)
    )
    first = next(waiting, None)
    if first is None:
        return None
    return max(0.0, now - (first.stats.committed_at or first.published_at) / 1e6)


def has_all(reader: Reader, view: str, position: Position, generation: int, wanted: Position) -> bool:
    """Whether a reader that has a view up to a position, of a generation, lacks nothing up to the `wanted` one."""
    if wanted <= position:
        return True
    with reader.store.read() as look:
        current, generation = look.current(), look.home(generation, view)
        if current is None or current.id != generation or not wanted <= current.position:
            return False
        after, until = (look.batch_at(generation, view, one) for one in (position, wanted))
        return not look.changes(generation, view, after, until)


def _at_home(look: Look, place: _Place, view: str) -> _Place:
    """The place in the generation that has the view's history now."""
    home = look.home(place.generation.id, view)
    found = None if home == place.generation.id else look.generation(home)
    return place if found is None else replace(place, generation=found)


def _view_runs(look: Look, generation: int, view: str) -> list[Run]:
    return look.runs(generation, [arrangement_of(view)])


def _schema(generation: Generation, view: str) -> pa.Schema:
    return generation.definition.view(view).stored_schema


def _without_hash(content: pa.Table) -> pa.Table:
    return content.drop_columns([HASH])

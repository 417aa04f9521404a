"""Candidates: changed views that are kept up to date beside those that readers see, until somebody decides."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.engine.adoption import WHOLE, adopted_by, adoption
from headwater.engine.arrangements import arrangement_of
from headwater.engine.earlier import changed_after
from headwater.engine.opening import open_store
from headwater.engine.presence import Turn
from headwater.engine.publication import Generation, Wish
from headwater.engine.reading import view_zset
from headwater.engine.runs import Run, load
from headwater.engine.view_store import Look, ViewStore
from headwater.errors import NoCandidate, NotYet, StateCorrupt, UnknownView, UsageError
from headwater.model.encoding import json_rows
from headwater.model.position import Position
from headwater.views.identity import Numbers, number_keys
from headwater.views.zset import WEIGHT, add, consolidate, negate, rows_at

SAMPLES = 20
"""Rows that a difference shows of each kind."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """Views that wait for a decision. `is_former`: readers have seen them before, and a rollback brings them back.

    `is_ready` says whether it is where the current views are; `position` is how far it is.
    """

    generation: int
    views: Sequence[str]
    position: Position
    is_ready: bool
    is_former: bool
    wish: Wish | None = None

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "position": str(self.position), "views": list(self.views)}


@dataclass(frozen=True, slots=True)
class ViewDiff:
    """How a candidate differs from a view, at one position: rows that only one of the two has.

    Rows with the same key count as changed, not as removed and added. `changed_by_column` says in how many of these
    each column differs; `columns_added` and `columns_removed` are not in both, and only the others are compared.
    """

    view: str
    position: Position
    rows_before: int
    rows_after: int
    removed: int
    added: int
    changed: int
    key: Sequence[str] = ()
    changed_by_column: Mapping[str, int] = field(default_factory=dict)
    columns_added: Sequence[str] = ()
    columns_removed: Sequence[str] = ()
    samples: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    """Some rows, as JSON has them, by `removed` and `added`; of a changed one there is one in each."""

    @property
    def is_equal(self) -> bool:
        return not (self.removed or self.added or self.changed or self.columns_added or self.columns_removed)

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "position": str(self.position)}


def candidate(look: Look) -> Candidate | None:
    """The candidate of a store, if there is one."""
    current = look.current()
    built = next((one for one in look.generations() if one.status == "building"), None)
    if current is None or built is None:
        return None
    found = adopted_by(built, current, look.excluded(current.id))
    gone = [view for view in current.definition.views if view not in built.definition.views]
    is_ready = built.batch > 0 and built.position == current.position
    return Candidate(built.id, [*found.changed, *gone], built.position, is_ready, built.is_former, built.wish)


def diff(
    address: str | Path, view: str, key: Sequence[str] = (), *, samples: int = SAMPLES, timeout: timedelta
) -> ViewDiff:
    """Compares a view with what the candidate makes of it, at one position.

    Raises `UsageError` without a candidate, `UnknownView` if neither has the view, and `NotYet` if the candidate does
    not catch up in time.
    """
    deadline = time.monotonic() + timeout.total_seconds()
    with open_store(address, create=False) as store:
        while True:
            ticket = store.ticket()
            try:
                with store.read() as look:
                    found = _both(look, view)
                if found is not None:
                    return _compared(store, found, view, key, samples)
            except StateCorrupt:
                # Files may have been merged and collected since we looked.
                if time.monotonic() > deadline:
                    raise
            if time.monotonic() > deadline:
                raise NotYet(None, None, timeout.total_seconds())
            store.wait(ticket, max(0.0, deadline - time.monotonic()))


def decide(address: Path, wish: Wish, *, former: bool, timeout: timedelta) -> Candidate:
    """Lets readers see the candidate, or gives it up; by the process that runs the application, if there is one.

    `former` says whether the candidate has to be one that readers have seen before: then a switch is a rollback.
    Raises `UsageError` if there is none such, and `NotYet` if it does not happen in time.
    """
    with open_store(address, create=False) as store, store.read() as look:
        found = _candidate(look)
    if wish == "switch" and found.is_former != former:
        kind, command = ("former", "rollback") if found.is_former else ("new", "switch")
        raise NoCandidate(f"The candidate has the {kind} views.", hint=f"Use {command} to let readers see them.")
    with Turn(address) as turn:
        if turn.has_come():
            _decide_here(address, found, wish)
            return found
    with open_store(address, create=False) as store:
        store.wish(found.generation, wish)
        deadline = time.monotonic() + timeout.total_seconds()
        while True:
            ticket = store.ticket()
            left = next((one for one in store.generations() if one.id == found.generation), None)
            if left is None or left.status != "building":
                return found
            if time.monotonic() >= deadline:
                raise NotYet(None, None, timeout.total_seconds())
            store.wait(ticket, deadline - time.monotonic())


def _decide_here(address: Path, found: Candidate, wish: Wish) -> None:
    with open_store(address) as store:
        epoch = store.take_over()
        if wish == "discard":
            store.discard(found.generation, epoch)
            return
        built, current = store.generation(found.generation), store.current()
        assert current is not None
        plan = adopted_by(built, current, store.excluded(current.id))
        # Records that were set aside meanwhile can make it impossible to take anything over.
        partial = not built.fingerprint.startswith(WHOLE) and adoption(current.definition, built.definition).sources
        if built.position != current.position or (plan.is_whole and partial):
            raise UsageError(
                f"The candidate is at position {built.position}, and the views are at {current.position}.",
                hint="Run the application with --approve until it has caught up.",
            )
        store.switch(plan.switch(store, epoch, built, current, current.fingerprint))


def _candidate(look: Look) -> Candidate:
    found = candidate(look)
    if found is None:
        raise NoCandidate(
            "There is no candidate.",
            hint="Change a view and run the application with --approve, or app.run(approve=True).",
        )
    return found


@dataclass(frozen=True, slots=True)
class _Side:
    """Where the content of a view is, if there is one: in these runs, without what changed later."""

    schema: pa.Schema | None
    runs: Sequence[Run] = ()
    later: Sequence[Run] = ()

    def content(self, store: ViewStore) -> pa.Table | None:
        if self.schema is None:
            return None
        now = view_zset(store.blobs, self.runs, self.schema)
        if not self.later:
            return now
        return consolidate(add(now, negate(load(store.blobs, self.later, self.schema, once=True))))


def _both(look: Look, view: str) -> tuple[Position, _Side, _Side] | None:
    """Both contents of a view at the candidate's position; None if it is not as far as the current views have been."""
    found, current = _candidate(look), look.current()
    assert current is not None
    built = look.generation(found.generation)
    assert built is not None
    known = [*current.definition.views, *built.definition.views]
    if view not in known:
        raise UnknownView(view, sorted(set(known)))
    published = {one.position for one in look.published(current.id)}
    if not built.batch or built.position not in published:
        return None
    before = _side(look, current, view)
    if before.schema is not None:
        before = _Side(before.schema, before.runs, changed_after(look, current.id, view, built.position))
    return built.position, before, _side(look, built, view) if view in found.views else before


def _side(look: Look, generation: Generation, view: str) -> _Side:
    if view not in generation.definition.views:
        return _Side(None)
    schema = generation.definition.views[view].stored_schema
    return _Side(schema, look.runs(generation.id, [arrangement_of(view)]))


def _compared(
    store: ViewStore, found: tuple[Position, _Side, _Side], view: str, key: Sequence[str], samples: int
) -> ViewDiff:
    position, *sides = found
    before, after = (_rows(side.content(store)) for side in sides)
    columns_removed = [name for name in before.column_names if not _has(after, before.schema.field(name))]
    columns_added = [name for name in after.column_names if not _has(before, after.schema.field(name))]
    both = [name for name in before.column_names if name != WEIGHT and name not in columns_removed]
    if sides[0].schema is None or sides[1].schema is None:
        # A view that is new, or gone: all of its rows are.
        whole = after if sides[0].schema is None else before
        both = [name for name in whole.column_names if name != WEIGHT]
        before, after = (table if table is whole else whole.slice(0, 0) for table in (before, after))
        columns_removed = columns_added = []
    left = consolidate(add(negate(before.select([*both, WEIGHT])), after.select([*both, WEIGHT])))
    removed, added = negate(_signed(left, -1)), _signed(left, 1)
    keyed = [name for name in (key or both[:1]) if name in both]
    changed, by_column = _changed(removed, added, keyed, both)
    return ViewDiff(
        view,
        position,
        _count(before),
        _count(after),
        _count(removed) - changed,
        _count(added) - changed,
        changed,
        keyed,
        by_column,
        columns_added,
        columns_removed,
        {"removed": _samples(removed, samples), "added": _samples(added, samples)},
    )


def _rows(content: pa.Table | None) -> pa.Table:
    """A content without hashes."""
    if content is None:
        return pa.table({WEIGHT: pa.array([], pa.int64())})
    return content.select(content.column_names[1:])


def _has(table: pa.Table, wanted: pa.Field) -> bool:
    return wanted.name in table.column_names and table.schema.field(wanted.name).type == wanted.type


def _signed(changes: pa.Table, sign: int) -> pa.Table:
    return changes.filter(pc.greater(pc.multiply(changes[WEIGHT], sign), 0))


def _count(rows: pa.Table) -> int:
    return int(pc.sum(rows[WEIGHT]).as_py() or 0)


def _samples(rows: pa.Table, limit: int) -> Sequence[Mapping[str, Any]]:
    return list(json_rows(rows.slice(0, limit).drop_columns([WEIGHT])))


def _changed(
    removed: pa.Table, added: pa.Table, key: Sequence[str], columns: Sequence[str]
) -> tuple[int, dict[str, int]]:
    """How many keys have one row on either side, and in how many of these each column differs."""
    others = [name for name in columns if name not in key]
    if not key or not others or not removed.num_rows or not added.num_rows:
        return 0, {}
    old, new = number_keys([removed, added], [list(key), list(key)])
    # Rows of a key that either side has once belong together.
    single = np.intersect1d(_once(old, removed), _once(new, added), assume_unique=True)
    before, after = rows_at(removed, _places(old, single)), rows_at(added, _places(new, single))
    differ = {}
    for name in others:
        one, other = number_keys([before, after], [[name], [name]])
        differ[name] = int((one != other).sum())
    return len(single), differ


def _once(numbers: Numbers, rows: pa.Table) -> Numbers:
    """The keys that have one row."""
    weights = pc.cast(rows[WEIGHT], pa.int64()).to_numpy()
    counts = np.bincount(numbers, weights=weights)
    found: Numbers = np.flatnonzero(counts == 1)
    return found


def _places(numbers: Numbers, wanted: Numbers) -> Numbers:
    """Where the rows of these keys are, in their order."""
    where = np.zeros(int(numbers.max()) + 1, dtype=np.int64)
    where[numbers] = np.arange(len(numbers))
    found: Numbers = where[wanted]
    return found

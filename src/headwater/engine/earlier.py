"""Views as they were: what they hold now without the changes that came after a position."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from headwater.engine.arrangements import arrangement_of
from headwater.engine.blobs import Blobs
from headwater.engine.publication import Generation
from headwater.engine.runs import Run, load
from headwater.engine.view_store import Look
from headwater.errors import ViewPositionBetween, ViewPositionGone
from headwater.model.position import Position
from headwater.views.zset import consolidate, negate


@dataclass(frozen=True, slots=True)
class Earlier:
    """Where the content of some views at a position is: by view, the runs that hold it and what changed after.

    `generation` is the one that readers saw then; `schemas` are the columns of the runs.
    """

    generation: Generation
    position: Position
    schemas: dict[str, pa.Schema]
    runs: dict[str, Sequence[Run]]
    changes: dict[str, Sequence[Run]]

    def zset(self, blobs: Blobs, view: str, now: pa.Table) -> pa.Table:
        """What a view held, as a consolidated Z-set, if its runs hold this now. Raises `StateCorrupt`."""
        later = self.changes[view]
        if not later:
            return now
        return consolidate(
            pa.concat_tables([now, negate(load(blobs, later, now.schema, once=True).select(now.schema.names))])
        )


def find_earlier(look: Look, views: Sequence[str], at: Position) -> Earlier:
    """Where views as they were at a position are. Some generation must have been published by then.

    Raises `ViewPositionGone` if changes after it are not kept, `ViewPositionBetween` if the views have never been
    there, and `UnknownView`.
    """
    kept = look.generations()
    seen = next(
        (one for one in reversed(kept) if one.promoted_position is not None and one.promoted_position <= at), None
    )
    view = views[0] if views else ""
    if seen is None:
        raise ViewPositionGone(view, str(at), _earliest(look, kept), reading=True)
    for name in views:
        seen.definition.view(name)
    positions = [one.position for one in look.published(seen.id)]
    if at not in positions:
        before = [one for one in positions if one <= at]
        after = [one for one in positions if at <= one]
        if before and after:
            raise ViewPositionBetween(view, str(at), str(before[-1]), str(after[0]))
        raise ViewPositionGone(view, str(at), str(positions[0]), reading=True)
    # A view that another generation took over unchanged has its history there.
    homes = {name: look.home(seen.id, name) for name in views}
    definitions = {one.id: one.definition for one in kept}
    return Earlier(
        seen,
        at,
        {name: definitions[home].view(name).stored_schema for name, home in homes.items()},
        {name: look.runs(home, [arrangement_of(name)]) for name, home in homes.items()},
        {name: changed_after(look, home, name, at) for name, home in homes.items()},
    )


def changed_after(look: Look, generation: int, view: str, at: Position) -> list[Run]:
    """The runs of what changed in a view behind a position."""
    steps = look.changes(generation, view, look.batch_at(generation, view, at))
    return [run for step in steps for run in step.runs]


def _earliest(look: Look, kept: Sequence[Generation]) -> str:
    """The earliest position at which readers can see views."""
    promoted = [one for one in kept if one.promoted_position is not None]
    first = promoted[0]
    positions = [one.position for one in look.published(first.id)]
    shown = [one for one in positions if first.promoted_position is None or first.promoted_position <= one]
    return str(shown[0] if shown else first.position)

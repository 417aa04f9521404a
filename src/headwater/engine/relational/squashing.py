"""Squashing: the changes that only followers need become few net changes once they are too large together.

Between two places of followers, and behind what each of them is taking, changes that follow one another are added up
into the difference that they made. It has at most the rows that were there before and those that are there after, so
what is kept for a follower that stays away grows with the view, not with time.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby

import pyarrow as pa

from headwater.engine.arrangements import arrangement_of
from headwater.engine.blobs import Blobs
from headwater.engine.merging import RUN_ROWS_MAX, consolidated
from headwater.engine.relational.database import Database, Transaction
from headwater.engine.relational.look import NO_RUN, DatabaseLook
from headwater.engine.relational.packing import PACK
from headwater.engine.runs import Run, RunWriter, rows_of
from headwater.errors import StateCorrupt


@dataclass(frozen=True, slots=True)
class _Change:
    """A row of the table of changes."""

    batch: int
    number: int
    position: str
    run: str
    first: str | None


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Changes of a view that follow one another and can become one."""

    generation: int
    view: str
    changes: tuple[_Change, ...]

    @property
    def first(self) -> str:
        """The position of the first batch that is in it."""
        return self.changes[0].first or self.changes[0].position


def squash(database: Database, blobs: Blobs, limits: Mapping[int, int], bytes_max: int) -> int:
    """Squashes where the changes that only followers need are larger than a limit; how many changes it took.

    `limits` has the last batch that is kept for followers only, by generation. Only a driver may do so, between two
    batches. A stretch with a file that cannot be read stays as it is.
    """
    with database.read() as tx:
        stretches = [
            stretch
            for generation, view in _followed(tx)
            if generation in limits and _is_due(tx, generation, view, limits[generation], bytes_max)
            for stretch in _stretches(tx, generation, view, limits[generation])
        ]
        look = DatabaseLook(tx)
        generations = {each.generation: look.generation(each.generation) for each in stretches}
    count = 0
    for stretch in stretches:
        generation = generations[stretch.generation]
        if generation is None:
            continue
        try:
            runs = _written(blobs, stretch, generation.definition.view(stretch.view).stored_schema)
        except StateCorrupt:
            continue
        if _replace(database, stretch, runs, limits[stretch.generation]):
            count += len(stretch.changes)
    return count


def _followed(tx: Transaction) -> list[tuple[int, str]]:
    return list(tx.execute("SELECT DISTINCT generation, view FROM followers ORDER BY generation, view"))


def _is_due(tx: Transaction, generation: int, view: str, limit: int, bytes_max: int) -> bool:
    """Whether it is too large, and at least half of it new: so every byte is added up a few times only."""
    (fresh, squashed) = tx.execute(
        "SELECT coalesce(sum(size) FILTER (WHERE first_position IS NULL), 0),"
        " coalesce(sum(size) FILTER (WHERE first_position IS NOT NULL), 0)"
        " FROM (SELECT first_position, json_extract(run, '$[6]') AS size FROM changes c"
        " WHERE generation = ? AND view = ? AND batch <= ? AND NOT EXISTS (SELECT 1 FROM followers f"
        " WHERE f.generation = c.generation AND f.view = c.view AND f.low < c.batch AND c.batch <= f.high)) AS sizes",
        (generation, view, limit),
    ).fetchone()
    return bool(fresh + squashed > bytes_max and fresh >= squashed)


def _stretches(tx: Transaction, generation: int, view: str, limit: int) -> list[_Stretch]:
    held = tx.execute(
        "SELECT low, high FROM followers WHERE generation = ? AND view = ?", (generation, view)
    ).fetchall()
    cuts = sorted({batch for place in held for batch in place})
    rows = tx.execute(
        "SELECT batch, number, position, run, first_position FROM changes"
        " WHERE generation = ? AND view = ? AND batch <= ? ORDER BY batch, number",
        (generation, view, limit),
    )
    # What a follower is taking lies between two cuts.
    free = (change for change in map(_to_change, rows) if not any(low < change.batch <= high for low, high in held))
    found = [tuple(changes) for _, changes in groupby(free, lambda change: bisect_left(cuts, change.batch))]
    return [_Stretch(generation, view, changes) for changes in found if changes[0].batch < changes[-1].batch]


def _to_change(row: tuple[int, int, str, str, str | None]) -> _Change:
    return _Change(*row)


def _written(blobs: Blobs, stretch: _Stretch, schema: pa.Schema) -> list[Run]:
    """The runs of the net change, durable. Raises `StateCorrupt`."""
    runs = [Run.from_json(json.loads(change.run)) for change in stretch.changes if change.run != NO_RUN]
    tables = [rows_of(blobs, run, once=True).cast(schema) for run in runs]
    net = consolidated(tables) if tables else schema.empty_table()
    writer, arrangement = RunWriter(blobs, name=PACK), arrangement_of(stretch.view)
    slices = (net.slice(start, RUN_ROWS_MAX) for start in range(0, net.num_rows, RUN_ROWS_MAX))
    added = [writer.add(arrangement, rows) for rows in slices]
    writer.close()
    return [run for run in added if run is not None]


def _replace(database: Database, stretch: _Stretch, runs: Iterable[Run], limit: int) -> bool:
    """Puts the net change in the place of the others, unless they were moved or held meanwhile."""
    place, last = (stretch.generation, stretch.view), stretch.changes[-1]
    texts = [(json.dumps(run.to_json()), run.file) for run in runs] or [(NO_RUN, "")]
    with database.write() as tx:
        if stretch not in _stretches(tx, *place, limit):
            return False
        tx.execute(
            "DELETE FROM changes WHERE generation = ? AND view = ? AND batch BETWEEN ? AND ?",
            (*place, stretch.changes[0].batch, last.batch),
        )
        tx.executemany(
            "INSERT INTO changes VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            [
                (*place, last.batch, number, last.position, text, file, stretch.first)
                for number, (text, file) in enumerate(texts)
            ],
        )
    return True

"""Merging: how the runs of an arrangement stay few and its size follows its content, a bounded amount at a time.

Adding Z-sets has no order, so any runs may be merged over any range of hashes at any time. A run is judged by how dense
it is: how many rows it would have if it covered all hashes. Runs of about the same density are a tier, each tier four
times as dense as the one below. Four runs of a tier over the same hashes are merged, together with all of lower tiers;
so at most three of each tier are left over any hash. And where the other runs hold half as much as the densest one, all
are merged, for they may cancel each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.engine.blobs import Blobs
from headwater.engine.manifest import Merge, Piece
from headwater.engine.runs import HIGHEST, LOWEST, OpenRun, Run, RunWriter, hashes_of, open_run
from headwater.errors import InternalError
from headwater.views.zset import WEIGHT, added_up, consolidate, rows_at, with_measures

__all__ = ["Job", "Merge", "consolidated", "merge", "plan"]

TIER_RUNS_MAX = 3
"""Runs of one tier that may lie over the same hash."""

SMALL_ROWS = 4096
"""An arrangement with fewer rows than this may hold rows that cancel each other, until a tier is full."""

RUN_ROWS_MAX = 1 << 20
RUN_BYTES_MAX = 256 << 20
"""A merged run that is larger is cut into several by hash, so that merges of huge arrangements go piece by piece."""

MERGE_ROWS_MAX = 1 << 18
MERGE_ROWS_PER_ROW_ADDED = 4
"""A batch merges at most this many rows of an arrangement, and this many more for each row that it adds to it.

One hash is never divided: if it alone has more rows, they are merged at once.
"""

_HASHES = HIGHEST - LOWEST + 1
# Runs below 64 rows are all in the lowest tier.
_LOWEST_TIER_BITS = 6


@dataclass(frozen=True, slots=True)
class Job:
    """Runs to be merged between two hashes."""

    runs: tuple[Run, ...]
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class _Part:
    """What a run has in a task's range of hashes; the number of rows is an estimate."""

    run: Run
    low: int
    high: int
    rows: int
    density: int
    tier: int


def merge(
    blobs: Blobs,
    writer: RunWriter,
    runs: Sequence[Run],
    measures: Sequence[str] = (WEIGHT,),
    schema: pa.Schema | None = None,
    low: int = LOWEST,
    high: int = HIGHEST,
) -> Merge:
    """Merges what is due among the committed runs of one arrangement, as far as they lie between two hashes.

    For a task that owns these hashes, after it has added its own rows to the writer. `schema` is what merged runs get,
    if not that of the first run. The store applies the result; until then nothing has changed. Raises `StateCorrupt`.
    """
    if len(runs) < 2:
        return Merge((), ())
    room = MERGE_ROWS_MAX + MERGE_ROWS_PER_ROW_ADDED * writer.rows(runs[0].arrangement)
    removed: list[Piece] = []
    added: list[Run] = []
    for job in plan(runs, low, high, room):
        if room <= 0:
            break
        opened = [open_run(blobs, run) for run in job.runs]
        end = _end(job, opened, room)
        pieces = [_piece(run, found, job.low, end) for run, found in zip(job.runs, opened, strict=True)]
        tables = [_rows_of(piece, found) for piece, found in zip(pieces, opened, strict=True) if piece.rows]
        removed += [piece for piece in pieces if piece.low <= piece.high]
        if tables:
            added += _write(writer, runs[0].arrangement, _sum(tables, measures, schema), job.low, end)
        room -= sum(piece.rows for piece in pieces)
    return Merge(tuple(removed), tuple(added))


def plan(runs: Sequence[Run], low: int, high: int, rows_max: int) -> list[Job]:
    """What is due: first what can be merged as a whole, the cheapest first; then pieces, the deepest first."""
    parts = [part for run in runs if (part := _part(run, low, high)) is not None]
    jobs: list[Job] = []
    whole = [due for _, _, active in _sweep(parts) if (due := _due(active))]
    done: set[Run] = set()
    room = rows_max
    for due in sorted(whole, key=_rows):
        if _rows(due) > room:
            break
        if done.isdisjoint(part.run for part in due):
            done.update(part.run for part in due)
            room -= _rows(due)
            runs_due = tuple(part.run for part in due)
            jobs.append(Job(runs_due, min(part.low for part in due), max(part.high for part in due)))
    left = [part for part in parts if part.run not in done]
    stretches = [(start, end, due) for start, end, active in _sweep(left) if (due := _due(active))]
    for start, end, due in sorted(stretches, key=lambda stretch: -len(stretch[2])):
        if room <= 0:
            break
        jobs.append(Job(tuple(part.run for part in due), start, end))
        room -= sum(_share(part.rows, start, end, part.low, part.high) for part in due)
    return jobs


def consolidated(tables: Sequence[pa.Table], measures: Sequence[str] = (WEIGHT,)) -> pa.Table:
    """The sum of tables that are each sorted by hash, consolidated and sorted by hash."""
    table = pa.concat_tables(tables).combine_chunks()
    hashes = hashes_of(table)
    # Made for tables that are in order already: it merges them.
    order = np.argsort(hashes, kind="stable")
    found = added_up(table, hashes, order, measures)
    if found is not None:
        places, totals = found
        return with_measures(rows_at(table, places), totals)
    # Only rows that share their hash with another one are compared.
    again = hashes[order[1:]] == hashes[order[:-1]]
    shared = np.zeros(len(order), dtype=np.bool_)
    shared[:-1] |= again
    shared[1:] |= again
    alone = _without_zeros(rows_at(table, order[~shared]), measures)
    total = pa.concat_tables([alone, consolidate(rows_at(table, order[shared]), measures)])
    return rows_at(total, np.argsort(hashes_of(total), kind="stable"))


def _without_zeros(table: pa.Table, measures: Sequence[str]) -> pa.Table:
    zero = pc.equal(table[measures[0]], 0)
    for name in measures[1:]:
        zero = pc.and_(zero, pc.equal(table[name], 0))
    return table.filter(pc.invert(zero)) if pc.any(zero).as_py() else table


def _sum(tables: Sequence[pa.Table], measures: Sequence[str], schema: pa.Schema | None) -> pa.Table:
    schema = schema or tables[0].schema
    return consolidated([table if table.schema == schema else table.cast(schema) for table in tables], measures)


def _part(run: Run, low: int, high: int) -> _Part | None:
    first, last = max(run.low, low), min(run.high, high)
    if first > last:
        return None
    rows = _share(run.rows, first, last, run.low, run.high)
    density = max(1, run.rows * _HASHES // (run.high - run.low + 1))
    return _Part(run, first, last, rows, density, max(0, density.bit_length() - 1 - _LOWEST_TIER_BITS) // 2)


def _share(rows: int, low: int, high: int, first: int, last: int) -> int:
    """About how many of the rows between `first` and `last` lie between `low` and `high`: hashes are spread evenly."""
    width = min(high, last) - max(low, first) + 1
    return -(-rows * width // (last - first + 1)) if width > 0 else 0


def _rows(parts: Sequence[_Part]) -> int:
    return sum(part.rows for part in parts)


def _sweep(parts: Sequence[_Part]) -> Iterator[tuple[int, int, list[_Part]]]:
    """Every stretch of hashes over which the same runs lie, if there are at least two."""
    edges: dict[int, tuple[list[_Part], list[_Part]]] = {}
    for part in parts:
        edges.setdefault(part.low, ([], []))[0].append(part)
        edges.setdefault(part.high + 1, ([], []))[1].append(part)
    active: dict[Run, _Part] = {}
    points = sorted(edges)
    for point, following in pairwise(points):
        begun, ended = edges[point]
        for part in ended:
            del active[part.run]
        active |= {part.run: part for part in begun}
        if len(active) > 1:
            yield point, following - 1, list(active.values())


def _due(active: Sequence[_Part]) -> list[_Part]:
    """Which of the runs that lie over the same hashes are to be merged; none if that can wait."""
    counts: dict[int, int] = {}
    for part in active:
        counts[part.tier] = counts.get(part.tier, 0) + 1
    full = [tier for tier, count in counts.items() if count > TIER_RUNS_MAX]
    if full:
        return [part for part in active if part.tier <= min(full)]
    densest = max(part.density for part in active)
    others = sum(part.density for part in active) - densest
    if len(active) > 1 and densest >= SMALL_ROWS and 2 * others >= densest:
        return list(active)
    return []


def _end(job: Job, opened: Sequence[OpenRun], rows_max: int) -> int:
    """The last hash up to which the job can be done with at most this many rows, or with those of one hash."""

    def rows_up_to(end: int) -> int:
        pieces = [_piece(run, found, job.low, end) for run, found in zip(job.runs, opened, strict=True)]
        return sum(piece.rows for piece in pieces)

    total = rows_up_to(job.high)
    if total <= rows_max:
        return job.high
    good, bad = job.low - 1, job.high
    while bad - good > 1:
        middle = (good + bad) // 2
        if rows_up_to(middle) <= rows_max:
            good = middle
        else:
            bad = middle
    if good >= job.low and rows_up_to(good) > 0:
        return good
    # All rows up to `bad` have that one hash. If there are no others, the range need not be cut.
    return job.high if rows_up_to(bad) == total else bad


def _piece(run: Run, opened: OpenRun, low: int, high: int) -> Piece:
    first, behind = opened.bounds(run.low, run.high)
    if behind - first != run.rows:
        raise InternalError(f"A run of {run.arrangement!r} has {behind - first} rows, not {run.rows}: {run.file}.")
    low, high = max(run.low, low), min(run.high, high)
    if low > high:
        return Piece(run, low, high, 0, 0)
    start, stop = opened.bounds(low, high)
    return Piece(run, low, high, start - first, stop - start)


def _rows_of(piece: Piece, opened: OpenRun) -> pa.Table:
    start, _ = opened.bounds(piece.low, piece.high)
    return opened.table.slice(start, piece.rows)


def _write(writer: RunWriter, arrangement: str, table: pa.Table, low: int, high: int) -> Iterator[Run]:
    """Writes a merged table as runs that are not too large and cover all hashes from `low` to `high` between them."""
    number = max(-(-table.num_rows // RUN_ROWS_MAX), -(-table.nbytes // RUN_BYTES_MAX), 1)
    hashes, start = hashes_of(table), 0
    for part in range(1, number + 1):
        stop, end = table.num_rows, high
        if part < number:
            # Not between two rows of one hash.
            last = hashes[table.num_rows * part // number - 1]
            stop, end = int(np.searchsorted(hashes, last, "right")), min(int(last), high)
        if stop > start:
            run = writer.write(arrangement, table.slice(start, stop - start), low, end)
            if run is not None:
                yield run
            start, low = stop, end + 1

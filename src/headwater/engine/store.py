"""The store of a pipeline: which runs hold its state and its views, and the one commit that moves all of them on.

Runs are files that nothing names until a commit does. So a batch has happened completely when its commit has, and not
at all before; what a failed task leaves is a file without a name, and `collect` removes it.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any, Self, cast

from headwater.engine.database import FILES, Database
from headwater.engine.definition import Definition
from headwater.engine.manifest import Manifest, Size, replacement, sizes
from headwater.engine.packing import pack
from headwater.engine.publication import (
    BatchCommit,
    BatchStats,
    Collected,
    Excluded,
    Generation,
    Publication,
    Status,
)  # fmt: skip
from headwater.engine.runs import Run
from headwater.errors import Fenced, InternalError, StoreOutdated, StoreUnusable, UsageError
from headwater.model.position import START, Position
from headwater.system.clock import Clock
from headwater.system.sqlite import Connection
from headwater.system.storage import Storage, storage_error
from headwater.system.wake import Wake

RUNS = "runs"
"""The folder of run files inside a store's directory."""

HISTORY_BATCHES_MAX = 1000
HISTORY_AGE_MAX = timedelta(hours=1)
"""Changes of views are kept for this many batches and so long, whichever ends first."""

GRACE = timedelta(minutes=15)
"""Files that nothing names are kept so long: a task that runs may be about to hand them in."""

REPLACED_KEPT = timedelta(minutes=1)
"""Files that a commit named, and nothing names any more, are kept so long: a reader may be about to open them. One that
comes later finds that there is a newer commit."""

RETIRED_KEPT = timedelta(minutes=15)
"""A generation that was replaced stays so long, for readers and subscribers that are not done with it."""

_MICROSECOND = timedelta(microseconds=1)


class Store:
    """The store in a directory, which is made if it is missing. For the driver of a pipeline; readers use `Reader`."""

    def __init__(self, directory: Path, *, storage: Storage | None = None, clock: Clock | None = None) -> None:
        self.directory, self.runs_directory = Path(directory), Path(directory) / RUNS
        self._storage, self._clock = storage or Storage(), clock or Clock()
        try:
            self.runs_directory.mkdir(parents=True, exist_ok=True)
            self._storage.sync_directory(self.directory)
        except OSError as error:
            raise storage_error(error, self.directory) from error
        self._database = Database(self.directory, self._storage)
        try:
            self._database.check()
        except BaseException:
            self._database.close()
            raise
        self._wake = Wake(self.directory / "wake")
        self._manifests: dict[int, tuple[int, Manifest]] = {}
        self._named: set[str] = set()
        self._replaced_at: dict[str, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._wake.close()
        self._database.close()

    def take_over(self) -> int:
        """Begins a new epoch: no commit of an older one succeeds from now on."""
        # Being a transaction, it also takes the place of a commit that a killed driver left half done in SQLite's log,
        # which would otherwise come to light when the database is next opened by nobody else.
        with self._database.write() as tx:
            tx.execute("UPDATE pipeline SET epoch = epoch + 1")
            epoch: int = tx.execute("SELECT epoch FROM pipeline").fetchone()[0]
        return epoch

    def open_generation(self, fingerprint: str, definition: Definition) -> Generation:
        """The generation with this fingerprint, or a new one that is building until a commit promotes it.

        Others that are still building are given up; those that never had a batch leave nothing behind.
        """
        now = self._clock.now()
        with self._database.write() as tx:
            row = tx.execute(
                "SELECT id FROM generations WHERE fingerprint = ? AND status != 'retired' ORDER BY id DESC",
                (fingerprint,),
            ).fetchone()
            if row is None:
                row = tx.execute(
                    "INSERT INTO generations (fingerprint, definition, status, batch, position, created_at)"
                    " VALUES (?, ?, 'building', 0, ?, ?) RETURNING id",
                    (fingerprint, json.dumps(definition.to_json()), str(START), now),
                ).fetchone()
            tx.execute("DELETE FROM generations WHERE status = 'building' AND batch = 0 AND id != ?", row)
            tx.execute(
                "UPDATE generations SET status = 'retired', retired_at = ? WHERE status = 'building' AND id != ?",
                (now, row[0]),
            )
            return _generation(tx, row[0])

    def commit(self, commit: BatchCommit) -> None:
        """Makes a batch true: all of it, or nothing if this raises (but for `Indeterminate`: look at the last batch).

        Raises `Fenced` when another process has taken over, and `InternalError` if the batch is not the one after the
        last.
        """
        merged, now = replacement(commit.merges), self._clock.now()
        with self._database.write() as tx:
            self._check_epoch(tx, commit.epoch)
            self._check_next(_generation(tx, commit.generation), commit)
            changes = [run for runs in commit.changes.values() for run in runs]
            self._check_files([*commit.added, *merged.added, *changes])
            _remove_runs(tx, commit.generation, merged.removed)
            _add_runs(tx, commit.generation, (*merged.added, *commit.added))
            _add_changes(tx, commit)
            _add_excluded(tx, commit.generation, commit.excluded)
            tx.execute(
                "INSERT INTO published VALUES (?, ?, ?, ?, ?)",
                (commit.generation, commit.batch, str(commit.position), now, json.dumps(commit.stats.to_json())),
            )
            tx.execute(
                "UPDATE generations SET batch = ?, position = ? WHERE id = ?",
                (commit.batch, str(commit.position), commit.generation),
            )
            if commit.promote:
                _promote(tx, commit.generation, commit.position, now)
        cached = self._manifests.get(commit.generation)
        if cached is not None and cached[0] == commit.batch - 1:
            cached[1].apply(commit.added, merged)
            self._manifests[commit.generation] = (commit.batch, cached[1])
        self._named.update(run.file for run in (*commit.added, *merged.added))
        self._wake.touch()

    def runs(self, generation: int) -> dict[str, list[Run]]:
        """The runs of every arrangement that has rows, as of the generation's last commit."""
        with self._database.read() as tx:
            batch = _generation(tx, generation).batch
            cached = self._manifests.get(generation)
            if cached is None or cached[0] != batch:
                cached = self._manifests[generation] = (batch, Manifest(read_runs(tx, generation)))
        return cached[1].runs()

    def sizes(self, generation: int) -> dict[str, Size]:
        """The size of every arrangement on disk."""
        return sizes(self.runs(generation))

    def current(self) -> Generation | None:
        """The generation that readers see, if one was promoted."""
        with self._database.read() as tx:
            return current_generation(tx)

    def generation(self, generation: int) -> Generation:
        """One generation as it is now."""
        with self._database.read() as tx:
            return _generation(tx, generation)

    def generations(self) -> list[Generation]:
        """All generations that are kept, the oldest first."""
        with self._database.read() as tx:
            return read_generations(tx)

    def published(self, generation: int) -> list[Publication]:
        """The commits of a generation that are kept, the oldest first."""
        with self._database.read() as tx:
            return read_published(tx, generation)

    def excluded(self, generation: int) -> list[Excluded]:
        """The records that views of a generation refuse."""
        with self._database.read() as tx:
            return read_excluded(tx, generation)

    def collect(self) -> Collected:
        """Packs changes, and removes what nobody needs: old ones, generations long retired, files that nothing names.

        For the driver, between two batches.
        """
        now = self._clock.now()
        with self._database.write() as tx:
            generations = _forget_generations(tx, now - RETIRED_KEPT // _MICROSECOND)
            changes = _forget_changes(tx, now - HISTORY_AGE_MAX // _MICROSECOND)
        pack(self._database, self.runs_directory, self._storage)
        # Files go in a last transaction: not before the rows that named them are gone for good, and while nobody can
        # commit. It writes something for the same reason as `take_over`.
        with self._database.write() as tx:
            tx.execute("UPDATE pipeline SET collected_at = ?", (now,))
            files, size = self._remove_unnamed(_named_files(tx), now)
        return Collected(files, size, changes, generations)

    def delete_state(self) -> None:
        """Deletes everything and fences the driver that runs: the next run rebuilds all of it from the log."""
        with self._database.write() as tx:
            tx.execute("UPDATE pipeline SET epoch = epoch + 1")
            for table in ("generations", "runs", "published", "changes", "forgotten", "excluded"):
                tx.execute(f"DELETE FROM {table}")
        self._manifests.clear()
        with self._database.write() as tx:
            tx.execute("UPDATE pipeline SET collected_at = ?", (self._clock.now(),))
            self._remove_unnamed(_named_files(tx), None)
        self._wake.touch()

    def _check_epoch(self, tx: Connection, epoch: int) -> None:
        current: int = tx.execute("SELECT epoch FROM pipeline").fetchone()[0]
        if epoch != current:
            raise Fenced("pipeline", self.directory.name, epoch, current)

    def _check_next(self, last: Generation, commit: BatchCommit) -> None:
        if last.status == "retired":
            raise InternalError(f"Generation {last.id} is retired and takes no batch.")
        if commit.batch != last.batch + 1:
            raise InternalError(f"Batch {commit.batch} was to follow batch {last.batch} of generation {last.id}.")
        if not last.position <= commit.position:
            raise InternalError(
                f"Batch {commit.batch} would go back from position {last.position} to {commit.position}."
            )
        if last.batch > 0 and commit.position == last.position and any(commit.changes.values()):
            # Subscribers continue from a position: what they have seen must be all there is at it.
            raise InternalError(
                f"Batch {commit.batch} would change a view at position {commit.position}, which was published."
            )

    def _check_files(self, runs: Sequence[Run]) -> None:
        # A task that took longer than the grace period may find its file collected.
        for file in {run.file for run in runs}:
            if not (self.runs_directory / file).exists():
                raise InternalError(f"Run file {file} was to be committed, and is missing.")

    def _remove_unnamed(self, named: set[str], now: int | None) -> tuple[int, int]:
        """Removes files that nothing names and that were kept long enough at a time, or all of them without one."""
        count = size = 0
        self._replaced_at = {file: self._replaced_at.get(file, now or 0) for file in self._named - named}
        self._named = named | self._replaced_at.keys()
        for path in self.runs_directory.iterdir():
            if path.name in named:
                continue
            with suppress(FileNotFoundError):
                status = path.stat()
                if now is None or self._kept_until(path.name, status.st_mtime_ns // 1000) < now:
                    self._storage.discard(path)
                    self._named.discard(path.name)
                    count, size = count + 1, size + status.st_size
        return count, size

    def _kept_until(self, file: str, written_at: int) -> int:
        """How long a file is kept that nothing names. Nobody hands in again what was named before."""
        replaced_at = self._replaced_at.get(file)
        if replaced_at is None:
            return written_at + GRACE // _MICROSECOND
        return replaced_at + REPLACED_KEPT // _MICROSECOND


def delete_state(directory: Path) -> None:
    """Deletes the state of a pipeline, even if its store is damaged or of another version."""
    try:
        with Store(directory) as store:
            store.delete_state()
    except (StoreUnusable, StoreOutdated) as error:
        if isinstance(error, StoreUnusable) and not error.damaged:
            raise
        for name in FILES:
            (Path(directory) / name).unlink(missing_ok=True)
        shutil.rmtree(Path(directory) / RUNS, ignore_errors=True)


def current_generation(tx: Connection) -> Generation | None:
    """The generation that readers see."""
    row = tx.execute(f"{_GENERATION} WHERE status = 'current'").fetchone()
    return None if row is None else _to_generation(row)


def read_generation(tx: Connection, generation: int) -> Generation | None:
    """One generation as it is now, None if it is not kept."""
    row = tx.execute(f"{_GENERATION} WHERE id = ?", (generation,)).fetchone()
    return None if row is None else _to_generation(row)


def read_generations(tx: Connection) -> list[Generation]:
    """All generations that are kept, the oldest first."""
    return [_to_generation(row) for row in tx.execute(f"{_GENERATION} ORDER BY id")]


def read_runs(tx: Connection, generation: int, arrangements: Sequence[str] | None = None) -> list[Run]:
    """The runs of a generation: of all its arrangements or of some."""
    query = "SELECT arrangement, file, section, low, high, rows, bytes FROM runs WHERE generation = ?"
    if arrangements is None:
        return [Run(*row) for row in tx.execute(query, (generation,))]
    return [
        Run(*row) for name in arrangements for row in tx.execute(f"{query} AND arrangement = ?", (generation, name))
    ]


def read_published(tx: Connection, generation: int, last: int = -1) -> list[Publication]:
    """The commits of a generation that are kept, or the last of them, the oldest first."""
    rows = tx.execute(
        "SELECT batch, position, published_at, stats FROM published WHERE generation = ? ORDER BY batch DESC LIMIT ?",
        (generation, last),
    ).fetchall()
    return [
        Publication(batch, Position.parse(position), at, BatchStats.from_json(json.loads(stats)))
        for batch, position, at, stats in reversed(rows)
    ]


def read_excluded(tx: Connection, generation: int) -> list[Excluded]:
    """The records that views of a generation refuse."""
    query = "SELECT view, topic, partition, offset, reason FROM excluded WHERE generation = ?"
    return [Excluded(*row) for row in tx.execute(query, (generation,))]


@lru_cache(maxsize=16)
def _definition(text: str) -> Definition:
    # A generation's definition never changes, and every read asks for it.
    return Definition.from_json(json.loads(text))


_GENERATION = (
    "SELECT id, fingerprint, definition, status, batch, position, promoted_position, created_at FROM generations"
)


def _to_generation(row: tuple[Any, ...]) -> Generation:
    number, fingerprint, definition, status, batch, position, promoted, created_at = row
    return Generation(
        number,
        fingerprint,
        _definition(definition),
        cast(Status, status),
        batch,
        Position.parse(position),
        None if promoted is None else Position.parse(promoted),
        created_at,
    )


def _generation(tx: Connection, generation: int) -> Generation:
    found = read_generation(tx, generation)
    if found is None:
        raise UsageError(f"There is no generation {generation}.", hint="It was deleted: open it again.")
    return found


def _remove_runs(tx: Connection, generation: int, runs: Sequence[Run]) -> None:
    for run in runs:
        tx.execute(
            "DELETE FROM runs WHERE generation = ? AND arrangement = ? AND file = ? AND section = ?"
            " AND low = ? AND high = ? AND rows = ?",
            (generation, run.arrangement, run.file, run.index, run.low, run.high, run.rows),
        )
        if tx.changes() != 1:
            raise InternalError(f"A merge of {run.arrangement!r} took a run that is not there: {run.file}.")


def _add_runs(tx: Connection, generation: int, runs: Sequence[Run]) -> None:
    tx.executemany("INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?)", [(generation, *run.to_json()) for run in runs])


def _add_changes(tx: Connection, commit: BatchCommit) -> None:
    tx.executemany(
        "INSERT INTO changes VALUES (?, ?, ?, ?, ?, ?, ?)",
        [
            (commit.generation, view, commit.batch, number, str(commit.position), json.dumps(run.to_json()), run.file)
            for view, runs in commit.changes.items()
            for number, run in enumerate(runs)
        ],
    )


def _add_excluded(tx: Connection, generation: int, excluded: Sequence[Excluded]) -> None:
    tx.executemany(
        "INSERT OR IGNORE INTO excluded VALUES (?, ?, ?, ?, ?, ?)",
        [(generation, row.view, row.topic, row.partition, row.offset, row.reason) for row in excluded],
    )


def _promote(tx: Connection, generation: int, position: Position, now: int) -> None:
    former = current_generation(tx)
    if former is not None and former.id == generation:
        return
    if former is not None and not former.position <= position:
        raise InternalError(f"Generation {generation} was to be promoted at {position}, behind {former.position}.")
    tx.execute("UPDATE generations SET status = 'retired', retired_at = ? WHERE status = 'current'", (now,))
    tx.execute(
        "UPDATE generations SET status = 'current', promoted_batch = batch, promoted_position = position WHERE id = ?",
        (generation,),
    )


def _forget_generations(tx: Connection, before: int) -> int:
    query = "SELECT id FROM generations WHERE status = 'retired' AND retired_at < ?"
    gone = [number for (number,) in tx.execute(query, (before,))]
    for number in gone:
        for table in ("runs", "published", "changes", "forgotten", "excluded"):
            tx.execute(f"DELETE FROM {table} WHERE generation = ?", (number,))
        tx.execute("DELETE FROM generations WHERE id = ?", (number,))
    return len(gone)


def _forget_changes(tx: Connection, before: int) -> int:
    """Forgets the batches that are too many or too old, and remembers up to where each view's changes are gone."""
    count = 0
    for number, last in tx.execute("SELECT id, batch FROM generations").fetchall():
        (old,) = tx.execute(
            "SELECT coalesce(max(batch), 0) FROM published WHERE generation = ? AND published_at < ?", (number, before)
        ).fetchone()
        # The last batch stays, whatever its age: it tells when the views were last published.
        limit = min(max(old, last - HISTORY_BATCHES_MAX), last - 1)
        tx.execute(
            "INSERT OR REPLACE INTO forgotten SELECT generation, view, max(batch), position FROM changes"
            " WHERE generation = ? AND batch <= ? GROUP BY view",
            (number, limit),
        )
        tx.execute("DELETE FROM changes WHERE generation = ? AND batch <= ?", (number, limit))
        count += tx.changes()
        tx.execute("DELETE FROM published WHERE generation = ? AND batch <= ?", (number, limit))
    return count


def _named_files(tx: Connection) -> set[str]:
    return {file for (file,) in tx.execute("SELECT file FROM runs UNION SELECT file FROM changes")}

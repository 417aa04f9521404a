"""The view store over a relational database and blobs: everything but which database it is.

It is committed to in one transaction of the database.
"""

from __future__ import annotations

import json
import threading
from abc import abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta

from headwater.engine.blobs import Blobs
from headwater.engine.definition import Definition
from headwater.engine.judging import Judged
from headwater.engine.manifest import Manifest, replacement
from headwater.engine.publication import Base, BatchCommit, Collected, Excluded, Generation, Switch, Wish
from headwater.engine.relational.bases import take_base
from headwater.engine.relational.database import TABLES, Database, Transaction, Waker
from headwater.engine.relational.followers import forget_changes, forget_generations, hold, release
from headwater.engine.relational.look import DatabaseLook, NoLook
from headwater.engine.relational.packing import pack
from headwater.engine.relational.squashing import squash
from headwater.engine.relational.switching import discard, promote, switch_over
from headwater.engine.runs import Run
from headwater.engine.view_store import (
    CHANGES_BYTES_MAX,
    GRACE,
    HISTORY_AGE_MAX,
    HISTORY_BATCHES_MAX,
    REPLACED_KEPT,
    RETIRED_KEPT,
    Look,
    ViewStore,
)  # fmt: skip
from headwater.errors import Fenced, InternalError, UsageError
from headwater.model.position import START
from headwater.system.clock import Clock

REMOVED_MAX = 1000
"""At most this many blobs are removed in one transaction, because others wait for it. The next one removes more."""

_MICROSECOND = timedelta(microseconds=1)


class RelationalViewStore(ViewStore):
    """A store in a database. For a driver it is made if it is missing; for a reader it may come later."""

    def __init__(self, name: str, blobs: Blobs, *, is_driver: bool, clock: Clock | None = None) -> None:
        self._name, self._blobs, self._is_driver = name, blobs, is_driver
        self._clock = clock or Clock()
        self._opening = threading.Lock()
        self._opened: Database | None = None
        self._wake: Waker | None = None
        self._manifests: dict[int, tuple[int, Manifest]] = {}
        self._named: set[str] = set()
        self._replaced_at: dict[str, int] = {}
        if is_driver:
            self._opened = self._create_database()
            try:
                self._watch()
            except BaseException:
                self._opened.close()
                raise

    @abstractmethod
    def _create_database(self) -> Database:
        """The database, with its tables, which are made if they are missing. Raises what a store raises."""

    @abstractmethod
    def _find_database(self) -> Database | None:
        """The database for a reader; None if there is none yet, or none with tables."""

    @abstractmethod
    def _open_waker(self) -> Waker:
        """What wakes those who wait. The database may not be there yet."""

    @property
    def blobs(self) -> Blobs:
        return self._blobs

    def close(self) -> None:
        if self._wake is not None:
            self._wake.close()
        if self._opened is not None:
            self._opened.close()

    @contextmanager
    def read(self) -> Iterator[Look]:
        database = self._found()
        if database is None:
            yield NoLook()
            return
        with database.read() as tx:
            yield DatabaseLook(tx)

    def version(self) -> int:
        database = self._found()
        return 0 if database is None else database.version()

    def ticket(self) -> int:
        return self._watch().ticket()

    def wait(self, ticket: int, seconds: float) -> None:
        self._watch().wait(ticket, seconds)

    def take_over(self) -> int:
        # Being a transaction, it also takes the place of a commit that a killed driver left half done in SQLite's log,
        # which would otherwise come to light when the database is next opened by nobody else.
        with self._database.write() as tx:
            tx.execute("UPDATE pipeline SET epoch = epoch + 1")
            epoch: int = tx.execute("SELECT epoch FROM pipeline").fetchone()[0]
        return epoch

    def check_epoch(self, epoch: int) -> None:
        with self._database.read() as tx:
            self._check_epoch(tx, epoch)

    def open_generation(self, fingerprint: str, definition: Definition, *, fresh: bool = False) -> Generation:
        now = self._clock.now()
        with self._database.write() as tx:
            if fresh:
                tx.execute(
                    "UPDATE generations SET fingerprint = fingerprint || '/' || id WHERE fingerprint = ?",
                    (fingerprint,),
                )
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
            return _generation(DatabaseLook(tx), row[0])

    def commit(self, commit: BatchCommit) -> None:
        merged, now = replacement(commit.merges), self._clock.now()
        with self._database.write() as tx:
            self._check_epoch(tx, commit.epoch)
            self._check_next(_generation(DatabaseLook(tx), commit.generation), commit)
            changes = [run for runs in commit.changes.values() for run in runs]
            self._check_files([*commit.added, *merged.added, *changes])
            _remove_runs(tx, commit.generation, merged.removed)
            _add_runs(tx, commit.generation, (*merged.added, *commit.added))
            _add_changes(tx, commit)
            _add_excluded(tx, commit.generation, commit.excluded)
            _set_judged(tx, commit.generation, commit.judged)
            tx.execute(
                "INSERT INTO published VALUES (?, ?, ?, ?, ?)",
                (commit.generation, commit.batch, str(commit.position), now, json.dumps(commit.stats.to_json())),
            )
            tx.execute(
                "UPDATE generations SET batch = ?, position = ? WHERE id = ?",
                (commit.batch, str(commit.position), commit.generation),
            )
            if commit.promote:
                promote(tx, commit.generation, commit.position, now)
        cached = self._manifests.get(commit.generation)
        if cached is not None and cached[0] == commit.batch - 1:
            cached[1].apply(commit.added, merged)
            self._manifests[commit.generation] = (commit.batch, cached[1])
        self._named.update(run.file for run in (*commit.added, *merged.added))
        self._watch().touch()

    def switch(self, switch: Switch) -> Generation:
        with self._database.write() as tx:
            self._check_epoch(tx, switch.epoch)
            switch_over(tx, switch, self._clock.now())
            found = _generation(DatabaseLook(tx), switch.generation)
        self._manifests.pop(switch.generation, None)
        self._watch().touch()
        return found

    def wish(self, generation: int, wish: Wish | None) -> None:
        database = self._found()
        if database is None:
            raise UsageError("There is no store yet.", hint="Run the application first.")
        with database.write() as tx:
            tx.execute("UPDATE generations SET wish = ? WHERE id = ? AND status = 'building'", (wish, generation))
            if not tx.changes():
                raise UsageError(f"Generation {generation} is not being built.", hint="Check which one is.")
        self._watch().touch()

    def discard(self, generation: int, epoch: int) -> None:
        with self._database.write() as tx:
            self._check_epoch(tx, epoch)
            discard(tx, generation)
        self._manifests.pop(generation, None)
        self._watch().touch()

    def runs(self, generation: int) -> dict[str, list[Run]]:
        with self._database.read() as tx:
            look = DatabaseLook(tx)
            batch = _generation(look, generation).batch
            cached = self._manifests.get(generation)
            if cached is None or cached[0] != batch:
                cached = self._manifests[generation] = (batch, Manifest(look.runs(generation)))
        return cached[1].runs()

    def collect(self) -> Collected:
        now = self._clock.now()
        with self._database.write() as tx:
            generations = forget_generations(tx, now - RETIRED_KEPT // _MICROSECOND)
            changes, limits = forget_changes(tx, now - HISTORY_AGE_MAX // _MICROSECOND, HISTORY_BATCHES_MAX)
        squash(self._database, self._blobs, limits, CHANGES_BYTES_MAX)
        pack(self._database, self._blobs)
        # Files go in a last transaction: not before the rows that named them are gone for good, and while nobody can
        # commit. It writes something for the same reason as `take_over`.
        with self._database.write() as tx:
            tx.execute("UPDATE pipeline SET collected_at = ?", (now,))
            files, size = self._remove_unnamed(_named_files(tx), now)
        return Collected(files, size, changes, generations)

    def hold(self, follower: str, view: str, places: Mapping[int, int], batch: int) -> int:
        database = self._found()
        if database is None:
            raise UsageError("There is no store yet.", hint="Hold changes of a view that was published.")
        with database.write() as tx:
            return hold(tx, follower, view, places, batch)

    def take_base(
        self, generation: int, epoch: int, offsets: Mapping[str, Mapping[int, int]], kept: Collection[int] = ()
    ) -> Base:
        with self._database.write() as tx:
            self._check_epoch(tx, epoch)
            return take_base(tx, generation, offsets, kept, self._clock.now())

    def release(self, kept: Mapping[str, str]) -> None:
        with self._database.write() as tx:
            release(tx, kept)

    def delete_state(self) -> None:
        with self._database.write() as tx:
            tx.execute("UPDATE pipeline SET epoch = epoch + 1")
            for table in TABLES:
                tx.execute(f"DELETE FROM {table}")
        self._manifests.clear()
        count = REMOVED_MAX
        while count >= REMOVED_MAX:
            with self._database.write() as tx:
                tx.execute("UPDATE pipeline SET collected_at = ?", (self._clock.now(),))
                count, _ = self._remove_unnamed(_named_files(tx), None)
        self._watch().touch()

    @property
    def _database(self) -> Database:
        """The database, for a driver."""
        if self._opened is None or not self._is_driver:
            raise UsageError("The store was opened for reading.", hint="Open it with create=True to change it.")
        return self._opened

    def _found(self) -> Database | None:
        """The database, once there is one."""
        with self._opening:
            if self._opened is None:
                self._opened = self._find_database()
            return self._opened

    def _watch(self) -> Waker:
        with self._opening:
            if self._wake is None:
                self._wake = self._open_waker()
            return self._wake

    def _check_epoch(self, tx: Transaction, epoch: int) -> None:
        current: int = tx.execute("SELECT epoch FROM pipeline").fetchone()[0]
        if epoch != current:
            raise Fenced("pipeline", self._name, epoch, current)

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
            if self._blobs.size(file) is None:
                raise InternalError(f"Run file {file} was to be committed, and is missing.")

    def _remove_unnamed(self, named: set[str], now: int | None) -> tuple[int, int]:
        """Removes files that nothing names and that were kept long enough at a time, or all of them without one."""
        count = size = 0
        self._replaced_at = {file: self._replaced_at.get(file, now or 0) for file in self._named - named}
        self._named = named | self._replaced_at.keys()
        for blob in self._blobs.list():
            if count >= REMOVED_MAX:
                break
            if blob.name in named:
                continue
            if now is None or self._kept_until(blob.name, blob.written_at) < now:
                self._blobs.delete(blob.name)
                self._named.discard(blob.name)
                count, size = count + 1, size + blob.size
        return count, size

    def _kept_until(self, file: str, written_at: int) -> int:
        """How long a file is kept that nothing names. Nobody hands in again what was named before."""
        replaced_at = self._replaced_at.get(file)
        if replaced_at is None:
            return written_at + GRACE // _MICROSECOND
        return replaced_at + REPLACED_KEPT // _MICROSECOND


def _generation(look: DatabaseLook, generation: int) -> Generation:
    found = look.generation(generation)
    if found is None:
        raise UsageError(f"Generation {generation} does not exist.", hint="It was deleted: open it again.")
    return found


def _remove_runs(tx: Transaction, generation: int, runs: Sequence[Run]) -> None:
    for run in runs:
        tx.execute(
            "DELETE FROM runs WHERE generation = ? AND arrangement = ? AND file = ? AND section = ?"
            " AND low = ? AND high = ? AND rows = ?",
            (generation, run.arrangement, run.file, run.index, run.low, run.high, run.rows),
        )
        if tx.changes() != 1:
            raise InternalError(f"A merge of {run.arrangement!r} took a run that is not there: {run.file}.")


def _add_runs(tx: Transaction, generation: int, runs: Sequence[Run]) -> None:
    tx.executemany("INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?)", [(generation, *run.to_json()) for run in runs])


def _add_changes(tx: Transaction, commit: BatchCommit) -> None:
    tx.executemany(
        "INSERT INTO changes VALUES (?, ?, ?, ?, ?, ?, ?, NULL)",
        [
            (commit.generation, view, commit.batch, number, str(commit.position), json.dumps(run.to_json()), run.file)
            for view, runs in commit.changes.items()
            for number, run in enumerate(runs)
        ],
    )


def _add_excluded(tx: Transaction, generation: int, excluded: Sequence[Excluded]) -> None:
    tx.executemany(
        "INSERT INTO excluded VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
        [(generation, row.view, row.topic, row.partition, row.offset, row.reason) for row in excluded],
    )


def _set_judged(tx: Transaction, generation: int, judged: Mapping[str, Judged]) -> None:
    tx.executemany(
        "INSERT INTO judged VALUES (?, ?, ?) ON CONFLICT (generation, topic) DO UPDATE SET judged = excluded.judged",
        [(generation, topic, json.dumps(one.to_json())) for topic, one in judged.items()],
    )


def _named_files(tx: Transaction) -> set[str]:
    named = "SELECT file FROM runs UNION SELECT file FROM changes UNION SELECT file FROM base_runs"
    return {file for (file,) in tx.execute(named)} - {""}

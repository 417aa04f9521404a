"""Archiving: moving sealed segments to the archives of their topics, and removing objects that nothing names any more.

An object is noted in the catalog before it is written, and the note goes in the transaction that makes a segment name
it. So whatever a kill leaves behind is known, and nothing has to be listed. Only objects whose names begin with this
log's own name are ever removed: a copy of the log has another one.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

from headwater.errors import ArchiveUnavailable, Corrupt, HeadwaterError
from headwater.log.embedded.catalog import Catalog
from headwater.log.embedded.files import SegmentFiles
from headwater.log.embedded.registry import Registry
from headwater.log.embedded.sealed import SealedFile
from headwater.log.embedded.segments import select
from headwater.log.maintenance import Segment
from headwater.log.topic import Topic
from headwater.system.background import Background
from headwater.system.clock import Clock
from headwater.system.lock import FileLock
from headwater.system.objects.port import parse_store_url
from headwater.system.sqlite import Connection

REMOVAL_GRACE = timedelta(days=1)
"""How long an object that no segment names any more is kept: for readers, Iceberg snapshots, backups of the catalog."""
EVERY_SECONDS = 10.0
RETRY_SECONDS = 1.0
"""The first pause after an archive has failed; each is twice as long as the one before."""
RETRY_SECONDS_MAX = 300.0
CLOSE_SECONDS_MAX = 5.0
"""How long closing a log waits for an archive."""
READ_BACK_BYTES = 8 << 20
"""How much of an object is compared at once."""

Stopping = Callable[[], bool]


class Archiver:
    """One round at a time over all processes, apart from all other upkeep: a slow archive does not hold that up."""

    def __init__(
        self, directory: Path, catalog: Catalog, registry: Registry, clock: Clock, files: SegmentFiles
    ) -> None:
        self._directory, self._catalog, self._registry = directory, catalog, registry
        self._clock, self._files = clock, files
        self._lock: FileLock | None = None
        self._turn = threading.Lock()
        self._stopped, self._nudged = threading.Event(), threading.Event()
        self._thread: Background | None = None
        self._pause = 0.0
        self.failure: Exception | None = None
        """Why the last round in the background failed; None if it did not."""
        self.failures = 0
        """How many rounds in the background have failed."""

    def round(self, *, seconds_max: float = 60.0) -> tuple[int, int]:
        """One round now: how many segments were archived, and how many objects removed.

        Raises `LogBusy`, and `ArchiveUnavailable` after everything that other archives take has been done.
        """
        if not self._is_needed():
            return 0, 0
        with self._held().hold(seconds_max):
            return self._round()

    def nudge(self) -> None:
        """There may be something to do now; a thread does it."""
        with self._turn:
            if self._thread is None and not self._stopped.is_set() and self._is_needed():
                self._thread = Background("archiving", self._run).start()
        self._nudged.set()

    def close(self) -> None:
        self._stopped.set()
        self._nudged.set()
        with self._turn:
            thread, lock = self._thread, self._lock
        if thread is not None:
            thread.join(CLOSE_SECONDS_MAX)
            if thread.is_alive():
                # It waits for an archive that does not answer, and ends by itself when that is over.
                return
            thread.stop()
        if lock is not None:
            lock.close()

    def _run(self) -> None:
        while not self._stopped.is_set():
            if self._pause:
                # A nudge does not shorten the pause after a failure.
                self._stopped.wait(self._pause)
            else:
                self._nudged.wait(EVERY_SECONDS)
            self._nudged.clear()
            if self._stopped.is_set():
                return
            try:
                with self._held().try_hold() as held:
                    if held:
                        self._round()
                        self.failure, self._pause = None, 0.0
            except Exception as error:
                self.failures += 1
                self.failure = error
                self._pause = min(max(RETRY_SECONDS, 2 * self._pause), RETRY_SECONDS_MAX)
                if not isinstance(error, HeadwaterError | OSError):
                    raise

    def _held(self) -> FileLock:
        with self._turn:
            if self._lock is None:
                self._lock = FileLock(self._directory / "archive.lock")
            return self._lock

    def _is_needed(self) -> bool:
        if any(topic.settings.archive is not None for topic in self._registry.topics()):
            return True
        with self._catalog.read() as tx:
            return tx.execute("SELECT 1 FROM unnamed_objects LIMIT 1").fetchone() is not None

    def _round(self) -> tuple[int, int]:
        failed: dict[str, ArchiveUnavailable] = {}
        archived = sum(self._archive(topic, failed) for topic in self._registry.topics() if topic.settings.archive)
        removed = self._remove(failed)
        for failure in failed.values():
            raise failure
        return archived, removed

    def _archive(self, topic: Topic, failed: dict[str, ArchiveUnavailable]) -> int:
        """Archives what is sealed of a topic; how many segments. An archive that has failed is not asked again."""
        location = parse_store_url(topic.settings.archive).location
        with self._catalog.read() as tx:
            waiting = select(tx, "topic_id = ? AND state = 'sealed' AND object IS NULL ORDER BY id", (topic.id,))
        count = 0
        if not waiting or location in failed:
            return count
        try:
            self._files.archives.check(location)
            for segment in waiting:
                if self._stopped.is_set():
                    break
                # Damaged, for `check` to find; or replaced meanwhile.
                with suppress(Corrupt, FileNotFoundError):
                    count += self._upload(segment, location)
        except ArchiveUnavailable as error:
            failed[location] = error
        return count

    def _upload(self, segment: Segment, location: str) -> int:
        """Archives one segment: noted, written, read back, and then true."""
        content = (self._directory / segment.file).read_bytes()
        file = SealedFile(segment, content)
        for group in file.groups:
            file.check(group)
        name = self._note(segment, location)
        store = self._files.archives.store(location)
        store.put(name, content)
        for begin in range(0, len(content), READ_BACK_BYTES):
            part = content[begin : begin + READ_BACK_BYTES]
            try:
                found = store.get(name, begin, begin + len(part) + 1)
            except FileNotFoundError:
                found = b""
            if found[: len(part)] != part or (begin + len(part) == len(content) and len(found) > len(part)):
                reason = f"the object {name} does not read back as it was written"
                raise ArchiveUnavailable(location, reason, "It will be retried. Check what else writes there.")
        with self._catalog.write() as tx:
            tx.execute(
                "UPDATE segments SET archive = ?, object = ? WHERE id = ? AND file = ? AND object IS NULL",
                (location, name, segment.id, segment.file),
            )
            changed = tx.changes()
            if changed:
                tx.execute("DELETE FROM unnamed_objects WHERE archive = ? AND object = ?", (location, name))
        return changed

    def _note(self, segment: Segment, location: str) -> str:
        """A name that was never given out before, which the catalog knows from now on."""
        with self._catalog.write() as tx:
            folder, _, file = segment.file.rpartition("/")
            name = f"{self._own_name(tx)}/{folder}/{file.partition('-')[0]}-{uuid.uuid4().hex[:12]}.parquet"
            # An upload that was given up may arrive late.
            tx.execute("INSERT INTO unnamed_objects VALUES (?, ?, ?)", (location, name, self._grace_end()))
        return name

    def _own_name(self, tx: Connection) -> str:
        """What names of this log's objects begin with. A copy of its catalog takes a new one."""
        catalog = f"{_machine()} {self._catalog.identity}"
        row = tx.execute("SELECT name FROM archive_owner WHERE catalog = ?", (catalog,)).fetchone()
        if row is not None:
            return str(row[0])
        tx.execute("DELETE FROM archive_owner")
        name = uuid.uuid4().hex
        tx.execute("INSERT INTO archive_owner VALUES (?, ?)", (name, catalog))
        return name

    def _grace_end(self) -> int:
        return self._clock.now() + REMOVAL_GRACE // timedelta(microseconds=1)

    def _remove(self, failed: dict[str, ArchiveUnavailable]) -> int:
        """Removes objects that nothing has named for long enough; how many."""
        count = 0
        for location, name in self._removable():
            if location in failed or self._stopped.is_set():
                continue
            try:
                self._files.archives.store(location).remove(name)
            except ArchiveUnavailable as error:
                failed[location] = error
                continue
            with self._catalog.write() as tx:
                tx.execute("DELETE FROM unnamed_objects WHERE archive = ? AND object = ?", (location, name))
            count += 1
        return count

    def _removable(self) -> Iterator[tuple[str, str]]:
        with self._catalog.read() as tx:
            if tx.execute("SELECT 1 FROM unnamed_objects LIMIT 1").fetchone() is None:
                return
        with self._catalog.write() as tx:
            own = self._own_name(tx)
            tx.execute("UPDATE unnamed_objects SET remove_at = ? WHERE remove_at IS NULL", (self._grace_end(),))
            # What another log has written, of which this one is a copy, is not ours to remove.
            tx.execute("DELETE FROM unnamed_objects WHERE substr(object, 1, ?) != ?", (len(own) + 1, f"{own}/"))
            due = tx.execute(
                "SELECT archive, object FROM unnamed_objects WHERE remove_at <= ? ORDER BY archive, object",
                (self._clock.now(),),
            ).fetchall()
        yield from due


def _machine() -> str:
    with suppress(OSError):
        return Path("/etc/machine-id").read_text().strip()
    return ""

"""Upkeep: what keeps a log small and fast, done by whichever process has time: seal, retain, compact, sweep."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from headwater.errors import ArchiveUnavailable, HeadwaterError, UnknownTopic
from headwater.log.embedded.archiving import Archiver
from headwater.log.embedded.catalog import Catalog
from headwater.log.embedded.compaction import compact_partition
from headwater.log.embedded.eviction import evict
from headwater.log.embedded.files import SegmentFiles
from headwater.log.embedded.reader import PartitionReader
from headwater.log.embedded.registry import Registry
from headwater.log.embedded.reserve import Reserve
from headwater.log.embedded.retention import retain
from headwater.log.embedded.sealing import Sealer
from headwater.log.maintenance import UpkeepReport
from headwater.log.topic import Topic
from headwater.system.background import Background
from headwater.system.clock import Clock
from headwater.system.lock import FileLock
from headwater.system.sqlite import Connection
from headwater.system.storage import Storage

EVERY_SECONDS = 10.0


class Upkeep:
    """One round at a time over all processes; a round can be killed at any moment and leaves only files to sweep."""

    def __init__(
        self, directory: Path, catalog: Catalog, registry: Registry, storage: Storage, clock: Clock, sealer: Sealer,
        archiver: Archiver, files: SegmentFiles,
    ) -> None:  # fmt: skip
        self._directory, self._catalog, self._registry = directory, catalog, registry
        self._storage, self._clock, self._sealer, self._archiver = storage, clock, sealer, archiver
        self._files = files
        self._lock = FileLock(directory / "upkeep.lock")
        self.reserve = Reserve(directory)
        self._stopping = False
        self.failure: Exception | None = None
        """Why the last round in the background failed; None if it did not."""
        self.failures = 0
        """How many rounds in the background have failed."""
        self._nudged = threading.Event()
        self._thread: Background | None = None

    def round(self, *, seconds_max: float = 60.0, full: bool = False) -> UpkeepReport:
        """One round now. `full` compacts whatever can be, not only where it pays.

        Raises `LogBusy`, and `ArchiveUnavailable` after everything else has been done.
        """
        with self._lock.hold(seconds_max):
            report = self._round(full=full)
        archived, removed = self._archiver.round(seconds_max=seconds_max)
        evicted = report.evicted_segments + self._evict()
        return replace(report, archived_segments=archived, removed_objects=removed, evicted_segments=evicted)

    def seal(self) -> int:
        """Seals every complete segment now; how many."""
        with self._lock.hold(60.0):
            return self._sealer.seal_closed()

    def compact(self, topic: Topic) -> int:
        """Compacts one topic now; how many records it removed."""
        with self._lock.hold(60.0):
            self._sealer.seal_closed()
            return self._compact(self._registry.topic(topic.name), full=True)

    @contextmanager
    def exclusively(self) -> Iterator[None]:
        """Nobody else seals, sweeps or compacts meanwhile. Raises `LogBusy`."""
        with self._lock.hold(60.0):
            yield

    def start(self) -> None:
        """A thread that does a round now and then, if no other process does."""
        self._thread = Background("upkeep", self._run).start()

    def nudge(self) -> None:
        """There is something to do now."""
        self._nudged.set()

    def close(self) -> None:
        self._stopping = True
        self._nudged.set()
        if self._thread is not None:
            self._thread.stop()
        self._archiver.close()
        self._lock.close()

    def _run(self) -> None:
        while True:
            self._nudged.wait(EVERY_SECONDS)
            self._nudged.clear()
            if self._stopping:
                return
            try:
                with self._lock.try_hold() as held:
                    if held:
                        self._round(full=False)
                        self.failure = None
                self._archiver.nudge()
            except Exception as error:
                self.failures += 1
                self.failure = error
                if not isinstance(error, HeadwaterError | OSError):
                    raise
                # A full disk, damage or too many open files stop who appends or reads there; upkeep tries again later.

    def _round(self, *, full: bool) -> UpkeepReport:
        # What needs no room comes first: on a full disk it makes the room that the rest needs.
        evicted = self.reserve.spend(self._evict)
        segments, records = self.reserve.spend(self._retain)
        swept = self._sweep()
        sealed = self._sealer.seal_closed(lambda: self._stopping)
        compacted = 0
        for topic in self._registry.topics():
            # One that is dropped meanwhile needs no compaction; one whose archive does not answer can wait.
            with suppress(UnknownTopic, ArchiveUnavailable):
                compacted += self._compact(topic, full=full) if self._is_compacted(topic) else 0
        self.reserve.keep()
        return UpkeepReport(sealed, segments, records, compacted, swept, evicted_segments=evicted)

    def _is_compacted(self, topic: Topic) -> bool:
        # Compaction reads what is archived, and would wait for an archive that is known not to answer.
        waits = topic.settings.archive is not None and self._archiver.failure is not None
        return topic.settings.cleanup == "compact" and not waits

    def _evict(self) -> int:
        topics, durable = self._registry.topics(), self._sealer.durable
        return evict(self._catalog, topics, self._storage, self._directory, self._clock, durable=durable)

    def _retain(self) -> tuple[int, int]:
        topics = self._registry.topics()
        return retain(self._catalog, topics, self._storage, self._directory, self._clock, self._seek)

    def _seek(self, topic: Topic, partition: int, commit: int) -> int:
        """The first offset behind a commit."""
        with PartitionReader(self._files, self._catalog, self._registry, topic, partition) as reader:
            return reader.seek("_commit", commit)

    def _compact(self, topic: Topic, *, full: bool) -> int:
        return sum(
            compact_partition(self._catalog, self._sealer, topic, partition, self._clock.now(), full=full)
            for partition in range(topic.partitions)
        )

    def _sweep(self) -> int:
        """Removes files that the catalog does not name: what a crash, a replacement or a drop left behind.

        A file that begins behind what the catalog has reached, or of a topic that it never heard of, is left alone: if
        somebody has brought back an older catalog, it is data.
        """
        present = self.files() - self._named()
        if not present:
            return 0
        # Under the write lock no append is between creating its file and naming it.
        with self._catalog.write() as tx:
            unnamed = {file for file in present - _named(tx) if _is_left_over(tx, file)}
            for file in sorted(unnamed):
                self._storage.discard(self._directory / file)
        return len(unnamed)

    def files(self) -> set[str]:
        """All segment files there are, named by the catalog or not."""
        root = self._directory / "topics"
        return {path.relative_to(self._directory).as_posix() for path in root.glob("*/*/*") if path.is_file()}

    def _named(self) -> set[str]:
        with self._catalog.read() as tx:
            return _named(tx)


def _named(tx: Connection) -> set[str]:
    return {row[0] for row in tx.execute("SELECT file FROM segments WHERE local")}


def _is_left_over(tx: Connection, file: str) -> bool:
    _, topic, partition, name = file.split("/")
    row = tx.execute(
        "SELECT p.end_offset FROM partitions p JOIN topics t ON t.id = p.topic_id WHERE t.name = ? AND p.partition = ?",
        (topic, partition),
    ).fetchone()
    if row is None:
        return tx.execute("SELECT 1 FROM dropped WHERE name = ?", (topic,)).fetchone() is not None
    base = name.partition("-")[0]
    # A segment that was begun and never committed starts where the partition ends.
    return not base.isdigit() or int(base) <= row[0]

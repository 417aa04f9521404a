"""Repairing a log: a plan that shows what would be lost, and the step that carries it out."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from headwater.log.embedded.catalog import Catalog
from headwater.log.embedded.check import Checker, Damage, Salvage
from headwater.log.embedded.registry import Registry
from headwater.log.embedded.sealing import Sealer, replace_segments
from headwater.log.embedded.segments import select
from headwater.log.maintenance import Finding, Progress, Segment, silent
from headwater.log.topic import Topic
from headwater.system.clock import Clock

DAMAGED = "damaged"


class SegmentRepair:
    """See `Repair` for the contract.

    The readable records of a damaged segment go to a new one; the old file is moved to the folder `damaged`. Where an
    archive has a sound copy, that takes the file's place, and nothing is lost. What is lost is written down in the
    catalog (`EmbeddedLog.losses`), and reads pass over it from then on.
    """

    def __init__(
        self,
        checker: Checker,
        catalog: Catalog,
        registry: Registry,
        sealer: Sealer,
        clock: Clock,
        exclusively: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._checker, self._catalog, self._registry = checker, catalog, registry
        self._sealer, self._clock, self._exclusively = sealer, clock, exclusively
        self._damages: list[Damage] = []
        self._copies: list[Damage] = []
        self._saved = 0
        self.beyond: list[Finding] = []

    def plan(self, progress: Progress = silent) -> SegmentRepair:
        """Looks at every segment."""
        self.beyond = list(self._checker.catalog_findings())
        for damage in self._checker.damages(progress):
            if damage.copy is not None:
                self._copies.append(damage)
                continue
            salvage = self._checker.salvage(damage.topic, damage.segment)
            self._damages.append(damage)
            self._saved += sum(table.num_rows for table in salvage.records)
        return self

    @property
    def copies(self) -> list[Finding]:
        """Damaged copies, here or in an archive, of segments of which the other copy is sound."""
        return [finding for damage in self._copies for finding in damage.findings()]

    @property
    def losses(self) -> list[Finding]:
        """The offsets that would be lost, and why."""
        return [finding for damage in self._damages for finding in damage.findings()]

    @property
    def saved(self) -> int:
        """How many records of damaged segments would be saved."""
        return self._saved

    def apply(self) -> None:
        """Carries the plan out, one segment at a time; killed in between, the rest is found again by a new plan.

        A segment that has lost more since the plan was made is left for a new plan to show.
        """
        with self._exclusively():
            for copy in self._copies:
                if copy.copy == "local":
                    self._restore(copy.segment, copy.topic)
                else:
                    self._forget_object(copy.segment)
            for damage in self._damages:
                segment = self._closed(damage.segment)
                if segment is None:
                    continue
                salvage = self._checker.salvage(damage.topic, segment)
                if salvage.lost == damage.lost:
                    self._replace(damage.topic, segment, salvage)
        self._damages, self._copies = [], []

    def _restore(self, segment: Segment, topic: Topic) -> None:
        """Brings the local file back from the archive."""
        file = self._sealer.fetch(topic, segment)
        self._keep_aside(self._sealer.directory, segment.file)
        with self._catalog.write() as tx:
            tx.execute(
                "UPDATE segments SET file = ? WHERE id = ? AND file = ? AND local", (file, segment.id, segment.file)
            )
            left_over = segment.file if tx.changes() else file
        self._sealer.discard_file(left_over)

    def _forget_object(self, segment: Segment) -> None:
        """Lets a damaged object go, so that the local file is archived again."""
        with self._catalog.write() as tx:
            tx.execute(
                "UPDATE segments SET archive = NULL, object = NULL WHERE id = ? AND object = ? AND local",
                (segment.id, segment.object),
            )
            if tx.changes():
                values = (segment.archive, segment.object)
                tx.execute("INSERT OR REPLACE INTO unnamed_objects VALUES (?, ?, NULL)", values)

    def _closed(self, planned: Segment) -> Segment | None:
        """The segment once nobody appends to it any more, with what was appended since; None if it was replaced."""
        with self._catalog.write() as tx:
            tx.execute("UPDATE segments SET state = 'closed' WHERE id = ? AND state = 'active'", (planned.id,))
            tx.execute("UPDATE partitions SET active_segment = NULL WHERE active_segment = ?", (planned.id,))
            return next(iter(select(tx, "id = ? AND file = ?", (planned.id, planned.file))), None)

    def _replace(self, topic: Topic, segment: Segment, salvage: Salvage) -> None:
        self._sealer.make_directory((self._sealer.directory / segment.file).parent)
        content = self._sealer.write(topic, segment.partition, segment.base_offset, salvage.records)
        self._keep_aside(self._sealer.directory, segment.file)
        now = self._clock.now()
        with self._catalog.write() as tx:
            replace_segments(tx, [segment], content)
            tx.executemany(
                "INSERT INTO losses VALUES (?, ?, ?, ?, ?, ?)",
                [(topic.id, segment.partition, first, last, reason, now) for first, last, reason in salvage.lost],
            )
        self._sealer.discard_file(segment.file)

    def _keep_aside(self, directory: Path, file: str) -> None:
        aside = directory / DAMAGED / file.replace("/", "_")
        aside.parent.mkdir(exist_ok=True)
        # One that is there comes from a repair that was killed.
        with suppress(FileExistsError, FileNotFoundError):
            aside.hardlink_to(directory / file)

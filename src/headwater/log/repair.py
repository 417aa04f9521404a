"""Repairing a log: a plan that shows what would be lost, and the step that carries it out."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path

from headwater.log.catalog import Catalog
from headwater.log.check import Checker, Finding, Progress, Salvage, silent
from headwater.log.clock import Clock
from headwater.log.registry import Registry
from headwater.log.sealing import Sealer, replace_segments
from headwater.log.segments import Segment, select
from headwater.log.topic import Topic

DAMAGED = "damaged"


@dataclass(frozen=True, slots=True)
class _Damage:
    topic: Topic
    segment: Segment
    salvage: Salvage


class Repair:
    """What can be saved of a log's damaged segments. Nothing happens until `apply`.

    The readable records of a damaged segment go to a new one; the old file is moved to the folder `damaged`. What is
    lost is written down in the catalog (`EmbeddedLog.losses`), and reads pass over it from then on.
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
        self._damages: list[_Damage] = []

    def plan(self, progress: Progress = silent) -> Repair:
        """Looks at every segment."""
        topics = {topic.id: topic for topic in self._registry.topics()}
        segments = self._checker.segments()
        for done, segment in enumerate(segments):
            progress(done, len(segments))
            topic = topics[segment.topic_id]
            if self._checker.salvage(topic, segment, keep=False).lost:
                self._damages.append(_Damage(topic, segment, self._checker.salvage(topic, segment)))
        progress(len(segments), len(segments))
        return self

    @property
    def losses(self) -> list[Finding]:
        """The offsets that would be lost, and why."""
        return [
            Finding(damage.topic.name, damage.segment.partition, damage.segment.file, first, last, reason)
            for damage in self._damages
            for first, last, reason in damage.salvage.lost
        ]

    @property
    def saved(self) -> int:
        """How many records of damaged segments would be saved."""
        return sum(table.num_rows for damage in self._damages for table in damage.salvage.records)

    def apply(self) -> None:
        """Carries the plan out, one segment at a time; killed in between, the rest is found again by a new plan.

        A segment that has lost more since the plan was made is left for a new plan to show.
        """
        with self._exclusively():
            for damage in self._damages:
                found = self._as_it_is_now(damage)
                if found is not None:
                    self._replace(found)
        self._damages = []

    def _as_it_is_now(self, damage: _Damage) -> _Damage | None:
        """The damage once nobody appends to the segment any more, with what was appended since the plan was made."""
        topic, planned = damage.topic, damage.segment
        with self._catalog.write() as tx:
            tx.execute("UPDATE segments SET state = 'closed' WHERE id = ? AND state = 'active'", (planned.id,))
            tx.execute("UPDATE partitions SET active_segment = NULL WHERE active_segment = ?", (planned.id,))
            segment = next(iter(select(tx, "id = ? AND file = ?", (planned.id, planned.file))), None)
        if segment is None:
            return None
        if segment.end_offset == planned.end_offset:
            return _Damage(topic, segment, damage.salvage)
        salvage = self._checker.salvage(topic, segment)
        return _Damage(topic, segment, salvage) if salvage.lost == damage.salvage.lost else None

    def _replace(self, damage: _Damage) -> None:
        topic, segment = damage.topic, damage.segment
        self._sealer.make_directory((self._sealer.directory / segment.file).parent)
        content = self._sealer.write(topic, segment.partition, segment.base_offset, damage.salvage.records)
        self._keep_aside(self._sealer.directory, segment.file)
        now = self._clock.now()
        with self._catalog.write() as tx:
            replace_segments(tx, [segment], content)
            tx.executemany(
                "INSERT INTO losses VALUES (?, ?, ?, ?, ?, ?)",
                [
                    (topic.id, segment.partition, first, last, reason, now)
                    for first, last, reason in damage.salvage.lost
                ],
            )
        self._sealer.discard_file(segment.file)

    def _keep_aside(self, directory: Path, file: str) -> None:
        aside = directory / DAMAGED / file.replace("/", "_")
        aside.parent.mkdir(exist_ok=True)
        # One that is there comes from a repair that was killed.
        with suppress(FileExistsError, FileNotFoundError):
            aside.hardlink_to(directory / file)

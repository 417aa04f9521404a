"""What an embedded log can do with its files: seal, compact, cap, check and repair them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from pathlib import Path

from headwater.errors import UsageError
from headwater.log.arguments import is_whole
from headwater.log.embedded.catalog import Catalog
from headwater.log.embedded.check import Checker
from headwater.log.embedded.files import SegmentFiles
from headwater.log.embedded.registry import Registry
from headwater.log.embedded.repair import SegmentRepair
from headwater.log.embedded.sealing import Sealer
from headwater.log.embedded.upkeep import Upkeep
from headwater.log.maintenance import Finding, Maintenance, Progress, Segment, UpkeepReport, silent
from headwater.log.topic import Topic
from headwater.system.clock import Clock
from headwater.system.objects.port import parse_store_url


class EmbeddedMaintenance(Maintenance):
    """See `Maintenance` for the contract. The log that is made of it provides the parts."""

    _catalog: Catalog
    _files: SegmentFiles
    _registry: Registry
    _sealer: Sealer
    _upkeep: Upkeep
    _clock: Clock

    @abstractmethod
    def _check_open(self) -> None:
        """Raises `UsageError` if the log cannot be used any more."""

    def _topic(self, name: str) -> Topic:
        self._check_open()
        return self._registry.topic(name)

    def files(self, topic: str) -> list[Path]:
        return [self._path(topic, segment) for segment in self.segments(topic) if segment.state == "sealed"]

    def locations(self, topic: str, *, lasting: bool = False) -> list[str]:
        lasting = lasting and self._topic(topic).settings.archive is not None
        segments = [segment for segment in self.segments(topic) if segment.state == "sealed"]
        return [
            self._location(segment, archived=lasting)
            for segment in segments
            if segment.object is not None or not lasting
        ]

    def _path(self, topic: str, segment: Segment) -> Path:
        location = self._location(segment)
        if location.startswith("s3:"):
            raise UsageError(
                f"Segments of topic {topic!r} are only in {segment.archive}.",
                hint="maintenance.locations(topic) has their URLs.",
            )
        return Path(location)

    def _location(self, segment: Segment, *, archived: bool = False) -> str:
        """Where a sealed segment can be read: a path, or the URL of an object."""
        if segment.archive is None or (segment.local and not archived):
            return str(self.directory / segment.file)
        url = parse_store_url(segment.archive)
        return f"{url.path}/{segment.object}" if url.scheme == "file" else f"{url.location}/{segment.object}"

    def seal(self, topic: str) -> None:
        found = self._topic(topic)
        with self._catalog.write() as tx:
            tx.execute("UPDATE segments SET state = 'closed' WHERE topic_id = ? AND state = 'active'", (found.id,))
            tx.execute("UPDATE partitions SET active_segment = NULL WHERE topic_id = ?", (found.id,))
        self._upkeep.seal()

    def set_max_bytes(self, bytes_max: int | None) -> None:
        self._check_open()
        if bytes_max is not None and not is_whole(bytes_max, 1):
            raise UsageError(f"bytes_max must be a number of bytes, more than 0, not {bytes_max!r}.")
        self._upkeep.reserve.spend(lambda: self._set_bytes_max(bytes_max))

    def _set_bytes_max(self, bytes_max: int | None) -> None:
        with self._catalog.write() as tx:
            tx.execute("UPDATE log SET bytes_max = ?", (bytes_max,))

    @property
    def bytes_max(self) -> int | None:
        self._check_open()
        with self._catalog.read() as tx:
            cap: int | None = tx.execute("SELECT bytes_max FROM log").fetchone()[0]
        return cap

    def upkeep(self) -> UpkeepReport:
        self._check_open()
        return self._upkeep.round()

    def compact(self, topic: str) -> int:
        found = self._topic(topic)
        if found.settings.cleanup != "compact":
            raise UsageError(
                f"Topic {topic!r} has cleanup={found.settings.cleanup!r}.",
                hint="Alter it to cleanup='compact' if only the newest record per key matters.",
            )
        return self._upkeep.compact(found)

    def check(self, progress: Progress = silent) -> Iterator[Finding]:
        self._check_open()
        return Checker(self._files, self._catalog, self._registry).findings(progress)

    def repair(self, progress: Progress = silent) -> SegmentRepair:
        self._check_open()
        checker = Checker(self._files, self._catalog, self._registry)
        return SegmentRepair(
            checker, self._catalog, self._registry, self._sealer, self._clock, self._upkeep.exclusively
        ).plan(progress)

    def losses(self) -> list[Finding]:
        names = {topic.id: topic.name for topic in self._registry.topics()}
        with self._catalog.read() as tx:
            rows = tx.execute("SELECT topic_id, partition, first_offset, last_offset, reason FROM losses").fetchall()
        return [Finding(names[t], partition, "", first, last, reason) for t, partition, first, last, reason in rows]

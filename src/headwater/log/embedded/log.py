"""The embedded log: a directory, no server, any number of processes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Unpack

import pyarrow as pa

from headwater.errors import UsageError
from headwater.log.cataloged import CatalogedLog
from headwater.log.embedded.archives import Archives
from headwater.log.embedded.archiving import Archiver
from headwater.log.embedded.catalog import Catalog, Durability
from headwater.log.embedded.cutting import CommitCutter
from headwater.log.embedded.directory import check_directory
from headwater.log.embedded.files import SegmentFiles
from headwater.log.embedded.followers import CatalogFollowers
from headwater.log.embedded.maintenance import EmbeddedMaintenance
from headwater.log.embedded.reader import PartitionReader
from headwater.log.embedded.sealing import Sealer
from headwater.log.embedded.tail import Tails
from headwater.log.embedded.upkeep import Upkeep
from headwater.log.options import TopicOptions, settings_of
from headwater.log.topic import Topic, TopicSettings, define_topic
from headwater.system.clock import Clock
from headwater.system.storage import Storage
from headwater.system.wake import Wake


class EmbeddedLog(CatalogedLog, EmbeddedMaintenance):
    """See `Log` and `Maintenance` for the contracts.

    Not to be used in a child process after a fork: open it again there. It can be pickled; it is opened again then.
    """

    _catalog: Catalog
    _wake: Wake

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        create: bool = True,
        durability: Durability = "fsync",
        upkeep: bool = True,
        storage: Storage | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.directory = Path(directory).absolute()
        self._options: dict[str, Any] = {"durability": durability, "upkeep": upkeep}
        if durability not in ("fsync", "os"):
            raise UsageError(f"{durability!r} is not a durability.", hint="Use 'fsync' (default) or 'os'.")
        storage, clock = storage or Storage(), clock or Clock()
        check_directory(self.directory, storage, create=create)
        self._catalog = Catalog(self.directory, storage, durability)
        self._wake = Wake(self.directory / "wake")
        self._tails = Tails(self.directory, storage, durability)
        self._assemble(self._catalog, self._tails, self._wake, clock)
        self._files = SegmentFiles(self.directory, Archives(self._catalog, storage))
        sealer = Sealer(self._files, self._catalog, self._registry, storage, durability)
        self._archiver = Archiver(self.directory, self._catalog, self._registry, clock, self._files)
        parts = (self.directory, self._catalog, self._registry, storage, clock, sealer, self._archiver)
        self._upkeep = Upkeep(*parts, self._files)
        self._sealer, self._storage = sealer, storage
        self._tails.on_roll = self._upkeep.nudge
        if upkeep:
            self._upkeep.start()

    def create(
        self,
        name: str,
        schema: str | pa.Schema,
        *,
        key: str | Sequence[str] | None = None,
        partitions: int = 1,
        partition_by: str | Sequence[str] | None = None,
        event_time: str | None = None,
        exist_ok: bool = False,
        **settings: Unpack[TopicOptions],
    ) -> Topic:
        self._check_open()
        chosen = TopicSettings(**settings_of(settings))
        topic = define_topic(
            name, schema, key=key, partitions=partitions, partition_by=partition_by, event_time=event_time,
            settings=chosen,
        )  # fmt: skip
        self._prepare_archive(name, chosen.archive)
        return self._registry.create(topic, exist_ok=exist_ok)

    def alter(
        self,
        name: str,
        *,
        schema: str | pa.Schema | None = None,
        partitions: int | None = None,
        **settings: Unpack[TopicOptions],
    ) -> Topic:
        self._check_open()
        chosen = settings_of(settings)
        self._prepare_archive(self._registry.topic(name).name, chosen.get("archive"))
        # A lower retention is what makes room on a full disk.
        return self._upkeep.reserve.spend(
            lambda: self._registry.alter(name, schema=schema, partitions=partitions, settings=chosen)
        )

    def _prepare_archive(self, name: str, archive: str | None) -> None:
        """Sees that a topic's archive can be used, before it has it; an application starts without asking again."""
        known = next((topic.settings.archive for topic in self._registry.topics() if topic.name == name), None)
        if archive is not None and archive != known:
            self._files.archives.prepare(archive)

    def drop(self, name: str) -> None:
        self._check_open()
        for file in self._registry.drop(name):
            self._tails.forget(file)
            self._storage.discard(self.directory / file)

    @property
    def followers(self) -> CatalogFollowers:
        self._check_open()
        return CatalogFollowers(self._catalog, self._registry, self._clock, self._offset_after, self._received_at)

    def cutter(self, topics: Sequence[str]) -> CommitCutter:
        return CommitCutter(self, topics)

    @property
    def maintenance(self) -> EmbeddedLog:
        return self

    @property
    def url(self) -> str:
        return self.directory.as_uri()

    @property
    def state_directory(self) -> Path:
        return self.directory

    @property
    def upkeep_failure(self) -> Exception | None:
        return self._upkeep.failure or self._archiver.failure

    @property
    def upkeep_failures(self) -> int:
        return self._upkeep.failures + self._archiver.failures

    def close(self) -> None:
        if self._closed or self._pid != os.getpid():
            return
        self._closed = True
        self._dispatcher.close()
        self._upkeep.close()
        self._wake.close()
        self._tails.close()
        self._catalog.close()

    def __repr__(self) -> str:
        return f"EmbeddedLog({str(self.directory)!r})"

    def __reduce__(self) -> tuple[object, ...]:
        return _reopen, (str(self.directory), self._options)

    def _offset_after(self, topic: Topic, partition: int, commit: int) -> int:
        with self._reader(topic, partition) as reader:
            return reader.seek("_commit", commit)

    def _reader(self, topic: Topic, partition: int, columns: Sequence[str] | None = None) -> PartitionReader:
        return PartitionReader(self._files, self._catalog, self._registry, topic, partition, columns)


def _reopen(directory: str, options: dict[str, Any]) -> EmbeddedLog:
    return EmbeddedLog(directory, create=False, **options)

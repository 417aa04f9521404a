"""Sealing: turning complete segments into Parquet, so that they are small and any tool can read them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from headwater.errors import Corrupt, UnknownTopic
from headwater.log.embedded.catalog import Catalog, Durability
from headwater.log.embedded.files import SegmentFiles
from headwater.log.embedded.reader import PartitionReader
from headwater.log.embedded.registry import Registry
from headwater.log.embedded.sealed import sealed_schema, write_sealed
from headwater.log.embedded.segments import select
from headwater.log.embedded.tail import new_file
from headwater.log.maintenance import Segment
from headwater.log.topic import Topic
from headwater.system.sqlite import Connection
from headwater.system.storage import Storage, storage_error


@dataclass(frozen=True, slots=True)
class SealedContent:
    """A Parquet file that is on the disk, but that the catalog does not name yet."""

    file: str
    bytes: int
    rows: int
    checksum: int


class Sealer:
    """Writes sealed segments. Only one process at a time does: callers hold the upkeep lock."""

    def __init__(
        self, files: SegmentFiles, catalog: Catalog, registry: Registry, storage: Storage, durability: Durability
    ) -> None:
        self._files, self.directory = files, files.directory
        self._catalog, self._registry, self._storage = catalog, registry, storage
        self.durable = durability == "fsync"

    def seal_closed(self, stopping: Callable[[], bool] = lambda: False) -> int:
        """Seals every closed segment that can be read; how many. A damaged one stays, for `check` to find."""
        with self._catalog.read() as tx:
            closed = select(tx, "state = 'closed' ORDER BY id")
            # Looked up no earlier than the segments: their records are in no newer schema than these topics have.
            topics = {topic.id: topic for topic in self._registry.topics()}
        count = 0
        for segment in closed:
            if stopping():
                break
            if segment.topic_id in topics:
                try:
                    count += self._seal(topics[segment.topic_id], segment)
                except (Corrupt, UnknownTopic):
                    # Damaged, or dropped meanwhile.
                    continue
        return count

    def write(self, topic: Topic, partition: int, base: int, tables: Iterable[pa.Table]) -> SealedContent:
        """Writes records to a new Parquet file, and returns when it is on the disk."""
        file = new_file(topic.name, partition, base, "parquet")
        path = self.directory / file
        try:
            size = write_sealed(path, tables, topic.schema)
            self._sync(path)
        except OSError as error:
            self._storage.discard(path)
            raise storage_error(error, path) from error
        return SealedContent(file, size.bytes, size.rows, size.checksum)

    def fetch(self, topic: Topic, segment: Segment) -> str:
        """Brings a segment's bytes from its archive into a new file, and returns its name when it is on the disk."""
        archived = self._files.archived(segment)
        for group in archived.groups:
            archived.check(group)
        file = new_file(topic.name, segment.partition, segment.base_offset, "parquet")
        path = self.directory / file
        self.make_directory(path.parent)
        try:
            path.write_bytes(archived.content)
            self._sync(path)
        except OSError as error:
            self._storage.discard(path)
            raise storage_error(error, path) from error
        return file

    def make_directory(self, path: Path) -> None:
        """Makes a directory that is gone, with those above it, and returns when their names are on the disk."""
        try:
            for missing in [each for each in reversed([path, *path.parents]) if not each.exists()]:
                self._storage.make_directory(missing)
                self._storage.sync_directory(missing.parent)
        except OSError as error:
            raise storage_error(error, path) from error

    def read(self, topic: Topic, segment: Segment, columns: Sequence[str] | None = None) -> Iterable[pa.Table]:
        """The records of one segment."""
        names = list(columns) if columns is not None else sealed_schema(topic.schema).names
        with PartitionReader(self._files, self._catalog, self._registry, topic, segment.partition, names) as reader:
            offset = segment.base_offset
            while offset < segment.end_offset:
                batch = reader.read(offset, until_offset=segment.end_offset)
                if batch is None:
                    return
                yield batch.records
                offset = batch.next_offset

    def discard(self, segments: Iterable[Segment]) -> None:
        """Removes files that the catalog does not name any more."""
        for segment in segments:
            self._storage.discard(self.directory / segment.file)

    def discard_file(self, file: str) -> None:
        """Removes a file that the catalog was never told of."""
        self._storage.discard(self.directory / file)

    def _seal(self, topic: Topic, segment: Segment) -> int:
        content = self.write(topic, segment.partition, segment.base_offset, self.read(topic, segment))
        with self._catalog.write() as tx:
            tx.execute(
                "UPDATE segments SET state = 'sealed', file = ?, bytes = ?, checksum = ? "
                "WHERE id = ? AND state = 'closed'",
                (content.file, content.bytes, content.checksum, segment.id),
            )
            changed = tx.changes()
            tx.execute("DELETE FROM marks WHERE segment_id = ?", (segment.id,))
        self._storage.discard(self.directory / (segment.file if changed else content.file))
        return changed

    def _sync(self, path: Path) -> None:
        if self.durable:
            fd = self._storage.open(path)
            try:
                self._storage.sync(fd, path)
            finally:
                self._storage.close(fd)
            self._storage.sync_directory(path.parent)


def replace_segments(tx: Connection, old: Sequence[Segment], content: SealedContent) -> None:
    """Puts one sealed segment in the place of neighbours."""
    for segment in old:
        tx.execute("DELETE FROM segments WHERE id = ?", (segment.id,))
        tx.execute("DELETE FROM marks WHERE segment_id = ?", (segment.id,))
    first, last = old[0], old[-1]
    tx.execute(
        "INSERT INTO segments VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, 'sealed', ?, ?, ?, ?, 0, NULL, NULL, 1)",
        (
            first.topic_id, first.partition, first.base_offset, last.end_offset, first.first_commit,
            last.last_commit, first.first_at, last.last_at, content.file, content.bytes, content.rows,
            content.checksum,
        ),
    )  # fmt: skip

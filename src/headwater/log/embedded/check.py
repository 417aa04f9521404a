"""Checking a log: reading everything back, comparing it with its checksums, and telling what can be saved."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Literal

import pyarrow as pa

from headwater.errors import ArchiveUnavailable, Corrupt
from headwater.log.embedded.catalog import NAME, Catalog
from headwater.log.embedded.files import SegmentFiles
from headwater.log.embedded.reader import PartitionReader
from headwater.log.embedded.registry import Registry
from headwater.log.embedded.sealed import SealedFile, sealed_schema
from headwater.log.embedded.segment import MAGIC, Frame, read_header, walk_frames
from headwater.log.embedded.segments import segment_from, select
from headwater.log.maintenance import Finding, Progress, Segment, silent
from headwater.log.topic import Topic
from headwater.model.evolution import conform
from headwater.system.sqlite import Connection
from headwater.system.storage import reading_error

Lost = tuple[int, int, str]
"""The first and the last of a run of offsets that cannot be read, and why."""


@dataclass(slots=True)
class Salvage:
    """What is left of one segment: the records that can be read, and the offsets that cannot."""

    records: list[pa.Table] = field(default_factory=list)
    lost: list[Lost] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Damage:
    """A segment that has lost offsets, or of whose two copies, here and in an archive, one is damaged."""

    topic: Topic
    segment: Segment
    lost: list[Lost]
    copy: Literal["local", "archived"] | None = None

    def findings(self) -> Iterator[Finding]:
        for first, last, reason in self.lost:
            told = reason if self.copy is None else f"the {self.copy} copy: {reason}"
            # The other copy has everything.
            end = last if self.copy is None else first - 1
            yield Finding(self.topic.name, self.segment.partition, self.segment.file, first, end, told)


class Checker:
    """Looks at segments one at a time; it changes nothing."""

    def __init__(self, files: SegmentFiles, catalog: Catalog, registry: Registry) -> None:
        self._files, self._catalog, self._registry = files, catalog, registry

    def findings(self, progress: Progress = silent) -> Iterator[Finding]:
        """Everything that is wrong with the log, as it is found. Raises `ArchiveUnavailable` after all of that."""
        yield from self.catalog_findings()
        for damage in self.damages(progress):
            yield from damage.findings()

    def damages(self, progress: Progress = silent) -> Iterator[Damage]:
        """The segments that are damaged, as they are found. Raises `ArchiveUnavailable` when the rest is checked."""
        segments, unavailable = self.segments(), list[ArchiveUnavailable]()
        for done, segment in enumerate(segments):
            progress(done, len(segments))
            try:
                found = self._look(segment)
            except ArchiveUnavailable as error:
                unavailable.append(error)
                continue
            if found is not None:
                yield found
        progress(len(segments), len(segments))
        if unavailable:
            raise unavailable[0]

    def _look(self, segment: Segment) -> Damage | None:
        """Whether the segment is damaged, or, if it was replaced while we looked at it, the one that took its place."""
        while True:
            topic = next((topic for topic in self._registry.topics() if topic.id == segment.topic_id), None)
            if topic is None:
                return None
            damage = self._damage(topic, segment)
            if damage is None:
                return None
            with self._catalog.read() as tx:
                now = segment_from(tx, segment.topic_id, segment.partition, segment.base_offset)
            if now is not None and (now.file, now.object, now.local) == (segment.file, segment.object, segment.local):
                return damage
            if now is None:
                return None
            segment = now

    def _damage(self, topic: Topic, segment: Segment) -> Damage | None:
        lost = self.salvage(topic, segment, keep=False).lost
        if not segment.local or segment.object is None:
            return Damage(topic, segment, lost) if lost else None
        elsewhere = self._salvage_archived(topic, segment, keep=False).lost
        if lost and elsewhere:
            return Damage(topic, segment, lost)
        if lost:
            return Damage(topic, segment, lost, "local")
        return Damage(topic, segment, elsewhere, "archived") if elsewhere else None

    def segments(self) -> list[Segment]:
        with self._catalog.read() as tx:
            return select(tx, "1 ORDER BY topic_id, partition, base_offset")

    def salvage(self, topic: Topic, segment: Segment, *, keep: bool = True) -> Salvage:
        """Reads a segment around its damage. With `keep` the readable records come along."""
        if not segment.local:
            return self._salvage_archived(topic, segment, keep=keep)
        path = self._files.directory / segment.file
        try:
            content = _read(path)
        except OSError as error:
            return Salvage(lost=[(segment.base_offset, segment.end_offset - 1, error.strerror or str(error))])
        if segment.state == "sealed":
            return self._salvage_sealed(topic, segment, content, keep=keep)
        return self._salvage_frames(topic, segment, content[: segment.bytes], keep=keep)

    def _salvage_archived(self, topic: Topic, segment: Segment, *, keep: bool) -> Salvage:
        try:
            return _salvage_groups(topic, self._files.archived(segment), keep=keep)
        except Corrupt as damage:
            return Salvage(lost=[(damage.first, damage.last, damage.reason)])
        except FileNotFoundError:
            return Salvage(lost=[(segment.base_offset, segment.end_offset - 1, "the object is missing in the archive")])

    def _salvage_sealed(self, topic: Topic, segment: Segment, content: bytes, *, keep: bool) -> Salvage:
        try:
            salvage = _salvage_groups(topic, SealedFile(segment, content[: segment.bytes]), keep=keep)
        except Corrupt as damage:
            return Salvage(lost=[(damage.first, damage.last, damage.reason)])
        if len(content) > segment.bytes and not salvage.lost:
            reason = f"the file has {len(content)} bytes of {segment.bytes}, the others behind the records"
            salvage.lost.append((segment.base_offset, segment.base_offset - 1, reason))
        return salvage

    def _salvage_frames(self, topic: Topic, segment: Segment, content: bytes, *, keep: bool) -> Salvage:
        salvage, frames = Salvage(), list[Frame]()
        buffer, offset, start = memoryview(content), segment.base_offset, 0
        while offset < segment.end_offset:
            try:
                for frame in walk_frames(
                    buffer[start:], complete=True, segment=segment.file, offset=offset, end_offset=segment.end_offset
                ):
                    frames.append(_moved(frame, start))
                    offset = frame.offset + frame.rows
                reason = f"the file has {len(content)} bytes of {segment.bytes} committed ones"
            except Corrupt as damage:
                reason = damage.reason
            if offset >= segment.end_offset:
                break
            start = frames[-1].end if frames else 0
            found = _next_frame(buffer, start + 8, segment, offset)
            end = found.offset if found is not None else segment.end_offset
            salvage.lost.append((offset, end - 1, reason))
            if found is None:
                break
            offset, start = found.offset, found.start
        if keep and frames:
            salvage.records = self._decode(topic, segment, content, frames)
        return salvage

    def _decode(self, topic: Topic, segment: Segment, content: bytes, frames: list[Frame]) -> list[pa.Table]:
        columns = sealed_schema(topic.schema).names
        with PartitionReader(self._files, self._catalog, self._registry, topic, segment.partition, columns) as reader:
            runs = _contiguous(frames)
            return [reader.decode(pa.py_buffer(content), run).records.select(columns) for run in runs]

    def catalog_findings(self) -> Iterator[Finding]:
        """What is wrong with the catalog itself: pages first, and what is in them if they are sound."""
        damages = self._catalog.damages()
        for place, reason in damages:
            yield Finding("", 0, NAME, 0, 0, f"{place}: {reason}")
        if not damages:
            yield from self._content_findings()

    def _content_findings(self) -> Iterator[Finding]:
        with self._catalog.read() as tx:
            names = {topic.id: topic.name for topic in self._registry.topics()}
            problems = [row[0] for row in tx.execute("PRAGMA integrity_check") if row[0] != "ok"]
            partitions = tx.execute("SELECT topic_id, partition, start_offset, end_offset FROM partitions").fetchall()
            gaps = [(row, gap) for row in partitions for gap in _gaps(tx, *row)]
        for problem in problems:
            yield Finding("", 0, NAME, 0, 0, problem)
        for (topic_id, partition, _, _), (first, last) in gaps:
            yield Finding(names[topic_id], partition, NAME, first, last, "no segment has these offsets")


def _salvage_groups(topic: Topic, file: SealedFile, *, keep: bool) -> Salvage:
    salvage = Salvage()
    for group in file.groups:
        try:
            file.check(group)
        except Corrupt as damage:
            salvage.lost.append((damage.first, damage.last, damage.reason))
        else:
            salvage.records += [conform(file.group(group), sealed_schema(topic.schema))] if keep else []
    return salvage


def _read(path: Path) -> bytes:
    """A segment's bytes. Raises `OSError` if they are gone, and `FileUnreadable` if they may be there."""
    try:
        file = path.open("rb")
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        raise
    except OSError as error:
        # Nothing that cannot be opened is given up: who may, or once the cause is gone, reads it.
        raise reading_error(error, path) from error
    with file:
        return file.read()


def _gaps(tx: Connection, topic_id: int, partition: int, start: int, end: int) -> Iterator[tuple[int, int]]:
    segments = select(tx, "topic_id = ? AND partition = ? ORDER BY base_offset", (topic_id, partition))
    covered = start
    for segment in segments:
        if segment.base_offset > covered:
            yield covered, segment.base_offset - 1
        covered = max(covered, segment.end_offset)
    if covered < end:
        yield covered, end - 1


def _next_frame(buffer: memoryview, start: int, segment: Segment, offset: int) -> Frame | None:
    """The next frame that is whole and holds later offsets; frames begin at multiples of 8 bytes."""
    content = buffer.obj
    assert isinstance(content, bytes)
    while (start := content.find(MAGIC, start)) >= 0:
        frame = read_header(buffer, start)
        if start % 8 == 0 and frame is not None and offset < frame.offset < segment.end_offset:
            try:
                next(
                    walk_frames(
                        buffer[start : frame.end],
                        complete=True,
                        segment="",
                        offset=frame.offset,
                        end_offset=frame.offset,
                    )
                )
            except (Corrupt, StopIteration):
                pass
            else:
                return frame
        start += 1
    return None


def _moved(frame: Frame, by: int) -> Frame:
    return Frame(
        frame.flags, frame.schema_version, frame.rows, frame.offset, frame.commit, frame.at, frame.start + by,
        frame.body + by, frame.end + by,
    )  # fmt: skip


def _contiguous(frames: list[Frame]) -> list[list[Frame]]:
    runs = [[frames[0]]]
    for before, frame in pairwise(frames):
        if frame.offset == before.offset + before.rows:
            runs[-1].append(frame)
        else:
            runs.append([frame])
    return runs

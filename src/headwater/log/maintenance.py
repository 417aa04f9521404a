"""Maintenance: what a log that keeps its own files can do with them; other logs do not offer it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

Progress = Callable[[int, int], None]
"""Called with how many segments are done, and how many there are."""

SegmentState = Literal["active", "closed", "sealed"]


def silent(done: int, total: int) -> None:
    """Progress that nobody watches."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A run of a partition's offsets in one file.

    active  frames, being written   --roll-->   closed  frames, complete   --seal-->   sealed  Parquet, checksummed

    `bytes` is how much of the file is committed; `rows` is less than the run of offsets once it was compacted. A sealed
    segment may be an `object` in an `archive`, too; its file is only there as long as it is `local`.
    """

    id: int
    topic_id: int
    partition: int
    base_offset: int
    end_offset: int
    first_commit: int
    last_commit: int
    first_at: int
    last_at: int
    state: SegmentState
    file: str
    bytes: int
    rows: int
    checksum: int | None
    marked: int
    archive: str | None = None
    object: str | None = None
    local: bool = True


@dataclass(frozen=True, slots=True)
class Finding:
    """Something wrong: offsets `first` to `last` of a partition cannot be read, and why."""

    topic: str
    partition: int
    segment: str
    first: int
    last: int
    reason: str

    @property
    def records(self) -> int:
        return self.last - self.first + 1


@dataclass(frozen=True, slots=True)
class UpkeepReport:
    """What one round did."""

    sealed: int = 0
    deleted_segments: int = 0
    deleted_records: int = 0
    compacted_records: int = 0
    swept_files: int = 0
    archived_segments: int = 0
    removed_objects: int = 0
    evicted_segments: int = 0


class Repair(Protocol):
    """A plan of what can be saved of damaged segments. Nothing happens until `apply`."""

    beyond: list[Finding]
    """What no repair can mend: damage of the catalog itself, for which a backup is needed."""

    @property
    def copies(self) -> Sequence[Finding]:
        """Damaged copies, here or in an archive, of segments of which the other copy is sound: nothing is lost."""

    @property
    def losses(self) -> Sequence[Finding]:
        """The offsets that would be lost, and why."""

    @property
    def saved(self) -> int:
        """How many records of damaged segments would be saved."""

    def apply(self) -> None:
        """Replaces damaged copies, saves what can be read, and gives up the rest."""


class Maintenance(ABC):
    """What can be done with the files of a log. Every method may be called from any thread, while others write."""

    directory: Path
    """What holds the files."""

    @abstractmethod
    def segments(self, topic: str) -> list[Segment]:
        """The segments that hold a topic's records now, by partition and offset."""

    @abstractmethod
    def files(self, topic: str) -> list[Path]:
        """The Parquet files of a topic's sealed segments, for other tools; `seal` first to have everything in them.

        Raises `UsageError` if some are only in an object store: `locations` has them.
        """

    @abstractmethod
    def locations(self, topic: str, *, lasting: bool = False) -> list[str]:
        """As `files`, as paths, or as URLs of those that are only in an object store.

        With `lasting`, of a topic with an archive only its objects, which stay where they are.
        """

    @abstractmethod
    def seal(self, topic: str) -> None:
        """Ends the active segments of a topic and turns them into Parquet, now rather than when they are full."""

    @abstractmethod
    def compact(self, topic: str) -> int:
        """Compacts everything that is sealed; how many records were removed."""

    @property
    @abstractmethod
    def bytes_max(self) -> int | None:
        """The cap of the log that `set_max_bytes` has set; None if there is none."""

    @abstractmethod
    def set_max_bytes(self, bytes_max: int | None) -> None:
        """Caps the log: the oldest segments of topics with cleanup='delete' go first. None lifts the cap."""

    @abstractmethod
    def upkeep(self) -> UpkeepReport:
        """Seals, applies retention, compacts where it pays, archives, and sweeps, now rather than in the background.

        Raises `ArchiveUnavailable` after everything else has been done.
        """

    @abstractmethod
    def check(self, progress: Progress = silent) -> Iterator[Finding]:
        """Reads everything and compares it with its checksums; what is wrong, as it is found.

        Raises `ArchiveUnavailable` at the end if an archive could not be read.
        """

    @abstractmethod
    def repair(self, progress: Progress = silent) -> Repair:
        """A plan of what can be saved from damaged segments and what is lost; nothing happens until `apply`."""

    @abstractmethod
    def losses(self) -> list[Finding]:
        """What repairs had to give up, ever."""

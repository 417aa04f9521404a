"""The port of sources: what a system outside has to do, so that its changes become records of the log."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from headwater.engine.parts import Part, Report, Stop
from headwater.log.port import Log
from headwater.system.heartbeat import Heart
from headwater.system.lock import FileLock

LOOK_SECONDS = 0.5
"""How often a process that waits for its turn looks again."""


@dataclass(frozen=True, slots=True)
class Home:
    """What a source is given by its application: its name, the log, and a folder of its own."""

    name: str
    log: Log
    directory: Path

    @contextmanager
    def alone(self, stop: Stop, report: Report) -> Iterator[bool]:
        """Waits until no other process runs the source; False if it is asked to stop before.

        Within the block every process can see that this one runs it, and afterwards what ended it.
        """
        self.directory.mkdir(parents=True, exist_ok=True)
        lock = FileLock(self.directory / "source.lock")
        told = False
        try:
            while not stop.is_set():
                with lock.try_hold() as held:
                    if held:
                        with Heart(self.directory):
                            yield True
                        return
                if not told:
                    report.say(f"Another process runs source {self.name!r}: waiting until it ends.")
                told = True
                stop.wait(LOOK_SECONDS)
            yield False
        finally:
            lock.close()


@dataclass(frozen=True, slots=True)
class TableStatus:
    """A table of a source: `state` is `streaming`, `reading` (a snapshot of it is asked for), or why it is not read.

    `stopped` needs a person; `dropped` and `removed` (from the source's tables) do not. `blocks_left` is what is still
    to be read of it; None if it is not being read, or if that is not known yet.
    """

    name: str
    topic: str
    state: str
    reason: str | None
    blocks_left: int | None


@dataclass(frozen=True, slots=True)
class SourceStatus:
    """How a source is, whichever process runs it. What a source does not know of itself is None.

    `phase` is where it is between its beginning and its end, `position` a place in the system's own log. Bytes are of
    that log: behind, kept by the system for this source, and left until it removes what was not read. Blocks are those
    of the first snapshot while it is read, otherwise 0. `details` are named texts, for people.
    """

    source: str
    kind: str
    address: str
    phase: str
    paused: bool
    active: bool
    position: str
    bytes_behind: int | None
    bytes_retained: int | None
    bytes_until_lost: int | None
    seconds_behind: float | None
    blocks_read: int
    blocks_total: int
    tables: tuple[TableStatus, ...]
    details: tuple[tuple[str, str], ...]
    alarms: tuple[str, ...]


class Source(Part):
    """A system whose changes are records of topics. `repr`, status and errors show no secret.

    It is made when the application declares it; nothing outside is touched before one of these methods is called.
    Everything that a source has to remember is in the log, written in the commits that it is about.
    """

    kind: ClassVar[str]
    """What sources of this class are called in status and flow."""

    def __init__(self, home: Home) -> None:
        self.home = home

    @property
    def name(self) -> str:
        return f"source-{self.home.name}"

    @property
    @abstractmethod
    def address(self) -> str:
        """Where the system is, without any secret; must not look outside."""

    @abstractmethod
    def check(self) -> Sequence[str]:
        """What the source would read, by name. Called before a first run, and whenever somebody asks.

        Changes nothing. Raises `UsageError`, which says all that has to be set up first, and `SourceUnavailable`.
        """

    @abstractmethod
    def run(self, stop: Stop, report: Report) -> None:
        """Brings changes into the log until `stop` is set, from where the log is; returns soon after.

        Called in a thread, in any number of processes: only one of them may work, within `home.alone`. It may be killed
        at any time, so each change and the position behind it must be in one commit. Raises `UsageError` for what a
        person has to mend; after any other error it is called again, after a pause.
        """

    @abstractmethod
    def is_ready(self) -> bool:
        """Whether its topics are there, with everything that the system had when the source began.

        Called often, from any thread and process; reads the log only. Views wait for it before they are planned.
        """

    @abstractmethod
    def status(self) -> SourceStatus:
        """How it is now. Called from any process; may ask the system. Raises `SourceUnavailable`."""

    def topics(self) -> list[str]:
        """The topics that it feeds: those whose names begin with its own."""
        return [topic.name for topic in self.home.log.topics() if topic.name.startswith(f"{self.home.name}.")]


@dataclass(frozen=True, slots=True)
class TableAudit:
    """What the comparison of a table with its topic found, at one place of the system's log.

    Keys are texts as JSON has them. Of `ranges` ranges of keys checksums were compared; `rows_fetched` keys, of the
    `ranges_fetched` that differ, came from the system.
    """

    table: str
    topic: str
    place: str
    rows_in_source: int
    rows_in_log: int
    checksum_of_source: str
    checksum_of_log: str
    ranges: int
    ranges_fetched: int
    rows_fetched: int
    missing: tuple[tuple[object, ...], ...]
    different: tuple[tuple[object, ...], ...]
    extra: tuple[tuple[object, ...], ...]
    repairing: bool = False

    @property
    def equal(self) -> bool:
        return not (self.missing or self.different or self.extra)


class DatabaseSource(Source):
    """A source whose tables can be read again, compared and left out while it runs, by any process."""

    @abstractmethod
    def snapshot(self, table: str, *, where: str | None = None) -> None:
        """Asks for an incremental snapshot of a table, or of the rows that a condition in SQL names."""

    @abstractmethod
    def pause(self) -> None:
        """Pauses capture, in whichever process it runs; the database retains its changes until it resumes."""

    @abstractmethod
    def resume(self, table: str | None = None) -> None:
        """Resumes capture; with a table, captures one that was stopped, and reads it again."""

    @abstractmethod
    def audit(self, report: Report | None = None, *, repair: bool = False) -> list[TableAudit]:
        """Compares every table with its topic. With `repair`, rows that differ are read again."""

    @abstractmethod
    def drop(self, report: Report | None = None) -> None:
        """Removes from the database what the source has made there. Topics and their records stay."""

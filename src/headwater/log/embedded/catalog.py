"""The catalog: a small SQLite database that holds what is true of a log, while segment files hold the data.

Everything that becomes visible does so when a transaction of the catalog commits, and at no other moment.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Literal

from headwater.errors import (
    CatalogUnusable,
    DiskFull,
    HeadwaterError,
    Indeterminate,
    LogBusy,
    LogReplaced,
    ReadOnly,
    TooManyOpenFiles,
    UsageError,
)  # fmt: skip
from headwater.log.embedded.tables import TABLES
from headwater.log.topic import Topic
from headwater.system.checkpoints import Checkpoints
from headwater.system.lock import FileLock
from headwater.system.pages import BadPage, damaged_frames, damaged_pages
from headwater.system.sqlite import (
    Connection,
    Error,
    Mode,
    Synchronous,
    connect,
    create_tables,
    has_tables,
    is_verified,
    reason_of,
    trouble_of,
)  # fmt: skip
from headwater.system.storage import Storage, storage_error
from headwater.system.witness import Witness

FORMAT = 4
Durability = Literal["fsync", "os"]
WRITE_LOCK_SECONDS_MAX = 30.0
BUSY_SECONDS_MAX = 10.0
NAME, WITNESS = "catalog.db", "catalog.witness"


class Catalog:
    """Connections to one catalog: any number of readers, and one writer at a time over all processes.

    Every transaction that changes something counts up `log.version`, and a witness beside the catalog is told once that
    is durable: a catalog that comes back older has lost commits.
    """

    def __init__(self, directory: Path, storage: Storage, durability: Durability) -> None:
        self.path = directory / NAME
        self._storage = storage
        self._synchronous: Synchronous = "FULL" if durability == "fsync" else "NORMAL"
        self._lock = FileLock(directory / "write.lock")
        self._witness = Witness(directory / WITNESS, durable=durability == "fsync")
        self._local = threading.local()
        self._idle: list[Connection] = []
        self._idle_lock = threading.Lock()
        self._closed, self._pid = False, os.getpid()
        self._opened, self._mode = self.path, _mode(self._lock)
        self._copy: tempfile.TemporaryDirectory[str] | None = None
        with ExitStack() as undo:
            # The next writer must find the files as they are, not as this connection has seen them.
            undo.callback(self._give_up)
            try:
                self._open()
                self._check()
                self._file = self.path.stat().st_ino
            except Error as error:
                raise _reading_error(error, self.path) from error
            undo.pop_all()

    @property
    def is_read_only(self) -> bool:
        """Whether this process may not write to the log."""
        return self._lock.is_read_only

    def check_in_place(self) -> None:
        """Raises `LogReplaced` if the catalog that is open is not the one in the directory any more."""
        try:
            there = self.path.stat().st_ino == self._file
        except FileNotFoundError:
            there = False
        if not there:
            raise LogReplaced(str(self.path.parent))

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """A transaction that alone may write. It commits at the block's end; an exception undoes all of it."""
        with self._lock.hold(WRITE_LOCK_SECONDS_MAX):
            # What is written to a file that was deleted is lost.
            self.check_in_place()
            self._check_log()
            connection = self._writer
            try:
                self._bury_half_commit()
                connection.execute("BEGIN IMMEDIATE")
                changes = connection.total_changes()
                yield connection
                self._commit(changed=connection.total_changes() != changes)
            except Error as error:
                self._roll_back()
                raise _writing_error(error, self.path) from error
            except BaseException:
                self._roll_back()
                raise
            self._checkpoints.run_if_due()

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A transaction that sees one state of the log, however many statements it runs."""
        outer: Connection | None = getattr(self._local, "connection", None)
        if outer is not None:
            yield outer
            return
        try:
            connection = self._local.connection = self._borrow()
            try:
                connection.execute("BEGIN")
                yield connection
            finally:
                self._local.connection = None
                if connection.in_transaction:
                    connection.execute("COMMIT")
                self._give_back(connection)
        except Error as error:
            raise _reading_error(error, self.path) from error

    def position(self) -> int:
        """The number of the last commit."""
        with self.read() as tx:
            number: int = tx.execute("SELECT commit_number FROM log").fetchone()[0]
        return number

    def committed_at(self) -> int:
        """When the last commit happened: no later one has an earlier time."""
        with self.read() as tx:
            at: int = tx.execute("SELECT committed_at FROM log").fetchone()[0]
        return at

    def compacted_commit(self, topic: Topic) -> int:
        """The last commit whose records compaction has looked at; 0 if it was never here."""
        with self.read() as tx:
            row = tx.execute("SELECT max(compacted_commit) FROM partitions WHERE topic_id = ?", (topic.id,)).fetchone()
        return int(row[0] or 0)

    def damages(self) -> list[BadPage]:
        """Every page of the catalog and of its write-ahead log that is not as it was written, used or free."""
        if self.is_read_only:
            return self._damages()
        with self._lock.hold(WRITE_LOCK_SECONDS_MAX):
            return self._damages()

    @property
    def identity(self) -> str:
        """Tells this catalog from another one that took its place."""
        return str(self._file)

    def close(self) -> None:
        """Waits for a transaction that writes; one that reads ends by itself."""
        self._lock.close()
        with self._idle_lock:
            self._closed = True
            for connection in self._idle:
                connection.close()
            self._idle.clear()
        self._checkpoints.close()
        self._witness.close()
        if self._copy is not None:
            self._copy.cleanup()

    def _give_up(self) -> None:
        """Gives back what an opening that failed has taken."""
        self._lock.close()
        if hasattr(self, "_writer"):
            self._writer.close()
        if self._copy is not None:
            self._copy.cleanup()

    def _commit(self, *, changed: bool) -> None:
        version = self._count_up() if changed else None
        try:
            self._lock.mark(on=True)
        except OSError as error:
            raise storage_error(error, self.path) from error
        self._storage.commit(self._writer)
        # A mark that stays costs the next writer a transaction, and nothing else; an older witness knows less.
        with suppress(OSError):
            if version is not None:
                self._witness.note(version)
            self._lock.mark(on=False)

    def _count_up(self) -> int:
        (version,) = self._writer.execute("UPDATE log SET version = version + 1 RETURNING version").fetchall()[0]
        return int(version)

    def _bury_half_commit(self) -> None:
        """Sees to it that a COMMIT which its process did not live to finish is never found again.

        It may stand in SQLite's log, and nobody sees it; but who opens the catalog after all others are gone reads
        that log again and takes it for committed. By then its bytes in the segments would have been written over, and
        its files swept. A transaction of our own takes its place in SQLite's log first.
        """
        if self._lock.is_marked:
            self._writer.execute("BEGIN IMMEDIATE")
            self._commit(changed=True)

    def _roll_back(self) -> None:
        if self._writer.in_transaction:
            self._writer.execute("ROLLBACK")

    def _borrow(self) -> Connection:
        """A connection that nobody uses. There are as many as were in use at once, however many threads come and go."""
        if self._pid != os.getpid():
            raise UsageError("The log was opened by the parent process.", hint="Open it again in this one.")
        with self._idle_lock:
            if self._closed:
                raise UsageError("The log is closed.", hint="Open it again.")
            if self._idle:
                return self._idle.pop()
        return self._connect()

    def _give_back(self, connection: Connection) -> None:
        with self._idle_lock:
            if not self._closed:
                self._idle.append(connection)
                return
        connection.close()

    def _open(self) -> None:
        try:
            self._writer = self._connect()
        except Error:
            if not self.is_read_only or self._copy is not None:
                raise
            # SQLite cannot read a write-ahead log, nor know that there is none, without files of its own beside it.
            self._copy = tempfile.TemporaryDirectory(prefix="headwater-catalog-")
            self._opened, self._mode = _copied(self.path, Path(self._copy.name)), "write"
            self._writer = self._connect()
        self._checkpoints = Checkpoints(self._opened, self._writer)

    def _connect(self) -> Connection:
        return connect(self._opened, mode=self._mode, synchronous=self._synchronous, busy_seconds=BUSY_SECONDS_MAX)

    def _check(self) -> None:
        """Creates what is missing, and raises if the catalog is not what it was."""
        # Before the catalog is looked at: it may be moved on by others meanwhile.
        known = self._witness.version()
        if not has_tables(self._writer):
            with self._lock.hold(WRITE_LOCK_SECONDS_MAX):
                self._prepare(known)
        if not is_verified(self._writer):
            # It was opened while another process was about to create the catalog, and has not seen its header.
            self._writer.close()
            self._open()
        self._check_format()
        found = self._version()
        if found < known:
            reason = f"it is at version {found}, and has been at {known}: commits are missing"
            raise CatalogUnusable(str(self.path), reason, damaged=True)

    def _prepare(self, known: int) -> None:
        if not has_tables(self._writer):
            if known or any((self.path.parent / "topics").glob("*/*/*")):
                # A new catalog would name none of these files, and upkeep would take them for left-overs.
                reason = "it is empty, and has been in use" if known else "it is empty, and there are segments"
                raise CatalogUnusable(str(self.path), reason, damaged=True)
            create_tables(self._writer, f"{TABLES} INSERT INTO log VALUES (1, {FORMAT}, 0, 0, 0, NULL, 0);")
            try:
                self._storage.sync_directory(self.path.parent)
            except OSError as error:
                raise storage_error(error, self.path) from error

    def _check_format(self) -> None:
        found = self._writer.execute("SELECT format FROM log").fetchone()[0]
        if found != FORMAT:
            raise UsageError(
                f"The log in {self.path.parent} has format {found}; this version reads format {FORMAT}.",
                hint="Use the version of headwater that wrote it.",
            )
        if not is_verified(self._writer):
            raise CatalogUnusable(str(self.path), "its header does not ask for checksums", damaged=True)

    def _check_log(self) -> None:
        damage = self._checkpoints.damage
        if damage is not None:
            raise CatalogUnusable(str(self.path), f"{damage.place}: {damage.reason}", damaged=True)

    def _version(self) -> int:
        return int(self._writer.execute("SELECT version FROM log").fetchone()[0])

    def _damages(self) -> list[BadPage]:
        found = [*damaged_pages(self._opened), *damaged_frames(self._opened)]
        if self._witness.is_damaged():
            found.append(BadPage(WITNESS, "it does not match its checksum; the next commit writes it again"))
        return found


def _mode(lock: FileLock) -> Mode:
    return "read" if lock.is_read_only else "create"


def _copied(path: Path, folder: Path) -> Path:
    for name in (path.name, f"{path.name}-wal"):
        with suppress(FileNotFoundError):
            shutil.copyfile(path.parent / name, folder / name)
    return folder / path.name


def _reading_error(error: Error, path: Path) -> HeadwaterError:
    """What the caller should see when the catalog cannot be read, or not even opened."""
    trouble = trouble_of(error)
    if trouble == "open_files":
        return TooManyOpenFiles(str(path))
    if trouble == "busy":
        return LogBusy(str(path.parent), BUSY_SECONDS_MAX)
    if trouble == "full" or (trouble == "failed" and _is_full(path)):
        return DiskFull(str(path))
    return CatalogUnusable(str(path), reason_of(error), damaged=trouble == "damaged")


def _writing_error(error: Error, path: Path) -> HeadwaterError:
    """What the caller should see when the catalog's transaction failed."""
    trouble = trouble_of(error)
    if trouble in ("full", "busy", "damaged", "open_files"):
        return _reading_error(error, path)
    if trouble == "read_only":
        return ReadOnly(str(path.parent))
    return Indeterminate(
        f"The catalog {path} could not say whether the commit happened: {error}.",
        hint="Look at the log's position or at your bookmark before you try again.",
    )


def _is_full(path: Path) -> bool:
    return path.parent.is_dir() and shutil.disk_usage(path.parent).free == 0

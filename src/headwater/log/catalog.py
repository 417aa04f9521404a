"""The catalog: a small SQLite database that holds what is true of a log, while segment files hold the data.

Everything that becomes visible does so when a transaction of the catalog commits, and at no other moment.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

from headwater.errors import CatalogUnusable, DiskFull, LogReplaced, UsageError
from headwater.log.lock import FileLock
from headwater.log.storage import Storage, catalog_error, storage_error

FORMAT = 1
Durability = Literal["fsync", "os"]
WRITE_LOCK_SECONDS_MAX = 30.0

_TABLES = """
CREATE TABLE log (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    format INTEGER NOT NULL,
    commit_number INTEGER NOT NULL,
    committed_at INTEGER NOT NULL,
    topics_version INTEGER NOT NULL,
    bytes_max INTEGER
);
CREATE TABLE topics (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE,
    key TEXT NOT NULL,
    partitions INTEGER NOT NULL,
    event_time TEXT,
    settings TEXT NOT NULL
);
CREATE TABLE dropped (
    name TEXT PRIMARY KEY
) WITHOUT ROWID;
CREATE TABLE schemas (
    topic_id INTEGER NOT NULL,
    version INTEGER NOT NULL,
    arrow BLOB NOT NULL,
    PRIMARY KEY (topic_id, version)
) WITHOUT ROWID;
CREATE TABLE partitions (
    topic_id INTEGER NOT NULL,
    partition INTEGER NOT NULL,
    start_offset INTEGER NOT NULL,
    end_offset INTEGER NOT NULL,
    active_segment INTEGER,
    compacted_commit INTEGER NOT NULL,
    compacted_offset INTEGER NOT NULL,
    deleted_commit INTEGER NOT NULL,
    PRIMARY KEY (topic_id, partition)
) WITHOUT ROWID;
CREATE TABLE segments (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    topic_id INTEGER NOT NULL,
    partition INTEGER NOT NULL,
    base_offset INTEGER NOT NULL,
    end_offset INTEGER NOT NULL,
    first_commit INTEGER NOT NULL,
    last_commit INTEGER NOT NULL,
    first_at INTEGER NOT NULL,
    last_at INTEGER NOT NULL,
    state TEXT NOT NULL,
    file TEXT NOT NULL,
    bytes INTEGER NOT NULL,
    rows INTEGER NOT NULL,
    checksum INTEGER,
    marked INTEGER NOT NULL
);
CREATE INDEX segments_by_offset ON segments (topic_id, partition, end_offset);
CREATE INDEX segments_by_state ON segments (state) WHERE state = 'closed';
CREATE TABLE marks (
    segment_id INTEGER NOT NULL,
    offset INTEGER NOT NULL,
    commit_number INTEGER NOT NULL,
    at INTEGER NOT NULL,
    byte INTEGER NOT NULL,
    PRIMARY KEY (segment_id, offset)
) WITHOUT ROWID;
CREATE TABLE losses (
    topic_id INTEGER NOT NULL,
    partition INTEGER NOT NULL,
    first_offset INTEGER NOT NULL,
    last_offset INTEGER NOT NULL,
    reason TEXT NOT NULL,
    repaired_at INTEGER NOT NULL
);
CREATE TABLE producers (
    name TEXT PRIMARY KEY,
    epoch INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    commit_number INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE bookmarks (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL,
    commit_number INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE groups (
    name TEXT PRIMARY KEY,
    version INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE members (
    group_name TEXT NOT NULL,
    member TEXT NOT NULL,
    topics TEXT NOT NULL,
    boot TEXT NOT NULL,
    lease_until REAL NOT NULL,
    epoch INTEGER NOT NULL,
    PRIMARY KEY (group_name, member)
) WITHOUT ROWID;
CREATE TABLE claims (
    group_name TEXT NOT NULL,
    topic_id INTEGER NOT NULL,
    partition INTEGER NOT NULL,
    member TEXT,
    epoch INTEGER NOT NULL,
    offset INTEGER,
    moved_at INTEGER,
    PRIMARY KEY (group_name, topic_id, partition)
) WITHOUT ROWID;
"""


class Catalog:
    """Connections to one catalog: any number of readers, and one writer at a time over all processes."""

    def __init__(self, directory: Path, storage: Storage, durability: Durability) -> None:
        self.path = directory / "catalog.db"
        self._storage = storage
        self._synchronous = "FULL" if durability == "fsync" else "NORMAL"
        self._lock = FileLock(directory / "write.lock")
        self._local = threading.local()
        self._idle: list[sqlite3.Connection] = []
        self._idle_lock = threading.Lock()
        self._closed, self._pid = False, os.getpid()
        try:
            self._writer = self._connect()
            if not self._is_prepared():
                with self._lock.hold(WRITE_LOCK_SECONDS_MAX):
                    self._prepare()
            self._check_format()
            self._file = self.path.stat().st_ino
        except sqlite3.DatabaseError as error:
            if shutil.disk_usage(self.path.parent).free == 0:
                raise DiskFull(str(self.path)) from error
            damaged = not isinstance(error, sqlite3.OperationalError)
            raise CatalogUnusable(str(self.path), str(error), damaged=damaged) from error

    def check_in_place(self) -> None:
        """Raises `LogReplaced` if the catalog that is open is not the one in the directory any more."""
        try:
            there = self.path.stat().st_ino == self._file
        except FileNotFoundError:
            there = False
        if not there:
            raise LogReplaced(str(self.path.parent))

    @contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """A transaction that alone may write. It commits at the block's end; an exception undoes all of it."""
        with self._lock.hold(WRITE_LOCK_SECONDS_MAX):
            # What is written to a file that was deleted is lost.
            self.check_in_place()
            connection = self._writer
            try:
                self._bury_half_commit()
                connection.execute("BEGIN IMMEDIATE")
                yield connection
                self._commit()
            except sqlite3.Error as error:
                self._roll_back()
                raise catalog_error(error, self.path) from error
            except BaseException:
                self._roll_back()
                raise

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """A transaction that sees one state of the log, however many statements it runs."""
        outer: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if outer is not None:
            yield outer
            return
        connection = self._local.connection = self._borrow()
        try:
            connection.execute("BEGIN")
            yield connection
        finally:
            self._local.connection = None
            if connection.in_transaction:
                connection.execute("COMMIT")
            self._give_back(connection)

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

    def close(self) -> None:
        """Waits for a transaction that writes; one that reads ends by itself."""
        self._lock.close()
        self._writer.close()
        with self._idle_lock:
            self._closed = True
            for connection in self._idle:
                connection.close()
            self._idle.clear()

    def _commit(self) -> None:
        try:
            self._lock.mark(on=True)
        except OSError as error:
            raise storage_error(error, self.path) from error
        self._storage.commit(self._writer)
        # A mark that stays costs the next writer a transaction, and nothing else.
        with suppress(OSError):
            self._lock.mark(on=False)

    def _bury_half_commit(self) -> None:
        """Sees to it that a COMMIT which its process did not live to finish is never found again.

        It may stand in SQLite's log, and nobody sees it; but who opens the catalog after all others are gone reads
        that log anew and takes it for committed. By then its bytes in the segments would have been written over, and
        its files swept. A transaction of our own takes its place in SQLite's log first.
        """
        if self._lock.is_marked:
            self._writer.execute("BEGIN IMMEDIATE")
            self._writer.execute("UPDATE log SET topics_version = topics_version + 1")
            self._commit()

    def _roll_back(self) -> None:
        if self._writer.in_transaction:
            self._writer.execute("ROLLBACK")

    def _borrow(self) -> sqlite3.Connection:
        """A connection that nobody uses. There are as many as were in use at once, however many threads come and go."""
        if self._pid != os.getpid():
            raise UsageError("The log was opened by the parent process.", hint="Open it again in this one.")
        with self._idle_lock:
            if self._closed:
                raise UsageError("The log is closed.", hint="Open it again.")
            if self._idle:
                return self._idle.pop()
        return self._connect()

    def _give_back(self, connection: sqlite3.Connection) -> None:
        with self._idle_lock:
            if not self._closed:
                self._idle.append(connection)
                return
        connection.close()

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False, timeout=10.0)
        connection.execute(f"PRAGMA synchronous={self._synchronous}")
        return connection

    def _is_prepared(self) -> bool:
        count: int = self._writer.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        return count > 0

    def _prepare(self) -> None:
        if not self._is_prepared():
            if any((self.path.parent / "topics").glob("*/*/*")):
                # A new catalog would name none of these files, and upkeep would take them for left-overs.
                raise CatalogUnusable(str(self.path), "it is empty, and there are segments", damaged=True)
            self._writer.execute("PRAGMA journal_mode=WAL")
            self._writer.executescript(f"BEGIN; {_TABLES} INSERT INTO log VALUES (1, {FORMAT}, 0, 0, 0, NULL); COMMIT;")
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

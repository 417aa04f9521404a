"""The SQLite database of a pipeline's store: its tables, and transactions whose failures say what to do next."""

from __future__ import annotations

import os
import shutil
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headwater.engine.failures import StoreBusy, StoreUnusable
from headwater.errors import DiskFull, ExternalError, Indeterminate, UsageError
from headwater.log.lock import FileLock
from headwater.log.storage import Storage, storage_error

FORMAT = 1
BUSY_SECONDS_MAX = 30.0
NAME = "store.db"

_DAMAGED = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})

_TABLES = """
CREATE TABLE pipeline (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    format INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    collected_at INTEGER NOT NULL
);
CREATE TABLE generations (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    fingerprint TEXT NOT NULL,
    definition TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('building', 'current', 'retired')),
    batch INTEGER NOT NULL,
    position INTEGER NOT NULL,
    promoted_batch INTEGER,
    promoted_position INTEGER,
    created_at INTEGER NOT NULL,
    retired_at INTEGER
);
CREATE UNIQUE INDEX one_current_generation ON generations (status) WHERE status = 'current';
CREATE TABLE runs (
    generation INTEGER NOT NULL,
    arrangement TEXT NOT NULL,
    file TEXT NOT NULL,
    section INTEGER NOT NULL,
    low INTEGER NOT NULL,
    high INTEGER NOT NULL,
    rows INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    PRIMARY KEY (generation, arrangement, file, section, low)
) WITHOUT ROWID;
CREATE TABLE published (
    generation INTEGER NOT NULL,
    batch INTEGER NOT NULL,
    position INTEGER NOT NULL,
    published_at INTEGER NOT NULL,
    stats TEXT NOT NULL,
    PRIMARY KEY (generation, batch)
) WITHOUT ROWID;
CREATE TABLE changes (
    generation INTEGER NOT NULL,
    view TEXT NOT NULL,
    batch INTEGER NOT NULL,
    number INTEGER NOT NULL,
    position INTEGER NOT NULL,
    run TEXT NOT NULL,
    file TEXT NOT NULL,
    PRIMARY KEY (generation, view, batch, number)
) WITHOUT ROWID;
CREATE TABLE forgotten (
    generation INTEGER NOT NULL,
    view TEXT NOT NULL,
    position INTEGER NOT NULL,
    PRIMARY KEY (generation, view)
) WITHOUT ROWID;
CREATE TABLE excluded (
    generation INTEGER NOT NULL,
    view TEXT NOT NULL,
    topic TEXT NOT NULL,
    partition INTEGER NOT NULL,
    offset INTEGER NOT NULL,
    reason TEXT NOT NULL,
    PRIMARY KEY (generation, view, topic, partition, offset)
) WITHOUT ROWID;
"""


class Database:
    """One connection to the store. Threads take turns; processes do, too, but only those that write."""

    def __init__(self, directory: Path, storage: Storage, *, create: bool = True) -> None:
        self.path = directory / NAME
        self._storage = storage
        self._turn = threading.RLock()
        self._pid = os.getpid()
        self._closed = False
        try:
            if create:
                self._create()
            self._connection = self._connect()
            self._check_format()
        except sqlite3.Error as error:
            raise unusable(error, self.path) from error

    @contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """A transaction that alone may write. It commits at the block's end; an exception undoes all of it."""
        with self._turn:
            self._check_usable()
            connection = self._connection
            try:
                connection.execute("BEGIN IMMEDIATE")
                yield connection
                self._storage.commit(connection)
            except sqlite3.Error as error:
                self._roll_back()
                raise store_error(error, self.path) from error
            except BaseException:
                self._roll_back()
                raise

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """A transaction that sees one state of the store, however many statements it runs."""
        with self._turn:
            self._check_usable()
            try:
                self._connection.execute("BEGIN")
                yield self._connection
            except sqlite3.Error as error:
                raise unusable(error, self.path) from error
            finally:
                self._roll_back()

    def version(self) -> int:
        """A number that is another one whenever somebody else has committed since it was asked for."""
        with self._turn:
            self._check_usable()
            try:
                return int(self._connection.execute("PRAGMA data_version").fetchone()[0])
            except sqlite3.Error as error:
                raise unusable(error, self.path) from error

    def close(self) -> None:
        with self._turn:
            if not self._closed and self._pid == os.getpid():
                self._connection.close()
            self._closed = True

    def _check_usable(self) -> None:
        if self._closed:
            raise UsageError("The store is closed.", hint="Open it again.")
        if self._pid != os.getpid():
            raise UsageError("The store was opened by the parent process.", hint="Open it again in this one.")

    def _roll_back(self) -> None:
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def _connect(self) -> sqlite3.Connection:
        address = f"{self.path.absolute().as_uri()}?mode=rw"
        connection = sqlite3.connect(
            address, uri=True, isolation_level=None, check_same_thread=False, timeout=BUSY_SECONDS_MAX
        )
        connection.execute("PRAGMA synchronous=FULL")
        return connection

    def _create(self) -> None:
        if is_prepared(self.path):
            return
        lock = FileLock(self.path.with_suffix(".lock"))
        try:
            with lock.hold(BUSY_SECONDS_MAX):
                self._prepare()
        finally:
            lock.close()

    def _prepare(self) -> None:
        connection = sqlite3.connect(self.path, isolation_level=None)
        try:
            connection.execute("PRAGMA synchronous=FULL")
            if connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0:
                connection.execute("PRAGMA journal_mode=WAL")
                connection.executescript(f"BEGIN; {_TABLES} INSERT INTO pipeline VALUES (1, {FORMAT}, 0, 0); COMMIT;")
                self._storage.sync_directory(self.path.parent)
        except OSError as error:
            raise storage_error(error, self.path) from error
        finally:
            connection.close()

    def _check_format(self) -> None:
        found = self._connection.execute("SELECT format FROM pipeline").fetchone()[0]
        if found != FORMAT:
            raise UsageError(
                f"The store in {self.path.parent} has format {found}; this version reads format {FORMAT}.",
                hint="Delete the pipeline's state: the next run rebuilds it from the log.",
            )


def is_prepared(path: Path) -> bool:
    """Whether there is a database with its tables, rather than none or one that is being made."""
    if not path.exists():
        return False
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True, timeout=BUSY_SECONDS_MAX)
    try:
        return int(connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]) > 0
    except sqlite3.Error as error:
        raise unusable(error, path) from error
    finally:
        connection.close()


def store_error(error: sqlite3.Error, path: Path) -> ExternalError:
    """What the caller should see when a transaction that writes failed."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_FULL:
        return DiskFull(str(path))
    if code == sqlite3.SQLITE_BUSY:
        return StoreBusy(str(path), BUSY_SECONDS_MAX)
    if code in _DAMAGED:
        return unusable(error, path)
    return Indeterminate(
        f"The store {path} could not say whether the batch was published: {error}.",
        hint="Open the store again: its last batch tells.",
    )


def unusable(error: sqlite3.Error, path: Path) -> ExternalError:
    """What the caller should see when the store can not be read."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_BUSY:
        return StoreBusy(str(path), BUSY_SECONDS_MAX)
    if path.parent.is_dir() and shutil.disk_usage(path.parent).free == 0:
        return DiskFull(str(path))
    return StoreUnusable(str(path), str(error), damaged=code in _DAMAGED)

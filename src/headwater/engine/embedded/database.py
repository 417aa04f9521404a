"""The SQLite database of a store in a directory, and transactions whose failures say what to do next."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

from headwater.engine.relational.database import BUSY_SECONDS_MAX, FORMAT, Database, schema
from headwater.errors import (
    DiskFull,
    HeadwaterError,
    Indeterminate,
    StoreBusy,
    StoreOutdated,
    StoreUnusable,
    TooManyOpenFiles,
    UsageError,
)
from headwater.system.checkpoints import Checkpoints
from headwater.system.lock import FileLock
from headwater.system.pages import BadPage, damaged_frames, damaged_pages
from headwater.system.sqlite import (
    Connection,
    Error,
    Mode,
    connect,
    create_tables,
    has_tables,
    is_verified,
    reason_of,
    trouble_of,
)  # fmt: skip
from headwater.system.storage import Storage, storage_error
from headwater.system.witness import Witness

NAME, WITNESS = "store.db", "store.witness"
FILES = (NAME, f"{NAME}-wal", f"{NAME}-shm", WITNESS)
"""All files of the database."""

_IDENTITY = "INTEGER PRIMARY KEY AUTOINCREMENT"


class SqliteDatabase(Database):
    """One connection to the store. Threads take turns; processes do, too, but only those that write.

    As in the log's catalog, every transaction that changes something counts up a version, and a witness is told.
    """

    def __init__(self, directory: Path, storage: Storage, *, create: bool = True) -> None:
        self.path = directory / NAME
        self._storage = storage
        self._turn = threading.RLock()
        self._pid = os.getpid()
        self._closed = False
        self._witness = Witness(directory / WITNESS)
        try:
            if create:
                self._create()
            with ExitStack() as undo:
                self._connection = undo.enter_context(closing(_connect(self.path)))
                self._checkpoints = Checkpoints(self.path, self._connection)
                self._check()
                undo.pop_all()
        except Error as error:
            raise unusable(error, self.path) from error

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """A transaction that alone may write. It commits at the block's end; an exception undoes all of it."""
        with self._turn:
            self._check_usable()
            connection, version = self._connection, None
            try:
                connection.execute("BEGIN IMMEDIATE")
                changes = connection.total_changes()
                yield connection
                if connection.total_changes() != changes:
                    version = _count_up(connection)
                self._storage.commit(connection)
            except Error as error:
                self._roll_back()
                raise store_error(error, self.path) from error
            except BaseException:
                self._roll_back()
                raise
            if version is not None:
                # An older witness knows less, and nothing wrong.
                with suppress(OSError):
                    self._witness.note(version)
                self._checkpoints.run_if_due()

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A transaction that sees one state of the store, however many statements it runs."""
        with self._turn:
            self._check_usable()
            try:
                self._connection.execute("BEGIN")
                yield self._connection
            except Error as error:
                raise unusable(error, self.path) from error
            finally:
                self._roll_back()

    def version(self) -> int:
        """A number that is another one whenever somebody else has committed since it was asked for."""
        with self._turn:
            self._check_usable()
            try:
                return int(self._connection.execute("PRAGMA data_version").fetchone()[0])
            except Error as error:
                raise unusable(error, self.path) from error

    def check(self) -> None:
        """Looks at every page. Raises `StoreUnusable` for one that is damaged, also if nothing would read it now."""
        for place, reason in self.damages():
            if place != WITNESS:
                raise StoreUnusable(str(self.path), f"{place}: {reason}", damaged=True)

    def damages(self) -> list[BadPage]:
        """Every page of the database and of its write-ahead log that is not as it was written, used or free."""
        with self._turn:
            self._check_usable()
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                found = _damages(self.path)
                # Nobody commits now, but somebody may be copying pages out of the log.
                return found and _damages(self.path)
            except Error as error:
                raise unusable(error, self.path) from error
            finally:
                self._roll_back()

    def close(self) -> None:
        with self._turn:
            if not self._closed and self._pid == os.getpid():
                self._checkpoints.close()
                self._witness.close()
            self._closed = True

    def _check_usable(self) -> None:
        if self._closed:
            raise UsageError("The store is closed.", hint="Open it again.")
        if self._pid != os.getpid():
            raise UsageError("The store was opened by the parent process.", hint="Open it again in this one.")
        damage = self._checkpoints.damage
        if damage is not None:
            raise StoreUnusable(str(self.path), f"{damage.place}: {damage.reason}", damaged=True)

    def _roll_back(self) -> None:
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

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
        connection = _connect(self.path, "create")
        try:
            if not has_tables(connection):
                create_tables(connection, schema(_IDENTITY, "WITHOUT ROWID"))
                self._storage.sync_directory(self.path.parent)
                # The store that was here before, if any, was removed: its witness says nothing about this one.
                self._witness.note(1)
        except OSError as error:
            raise storage_error(error, self.path) from error
        finally:
            connection.close()

    def _check(self) -> None:
        # Before the store is looked at: it may be moved on by others meanwhile.
        known = self._witness.version()
        found = self._connection.execute("SELECT format FROM pipeline").fetchone()[0]
        if found != FORMAT:
            raise StoreOutdated(str(self.path), found, FORMAT)
        if not is_verified(self._connection):
            raise StoreUnusable(str(self.path), "its header does not ask for checksums", damaged=True)
        version = self._connection.execute("SELECT version FROM pipeline").fetchone()[0]
        if version < known:
            reason = f"it is at version {version}, and has been at {known}: commits are missing"
            raise StoreUnusable(str(self.path), reason, damaged=True)


def is_prepared(path: Path) -> bool:
    """Whether there is a database with its tables, rather than none or one that is being made.

    Raises `StoreUnusable` if it is empty and has been in use.
    """
    if not path.exists():
        return False
    known = Witness(path.parent / WITNESS).version()
    try:
        with closing(_connect(path)) as connection:
            prepared = has_tables(connection)
    except Error as error:
        raise unusable(error, path) from error
    if known and not prepared:
        raise StoreUnusable(str(path), "it is empty, and has been in use", damaged=True)
    return prepared


def _connect(path: Path, mode: Mode = "write") -> Connection:
    return connect(path, mode=mode, busy_seconds=BUSY_SECONDS_MAX)


def _count_up(tx: Connection) -> int:
    (version,) = tx.execute("UPDATE pipeline SET version = version + 1 RETURNING version").fetchall()[0]
    return int(version)


def _damages(path: Path) -> list[BadPage]:
    found = [*damaged_pages(path), *damaged_frames(path)]
    if Witness(path.parent / WITNESS).is_damaged():
        found.append(BadPage(WITNESS, "it does not match its checksum; the next commit writes it again"))
    return found


def store_error(error: Error, path: Path) -> HeadwaterError:
    """What the caller should see when a transaction that writes failed."""
    if trouble_of(error) != "failed":
        return unusable(error, path)
    return Indeterminate(
        f"The store {path} could not say whether the batch was published: {reason_of(error)}.",
        hint="Open the store again: its last batch shows whether it was.",
    )


def unusable(error: Error, path: Path) -> HeadwaterError:
    """What the caller should see when the store cannot be read."""
    trouble = trouble_of(error)
    if trouble == "busy":
        return StoreBusy(str(path), BUSY_SECONDS_MAX)
    if trouble == "open_files":
        return TooManyOpenFiles(str(path))
    if trouble == "full" or (trouble == "failed" and _is_full(path)):
        return DiskFull(str(path))
    return StoreUnusable(str(path), reason_of(error), damaged=trouble == "damaged")


def _is_full(path: Path) -> bool:
    return path.parent.is_dir() and shutil.disk_usage(path.parent).free == 0

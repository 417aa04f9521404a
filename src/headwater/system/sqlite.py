"""SQLite databases in which every page carries a checksum, which is verified whenever the page is read.

The checksums are those of SQLite's checksum VFS: eight bytes at the end of each page. In the write-ahead log a page has
none; there SQLite keeps a checksum per frame and verifies it when it opens the log (`pages.py` does so at other times).
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Literal, Protocol, cast

import apsw
import apsw.sqlite_extra

from headwater.system.files import note_closed, note_open

VFS = "cksmvfs"
SQLITE_FULL, SQLITE_IOERR, SQLITE_IOERR_FSYNC = apsw.SQLITE_FULL, apsw.SQLITE_IOERR, apsw.SQLITE_IOERR_FSYNC
"""Result codes that tests let a COMMIT fail with."""

CHECKSUM_BYTES = 8
"""The bytes at the end of each page that hold its checksum."""


class Rows(Protocol):
    """What a statement has found."""

    def fetchone(self) -> Any:
        """The next row as a tuple, None behind the last."""

    def fetchall(self) -> list[Any]:
        """All rows that are left."""

    def __iter__(self) -> Iterator[Any]: ...


class Connection(Protocol):
    """A connection; between BEGIN and COMMIT it is the transaction."""

    def execute(self, statements: str, values: Sequence[object] = ..., /) -> Rows:
        """Runs statements, each question mark in them being one of the values."""

    def executemany(self, statement: str, rows: Iterable[Sequence[object]], /) -> Rows:
        """Runs a statement with the values of each row."""

    def changes(self) -> int:
        """How many rows the last statement has changed."""

    def total_changes(self) -> int:
        """How many rows all statements have changed."""

    def last_insert_rowid(self) -> int:
        """The id that the last row got."""

    @property
    def in_transaction(self) -> bool:
        """Whether there was a BEGIN, and no COMMIT or ROLLBACK yet."""

    def close(self) -> None: ...


Error = apsw.Error
ConstraintError = apsw.ConstraintError

Mode = Literal["create", "write", "read"]
Journal = Literal["WAL", "DELETE"]
Synchronous = Literal["FULL", "NORMAL"]
Trouble = Literal["full", "busy", "damaged", "open_files", "read_only", "failed"]
"""Why a statement failed, by what there is to do about it."""

_FLAGS = {
    "create": apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE,
    "write": apsw.SQLITE_OPEN_READWRITE,
    "read": apsw.SQLITE_OPEN_READONLY,
}
_TROUBLES: dict[int, Trouble] = {
    apsw.SQLITE_FULL: "full",
    apsw.SQLITE_BUSY: "busy",
    apsw.SQLITE_LOCKED: "busy",
    apsw.SQLITE_CORRUPT: "damaged",
    apsw.SQLITE_NOTADB: "damaged",
    apsw.SQLITE_READONLY: "read_only",
}
_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE})

with closing(apsw.Connection(":memory:")) as _loader:
    # The VFS stays for as long as the process lives.
    apsw.sqlite_extra.load(_loader, "cksumvfs")


class _Counted(apsw.Connection):
    """A connection that is known while it is open: see `files.py`."""

    def __init__(self, path: Path, flags: int) -> None:
        self._path: Path | None = None
        note_open(path)
        try:
            super().__init__(str(path), flags=flags, vfs=VFS)
        except BaseException:
            note_closed(path)
            raise
        self._path = path

    def close(self, force: bool = False) -> None:  # noqa: FBT001, FBT002 - as apsw has it
        super().close(force)
        path, self._path = self._path, None
        if path is not None:
            note_closed(path)


def connect(
    path: Path, *, mode: Mode = "create", synchronous: Synchronous = "FULL", busy_seconds: float = 10.0
) -> Connection:
    """Opens a database. It may be handed from thread to thread, but not to a child process.

    Closing it leaves the write-ahead log as it is: see `Checkpoints`.
    """
    connection = _Counted(path, _FLAGS[mode])
    try:
        connection.set_busy_timeout(round(busy_seconds * 1000))
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        connection.execute(f"PRAGMA synchronous={synchronous}")
    except BaseException:
        connection.close()
        raise
    return cast(Connection, connection)


def driver(connection: Connection) -> apsw.Connection:
    """The connection with everything that SQLite can do; for this package."""
    return cast(apsw.Connection, connection)


def create_tables(connection: Connection, script: str, *, journal: Journal = "WAL") -> None:
    """Turns an empty file into a database with checksums, and runs the script in it."""
    driver(connection).reserve_bytes(reserve=CHECKSUM_BYTES)
    connection.execute(f"PRAGMA journal_mode={journal}")
    connection.execute(f"BEGIN; {script} COMMIT;")


def has_tables(connection: Connection) -> bool:
    """Whether there is anything in the database."""
    return int(connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]) > 0


def is_verified(connection: Connection) -> bool:
    """Whether pages that are read are verified: not if the database's header says that they have no checksum."""
    return bool(int(connection.execute("PRAGMA checksum_verification").fetchone()[0]))


def trouble_of(error: Error) -> Trouble:
    """Why a statement failed."""
    if _code(error) == apsw.SQLITE_IOERR_DATA:
        return "damaged"
    kind = _code(error) & 0xFF
    if kind in (apsw.SQLITE_CANTOPEN, apsw.SQLITE_IOERR) and _files_are_exhausted():
        return "open_files"
    return _TROUBLES.get(kind, "failed")


def reason_of(error: Error) -> str:
    """What went wrong, in words."""
    if _code(error) == apsw.SQLITE_IOERR_DATA:
        return "a page does not match its checksum"
    return str(error)


def error_of(code: int) -> Error:
    """The error that SQLite raises for a result code: for tests in which it does."""
    error = apsw.exception_for(code)
    assert isinstance(error, Error)
    return error


def _code(error: Error) -> int:
    """SQLite's extended result code; 0 for what the driver itself refuses."""
    return int(getattr(error, "extendedresult", 0))


def _files_are_exhausted() -> bool:
    # SQLite says only that it could not open a file, not why.
    try:
        os.close(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    except OSError as error:
        return error.errno in _EXHAUSTED
    return False

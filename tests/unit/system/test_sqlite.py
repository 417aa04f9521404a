"""Databases verify what they read, and say why something failed."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from headwater.system.sqlite import (
    SQLITE_FULL,
    SQLITE_IOERR,
    Connection,
    Error,
    connect,
    create_tables,
    error_of,
    has_tables,
    is_verified,
    reason_of,
    trouble_of,
)  # fmt: skip

PAGE = 4096


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A database of a few pages with everything in them."""
    path = tmp_path / "a.db"
    with closing(connect(path)) as connection:
        create_tables(connection, "CREATE TABLE t (id INTEGER PRIMARY KEY, text TEXT);")
        connection.executemany("INSERT INTO t VALUES (?, ?)", [(number, "x" * 100) for number in range(100)])
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return path


@pytest.fixture
def connection(path: Path) -> Iterator[Connection]:
    with closing(connect(path)) as connection:
        yield connection


def flip(path: Path, byte: int, bit: int = 0) -> None:
    content = bytearray(path.read_bytes())
    content[byte] ^= 1 << bit
    path.write_bytes(content)


def test_pages_are_verified(connection: Connection) -> None:
    assert is_verified(connection)
    assert connection.execute("SELECT count(*) FROM t").fetchone() == (100,)


@pytest.mark.parametrize("byte", [100, PAGE + 700, 2 * PAGE + 4000])
def test_a_flipped_bit_is_damage(path: Path, byte: int) -> None:
    flip(path, byte)
    with pytest.raises(Error) as raised, closing(connect(path)) as connection:
        connection.execute("SELECT text FROM t").fetchall()
    assert trouble_of(raised.value) == "damaged"
    assert reason_of(raised.value) == "a page does not match its checksum"


def test_a_header_that_does_not_ask_for_checksums_is_seen(path: Path) -> None:
    flip(path, 20, 3)
    with closing(connect(path)) as connection:
        has_tables(connection)
        assert not is_verified(connection)


def test_what_is_no_database_is_damage(tmp_path: Path) -> None:
    (tmp_path / "a.db").write_bytes(b"nonsense" * 1000)
    with pytest.raises(Error) as raised, closing(connect(tmp_path / "a.db")) as connection:
        has_tables(connection)
    assert trouble_of(raised.value) == "damaged"


def test_a_database_that_is_missing_is_made_only_if_asked(tmp_path: Path) -> None:
    with pytest.raises(Error) as raised:
        connect(tmp_path / "a.db", mode="write")
    assert trouble_of(raised.value) == "failed"
    assert list(tmp_path.iterdir()) == []


def test_a_database_that_is_only_read_can_not_be_written(path: Path) -> None:
    with closing(connect(path, mode="read")) as connection, pytest.raises(Error) as raised:
        connection.execute("DELETE FROM t")
    assert trouble_of(raised.value) == "read_only"


def test_a_database_that_somebody_writes_to_is_busy(connection: Connection, path: Path) -> None:
    connection.execute("BEGIN IMMEDIATE")
    with closing(connect(path, busy_seconds=0)) as other, pytest.raises(Error) as raised:
        other.execute("BEGIN IMMEDIATE")
    assert trouble_of(raised.value) == "busy"


def test_too_many_open_files_are_told_from_a_file_that_can_not_be_opened(path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = os.open(os.devnull, os.O_RDONLY)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (taken + 1, hard))
        with pytest.raises(Error) as raised:
            connect(path)
        trouble = trouble_of(raised.value)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        os.close(taken)
    assert trouble == "open_files"


def test_errors_have_a_kind() -> None:
    assert trouble_of(error_of(SQLITE_FULL)) == "full"
    assert trouble_of(error_of(SQLITE_IOERR)) == "failed"

"""A write-ahead log is copied into its database when it is long, and only while it is what was written."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from headwater.system import checkpoints as checkpoints_module
from headwater.system.checkpoints import Checkpoints
from headwater.system.sqlite import Connection, connect, create_tables


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.db"


@pytest.fixture
def connection(path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Connection]:
    monkeypatch.setattr(checkpoints_module, "FRAMES_MAX", 10)
    with closing(connect(path)) as connection:
        create_tables(connection, "CREATE TABLE t (id INTEGER PRIMARY KEY);")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        yield connection


def insert(connection: Connection, numbers: range) -> None:
    for number in numbers:
        connection.execute("INSERT INTO t VALUES (?)", (number,))


def in_pages(path: Path) -> int:
    """How many rows have reached the database itself."""
    copy = path.with_name("copy.db")
    shutil.copyfile(path, copy)
    with closing(connect(copy)) as other:
        return int(other.execute("SELECT count(*) FROM t").fetchone()[0])


def damage(path: Path) -> None:
    log = Path(f"{path}-wal")
    content = bytearray(log.read_bytes())
    content[5000] ^= 1
    with log.open("r+b") as file:
        file.write(content)


def test_a_long_log_is_copied(connection: Connection, path: Path) -> None:
    checkpoints = Checkpoints(path, connection)
    insert(connection, range(5))
    checkpoints.run_if_due()
    assert in_pages(path) == 0
    insert(connection, range(5, 20))
    checkpoints.run_if_due()
    assert in_pages(path) == 20


def test_a_damaged_log_is_not_made_to_look_sound(connection: Connection, path: Path) -> None:
    checkpoints = Checkpoints(path, connection)
    insert(connection, range(20))
    damage(path)
    checkpoints.run_if_due()
    assert checkpoints.damage is not None
    assert in_pages(path) == 0
    checkpoints.close()
    assert in_pages(path) == 0
    assert Path(f"{path}-wal").exists()


def test_the_last_one_to_write_leaves_no_log(connection: Connection, path: Path) -> None:
    checkpoints = Checkpoints(path, connection)
    insert(connection, range(5))
    checkpoints.close()
    assert not Path(f"{path}-wal").exists()
    assert in_pages(path) == 5


def test_who_only_reads_leaves_the_log_as_it_is(connection: Connection, path: Path) -> None:
    insert(connection, range(5))
    connection.close()
    other = connect(path)
    checkpoints = Checkpoints(path, other)
    assert other.execute("SELECT count(*) FROM t").fetchone() == (5,)
    checkpoints.close()
    assert in_pages(path) == 0
    assert Path(f"{path}-wal").exists()

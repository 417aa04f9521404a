"""Reading a database's files takes no lock away from the connections of this process."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from headwater.system.files import read_file
from headwater.system.pages import damaged_frames, damaged_pages
from headwater.system.sqlite import Error, connect, create_tables

ANOTHER = """
import sys
from pathlib import Path
from headwater.system.sqlite import Error, connect, trouble_of

connection = connect(Path(sys.argv[1]), mode="write", busy_seconds=0.0)
try:
    connection.execute("BEGIN IMMEDIATE")
except Error as error:
    print(trouble_of(error))
else:
    print("has the lock")
"""


def another(path: Path) -> str:
    """What a process hears that wants to write."""
    done = subprocess.run([sys.executable, "-c", ANOTHER, path], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def filled(path: Path) -> None:
    with closing(connect(path)) as connection:
        create_tables(connection, "CREATE TABLE t (a INTEGER);")
        connection.execute("INSERT INTO t VALUES (1)")


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_a_lock_is_kept_while_pages_and_frames_are_verified(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    filled(path)
    with closing(connect(path)) as connection, closing(connect(path)) as other:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO t VALUES (2)")
        assert list(damaged_pages(path)) == []
        assert list(damaged_frames(path)) == []
        assert another(path) == "busy"
        other.close()
        assert another(path) == "busy"
        connection.execute("COMMIT")
        assert another(path) == "has the lock"
        assert connection.execute("SELECT count(*) FROM t").fetchone() == (2,)


def test_nothing_stays_open_when_the_last_connection_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    filled(path)
    before = descriptors()
    with closing(connect(path)), closing(connect(path)):
        for _ in range(3):
            assert list(damaged_pages(path)) == []
            assert list(damaged_frames(path)) == []
    assert descriptors() == before


def test_without_a_connection_nothing_stays_open(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    filled(path)
    before = descriptors()
    assert read_file(path, path)[:6] == b"SQLite"
    assert descriptors() == before


def test_a_connection_that_cannot_be_opened_counts_for_nothing(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    filled(path)
    before = descriptors()
    for _ in range(2):
        with pytest.raises(Error):
            connect(tmp_path / "missing" / "store.db")
    with closing(connect(path)):
        assert list(damaged_pages(path)) == []
    assert descriptors() == before

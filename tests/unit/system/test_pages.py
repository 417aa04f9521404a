"""Every bit of a database and of its write-ahead log counts, also in pages that nothing uses."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from headwater.system.pages import damaged_frames, damaged_pages
from headwater.system.sqlite import Connection, connect, create_tables
from headwater.testing.disk import seeded

PAGE, FRAME, HEADER = 4096, 4120, 32


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.db"


@pytest.fixture
def connection(path: Path) -> Iterator[Connection]:
    """A database with free pages, and some commits in its write-ahead log."""
    with closing(connect(path)) as connection:
        create_tables(connection, "CREATE TABLE t (id INTEGER PRIMARY KEY, text TEXT); CREATE TABLE u (x BLOB);")
        connection.execute("INSERT INTO u VALUES (randomblob(30000))")
        connection.execute("DELETE FROM u")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        for number in range(5):
            connection.execute("INSERT INTO t VALUES (?, ?)", (number, f"text {number}"))
        yield connection


def flipped(path: Path, bit: int) -> None:
    with path.open("r+b") as file:
        file.seek(bit // 8)
        byte = file.read(1)[0]
        file.seek(bit // 8)
        file.write(bytes([byte ^ 1 << bit % 8]))


def test_nothing_is_wrong_with_what_was_written(connection: Connection, path: Path) -> None:
    assert list(damaged_pages(path)) == []
    assert list(damaged_frames(path)) == []


def test_a_flip_in_any_page_is_found(connection: Connection, path: Path) -> None:
    pages = path.stat().st_size // PAGE
    assert pages > 8, "there are free pages"
    for page in range(pages):
        bit = 8 * PAGE * page + seeded(page).randrange(8 * PAGE)
        flipped(path, bit)
        assert f"page {page + 1}" in [place for place, _ in damaged_pages(path)]
        flipped(path, bit)


def test_a_flip_in_any_frame_is_found(connection: Connection, path: Path) -> None:
    log = Path(f"{path}-wal")
    frames = (log.stat().st_size - HEADER) // FRAME
    assert frames >= 5
    for frame in range(frames):
        bit = 8 * (HEADER + FRAME * frame) + seeded(frame).randrange(8 * FRAME)
        flipped(log, bit)
        assert f"frame {frame + 1} of the write-ahead log" in [place for place, _ in damaged_frames(path)]
        flipped(log, bit)
    assert list(damaged_frames(path)) == []


@pytest.mark.parametrize("byte", range(HEADER))
def test_a_flip_in_the_header_of_the_log_is_found(connection: Connection, path: Path, byte: int) -> None:
    flipped(Path(f"{path}-wal"), 8 * byte + byte % 8)
    assert [place for place, _ in damaged_frames(path)] == ["the header of the write-ahead log"]


def test_a_log_that_was_cut_short_is_found(connection: Connection, path: Path) -> None:
    log = Path(f"{path}-wal")
    log.write_bytes(log.read_bytes()[:-1])
    assert [place for place, _ in damaged_frames(path)] == ["the write-ahead log"]


def test_a_file_that_was_cut_short_is_found(connection: Connection, path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])
    assert [place for place, _ in damaged_pages(path)] == ["the file"]

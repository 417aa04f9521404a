"""The storages that fail do so exactly as they are told."""

from __future__ import annotations

import errno
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.system.sqlite import SQLITE_FULL, SQLITE_IOERR_FSYNC, Error, connect, error_of
from headwater.system.storage import Storage
from headwater.testing.disk import EVERYTHING, NOTHING_UNSYNCED, torn
from headwater.testing.storage import FailingStorage, Failure, PowerCut, PowerCutStorage


def write(storage: Storage, path: Path, content: bytes, *, sync: bool, position: int = 0) -> None:
    fd = storage.open(path)
    storage.write(fd, path, position, [content])
    if sync:
        storage.sync(fd, path)
    storage.close(fd)


class TestFailing:
    @pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
    @pytest.mark.parametrize("reported", [True, False])
    @pytest.mark.parametrize("happened", [True, False])
    def test_a_write_fails_in_all_four_ways(self, tmp_path: Path, happened: bool, reported: bool, error: int) -> None:
        storage = FailingStorage(Failure(happened, reported, error), at=0, only="write")
        path = tmp_path / "file"
        if reported:
            with pytest.raises(OSError, match=str(path)) as raised:
                write(storage, path, b"content", sync=False)
            assert raised.value.errno == error
        else:
            write(storage, path, b"content", sync=False)
        assert path.read_bytes() == (b"content" if happened else b"")
        assert storage.failed == [("write", path)]

    def test_only_the_chosen_operation_fails(self, tmp_path: Path) -> None:
        storage = FailingStorage(Failure(), at=2)
        with pytest.raises(OSError, match="Input/output error"):
            write(storage, tmp_path / "file", b"content", sync=True)
        assert storage.operations == ["open", "write", "sync"]
        write(storage, tmp_path / "file", b"content", sync=True)

    def test_a_full_disk_stays_full_until_there_is_room(self, tmp_path: Path) -> None:
        storage = FailingStorage(Failure(error=errno.ENOSPC), at=0, times=1000, only="write")
        for _ in range(3):
            with pytest.raises(OSError, match="No space left"):
                write(storage, tmp_path / "file", b"content", sync=False)
        storage.heal()
        write(storage, tmp_path / "file", b"content", sync=False)

    @pytest.mark.parametrize(
        ("failure", "code", "rows"),
        [
            (Failure(happened=False, error=errno.ENOSPC), SQLITE_FULL, 0),
            (Failure(happened=False, error=errno.EIO), SQLITE_IOERR_FSYNC, 0),
            (Failure(happened=True, error=errno.EIO), SQLITE_IOERR_FSYNC, 1),
        ],
    )
    def test_a_commit_fails_as_sqlite_does(self, failure: Failure, code: int, rows: int) -> None:
        connection = connect(Path(":memory:"))
        connection.execute("CREATE TABLE t (x)")
        connection.execute("BEGIN")
        connection.execute("INSERT INTO t VALUES (1)")
        with pytest.raises(Error) as raised:
            FailingStorage(failure, at=0).commit(connection)
        assert str(raised.value) == str(error_of(code))
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        assert connection.execute("SELECT count(*) FROM t").fetchone() == (rows,)
        connection.close()


@pytest.fixture
def storage(tmp_path: Path) -> PowerCutStorage:
    directory = tmp_path / "log"
    storage = PowerCutStorage(directory)
    storage.make_directory(directory)
    storage.sync_directory(tmp_path)
    return storage


def images(storage: PowerCutStorage, tmp_path: Path, name: str) -> set[bytes | None]:
    """What a file may hold after a cut, over many seeds; None where it may be missing."""
    found: set[bytes | None] = set()
    for seed in range(60):
        image = tmp_path / f"image-{seed}"
        assert storage.image(image, seed)
        found.add((image / name).read_bytes() if (image / name).exists() else None)
    return found


class TestPowerCut:
    def test_synced_bytes_with_a_synced_name_are_there(self, storage: PowerCutStorage, tmp_path: Path) -> None:
        write(storage, tmp_path / "log" / "file", b"content", sync=True)
        storage.sync_directory(tmp_path / "log")
        assert images(storage, tmp_path, "file") == {b"content"}

    def test_a_name_that_was_not_synced_may_be_missing(self, storage: PowerCutStorage, tmp_path: Path) -> None:
        write(storage, tmp_path / "log" / "file", b"content", sync=True)
        assert images(storage, tmp_path, "file") == {b"content", None}

    def test_bytes_that_were_not_synced_may_be_anything(self, storage: PowerCutStorage, tmp_path: Path) -> None:
        path = tmp_path / "log" / "file"
        write(storage, path, b"synced", sync=True)
        storage.sync_directory(tmp_path / "log")
        write(storage, path, b" and not", sync=False, position=6)
        found = images(storage, tmp_path, "file")
        assert {b"synced", b"synced and not"} < found
        assert all(content is not None and content.startswith(b"synced") for content in found)
        assert any(content is not None and not b"synced and not".startswith(content) for content in found), "torn"

    def test_what_was_cut_off_may_be_back(self, storage: PowerCutStorage, tmp_path: Path) -> None:
        path = tmp_path / "log" / "file"
        write(storage, path, b"content", sync=True)
        storage.sync_directory(tmp_path / "log")
        fd = storage.open(path)
        storage.truncate(fd, path, 3)
        assert images(storage, tmp_path, "file") == {b"content", b"con"}
        storage.close(fd)

    def test_a_file_that_was_removed_may_be_back(self, storage: PowerCutStorage, tmp_path: Path) -> None:
        path = tmp_path / "log" / "file"
        write(storage, path, b"content", sync=True)
        storage.sync_directory(tmp_path / "log")
        storage.remove(path)
        assert images(storage, tmp_path, "file") == {b"content", None}

    def test_one_whose_directory_was_synced_since_is_gone(self, storage: PowerCutStorage, tmp_path: Path) -> None:
        path = tmp_path / "log" / "file"
        write(storage, path, b"content", sync=True)
        storage.sync_directory(tmp_path / "log")
        storage.remove(path)
        storage.sync_directory(tmp_path / "log")
        assert images(storage, tmp_path, "file") == {None}

    def test_a_directory_that_is_missing_takes_its_files_along(self, storage: PowerCutStorage, tmp_path: Path) -> None:
        storage.make_directory(tmp_path / "log" / "topics")
        write(storage, tmp_path / "log" / "topics" / "file", b"content", sync=True)
        storage.sync_directory(tmp_path / "log" / "topics")
        assert images(storage, tmp_path, "topics/file") == {b"content", None}

    def test_all_may_be_lost_before_the_log_has_its_name(self, tmp_path: Path) -> None:
        storage = PowerCutStorage(tmp_path / "log")
        storage.make_directory(tmp_path / "log")
        assert not storage.image(tmp_path / "image", NOTHING_UNSYNCED)
        assert storage.image(tmp_path / "image", EVERYTHING)

    @pytest.mark.parametrize(("cut", "done"), [("1:before", b""), ("1:after", b"content")])
    def test_nothing_happens_after_the_cut(self, tmp_path: Path, cut: str, done: bytes) -> None:
        (tmp_path / "log").mkdir()
        storage = PowerCutStorage(tmp_path / "log", cut=cut)
        path = tmp_path / "log" / "file"
        with pytest.raises(PowerCut):
            write(storage, path, b"content", sync=True)
        assert path.read_bytes() == done
        with pytest.raises(PowerCut):
            storage.remove(path)
        assert path.exists()


@given(st.binary(max_size=3000), st.binary(max_size=3000), st.binary(max_size=3000), st.integers(0, 1000))
def test_bytes_that_both_begin_with_are_never_torn(common: bytes, synced: bytes, written: bytes, seed: int) -> None:
    found = torn(common + synced, common + written, Random(seed), seed)
    assert found.startswith(common)
    assert len(found) <= len(common) + max(len(synced), len(written))

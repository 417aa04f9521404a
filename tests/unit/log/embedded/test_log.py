"""The embedded log as a thing in a directory: opened, shared, pickled, forked, locked, full, and how durable it is."""

from __future__ import annotations

import errno
import gc
import multiprocessing
import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from datetime import timedelta
from pathlib import Path
from threading import active_count

import pytest

from headwater.errors import DiskFull, Indeterminate, LogBusy, StorageFailed, UsageError
from headwater.log.embedded import catalog
from headwater.log.embedded.catalog import Durability
from headwater.log.embedded.log import EmbeddedLog
from headwater.system.sqlite import SQLITE_IOERR, Connection, Error, connect, error_of
from headwater.system.storage import Storage

ROWS = [{"id": 1}, {"id": 2}]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.fixture
def log(directory: Path) -> Iterator[EmbeddedLog]:
    with EmbeddedLog(directory, upkeep=False) as log:
        log.create("orders", "id bigint")
        yield log


def ids(log: EmbeddedLog) -> list[int]:
    found: list[int] = log.scan("orders")["id"].to_pylist()
    return found


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


class RecordingStorage(Storage):
    """Real files, and a list of what was done to them."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def write(self, fd: int, path: Path, position: int, parts: Sequence[bytes | memoryview]) -> None:
        self.done.append("write")
        super().write(fd, path, position, parts)

    def sync(self, fd: int, path: Path) -> None:
        self.done.append("sync")
        super().sync(fd, path)

    def sync_directory(self, path: Path) -> None:
        self.done.append("sync directory")
        super().sync_directory(path)

    def commit(self, connection: Connection) -> None:
        self.done.append("commit")
        super().commit(connection)


class FailingStorage(Storage):
    """Real files on which writing fails for as long as it is told to, after half of the bytes."""

    def __init__(self) -> None:
        self.write_error: int | None = None
        self.sync_error: int | None = None
        self.commit_error: Error | None = None

    def write(self, fd: int, path: Path, position: int, parts: Sequence[bytes | memoryview]) -> None:
        if self.write_error is not None:
            content = b"".join(parts)
            super().write(fd, path, position, [content[: len(content) // 2]])
            raise OSError(self.write_error, os.strerror(self.write_error))
        super().write(fd, path, position, parts)

    def sync(self, fd: int, path: Path) -> None:
        if self.sync_error is not None:
            raise OSError(self.sync_error, os.strerror(self.sync_error))
        super().sync(fd, path)

    def commit(self, connection: Connection) -> None:
        super().commit(connection)
        if self.commit_error is not None:
            raise self.commit_error


# Opening


def test_a_directory_is_a_log(directory: Path) -> None:
    with EmbeddedLog(directory / "deep" / "down") as log:
        log.create("orders", "id bigint")
        position = log.append("orders", ROWS)
    with EmbeddedLog(str(directory / "deep" / "down")) as log:
        assert ids(log) == [1, 2]
        assert log.position() == position
        assert log.append("orders", ROWS) > position


def test_what_is_not_a_log_is_left_alone(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        EmbeddedLog(tmp_path / "none", create=False)
    assert not (tmp_path / "none").exists()
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.png").touch()
    with pytest.raises(UsageError):
        EmbeddedLog(tmp_path / "photos")
    with pytest.raises(UsageError):
        EmbeddedLog(tmp_path / "photos" / "cat.png")
    assert [path.name for path in (tmp_path / "photos").iterdir()] == ["cat.png"]


def test_a_log_of_another_format_is_refused(log: EmbeddedLog, directory: Path) -> None:
    log.close()
    with closing(connect(directory / "catalog.db")) as connection:
        connection.execute("UPDATE log SET format = format + 1")
    with pytest.raises(UsageError):
        EmbeddedLog(directory)


def test_closing_gives_files_and_threads_back(directory: Path) -> None:
    gc.collect()
    files, threads = open_files(), active_count()
    for _ in range(3):
        with EmbeddedLog(directory) as log:
            log.create("orders", "id bigint", partitions=3, exist_ok=True, segment_bytes_max=1)
            for partition in (0, 1, 2, 0, 1, 2):
                log.append("orders", ROWS, partition=partition)
            with log.producer("orders") as producer:
                producer.send({"id": 3}).result(10)
            with log.consumer("orders", group="billing") as consumer:
                assert consumer.poll(timedelta(seconds=10)) is not None
            assert list(log.read("orders", follow=True, idle_timeout=timedelta(0)))
            unfinished = log.read("orders")
            next(unfinished)
            del unfinished
    assert (open_files(), active_count()) == (files, threads)


def test_bytes_behind_the_committed_end_do_not_exist(log: EmbeddedLog, directory: Path) -> None:
    log.append("orders", ROWS)
    [segment] = log.segments("orders")
    log.close()
    with (directory / segment.file).open("ab") as file:
        file.write(b"half of a frame that a killed writer left")
    with EmbeddedLog(directory) as opened:
        assert ids(opened) == [1, 2]
        assert list(opened.check()) == []
        opened.append("orders", [{"id": 3}])
        assert ids(opened) == [1, 2, 3]
        assert list(opened.check()) == []


# Processes


def test_a_log_can_be_pickled(log: EmbeddedLog) -> None:
    log.append("orders", ROWS)
    with pickle.loads(pickle.dumps(log)) as copy:
        assert ids(copy) == [1, 2]
        copy.append("orders", [{"id": 3}])
    assert ids(log) == [1, 2, 3]


def append_in_child(log: EmbeddedLog) -> None:
    log.append("orders", [{"id": 3}])
    log.close()


def test_a_log_goes_to_another_process(log: EmbeddedLog) -> None:
    log.append("orders", ROWS)
    child = multiprocessing.get_context("spawn").Process(target=append_in_child, args=(log,))
    child.start()
    child.join()
    assert child.exitcode == 0
    assert ids(log) == [1, 2, 3]


FORK = """
import os, sys
import headwater as hw
from headwater.errors import UsageError

log = hw.open(sys.argv[1])
log.create("orders", "id bigint")
log.append("orders", [{"id": 1}])
uses = [log.position, log.topics, lambda: log.append("orders", [{"id": 2}]), lambda: log.scan("orders"), log.commit]
child = os.fork()
if child == 0:
    refused = 0
    for use in uses:
        try:
            use()
        except UsageError:
            refused += 1
    log.close()
    with hw.open(sys.argv[1]) as own:
        own.append("orders", [{"id": 3}])
    os._exit(refused)
status = os.waitpid(child, 0)[1]
assert os.waitstatus_to_exitcode(status) == len(uses), status
log.append("orders", [{"id": 4}])
assert log.scan("orders")["id"].to_pylist() == [1, 3, 4]
log.close()
"""


def test_a_child_after_a_fork_has_to_open_the_log_again(directory: Path) -> None:
    done = subprocess.run([sys.executable, "-c", FORK, str(directory)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


FOLLOW = """
import sys
import headwater as hw

with hw.open(sys.argv[1], upkeep=False) as log:
    for record in log.read("orders", follow=True):
        print(record.value["id"], flush=True)
        if record.value["id"] == 9:
            break
"""


def test_a_follower_in_another_process_is_woken(log: EmbeddedLog, directory: Path) -> None:
    command = [sys.executable, "-c", FOLLOW, str(directory)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        for number in range(10):
            log.append("orders", [{"id": number}])
            assert child.stdout.readline() == f"{number}\n"
        assert child.wait(20) == 0


def test_waiting_costs_nothing(log: EmbeddedLog) -> None:
    log.wait(log.position(), timedelta(0))
    before = time.process_time()
    log.wait(log.position(), timedelta(seconds=0.5))
    assert time.process_time() - before < 0.1


def test_a_write_lock_that_is_not_given_back_is_an_error_and_reading_goes_on(
    log: EmbeddedLog, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog, "WRITE_LOCK_SECONDS_MAX", 0.05)
    log.append("orders", ROWS)
    with EmbeddedLog(directory, upkeep=False) as other:
        with other._catalog.write():
            with pytest.raises(LogBusy) as error:
                log.append("orders", [{"id": 3}])
            assert error.value.path == str(directory)
            assert ids(log) == [1, 2]
            with EmbeddedLog(directory, upkeep=False) as third:
                assert ids(third) == [1, 2]
        log.append("orders", [{"id": 4}])
    assert ids(log) == [1, 2, 4]


# Durability


def test_acknowledged_means_synced_before_the_catalog_says_so(directory: Path) -> None:
    storage = RecordingStorage()
    with EmbeddedLog(directory, storage=storage, upkeep=False) as log:
        log.create("orders", "id bigint", partitions=2)
        storage.done.clear()
        log.append("orders", ROWS, partition=0)
        assert storage.done[:2] == ["write", "sync"]
        assert "sync directory" in storage.done
        assert storage.done[-1] == "commit"
        storage.done.clear()
        log.append("orders", ROWS, partition=0)
        assert storage.done == ["write", "sync", "commit"]
        log.append("orders", ROWS, partition=1)
        storage.done.clear()
        with log.commit() as commit:
            commit.append("orders", ROWS, partition=0)
            commit.append("orders", ROWS, partition=1)
        assert storage.done == ["write", "write", "sync", "sync", "commit"]


def test_the_weaker_durability_leaves_the_disk_to_the_system(directory: Path) -> None:
    storage = RecordingStorage()
    with EmbeddedLog(directory, storage=storage, durability="os", upkeep=False) as log:
        log.create("orders", "id bigint")
        storage.done.clear()
        log.append("orders", ROWS)
        assert storage.done == ["write", "commit"]
        assert log._catalog._writer.execute("PRAGMA synchronous").fetchone() == (1,)
    with EmbeddedLog(directory) as log:
        assert ids(log) == [1, 2]
        assert log._catalog._writer.execute("PRAGMA synchronous").fetchone() == (2,)


def test_a_durability_that_is_none_is_refused(directory: Path) -> None:
    weak: Durability = "hope"  # type: ignore[assignment]
    with pytest.raises(UsageError):
        EmbeddedLog(directory, durability=weak)
    assert not directory.exists()


@pytest.fixture
def failing(directory: Path) -> Iterator[tuple[EmbeddedLog, FailingStorage]]:
    storage = FailingStorage()
    with ExitStack() as stack:
        log = stack.enter_context(EmbeddedLog(directory, storage=storage, upkeep=False))
        log.create("orders", "id bigint", partitions=2)
        log.append("orders", ROWS, partition=0)
        yield log, storage


@pytest.mark.parametrize(
    ("code", "kind"),
    [(errno.ENOSPC, DiskFull), (errno.EDQUOT, DiskFull), (errno.EFBIG, DiskFull), (errno.EIO, StorageFailed)],
)
def test_a_write_that_fails_did_not_happen_and_the_log_goes_on(
    failing: tuple[EmbeddedLog, FailingStorage], code: int, kind: type[Exception]
) -> None:
    log, storage = failing
    before = log.position()
    for partition in (0, 1):
        storage.write_error = code
        with pytest.raises(kind):
            log.append("orders", [{"id": 9}], partition=partition)
        storage.write_error, storage.sync_error = None, code
        with pytest.raises(kind), log.commit() as commit:  # noqa: PT012 (the error comes at its end)
            commit.append("orders", [{"id": 9}], partition=partition)
            commit.bookmark("place", 9)
        storage.sync_error = None
    assert (ids(log), log.position(), log.bookmark("place")) == ([1, 2], before, None)
    log.append("orders", [{"id": 3}], partition=0)
    log.append("orders", [{"id": 4}], partition=1)
    assert ids(log) == [1, 2, 3, 4]
    assert list(log.check()) == []


def test_a_catalog_that_can_not_tell_is_an_error_of_its_own(failing: tuple[EmbeddedLog, FailingStorage]) -> None:
    log, storage = failing
    storage.commit_error = error_of(SQLITE_IOERR)
    with pytest.raises(Indeterminate):
        log.append("orders", [{"id": 3}], partition=0)
    storage.commit_error = None
    assert ids(log) == [1, 2, 3]
    log.append("orders", [{"id": 4}], partition=0)
    assert ids(log) == [1, 2, 3, 4]


def test_many_may_make_a_log_at_the_same_moment(tmp_path: Path) -> None:
    for round_number in range(30):
        start = threading.Barrier(6)

        def make(number: int, directory: Path = tmp_path / str(round_number), start: threading.Barrier = start) -> int:
            start.wait()
            with EmbeddedLog(directory, upkeep=False) as log:
                log.create(f"topic{number}", "n int")
                return len(log.topics())

        with ThreadPoolExecutor(6) as pool:
            assert max(pool.map(make, range(6))) == 6

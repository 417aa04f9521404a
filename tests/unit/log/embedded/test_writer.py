"""The writer commits for all threads that wait, and lets go of each as soon as its own commit is done."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headwater.log.commit import Request
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.embedded.position import commit_of
from headwater.log.embedded.writer import Writer
from headwater.system.storage import Storage

THREADS = 4
APPENDS = 5
SECONDS_MAX = 10.0


class Gathering(Storage):
    """A disk that takes as long as it takes all the other threads to wait for their turn."""

    def __init__(self) -> None:
        self.writer: Writer | None = None
        self.group = 0
        self.late = 0
        self.is_over = threading.Event()

    def sync(self, fd: int, path: Path) -> None:
        pause = threading.Event()
        for _ in range(int(SECONDS_MAX / 0.001)):
            if self.writer is None or self.is_over.is_set() or len(self.writer._waiting) + self.group == THREADS:
                return super().sync(fd, path)
            pause.wait(0.001)
        self.late += 1
        self.is_over.set()
        return super().sync(fd, path)


def test_threads_come_back_while_the_next_commit_is_under_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = Gathering()
    next_group = Writer._next_group

    def counted(writer: Writer) -> list[Request]:
        group = next_group(writer)
        storage.group = len(group)
        return group

    with EmbeddedLog(tmp_path, upkeep=False, storage=storage) as log:
        log.create("orders", "id bigint")
        monkeypatch.setattr(Writer, "_next_group", counted)
        storage.writer = log._writer

        def append(thread: int) -> None:
            for number in range(APPENDS):
                log.append("orders", [{"id": thread * APPENDS + number}])
            # From now on not all of them can wait.
            storage.is_over.set()

        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(append, range(THREADS)))
        assert storage.late == 0
        assert log.scan("orders").num_rows == THREADS * APPENDS
        assert commit_of(log.position()) < THREADS * APPENDS


def test_many_requests_of_one_thread_are_all_settled(tmp_path: Path) -> None:
    with EmbeddedLog(tmp_path, upkeep=False) as log:
        log.create("orders", "id bigint")
        log._writer.commit_all([])
        requests = [Request(pieces=log._intake.prepare("orders", [{"id": number}])) for number in range(3)]
        log._writer.commit_all(requests)
        assert [request.settle() for request in requests] == [request.outcome for request in requests]
        assert commit_of(log.position()) == 3

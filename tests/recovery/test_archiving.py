"""Archiving that is killed, or whose disk fails, at any moment: nothing is lost, and nothing is left behind."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import TypeVar

import pytest

from headwater.errors import HeadwaterError
from headwater.log.embedded import archiving
from headwater.log.embedded.archives import MARKER
from headwater.log.embedded.log import EmbeddedLog
from headwater.system.storage import Storage
from headwater.testing.clock import ManualClock
from headwater.testing.failures import WAYS
from headwater.testing.storage import FailingStorage, Failure, Operation
from tests.property.crashing import Crash, CrashingStorage

GRACE = archiving.REMOVAL_GRACE + timedelta(seconds=1)
COMMITS = 4
NEVER = 1 << 30

Result = TypeVar("Result")


class FailingArchive(FailingStorage):
    """Fails at operations on the archive only."""

    def _run(self, operation: Operation, path: Path, act: Callable[[], Result]) -> Result:
        return super()._run(operation, path, act) if "archive" in path.parts else act()


def live(directory: Path, clock: ManualClock, storage: Storage) -> Iterator[int]:
    """A short life with an archive; the numbers of the records that were acknowledged."""
    with EmbeddedLog(directory / "log", clock=clock, storage=storage, upkeep=False) as log:
        log.create(
            "orders", "id bigint, turn bigint", key="id", cleanup="compact", retention_bytes=1,
            archive=directory / "archive", exist_ok=True,
        )  # fmt: skip
        for number in range(COMMITS):
            log.append("orders", [{"id": number % 3, "turn": number}])
            yield number
            log.seal("orders")
            clock.advance(timedelta(hours=10))
            # An archive that fails is told, and appends continue.
            with suppress(HeadwaterError):
                log.upkeep()


def judge(directory: Path, clock: ManualClock, acknowledged: int) -> None:
    """What must hold afterwards, in another process: every newest record is there, and only what is named is."""
    with EmbeddedLog(directory / "log", clock=clock, upkeep=False) as log:
        if not log.topics():
            assert acknowledged == -1
            return
        for _ in range(3):
            log.upkeep()
            clock.advance(GRACE)
        log.upkeep()
        newest = {row["id"]: row["turn"] for row in log.table("orders").to_pylist()}
        for key in range(3):
            at_least = max((n for n in range(acknowledged + 1) if n % 3 == key), default=-1)
            assert newest.get(key, -1) >= at_least
        assert list(log.check()) == []
        segments = log.segments("orders")
        assert {segment.object is not None for segment in segments if segment.state == "sealed"} <= {True}
        found = {path.relative_to(directory / "archive").as_posix() for path in (directory / "archive").rglob("*")}
        files = {name for name in found if (directory / "archive" / name).is_file()}
        assert files - {MARKER} == {segment.object for segment in segments if segment.object is not None}


def count_operations(folder: Path, storage: FailingStorage) -> int:
    list(live(folder, ManualClock(), storage))
    return len(storage.operations)


@pytest.mark.parametrize("failure", WAYS, ids=lambda way: f"{way.happened}-{way.reported}-{way.error}")
def test_a_disk_that_fails_under_an_archive_loses_nothing(memory_path: Path, failure: Failure) -> None:
    count = count_operations(memory_path / "sound", FailingArchive(failure, at=NEVER))
    assert count > 20
    for at in range(0, count, 2):
        directory, clock, acknowledged = memory_path / str(at), ManualClock(), -1
        storage = FailingArchive(failure, at=at)
        # What is wrong with an archive is told when the topic is created.
        with suppress(HeadwaterError):
            for number in live(directory, clock, storage):
                acknowledged = number
        assert storage.failed
        judge(directory, clock, acknowledged)


@pytest.mark.parametrize("after", [False, True])
def test_a_crash_at_any_operation_loses_nothing(memory_path: Path, after: bool) -> None:
    count = count_operations(memory_path / "sound", FailingStorage(WAYS[0], at=NEVER))
    for at in Random(7).sample(range(count), 40):
        directory, clock, acknowledged = memory_path / str(at), ManualClock(), -1
        storage = CrashingStorage()
        storage.arm(at, after=after)
        with suppress(Crash):
            for number in live(directory, clock, storage):
                acknowledged = number
        judge(directory, clock, acknowledged)


def test_a_file_is_on_the_disk_of_the_archive_before_the_catalog_names_it(memory_path: Path) -> None:
    done = list[tuple[Operation, Path]]()

    class Noting(FailingStorage):
        def _run(self, operation: Operation, path: Path, act: Callable[[], Result]) -> Result:
            result = act()
            done.append((operation, path))
            return result

    list(live(memory_path, ManualClock(), Noting(WAYS[0], at=NEVER)))
    written = [
        path for operation, path in done
        if operation == "write" and "archive" in path.parts and path.suffix == ".parquet"
    ]  # fmt: skip
    assert written
    for path in written:
        begin = done.index(("write", path))
        names = done[begin : begin + next(i for i, one in enumerate(done[begin:]) if one[0] == "commit")]
        assert [one for one in names if one == ("sync", path)]
        assert names.index(("sync", path)) < names.index(("sync_directory", path.parent))


def test_kill_nine_loses_nothing(tmp_path: Path) -> None:
    random = Random(3)
    with EmbeddedLog(tmp_path / "log", upkeep=False) as log:
        log.create("orders", "id bigint, note string", archive=tmp_path / "archive", retention_bytes=1)
    acknowledged = -1
    for _ in range(8):
        victim = subprocess.Popen(
            [sys.executable, Path(__file__).with_name("archiving_victim.py"), tmp_path / "log"],
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert victim.stdout is not None
        for _ in range(random.randint(2, 12)):
            acknowledged = int(victim.stdout.readline())
        time.sleep(random.random() * 0.05)
        victim.send_signal(signal.SIGKILL)
        acknowledged = max([acknowledged, *map(int, victim.stdout.read().split())])
        victim.wait()
        victim.stdout.close()
    with EmbeddedLog(tmp_path / "log", upkeep=False) as log:
        log.seal("orders")
        log.upkeep()
        found = [record.value["id"] for record in log.read("orders") if record.value]
        assert found == list(range(len(found)))
        assert len(found) > acknowledged
        assert list(log.check()) == []
        assert [segment.file for segment in log.segments("orders") if segment.local] == []
        assert list((tmp_path / "log" / "topics").glob("*/*/*")) == []

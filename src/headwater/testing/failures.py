"""Failing operations: a short life of a log in which one operation of its storage fails, and what must hold then."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from headwater.errors import Corrupt, Determinate, DiskFull, HeadwaterError, Indeterminate, StorageFailed, UnknownTopic
from headwater.log.embedded.log import EmbeddedLog
from headwater.testing.expectation import require
from headwater.testing.powercut import one_sync_at_a_time
from headwater.testing.storage import FailingStorage, Failure, Operation

WAYS = (
    Failure(happened=False, reported=True, error=errno.EIO),
    Failure(happened=False, reported=True, error=errno.ENOSPC),
    Failure(happened=True, reported=True, error=errno.EIO),
    Failure(happened=True, reported=True, error=errno.ENOSPC),
    Failure(happened=True, reported=False),
    Failure(happened=False, reported=False),
)
"""All four ways to fail, and both reasons where one is given. The last is a lie."""

NEVER = 1 << 30
COMMITS = 6
Result = TypeVar("Result")


@dataclass(slots=True)
class FailureFigures:
    """What a run came to."""

    operations: int = 0
    failures: int = 0
    refused: int = 0
    broken: list[tuple[int, Failure, str]] = field(default_factory=list)


def fail_everywhere(
    folder: Path,
    *,
    choose: Callable[[int, Failure], bool] = lambda *_: True,
    progress: Callable[[FailureFigures], None] = lambda _: None,
) -> FailureFigures:
    """Lives the same short life again and again; each time another operation fails, in another way."""
    figures = FailureFigures()
    with one_sync_at_a_time():
        operations = list_operations(folder)
        figures.operations = len(operations)
        for at, operation in enumerate(operations):
            for failure in WAYS:
                if choose(at, failure) and not _is_impossible(operation, failure):
                    _try(folder / "log", at, failure, figures)
                    progress(figures)
    return figures


def list_operations(folder: Path) -> list[Operation]:
    """What the life takes when nothing fails."""
    storage = FailingStorage(WAYS[0], at=NEVER)
    _Life(folder / "log", storage).run()
    return storage.operations


def _is_impossible(operation: Operation, failure: Failure) -> bool:
    """SQLite does not say that it has committed when it has not; a directory that was not made is missed at once."""
    return operation in ("commit", "make_directory") and not failure.happened and not failure.reported


def _try(directory: Path, at: int, failure: Failure, figures: FailureFigures) -> None:
    shutil.rmtree(directory, ignore_errors=True)
    storage = FailingStorage(failure, at=at)
    life = _Life(directory, storage)
    figures.failures += 1
    try:
        life.run()
    except Exception as error:  # noqa: BLE001 (whatever comes up is a finding)
        operation, path = storage.failed[0] if storage.failed else ("nothing", Path())
        figures.broken.append((at, failure, f"{operation} {path.name}: {type(error).__name__}: {error}"))
    figures.refused += bool(life.refused)


class _Life:
    """Opens, appends, seals, compacts, drops; continues where it was refused; then looks at what is there."""

    def __init__(self, directory: Path, storage: FailingStorage) -> None:
        self._directory, self._storage = directory, storage
        self._acknowledged: list[int] = []
        self._in_doubt: list[int] = []
        self._lied = not (storage.failure.happened or storage.failure.reported)
        self._repaired = False
        self.refused: list[HeadwaterError] = []

    def run(self) -> None:
        """Raises `Violated`, or whatever the log raised that no caller should ever see."""
        with self._again(lambda: EmbeddedLog(self._directory, upkeep=False, storage=self._storage)) as log:
            self._live(log)
            self._storage.heal()
            self._look(log)
        with EmbeddedLog(self._directory, upkeep=False) as log:
            self._look(log)

    def _live(self, log: EmbeddedLog) -> None:
        columns = "id bigint, note string"
        self._again(lambda: log.create("orders", columns, partitions=2, exist_ok=True, segment_bytes_max=700))
        self._again(lambda: log.create("latest", columns, key="id", exist_ok=True, cleanup="compact"))
        self._again(lambda: log.create("doomed", columns, exist_ok=True))
        for number in range(COMMITS):
            self._append(log, number)
            if number == COMMITS // 2:
                self._again(lambda: log.seal("orders"))
        self._again(lambda: log.append("doomed", [{"id": 1}]))
        self._again(lambda: log.seal("latest"))
        self._again(lambda: log.compact("latest"))
        self._again(lambda: self._drop(log))
        self._again(log.upkeep)

    def _drop(self, log: EmbeddedLog) -> None:
        try:
            log.drop("doomed")
        except UnknownTopic:
            require(self.refused, "a topic is gone that nobody dropped")

    def _again(self, act: Callable[[], Result]) -> Result:
        """Tries again what was refused: the cause is gone, so now it goes well."""
        try:
            return act()
        except (Determinate, Indeterminate) as error:
            self._refuse(error)
            return act()

    def _append(self, log: EmbeddedLog, number: int) -> None:
        rows = [{"id": 10 * number + i, "note": "x" * 40} for i in range(4)]
        try:
            with log.commit() as commit:
                commit.append("orders", rows[:2], partition=0)
                commit.append("orders", rows[2:], partition=1)
                commit.append("latest", [{"id": number % 2, "note": str(number)}])
                commit.bookmark("number", number)
        except Determinate as error:
            self._refuse(error)
        except Indeterminate as error:
            self._refuse(error)
            self._in_doubt.append(number)
        except Corrupt:
            # Nothing is appended behind a file that has lost committed bytes.
            require(self._lied, "records are damaged, and nobody lied")
        else:
            self._acknowledged.append(number)

    def _refuse(self, error: HeadwaterError) -> None:
        self.refused.append(error)
        failure, (operation, _) = self._storage.failure, self._storage.failed[0]
        require(failure.reported, f"{error} came of nothing")
        if operation == "commit" and (failure.happened or failure.error != errno.ENOSPC):
            require(isinstance(error, Indeterminate), f"it may have happened, and the error is {error!r}")
        else:
            kind = DiskFull if failure.error == errno.ENOSPC else StorageFailed
            require(isinstance(error, kind), f"the error is {error!r}, not {kind.__name__}")

    def _look(self, log: EmbeddedLog) -> None:
        """Everything acknowledged is there, or, where the storage has lied, is damaged and says so."""
        try:
            self._compare(log)
        except Corrupt:
            require(self._lied and not self._repaired, "records are damaged, and nobody lied")
            require(list(log.check()), "records are damaged, and check found nothing")
            log.repair().apply()
            self._repaired = True
            self._compare(log)
        require(not list(log.check()), f"check found {list(log.check())}")
        self._go_on(log)

    def _compare(self, log: EmbeddedLog) -> None:
        wanted = sorted([*self._acknowledged, *(self._in_doubt if self._storage.failure.happened else [])])
        ids = {10 * n + i for n in wanted for i in range(4)}
        found = [record.value["id"] for record in log.read("orders") if record.value is not None]
        require(len(set(found)) == len(found), "a record is there twice")
        newest = {row["id"]: row["note"] for row in log.table("latest").to_pylist()}
        require(set(found) <= ids, f"{set(found) - ids} were not acknowledged")
        if not self._repaired:
            require(ids <= set(found), f"{ids - set(found)} are gone")
            latest = {number % 2: str(number) for number in wanted}
            require(newest == latest, f"latest has {newest}, not {latest}")
        require(log.bookmark("number") == wanted[-1], f"the bookmark is {log.bookmark('number')}")

    def _go_on(self, log: EmbeddedLog) -> None:
        number = COMMITS + len(self._acknowledged)
        count = len(list(log.read("orders")))
        self._append(log, number)
        require(self._acknowledged[-1] == number, "an append was refused though nothing fails any more")
        require(len(list(log.read("orders"))) == count + 4, "what was appended is not there")
        log.upkeep()
        require(not list(log.check()), f"after upkeep, check found {list(log.check())}")
        require([topic.name for topic in log.topics()] == ["latest", "orders"], "a topic is missing, or one too many")

"""Power cuts: a scripted life of a log, cut at every operation, and what must hold of every disk that is left."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path

from headwater.log import tail
from headwater.log.commit import Committed
from headwater.log.embedded import EmbeddedLog
from headwater.testing.clock import ManualClock
from headwater.testing.disk import seeded
from headwater.testing.expectation import Entry, Expectation, InFlight, compare, require, settled
from headwater.testing.script import Script
from headwater.testing.storage import Moment, PowerCutStorage

# An open that has to read data takes seconds on a large log; this one reads a few pages of the catalog.
OPEN_SECONDS_MAX = 1.0


@dataclass(frozen=True, slots=True)
class Broken:
    """An image that does not hold what it must: the moment of the cut, the seed of the image, and what is wrong."""

    moment: Moment
    step: str
    seed: int
    problem: str

    def __str__(self) -> str:
        place = f"{self.moment} ({self.moment.operation} {self.moment.path}, step {self.step})"
        return f"cut at {place}, image {self.seed}: {self.problem}"


@dataclass(slots=True)
class PowerCuts:
    """What a run came to."""

    operations: int = 0
    moments: int = 0
    disks: int = 0
    images: int = 0
    acknowledged: int = 0
    open_seconds: list[float] = field(default_factory=list)
    broken: list[Broken] = field(default_factory=list)


def cut_everywhere(
    folder: Path,
    *,
    seeds: Sequence[int],
    choose: Callable[[Moment], bool] = lambda _: True,
    progress: Callable[[PowerCuts], None] = lambda _: None,
    storage_type: type[PowerCutStorage] = PowerCutStorage,
) -> PowerCuts:
    """Runs the script once, and at every chosen moment looks at the disks that a cut may leave, one per seed."""
    result = PowerCuts()
    directory = folder / "log"

    def look(moment: Moment) -> None:
        if not choose(moment):
            return
        disk = storage.disk()
        result.moments += 1
        state = (disk, script.in_flight, script.expected.position)
        if seen and seen[-1] == state:
            # Nothing has changed since the last operation: the disks would be the same.
            return
        seen[:] = [state]
        result.disks += 1
        for seed in seeds:
            image = folder / "image"
            problem = ""
            try:
                if disk.image(image, seed):
                    result.open_seconds.append(verify(image, script.expected, script.in_flight, script.clock))
                else:
                    require(script.expected == Expectation(), "all of the log is gone")
            except Exception as error:  # noqa: BLE001 (whatever goes wrong with an image is a finding)
                problem = f"{type(error).__name__}: {error}"
            shutil.rmtree(image, ignore_errors=True)
            result.images += 1
            if problem:
                result.broken.append(Broken(moment, script.step, seed, problem))
        progress(result)

    seen: list[object] = []
    storage = storage_type(directory, on_moment=look)
    script = Script(directory, storage)
    with one_sync_at_a_time():
        script.run()
    result.operations = len(storage.moments)
    result.acknowledged = script.expected.position
    shutil.rmtree(directory)
    return result


def count_operations(folder: Path) -> int:
    """How many operations the script has."""
    return cut_everywhere(folder, seeds=(), choose=lambda _: False).operations


def sample(seed: int, part: float) -> Callable[[Moment], bool]:
    """Chooses a part of all moments, the same ones for the same seed."""
    return lambda moment: seeded(f"{seed}/{moment}").random() < part


def verify(image: Path, expected: Expectation, in_flight: InFlight | None, clock: ManualClock) -> float:
    """Opens what a power cut left, compares it, and goes on with it; the seconds that opening took.

    Raises `Violated`, or whatever the log raises.
    """
    rebooted = copy(clock)
    rebooted.reboot()
    began = time.perf_counter()
    with EmbeddedLog(image, upkeep=False, clock=rebooted) as log:
        position = int(log.position().commit)
        seconds = time.perf_counter() - began
        require(seconds < OPEN_SECONDS_MAX, f"opening took {seconds:.3f} s")
        require(position - expected.position in (0, 1), f"position {position} after {expected.position}")
        outcome, removable = settled(expected, in_flight, log)
        compare(log, outcome, removable)
        _check(log)
        _go_on(log, outcome)
        _check(log)
        compare(log, outcome, {**removable, **_all_removable(outcome)})
    return seconds


def _check(log: EmbeddedLog) -> None:
    findings = list(log.check())
    require(not findings, f"check found {findings}")


def _all_removable(outcome: Expectation) -> dict[str, frozenset[tuple[str, int]]]:
    """Upkeep may delete and compact; what it may remove exactly is other tests' affair."""
    return {name: frozenset(outcome.topics[name]) for name in ("events", "ring", "accounts") if name in outcome.topics}


def _go_on(log: EmbeddedLog, outcome: Expectation) -> None:
    """Appends to every partition, repeats a numbered send, seals, and lets upkeep sweep; the outcome grows along."""
    for name, last in outcome.sequences.items():
        with log.producer(name=name) as producer, log.commit(producer=producer, sequence=last) as commit:
            commit.append("payments", [{"id": -1}])
        result = commit.result
        require(isinstance(result, Committed) and result.duplicate, f"{name}'s send {last} was taken twice")
    names = [topic.name for topic in log.topics()]
    with log.commit(headers={"step": "after"}) as commit:
        for name in names:
            topic = log.topic(name)
            for partition in range(topic.partitions):
                commit.append(name, [{"id": 10**9 + partition}], partition=partition)
    if names:
        outcome.position += 1
    require(int(commit.position.commit) == outcome.position, f"the next commit was number {commit.position}")
    offsets = [(record.partition, int(record.offset)) for name in names for record in log.read(name)]
    for name in names[:2]:
        log.seal(name)
    log.upkeep()
    require(len(offsets) >= len(names), "what was appended after the cut can not be read")
    named = {segment.file for name in names for segment in log.segments(name)}
    left = {path.relative_to(log.directory).as_posix() for path in (log.directory / "topics").glob("*/*/*")} - named
    require(not left, f"upkeep left {sorted(left)}")
    outcome.compacted.add("accounts")
    _expect_new(log, outcome, names)


def _expect_new(log: EmbeddedLog, outcome: Expectation, names: Sequence[str]) -> None:
    for name in names:
        topic = log.topic(name)
        for partition in range(topic.partitions):
            value = {column: 10**9 + partition if column == "id" else None for column in topic.schema.names}
            outcome.topics[name]["after", 10**9 + partition] = Entry(outcome.position, value)


@contextmanager
def one_sync_at_a_time() -> Iterator[None]:
    """Files of one commit are synced one after the other, so that every run has its operations in the same order."""
    threads = tail.SYNC_THREADS
    tail.SYNC_THREADS = 1
    try:
        yield
    finally:
        tail.SYNC_THREADS = threads

"""The aftermath of a power cut: what must hold of the disk when the power is back, and when it fails again."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from copy import copy, deepcopy
from dataclasses import dataclass
from pathlib import Path

from headwater.log.embedded.log import EmbeddedLog
from headwater.log.embedded.position import commit_of
from headwater.testing.clock import ManualClock
from headwater.testing.disk import Disk, seeded
from headwater.testing.expectation import STEP, Entry, Expectation, InFlight, Removable, compare, require, settled
from headwater.testing.storage import PowerCut, PowerCutStorage

# Opening takes a millisecond or two; something that waits for a lock, or reads data, would take longer than this.
OPEN_SECONDS_MAX = 5.0
# Continuing takes about this many operations; the second cut is at one of them.
SECOND_CUT_MAX = 60
AFTER, FIRST_ID = "after", 10**9


@dataclass(frozen=True, slots=True)
class Aftermath:
    """A disk at the moment of a cut, and what was acknowledged and in flight then."""

    folder: Path
    disk: Disk
    expected: Expectation
    in_flight: InFlight | None
    clock: ManualClock
    moment: str

    def verify(self, seed: int, open_seconds: list[float]) -> None:
        """Opens what the cut may have left, compares it, and continues; then once more, with a second cut meanwhile.

        Raises `Violated`, or whatever the log raises.
        """
        with self._image(seed) as image:
            if image is None:
                require(self.expected == Expectation(), "all of the log is gone")
                return
            self._go_on_with(image, open_seconds)
        with self._image(seed) as image:
            assert image is not None
            self._cut_again(image, seed)

    @contextmanager
    def _image(self, seed: int) -> Iterator[Path | None]:
        image = self.folder / "image"
        try:
            yield image if self.disk.image(image, seed) else None
        finally:
            shutil.rmtree(image, ignore_errors=True)

    def _go_on_with(self, image: Path, open_seconds: list[float]) -> None:
        began = time.perf_counter()
        with EmbeddedLog(image, upkeep=False, clock=self._rebooted()) as log:
            position = commit_of(log.position())
            open_seconds.append(time.perf_counter() - began)
            require(open_seconds[-1] < OPEN_SECONDS_MAX, f"opening took {open_seconds[-1]:.1f} s")
            last = self.expected.position
            require(position - last in (0, 1), f"the position is {position}, and {last} was acknowledged")
            outcome, removable = settled(self.expected, self.in_flight, log)
            compare(log, outcome, removable)
            _check(log)
            _go_on(log, outcome)
            _expect_new(log, outcome)
            _check(log)
            compare(log, outcome, _more(removable, outcome))

    def _cut_again(self, image: Path, seed: int) -> None:
        number = seeded(f"{self.moment} {seed}").randrange(SECOND_CUT_MAX)
        storage = PowerCutStorage(image, cut=f"{number}:{'after' if seed % 2 else 'before'}")
        clock = self._rebooted()
        outcome, removable = Expectation(), Removable()
        with suppress(PowerCut), EmbeddedLog(image, upkeep=False, clock=clock, storage=storage) as log:
            outcome, removable = settled(self.expected, self.in_flight, log)
            _go_on(log, deepcopy(outcome))
        second = self.folder / "second"
        try:
            require(
                storage.image(second, seed) or outcome == Expectation(), "after a second cut, all of the log is gone"
            )
            if second.exists():
                self._compare_second(second, outcome, removable)
        finally:
            shutil.rmtree(second, ignore_errors=True)

    def _compare_second(self, second: Path, outcome: Expectation, removable: Removable) -> None:
        with EmbeddedLog(second, upkeep=False, clock=self._rebooted()) as log:
            position = commit_of(log.position())
            require(position - outcome.position in (0, 1), f"after a second cut, the position is {position}")
            if position > outcome.position:
                outcome.position = position
                _expect_new(log, outcome)
            outcome.compacted.add("accounts")
            compare(log, outcome, _more(removable, outcome))
            _check(log)

    def _rebooted(self) -> ManualClock:
        clock = copy(self.clock)
        clock.reboot()
        return clock


def _check(log: EmbeddedLog) -> None:
    findings = list(log.check())
    require(not findings, f"check found {findings}")


def _more(removable: Removable, outcome: Expectation) -> Removable:
    """Upkeep may delete and compact; what it may remove exactly is other tests' affair."""
    names = [name for name in ("events", "ring", "accounts") if name in outcome.topics]
    return {**removable, **{name: frozenset(outcome.topics[name]) for name in names}}


def _go_on(log: EmbeddedLog, outcome: Expectation) -> None:
    """Repeats a numbered send, appends to every partition, seals, and lets upkeep sweep."""
    for name, last in outcome.sequences.items():
        with log.producer(name=name) as producer, log.commit(producer=producer, sequence=last) as commit:
            commit.append("payments", [{"id": -1}])
        result = commit.result
        require(result.duplicate, f"{name}'s send {last} was taken twice")
    names = [topic.name for topic in log.topics()]
    with log.commit(headers={STEP: AFTER}) as commit:
        for name in names:
            for partition in range(log.topic(name).partitions):
                commit.append(name, [{"id": FIRST_ID + partition}], partition=partition)
    outcome.position += bool(names)
    require(commit_of(commit.position) == outcome.position, f"the next commit was number {commit.position}")
    for name in names[:2]:
        log.seal(name)
    log.upkeep()
    outcome.compacted.add("accounts")
    named = {segment.file for name in names for segment in log.segments(name)}
    left = {path.relative_to(log.directory).as_posix() for path in (log.directory / "topics").glob("*/*/*")} - named
    require(not left, f"upkeep left {sorted(left)}")


def _expect_new(log: EmbeddedLog, outcome: Expectation) -> None:
    """What `_go_on` has appended."""
    for topic in log.topics():
        for partition in range(topic.partitions):
            number = FIRST_ID + partition
            value = {column: number if column == "id" else None for column in topic.schema.names}
            outcome.topics[topic.name][AFTER, number] = Entry(outcome.position, value)

"""Power cuts: a scripted life of a log, cut at every operation, and what must hold of every disk that is left."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from headwater.log.embedded import tail
from headwater.testing.aftermath import Aftermath
from headwater.testing.disk import seeded
from headwater.testing.script import Script
from headwater.testing.storage import Moment, PowerCutStorage


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
        aftermath = Aftermath(folder, disk, script.expected, script.in_flight, script.clock, str(moment))
        for seed in seeds:
            try:
                aftermath.verify(seed, result.open_seconds)
            except Exception as error:  # noqa: BLE001 (whatever goes wrong with an image is a finding)
                result.broken.append(Broken(moment, script.step, seed, f"{type(error).__name__}: {error}"))
            result.images += 1
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


@contextmanager
def one_sync_at_a_time() -> Iterator[None]:
    """Files of one commit are synced one after the other, so that every run has its operations in the same order."""
    threads = tail.SYNC_THREADS
    tail.SYNC_THREADS = 1
    try:
        yield
    finally:
        tail.SYNC_THREADS = threads

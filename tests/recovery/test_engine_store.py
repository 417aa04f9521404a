"""Drivers that are killed at any moment, replaced by others, and watched by readers in other processes."""

from __future__ import annotations

import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from headwater.engine.merging import merge
from headwater.engine.opening import open_store
from headwater.engine.publication import BatchCommit
from headwater.engine.reading import Reader
from headwater.engine.runs import RunWriter, forget_open_runs
from headwater.engine.subscription import subscribe
from headwater.log.embedded.position import commit_of
from headwater.model.position import Position
from headwater.testing.storage import PowerCut
from tests.recovery.engine_victim import VIEWS, content_at
from tests.unit.engine.samples import Driver, Unsynced, at, stored, write, zset

ROOT = Path(__file__).parents[2]
PATIENCE = timedelta(seconds=60)
KILLS = 12


@contextmanager
def victim(directory: Path) -> Iterator[subprocess.Popen[str]]:
    """A driver in a process of its own, gone at the block's end."""
    command = [sys.executable, "-m", "tests.recovery.engine_victim", str(directory)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def told(process: subprocess.Popen[str], batches: int) -> int:
    """Waits for this many batches; the last one that the driver knows to be committed."""
    assert process.stdout is not None
    last = -1
    for _ in range(batches + 1):
        line = process.stdout.readline()
        assert line, "the driver has died by itself"
        last = int(line.split()[1])
    return last


def rows(table: pa.Table) -> Counter[tuple[int, str]]:
    return Counter(zip(table["key"].to_pylist(), table["text"].to_pylist(), strict=True))


def check(directory: Path, acknowledged: int) -> None:
    """Nothing that was acknowledged is lost, and nothing is half there."""
    forget_open_runs()
    with Reader(directory) as reader:
        position = reader.position()
        assert position is not None
        assert commit_of(position) >= acknowledged
        snapshot = reader.read(VIEWS)
    assert snapshot.position == position
    for view in VIEWS:
        assert rows(snapshot.tables[view]) == content_at(commit_of(position))


def test_kills_at_any_moment_lose_nothing(tmp_path: Path) -> None:
    chance = random.Random(7)
    acknowledged = 0
    for _ in range(KILLS):
        with victim(tmp_path) as process:
            resumed = told(process, 0)
            assert resumed >= acknowledged
            acknowledged = max(acknowledged, told(process, chance.randrange(1, 8) - 1))
            # Somewhere in the next batch.
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(chance.random() * 0.01)
            process.kill()
            process.wait()
            assert process.stdout is not None
            rest = [int(line.split()[1]) for line in process.stdout.read().splitlines() if line.startswith("!")]
            acknowledged = max([acknowledged, *rest])
        check(tmp_path, acknowledged)
    assert acknowledged > KILLS


def test_readers_elsewhere_never_see_half_a_publish(tmp_path: Path) -> None:
    with victim(tmp_path) as process, Reader(tmp_path) as reader:
        told(process, 1)
        positions: set[Position] = set()
        position = at(1)
        while len(positions) < 40:
            snapshot = reader.read(VIEWS, position, PATIENCE)
            assert rows(snapshot.tables["left"]) == rows(snapshot.tables["right"])
            assert rows(snapshot.tables["left"]) == content_at(commit_of(snapshot.position))
            positions.add(snapshot.position)
            position = at(commit_of(snapshot.position) + 1)
        assert process.poll() is None


def test_a_subscription_elsewhere_outlives_drivers(tmp_path: Path) -> None:
    total: Counter[tuple[int, str]] = Counter()
    positions: list[int] = []
    with subscribe(tmp_path, "left") as subscription:
        for _ in range(3):
            with victim(tmp_path) as process:
                last = told(process, 10)
            while not positions or positions[-1] < last:
                changes = subscription.poll(PATIENCE)
                assert changes is not None
                positions.append(commit_of(changes.position))
                seen = zip(changes.rows["key"].to_pylist(), changes.rows["text"].to_pylist(), strict=True)
                for row, weight in zip(seen, changes.weights.to_pylist(), strict=True):
                    total[row] += weight
            now = Counter({row: weight for row, weight in total.items() if weight})
            assert now == content_at(positions[-1])
    assert positions == list(range(positions[0], positions[-1] + 1))


def test_a_second_driver_fences_the_first(tmp_path: Path) -> None:
    with victim(tmp_path) as first:
        told(first, 3)
        with victim(tmp_path) as second:
            resumed = told(second, 0)
            assert resumed >= 3
            assert first.wait(60) == 0
            assert first.stdout is not None
            assert first.stdout.read().splitlines()[-1] == "fenced"
            last = told(second, 4)
    check(tmp_path, last)


class Dying(Unsynced):
    """Dies at one of the operations of a batch, counted from when it is armed."""

    def __init__(self) -> None:
        self.left: int | None = None

    def step(self) -> None:
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise PowerCut

    def open(self, path: Path) -> int:
        self.step()
        return super().open(path)

    def sync(self, fd: int, path: Path) -> None:
        self.step()

    def sync_directory(self, path: Path) -> None:
        self.step()

    def commit(self, connection: object) -> None:
        self.step()
        super().commit(connection)  # type: ignore[arg-type]


@pytest.mark.parametrize("step", range(4))
def test_death_at_each_step_of_a_batch_leaves_the_one_before(tmp_path: Path, step: int) -> None:
    storage = Dying()
    driver = Driver(tmp_path, storage=storage)
    for batch in range(4):
        driver.publish({"v": zset((batch, batch, "a", 1))})
    before = stored(driver.store, driver.generation, "view/v")
    storage.left = step
    with pytest.raises(PowerCut):
        publish_with_merge(driver, storage)
    driver.close()
    forget_open_runs()
    storage.left = None
    with open_store(tmp_path) as store:
        assert store.generation(driver.generation).batch == 4
        assert stored(store, driver.generation, "view/v") == before


def test_a_batch_has_four_steps_at_which_it_can_die(tmp_path: Path) -> None:
    storage = Dying()
    driver = Driver(tmp_path, storage=storage)
    for batch in range(4):
        driver.publish({"v": zset((batch, batch, "a", 1))})
    storage.left = 4
    publish_with_merge(driver, storage)
    assert storage.left == 0
    assert len(driver.store.runs(driver.generation)["view/v"]) == 2
    driver.close()


def publish_with_merge(driver: Driver, storage: Dying) -> None:
    """A batch that adds a run and merges the others."""
    runs = driver.store.runs(driver.generation)["view/v"]
    writer = RunWriter(driver.store.blobs, name="dying")
    writer.add("view/v", zset((9, 9, "z", 1)))
    merges = [merge(driver.store.blobs, writer, runs)]
    driver.store.commit(BatchCommit(driver.generation, driver.epoch, 5, at(5), writer.close(), merges))


def test_what_a_dead_task_left_is_never_taken_for_state(tmp_path: Path) -> None:
    driver = Driver(tmp_path)
    driver.publish({"v": zset((1, 1, "a", 1))})
    write(driver.store, {"view/v": zset((2, 2, "b", 1))})
    driver.close()
    with open_store(tmp_path) as store:
        assert stored(store, driver.generation, "view/v") == {(1, 1, "a"): 1}

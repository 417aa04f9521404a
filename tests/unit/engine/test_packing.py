"""Packing moves the changes of many batches into one file, and a subscriber sees no difference."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from headwater.engine.relational import packing
from headwater.engine.relational.packing import PACK
from headwater.engine.runs import OWN_FILE_BYTES, forget_open_runs
from headwater.engine.subscription import Subscription
from headwater.engine.view_store import REPLACED_KEPT
from headwater.errors import StateCorrupt
from headwater.log.embedded.position import commit_of
from headwater.testing.clock import ManualClock
from tests.unit.engine.samples import Driver, Unsynced, at, zset


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(datetime.now(UTC))


@pytest.fixture
def driver(tmp_path: Path, clock: ManualClock) -> Iterator[Driver]:
    made = Driver(tmp_path, storage=Unsynced(), clock=clock)
    yield made
    made.close()
    forget_open_runs()


def publish(driver: Driver, batches: int) -> None:
    for _ in range(batches):
        number = driver.batch
        driver.publish({"v": zset((number, number, "a", 1))})


def files_of_changes(driver: Driver) -> list[str]:
    """The file of each change, the oldest first."""
    with driver.store.read() as look:
        return [run.file for change in look.changes(driver.generation, "v", 0) for run in change.runs]


def followed(driver: Driver, after: int) -> list[tuple[int, list[dict[str, object]]]]:
    """The position and the rows of every change behind a position."""
    found: list[tuple[int, list[dict[str, object]]]] = []
    with Subscription(driver.store.address, "v", at(after)) as subscription:
        while (changes := subscription.poll()) is not None:
            found.append((commit_of(changes.position), changes.rows.to_pylist()))
    return found


def test_changes_of_many_batches_share_a_file(driver: Driver) -> None:
    publish(driver, 10)
    before = followed(driver, 1)
    assert len(set(files_of_changes(driver))) == 10
    driver.store.collect()
    (pack,) = set(files_of_changes(driver))
    assert pack.startswith(f"{PACK}-")
    assert followed(driver, 1) == before == [(n + 1, [{"key": n, "text": "a"}]) for n in range(1, 10)]


def test_what_was_packed_is_not_packed_again(driver: Driver) -> None:
    publish(driver, 3)
    driver.store.collect()
    first = files_of_changes(driver)
    publish(driver, 3)
    driver.store.collect()
    assert files_of_changes(driver)[:3] == first
    assert len(set(files_of_changes(driver))) == 2


def test_a_single_file_stays(driver: Driver) -> None:
    publish(driver, 1)
    before = files_of_changes(driver)
    driver.store.collect()
    assert files_of_changes(driver) == before


def test_a_full_pack_is_followed_by_another(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "PACK_BYTES_MAX", 1)
    publish(driver, 3)
    driver.store.collect()
    assert len({file for file in files_of_changes(driver) if file.startswith(PACK)}) == 3


def test_a_large_change_keeps_its_file(driver: Driver) -> None:
    publish(driver, 2)
    driver.publish({"v": zset((100, 100, "x" * OWN_FILE_BYTES, 1))})
    driver.store.collect()
    assert [file.startswith(PACK) for file in files_of_changes(driver)] == [True, True, False]


def test_a_damaged_change_stays_where_it_is_and_the_others_move(driver: Driver) -> None:
    publish(driver, 4)
    damaged = files_of_changes(driver)[2]
    path = Path(driver.store.blobs.address) / damaged
    content = path.read_bytes()
    path.write_bytes(content[:100] + bytes([content[100] ^ 1]) + content[101:])
    forget_open_runs()
    driver.store.collect()
    assert [file.startswith(PACK) for file in files_of_changes(driver)] == [True, True, False, True]
    with Subscription(driver.store.address, "v", at(1)) as subscription:
        assert subscription.poll() is not None
        with pytest.raises(StateCorrupt):
            subscription.poll()


def test_a_subscriber_that_has_looked_before_goes_on_behind_the_pack(driver: Driver, clock: ManualClock) -> None:
    publish(driver, 6)
    with Subscription(driver.store.address, "v", at(1)) as subscription:
        first = subscription.poll()
        assert first is not None
        driver.store.collect()
        # State is merged once more, so that nothing is left in the files of the first batches.
        publish(driver, 20)
        for _ in range(2):
            clock.advance(REPLACED_KEPT + timedelta(seconds=1))
            driver.store.collect()
        forget_open_runs()
        found = [commit_of(first.position)]
        while (changes := subscription.poll()) is not None:
            found.append(commit_of(changes.position))
    assert found == list(range(2, 27))


def test_a_driver_that_was_overtaken_moves_nothing(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(driver, 3)
    copied = packing._copied

    def overtaken(*arguments: object) -> object:
        found = copied(*arguments)  # type: ignore[arg-type]
        monkeypatch.setattr(packing, "_copied", copied)
        with Driver(driver.store.address, storage=Unsynced()).store as other:
            other.collect()
        return found

    monkeypatch.setattr(packing, "_copied", overtaken)
    driver.store.collect()
    (pack,) = set(files_of_changes(driver))
    assert (Path(driver.store.blobs.address) / pack).exists()
    assert [position for position, _ in followed(driver, 1)] == [2, 3]

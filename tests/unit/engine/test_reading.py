"""A read shows views at one position, whatever is published, merged and collected meanwhile."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from headwater.engine import runs as runs_module
from headwater.engine.reading import Reader, Snapshot
from headwater.engine.runs import forget_open_runs
from headwater.engine.view_store import GRACE, HISTORY_AGE_MAX, REPLACED_KEPT
from headwater.errors import Determinate, InternalError, NotYet, StateCorrupt, UnknownView
from headwater.testing.clock import ManualClock
from tests.unit.engine.samples import COLUMNS, Driver, at, zset

SOON = timedelta(milliseconds=20)


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Driver]:
    forget_open_runs()
    driver = Driver(tmp_path, views=("v", "w"), clock=ManualClock(datetime.now(UTC)))
    yield driver
    driver.close()


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    with Reader(tmp_path) as reader:
        yield reader


def rows(snapshot: Snapshot, view: str) -> Counter[tuple[int, str]]:
    table = snapshot.tables[view]
    assert table.schema.equals(COLUMNS)
    return Counter(zip(table["key"].to_pylist(), table["text"].to_pylist(), strict=True))


def test_rows_come_as_often_as_they_are_there(driver: Driver, reader: Reader) -> None:
    driver.publish({"v": zset((1, 1, "a", 3), (2, 2, "b", 1)), "w": zset((1, 7, "c", 1))})
    driver.publish({"v": zset((1, 1, "a", -1), (2, 2, "b", -1))})
    snapshot = reader.read(["v", "w"])
    assert snapshot.position == at(2)
    assert rows(snapshot, "v") == {(1, "a"): 2}
    assert rows(snapshot, "w") == {(7, "c"): 1}


def test_a_view_without_rows_has_its_columns(driver: Driver, reader: Reader) -> None:
    driver.publish({})
    assert rows(reader.read(["v"]), "v") == {}


def test_only_rows_of_some_hashes(driver: Driver, reader: Reader) -> None:
    for step in range(20):
        driver.publish({"v": zset((step % 5, step % 5, "a", 1))})
    found = reader.lookup("v", np.array([3, 1, 3, 77], dtype=np.int64))
    assert rows(found, "v") == {(1, "a"): 4, (3, "a"): 4}


def test_an_unknown_view_is_named(driver: Driver, reader: Reader) -> None:
    driver.publish({})
    with pytest.raises(UnknownView) as caught:
        reader.read(["v", "x"])
    assert caught.value.name == "x"
    assert "v, w" in caught.value.hint


def test_a_position_that_is_not_reached_says_how_far_it_is(driver: Driver, reader: Reader) -> None:
    driver.publish({}, 5)
    with pytest.raises(NotYet) as caught:
        reader.read(["v"], at(6), SOON)
    assert isinstance(caught.value, Determinate)
    assert (caught.value.wanted, caught.value.position) == ("6", "5")


def test_before_anything_is_published(tmp_path: Path) -> None:
    with Reader(tmp_path / "later") as reader:
        assert reader.position() is None
        with pytest.raises(NotYet) as caught:
            reader.read(["v"], timeout=SOON)
    assert caught.value.position is None


def test_a_read_waits_for_its_position(driver: Driver, reader: Reader) -> None:
    found: list[Snapshot] = []
    waiting = threading.Thread(target=lambda: found.append(reader.read(["v"], at(3), timedelta(seconds=60))))
    waiting.start()
    for step in range(3):
        driver.publish({"v": zset((step, step, "a", 1))})
    waiting.join(60)
    assert found[0].position >= at(3)
    assert len(rows(found[0], "v")) == 3


def test_a_generation_that_is_building_is_not_seen(driver: Driver, reader: Reader) -> None:
    driver.publish({"v": zset((1, 1, "a", 1))}, promote=False)
    assert reader.position() is None
    driver.publish({})
    assert rows(reader.read(["v"]), "v") == {(1, "a"): 1}


def test_files_collected_during_a_read_make_it_look_again(
    driver: Driver, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = driver.clock
    assert isinstance(clock, ManualClock)
    for step in range(4):
        driver.publish({"v": zset((step, step, "a", 1))})
    manifest = Reader._manifest
    looks: list[int] = []

    def overtaken(self: Reader, *arguments: object) -> object:
        found = manifest(self, *arguments)  # type: ignore[arg-type]
        looks.append(found[0].batch)
        if len(looks) == 1:
            driver.publish({})
            driver.publish({"v": zset((9, 9, "a", 1))})
            clock.advance(max(GRACE, HISTORY_AGE_MAX) + timedelta(hours=1))
            assert driver.store.collect().changes == 4
            clock.advance(REPLACED_KEPT + timedelta(seconds=1))
            assert driver.store.collect().files >= 4
            forget_open_runs()
        return found

    monkeypatch.setattr(Reader, "_manifest", overtaken)
    snapshot = reader.read(["v"])
    assert looks == [4, 6]
    assert len(rows(snapshot, "v")) == 5


def test_damage_is_reported_and_not_looked_for_for_ever(driver: Driver, reader: Reader) -> None:
    driver.publish({"v": zset((1, 1, "a", 1))})
    for path in Path(driver.store.blobs.address).iterdir():
        path.unlink()
    with pytest.raises(StateCorrupt):
        reader.read(["v"])


def test_a_row_that_is_there_less_than_no_times_is_a_bug(driver: Driver, reader: Reader) -> None:
    driver.publish({"v": zset((1, 1, "a", -1))})
    with pytest.raises(InternalError):
        reader.read(["v"])


def test_a_reader_keeps_open_what_its_views_are_made_of_now(tmp_path: Path) -> None:
    driver = Driver(tmp_path, views=("v", "w"))
    forget_open_runs()
    with Reader(tmp_path) as reader:
        for number in range(40):
            driver.publish({view: zset((number, number, "a", 1)) for view in ("v", "w")})
            for view in ("v", "w"):
                assert reader.read([view]).tables[view].num_rows == number + 1
        opened = [key[1:] for key in runs_module._open_runs if key[0] == reader.store.blobs.address]
        runs = driver.store.runs(driver.generation)
        assert sorted(opened) == sorted((run.file, run.index) for found in runs.values() for run in found)
    driver.close()

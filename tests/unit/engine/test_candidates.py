"""What a candidate changes in a view, against the same counted slowly."""

from __future__ import annotations

import tempfile
from collections import Counter
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headwater.engine.candidates import candidate, decide, diff
from headwater.engine.presence import present
from headwater.engine.publication import BatchCommit
from headwater.errors import NotYet, UsageError
from tests.unit.engine.samples import Driver, Unsynced, at, definition, write, zset

SOON = timedelta(milliseconds=50)
Rows = Counter[tuple[int, str]]
ROWS = st.dictionaries(st.tuples(st.integers(0, 4), st.sampled_from("ab")), st.integers(1, 2), max_size=6).map(Counter)


def build(driver: Driver, rows: Rows, position: int = 1) -> int:
    built = driver.store.open_generation("changed", definition("v", sql="changed")).id
    runs = write(driver.store, {"view/v": zset(*((key, key, text, count) for (key, text), count in rows.items()))})
    driver.store.commit(BatchCommit(built, driver.epoch, 1, at(position), runs))
    return built


def published(directory: Path, rows: Rows) -> Driver:
    driver = Driver(directory, storage=Unsynced())
    driver.publish({"v": zset(*((key, key, text, count) for (key, text), count in rows.items()))})
    return driver


def slowly(before: Rows, after: Rows) -> tuple[int, int, int]:
    """Rows removed, added and changed: changed is a key that has one row less and one row more."""
    removed, added = before - after, after - before
    per_key = [Counter(key for key, _ in side.elements()) for side in (removed, added)]
    changed = sum(per_key[0][key] == 1 == per_key[1][key] for key in range(5))
    return removed.total() - changed, added.total() - changed, changed


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(before=ROWS, after=ROWS, later=ROWS)
def test_it_is_what_comes_of_counting(tmp_path: Path, before: Rows, after: Rows, later: Rows) -> None:
    directory = Path(tempfile.mkdtemp(dir=tmp_path))
    driver = published(directory, before)
    build(driver, after)
    # The current view may be further by now; they are compared where the candidate is.
    driver.publish({"v": zset(*((key, key, text, count) for (key, text), count in later.items()))})
    found = diff(directory, "v", timeout=SOON)
    driver.close()
    assert (found.removed, found.added, found.changed) == slowly(before, after)
    assert (found.rows_before, found.rows_after) == (before.total(), after.total())
    assert found.position == at(1)
    assert found.changed_by_column == ({"text": found.changed} if before - after and after - before else {})
    assert found.is_equal == (before == after)
    assert len(found.samples["removed"]) == len(before - after)


@pytest.fixture
def driver(tmp_path: Path) -> Driver:
    return published(tmp_path, Counter({(1, "a"): 1}))


def test_a_candidate_that_is_ahead_is_waited_for(driver: Driver, tmp_path: Path) -> None:
    build(driver, Counter({(1, "b"): 1}), position=5)
    with driver.store.read() as look:
        found = candidate(look)
    assert found is not None
    assert not found.is_ready
    with pytest.raises(NotYet):
        diff(tmp_path, "v", timeout=SOON)
    with pytest.raises(UsageError, match="at position 5"):
        decide(tmp_path, "switch", former=False, timeout=SOON)
    driver.close()


def test_without_a_process_that_runs_it_is_done_at_once(driver: Driver, tmp_path: Path) -> None:
    built = build(driver, Counter({(1, "b"): 1}))
    assert decide(tmp_path, "switch", former=False, timeout=SOON).generation == built
    current = driver.store.current()
    assert current is not None
    assert current.id == built
    assert decide(tmp_path, "discard", former=False, timeout=SOON).is_former
    with pytest.raises(UsageError, match="no candidate"):
        decide(tmp_path, "discard", former=False, timeout=SOON)
    driver.close()


def test_the_process_that_runs_is_asked(driver: Driver, tmp_path: Path) -> None:
    built = build(driver, Counter({(1, "b"): 1}))
    with present(tmp_path), pytest.raises(NotYet):
        decide(tmp_path, "switch", former=False, timeout=SOON)
    assert driver.store.generation(built).wish == "switch"
    driver.store.check_epoch(driver.epoch)
    driver.close()

"""One commit moves everything on, or nothing; what nobody needs is collected."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from headwater.engine.definition import Definition
from headwater.engine.embedded.store import EmbeddedViewStore
from headwater.engine.manifest import Merge, Piece
from headwater.engine.merging import TIER_RUNS_MAX, merge
from headwater.engine.opening import delete_state, open_store
from headwater.engine.publication import BatchCommit, BatchStats, Excluded
from headwater.engine.relational import store as store_module
from headwater.engine.runs import RunWriter, forget_open_runs
from headwater.engine.view_store import GRACE, HISTORY_AGE_MAX, REPLACED_KEPT, RETIRED_KEPT, ViewStore
from headwater.errors import DiskFull, Fenced, Indeterminate, InternalError, StoreOutdated, StoreUnusable, UsageError
from headwater.system.sqlite import SQLITE_FULL, SQLITE_IOERR, Connection, error_of
from headwater.system.storage import Storage
from headwater.testing.clock import ManualClock
from tests.unit.engine.samples import Driver, Unsynced, at, definition, stored, write, zset

DEFINITION = definition("v")
ONE, TWO = zset((1, 1, "a", 1)), zset((2, 2, "b", 1))


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(datetime.now(UTC))


@pytest.fixture
def store(tmp_path: Path, clock: ManualClock) -> Iterator[ViewStore]:
    forget_open_runs()
    with open_store(tmp_path / "shop", clock=clock) as store:
        yield store


def files(store: ViewStore) -> set[str]:
    return {path.name for path in Path(store.blobs.address).iterdir()}


class TestCommit:
    def test_everything_is_there_afterwards(self, store: ViewStore) -> None:
        generation, epoch = store.open_generation("one", DEFINITION), store.take_over()
        runs = write(store, {"x": ONE, "view/v": TWO})
        refused = Excluded("v", "orders", 0, 7, "division by zero")
        store.commit(
            BatchCommit(generation.id, epoch, 1, at(5), runs, (), {"v": runs[1:]}, BatchStats(2), excluded=[refused])
        )
        assert stored(store, generation.id, "x") == {(1, 1, "a"): 1}
        now = store.generation(generation.id)
        assert (now.batch, now.position, now.status, now.definition) == (1, at(5), "building", DEFINITION)
        (published,) = store.published(generation.id)
        assert (published.batch, published.position, published.stats) == (1, at(5), BatchStats(2))
        assert store.excluded(generation.id) == [refused]
        assert {name: size.rows for name, size in store.sizes(generation.id).items()} == {"x": 1, "view/v": 1}

    def test_it_is_there_for_who_opens_the_store_later(self, store: ViewStore) -> None:
        generation, epoch = store.open_generation("one", Definition()), store.take_over()
        store.commit(BatchCommit(generation.id, epoch, 1, at(5), write(store, {"x": ONE})))
        with open_store(store.address) as other:
            assert other.open_generation("one", Definition()).id == generation.id
            assert stored(other, generation.id, "x") == {(1, 1, "a"): 1}
            store.commit(BatchCommit(generation.id, epoch, 2, at(6), write(store, {"x": TWO})))
            assert stored(other, generation.id, "x") == {(1, 1, "a"): 1, (2, 2, "b"): 1}

    def test_an_older_epoch_is_fenced(self, store: ViewStore) -> None:
        generation, old = store.open_generation("one", Definition()), store.take_over()
        with open_store(store.address) as other:
            new = other.take_over()
            with pytest.raises(Fenced) as caught:
                store.commit(BatchCommit(generation.id, old, 1, at(1), write(store, {"x": ONE})))
            other.commit(BatchCommit(generation.id, new, 1, at(1), []))
        assert (caught.value.kind, caught.value.name) == ("pipeline", "shop")
        assert store.runs(generation.id) == {}

    @pytest.mark.parametrize("batch", [0, 1, 3])
    def test_a_batch_follows_the_last(self, store: ViewStore, batch: int) -> None:
        generation, epoch = store.open_generation("one", Definition()), store.take_over()
        store.commit(BatchCommit(generation.id, epoch, 1, at(1), []))
        with pytest.raises(InternalError):
            store.commit(BatchCommit(generation.id, epoch, batch, at(2), write(store, {"x": ONE})))
        assert store.runs(generation.id) == {}

    def test_positions_never_go_back(self, store: ViewStore) -> None:
        generation, epoch = store.open_generation("one", Definition()), store.take_over()
        store.commit(BatchCommit(generation.id, epoch, 1, at(5), []))
        with pytest.raises(InternalError):
            store.commit(BatchCommit(generation.id, epoch, 2, at(4), []))

    def test_a_view_does_not_change_at_a_position_that_was_published(self, store: ViewStore) -> None:
        generation, epoch = store.open_generation("one", Definition()), store.take_over()
        store.commit(BatchCommit(generation.id, epoch, 1, at(5), []))
        runs = write(store, {"view/v": ONE})
        with pytest.raises(InternalError):
            store.commit(BatchCommit(generation.id, epoch, 2, at(5), runs, (), {"v": runs}))
        store.commit(BatchCommit(generation.id, epoch, 2, at(5), [], promote=True))

    def test_a_file_that_is_missing_is_not_committed(self, store: ViewStore) -> None:
        generation, epoch = store.open_generation("one", Definition()), store.take_over()
        (run,) = write(store, {"x": ONE})
        (Path(store.blobs.address) / run.file).unlink()
        with pytest.raises(InternalError, match=run.file):
            store.commit(BatchCommit(generation.id, epoch, 1, at(1), [run]))

    def test_a_merge_of_runs_that_are_gone_is_not_committed(self, store: ViewStore) -> None:
        generation, epoch = store.open_generation("one", Definition()), store.take_over()
        for batch in range(1, 5):
            store.commit(BatchCommit(generation.id, epoch, batch, at(batch), write(store, {"x": ONE})))
        writer = RunWriter(store.blobs, name="task")
        done = merge(store.blobs, writer, store.runs(generation.id)["x"])
        writer.close()
        store.commit(BatchCommit(generation.id, epoch, 5, at(5), [], [done]))
        assert stored(store, generation.id, "x") == {(1, 1, "a"): 4}
        with pytest.raises(InternalError):
            store.commit(BatchCommit(generation.id, epoch, 6, at(6), [], [done]))
        assert len(store.runs(generation.id)["x"]) == 1

    @pytest.mark.parametrize(("code", "error"), [(SQLITE_FULL, DiskFull), (SQLITE_IOERR, Indeterminate)])
    def test_a_failing_disk_says_whether_it_may_have_happened(
        self, tmp_path: Path, code: int, error: type[Exception]
    ) -> None:
        class Failing(Storage):
            fails = False

            def commit(self, connection: Connection) -> None:
                if self.fails:
                    raise error_of(code)
                super().commit(connection)

        storage = Failing()
        with open_store(tmp_path / "failing", storage=storage) as store:
            generation, epoch = store.open_generation("one", Definition()), store.take_over()
            storage.fails = True
            with pytest.raises(error):
                store.commit(BatchCommit(generation.id, epoch, 1, at(1), write(store, {"x": ONE})))
            storage.fails = False
            assert store.runs(generation.id) == {}
            store.commit(BatchCommit(generation.id, epoch, 1, at(1), write(store, {"x": ONE})))
            assert stored(store, generation.id, "x") == {(1, 1, "a"): 1}


class TestGenerations:
    def test_nothing_is_current_before_it_is_promoted(self, store: ViewStore) -> None:
        generation, epoch = store.open_generation("one", Definition()), store.take_over()
        assert store.current() is None
        store.commit(BatchCommit(generation.id, epoch, 1, at(3), [], promote=True))
        current = store.current()
        assert current is not None
        assert (current.id, current.status, current.promoted_position) == (generation.id, "current", at(3))

    def test_a_new_one_takes_the_place_of_the_current_one_in_one_commit(self, store: ViewStore) -> None:
        first, epoch = store.open_generation("one", Definition()), store.take_over()
        store.commit(BatchCommit(first.id, epoch, 1, at(3), write(store, {"x": ONE}), promote=True))
        second = store.open_generation("two", Definition())
        store.commit(BatchCommit(second.id, epoch, 1, at(2), write(store, {"x": TWO})))
        assert [found.status for found in store.generations()] == ["current", "building"]
        store.commit(BatchCommit(second.id, epoch, 2, at(3), [], promote=True))
        assert [found.status for found in store.generations()] == ["retired", "current"]
        assert stored(store, first.id, "x") == {(1, 1, "a"): 1}
        with pytest.raises(InternalError):
            store.commit(BatchCommit(first.id, epoch, 2, at(4), []))

    def test_one_that_is_behind_is_not_promoted(self, store: ViewStore) -> None:
        first, epoch = store.open_generation("one", Definition()), store.take_over()
        store.commit(BatchCommit(first.id, epoch, 1, at(3), [], promote=True))
        second = store.open_generation("two", Definition())
        with pytest.raises(InternalError):
            store.commit(BatchCommit(second.id, epoch, 1, at(2), [], promote=True))
        assert [found.status for found in store.generations()] == ["current", "building"]

    def test_one_that_nobody_wants_any_more_is_given_up(self, store: ViewStore) -> None:
        first, epoch = store.open_generation("one", Definition()), store.take_over()
        store.commit(BatchCommit(first.id, epoch, 1, at(1), []))
        second = store.open_generation("two", Definition())
        assert [found.status for found in store.generations()] == ["retired", "building"]
        store.commit(BatchCommit(second.id, epoch, 1, at(1), []))
        third = store.open_generation("one", Definition())
        assert third.id not in {first.id, second.id}

    def test_one_that_never_had_a_batch_leaves_nothing_behind(self, store: ViewStore) -> None:
        for _ in range(3):
            store.open_generation("one", Definition())
            store.open_generation("two", Definition())
        assert [found.fingerprint for found in store.generations()] == ["two"]


class TestCollect:
    def test_files_without_a_name_go_after_a_while(self, store: ViewStore, clock: ManualClock) -> None:
        generation, epoch = store.open_generation("one", Definition()), store.take_over()
        kept = write(store, {"x": ONE})
        store.commit(BatchCommit(generation.id, epoch, 1, at(1), kept))
        (left_over,) = write(store, {"x": TWO})
        assert store.collect().files == 0
        assert left_over.file in files(store)
        clock.advance(GRACE + timedelta(minutes=1))
        assert store.collect().files == 1
        assert files(store) == {kept[0].file}
        assert stored(store, generation.id, "x") == {(1, 1, "a"): 1}

    def test_the_history_of_changes_is_bounded(
        self, tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(store_module, "HISTORY_BATCHES_MAX", 3)
        driver = Driver(tmp_path / "v", clock=clock)
        for step in range(10):
            driver.publish({"v": zset((step, step, "a", 1))})
        assert driver.store.collect().changes == 7
        assert [found.batch for found in driver.store.published(driver.generation)] == [8, 9, 10]
        clock.advance(HISTORY_AGE_MAX + timedelta(minutes=1))
        assert driver.store.collect().changes == 2
        assert [found.batch for found in driver.store.published(driver.generation)] == [10]
        assert len(stored(driver.store, driver.generation, "view/v")) == 10
        driver.close()

    def test_a_retired_generation_goes_after_a_while(self, store: ViewStore, clock: ManualClock) -> None:
        first, epoch = store.open_generation("one", Definition()), store.take_over()
        store.commit(BatchCommit(first.id, epoch, 1, at(1), write(store, {"x": ONE}), promote=True))
        second = store.open_generation("two", Definition())
        kept = write(store, {"x": ONE})
        store.commit(BatchCommit(second.id, epoch, 1, at(1), kept, promote=True))
        assert store.collect().generations == 0
        clock.advance(max(RETIRED_KEPT, GRACE) + timedelta(minutes=1))
        assert store.collect().generations == 1
        assert [found.id for found in store.generations()] == [second.id]
        clock.advance(REPLACED_KEPT + timedelta(seconds=1))
        assert store.collect().files == 1
        assert files(store) == {kept[0].file}

    def test_a_file_that_was_merged_goes_sooner(self, store: ViewStore, clock: ManualClock) -> None:
        generation, epoch = store.open_generation("one", Definition()), store.take_over()
        (first,) = write(store, {"x": ONE})
        store.commit(BatchCommit(generation.id, epoch, 1, at(1), [first]))
        (second,) = write(store, {"x": ONE})
        piece = Piece(first, first.low, first.high, 0, first.rows)
        store.commit(BatchCommit(generation.id, epoch, 2, at(2), [], [Merge((piece,), (second,))]))
        assert store.collect().files == 0
        clock.advance(REPLACED_KEPT + timedelta(seconds=1))
        (left_over,) = write(store, {"x": TWO})
        assert store.collect().files == 1
        assert files(store) == {second.file, left_over.file}

    def test_the_number_of_files_does_not_follow_the_number_of_batches(
        self, tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Batches of a few rows to three views, with seconds in between; every tenth time files are collected."""
        monkeypatch.setattr(store_module, "HISTORY_BATCHES_MAX", 100)
        views, every, seconds = ("u", "v", "w"), 10, 4
        driver = Driver(tmp_path / "v", views=views, clock=clock, storage=Unsynced())
        counts: list[int] = []
        for step in range(600):
            driver.publish({view: zset((step % 50, step % 50, str(step), 1)) for view in views})
            clock.advance(timedelta(seconds=seconds))
            counts.append(len(files(driver.store)))
            if driver.batch % every == 0:
                driver.store.collect()
        # Those of batches since the last collection, those replaced since the last minute, packs, and runs.
        tiers = 6
        runs = len(views) * TIER_RUNS_MAX * tiers
        assert max(counts) <= 2 * every + REPLACED_KEPT.total_seconds() / seconds + 100 / every + runs
        assert max(counts[300:]) <= max(counts[:300]) + TIER_RUNS_MAX * len(views)
        assert sum(map(len, driver.store.runs(driver.generation).values())) <= runs
        driver.close()


class TestDeleting:
    def test_it_starts_anew_and_fences_who_runs(self, store: ViewStore) -> None:
        generation, epoch = store.open_generation("one", Definition()), store.take_over()
        store.commit(BatchCommit(generation.id, epoch, 1, at(1), write(store, {"x": ONE}), promote=True))
        store.delete_state()
        assert (store.current(), store.generations(), files(store)) == (None, [], set())
        with pytest.raises(Fenced):
            store.commit(BatchCommit(generation.id, epoch, 2, at(2), []))
        with pytest.raises(UsageError):
            store.runs(generation.id)
        again = store.open_generation("one", Definition())
        assert (again.batch, again.id > generation.id) == (0, True)

    def test_a_damaged_store_can_be_deleted(self, tmp_path: Path) -> None:
        driver = Driver(tmp_path / "v")
        driver.publish({"v": ONE})
        driver.close()
        (tmp_path / "v" / "store.db").write_bytes(b"nonsense" * 1000)
        with pytest.raises(StoreUnusable) as caught:
            open_store(tmp_path / "v")
        assert caught.value.damaged
        delete_state(tmp_path / "v")
        with open_store(tmp_path / "v") as store:
            assert store.generations() == []


def test_a_closed_store_says_so(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.close()
    with pytest.raises(UsageError):
        store.current()


def test_a_store_of_another_version_is_refused_and_can_be_deleted(tmp_path: Path) -> None:
    with EmbeddedViewStore(tmp_path / "old") as store, store._database.write() as tx:
        tx.execute("UPDATE pipeline SET format = 2")
    with pytest.raises(StoreOutdated, match="has format 2") as error:
        open_store(tmp_path / "old")
    assert "Delete the pipeline's state" in error.value.hint
    delete_state(tmp_path / "old")
    with open_store(tmp_path / "old") as reopened:
        assert reopened.generations() == []

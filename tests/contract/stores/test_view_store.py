"""What every view store does: one commit moves everything, one driver commits, and readers are never in the way."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from headwater.engine.judging import Judged
from headwater.engine.lateness import Lateness, LateRule
from headwater.engine.opening import delete_state, open_blobs, open_store
from headwater.engine.publication import BatchCommit, BatchStats, Excluded, Switch
from headwater.engine.reading import Reader
from headwater.engine.runs import load
from headwater.engine.subscription import Subscription
from headwater.engine.view_store import GRACE, HISTORY_AGE_MAX, REPLACED_KEPT, RETIRED_KEPT, ViewStore
from headwater.engine.watermarks import WatermarkRule
from headwater.errors import Fenced, InternalError, UsageError, ViewPositionGone
from headwater.testing.clock import ManualClock
from tests.unit.engine.samples import Driver, at, content, definition, stored, write, zset

ONE, TWO = zset((1, 1, "a", 1)), zset((2, 2, "b", 1))
VIEWS = definition("v")


def rows(reader: Reader) -> list[object]:
    return sorted(row["key"] for row in reader.read(["v"]).tables["v"].to_pylist())


class TestBeforeTheFirstCommit:
    def test_a_store_that_is_not_there_is_empty(self, address: str) -> None:
        with open_store(address, create=False) as store:
            assert (store.current(), store.generations()) == (None, [])
            with store.read() as look:
                assert (look.runs(1), look.published(1), look.excluded(1), look.changes(1, "v", 0)) == ([], [], [], [])
                assert (look.forgotten(1, "v"), look.batch_at(1, "v", at(5))) == (None, 0)

    def test_a_reader_sees_it_as_soon_as_it_is_there(self, address: str) -> None:
        with open_store(address, create=False) as reader:
            version = reader.version()
            driver = Driver(address)
            driver.publish({"v": ONE})
            assert reader.version() != version
            assert reader.current() is not None
            driver.close()

    def test_who_reads_cannot_drive(self, store: ViewStore) -> None:
        with open_store(store.address, create=False) as reader:
            for change in (reader.take_over, reader.collect, reader.delete_state):
                with pytest.raises(UsageError):
                    change()

    def test_an_address_of_another_kind_is_refused(self) -> None:
        for wrong in ("mysql://host/db", "file://host/share"):
            with pytest.raises(UsageError, match="address"):
                open_store(wrong)
            with pytest.raises(UsageError, match="address"):
                open_blobs(wrong)


class TestCommit:
    def test_everything_becomes_true_together(self, store: ViewStore) -> None:
        generation, epoch = store.open_generation("one", VIEWS), store.take_over()
        runs, refused = write(store, {"x": ONE, "view/v": TWO}), Excluded("v", "orders", 0, 7, "division by zero")
        stats = BatchStats(2, 0.5, {3: (2, 1)}, {"v": 1}, 12)
        changes = {"v": runs[1:]}
        store.commit(
            BatchCommit(generation.id, epoch, 1, at(5), runs, (), changes, stats, promote=True, excluded=[refused])
        )
        with open_store(store.address, create=False) as other, other.read() as look:
            now = look.current()
            assert now is not None
            assert (now.id, now.batch, now.position, now.status) == (generation.id, 1, at(5), "current")
            assert (now.definition, now.promoted_position) == (VIEWS, at(5))
            assert set(look.runs(now.id)) == set(runs)
            assert look.runs(now.id, ["view/v"]) == runs[1:]
            assert [(one.batch, one.position, one.stats) for one in look.published(now.id)] == [(1, at(5), stats)]
            assert [(one.batch, one.position, list(one.runs)) for one in look.changes(now.id, "v", 0)] == [
                (1, at(5), runs[1:])
            ]
            assert look.excluded(now.id) == [refused]

    def test_a_look_stays_as_it_was(self, store: ViewStore) -> None:
        driver = Driver(store.address)
        driver.publish({"v": ONE})
        with open_store(store.address, create=False) as reader, reader.read() as look:
            before = look.current()
            driver.publish({"v": TWO})
            assert look.current() == before
        driver.close()

    def test_an_older_driver_is_fenced(self, store: ViewStore) -> None:
        generation, old = store.open_generation("one", VIEWS), store.take_over()
        with open_store(store.address) as other:
            new = other.take_over()
            with pytest.raises(Fenced):
                store.commit(BatchCommit(generation.id, old, 1, at(1), write(store, {"x": ONE})))
            assert other.runs(generation.id) == {}
            other.commit(BatchCommit(generation.id, new, 1, at(1), write(other, {"x": TWO})))
        assert stored(store, generation.id, "x") == {(2, 2, "b"): 1}

    def test_deleting_the_state_fences_the_driver(self, store: ViewStore) -> None:
        generation, epoch = store.open_generation("one", VIEWS), store.take_over()
        store.commit(BatchCommit(generation.id, epoch, 1, at(1), write(store, {"x": ONE}), promote=True))
        delete_state(store.address)
        assert (store.current(), list(store.blobs.list())) == (None, [])
        with pytest.raises(Fenced):
            store.commit(BatchCommit(generation.id, epoch, 2, at(2)))

    @pytest.mark.parametrize("batch", [0, 1, 3])
    def test_a_batch_follows_the_last(self, store: ViewStore, batch: int) -> None:
        generation, epoch = store.open_generation("one", VIEWS), store.take_over()
        store.commit(BatchCommit(generation.id, epoch, 1, at(1)))
        with pytest.raises(InternalError):
            store.commit(BatchCommit(generation.id, epoch, batch, at(2), write(store, {"x": ONE})))
        assert store.runs(generation.id) == {}

    def test_positions_do_not_go_back_and_hold_one_content(self, store: ViewStore) -> None:
        generation, epoch = store.open_generation("one", VIEWS), store.take_over()
        store.commit(BatchCommit(generation.id, epoch, 1, at(5)))
        runs = write(store, {"view/v": ONE})
        for wrong in (
            BatchCommit(generation.id, epoch, 2, at(4)),
            BatchCommit(generation.id, epoch, 2, at(5), runs, changes={"v": runs}),
        ):
            with pytest.raises(InternalError):
                store.commit(wrong)
        assert store.generation(generation.id).batch == 1

    def test_a_blob_that_is_missing_is_not_committed(self, store: ViewStore) -> None:
        generation, epoch = store.open_generation("one", VIEWS), store.take_over()
        (run,) = write(store, {"x": ONE})
        store.blobs.delete(run.file)
        with pytest.raises(InternalError, match=run.file):
            store.commit(BatchCommit(generation.id, epoch, 1, at(1), [run]))

    def test_who_waits_wakes_up(self, store: ViewStore) -> None:
        driver = Driver(store.address)
        with open_store(store.address, create=False) as reader:
            ticket = reader.ticket()
            thread = threading.Thread(target=lambda: driver.publish({"v": ONE}))
            thread.start()
            while reader.current() is None:
                reader.wait(ticket, 10)
                ticket = reader.ticket()
            thread.join()
        driver.close()


class TestGenerations:
    def test_a_generation_is_found_by_its_fingerprint(self, store: ViewStore) -> None:
        generation, epoch = store.open_generation("one", VIEWS), store.take_over()
        store.commit(BatchCommit(generation.id, epoch, 1, at(1), promote=True))
        second = store.open_generation("two", VIEWS)
        assert (second.id, second.status) != (generation.id, "current")
        with open_store(store.address) as other:
            assert other.open_generation("one", VIEWS).id == generation.id

    def test_a_promoted_one_takes_the_place_of_the_former(self, store: ViewStore, clock: ManualClock) -> None:
        first, epoch = store.open_generation("one", VIEWS), store.take_over()
        store.commit(BatchCommit(first.id, epoch, 1, at(3), promote=True))
        second = store.open_generation("two", VIEWS)
        with pytest.raises(InternalError):
            store.commit(BatchCommit(second.id, epoch, 1, at(2), promote=True))
        store.commit(BatchCommit(second.id, epoch, 1, at(3), promote=True))
        assert [one.status for one in store.generations()] == ["retired", "current"]
        with pytest.raises(InternalError):
            store.commit(BatchCommit(first.id, epoch, 2, at(4)))
        clock.advance(RETIRED_KEPT + timedelta(minutes=1))
        assert store.collect().generations == 1
        assert [one.id for one in store.generations()] == [second.id]
        with pytest.raises(UsageError):
            store.generation(first.id)


class TestSwitch:
    """One definition takes the place of another at the same position."""

    @pytest.fixture
    def driver(self, store: ViewStore, clock: ManualClock) -> Iterator[Driver]:
        """View `v` has two rows, `w` has one, and so has the state `x`."""
        driver = Driver(store.address, views=("v", "w"), clock=clock)
        driver.publish({"v": zset((1, 1, "a", 1)), "w": zset((7, 7, "w", 1))}, state={"x/rows": ONE})
        driver.publish({"v": zset((2, 2, "b", 1))})
        yield driver
        driver.close()

    def switch(self, driver: Driver, **what: Any) -> int:
        """Another definition, in which `w` has another row."""
        former = driver.generation
        built = driver.store.open_generation("two", definition("v", "w")).id
        driver.generation, driver.batch = built, 0
        driver.publish({"w": zset((8, 8, "new", 1))}, 2, promote=False, state={"y/rows": TWO, "z/rows": TWO})
        adopted = {"view/v": ["view/v"], "x/rows": ["x/rows", "x.2/rows"]}
        kept = ["view/w", "y/rows"]
        told = {"kept": kept, "adopted": adopted, "unchanged": ["v"], **what}
        now = driver.store.switch(Switch(built, driver.epoch, "two", **told))
        assert (now.id, now.status, now.batch, now.position, now.promoted_position) == (
            built,
            "current",
            2,
            at(2),
            at(2),
        )
        driver.batch = now.batch
        return former

    def test_readers_see_both_parts_at_one_position(self, driver: Driver) -> None:
        former = self.switch(driver)
        assert [one.status for one in driver.store.generations()] == ["retired", "current"]
        assert sorted(driver.store.runs(driver.generation)) == ["view/v", "view/w", "x.2/rows", "x/rows", "y/rows"]
        with Reader(driver.store.address) as reader:
            assert rows(reader) == [1, 2]
            assert reader.read(["w"]).tables["w"]["key"].to_pylist() == [8]
            assert [one.batch for one in reader.published(9)] == [1, 2]
        with pytest.raises(InternalError):
            driver.store.commit(BatchCommit(former, driver.epoch, 3, at(3)))
        driver.publish({"v": zset((3, 3, "c", 1)), "w": zset((8, 8, "new", -1))}, 3)
        with Reader(driver.store.address) as reader:
            assert rows(reader) == [1, 2, 3]

    def test_who_follows_an_unchanged_view_sees_nothing_of_it(self, driver: Driver, clock: ManualClock) -> None:
        with Subscription(driver.store.address, "v") as before, Subscription(driver.store.address, "w") as other:
            assert before.poll() is not None
            assert other.poll() is not None
            former = self.switch(driver)
            assert before.poll() is None
            change = other.poll()
            assert change is not None
            assert (change.snapshot, change.position) == (False, at(2))
            changed = dict(zip(change.rows["key"].to_pylist(), change.weights.to_pylist(), strict=True))
            assert changed == {7: -1, 8: 1}
            assert before.reached == (at(2), former)
        clock.advance(RETIRED_KEPT + timedelta(minutes=1))
        driver.publish({"v": zset((3, 3, "c", 1))}, 3)
        driver.store.collect()
        assert [one.id for one in driver.store.generations()] == [driver.generation]
        with Subscription(driver.store.address, "v", at(2), generation=former) as later:
            change = later.poll()
            assert change is not None
            assert (change.rows["key"].to_pylist(), change.generation) == ([3], former)

    def test_views_are_what_they_were_before(self, driver: Driver) -> None:
        self.switch(driver)
        driver.publish({"v": zset((3, 3, "c", 1))}, 3)
        with Reader(driver.store.address) as reader:
            then = reader.read_at(["v", "w"], at(1)).tables
            assert (then["v"]["key"].to_pylist(), then["w"]["key"].to_pylist()) == ([1], [7])
            then = reader.read_at(["v", "w"], at(2)).tables
            assert (sorted(then["v"]["key"].to_pylist()), then["w"]["key"].to_pylist()) == ([1, 2], [8])

    def test_what_a_follower_has_not_got_is_kept_for_it(self, driver: Driver, clock: ManualClock) -> None:
        with Subscription(driver.store.address, "v", follower="sink") as follower:
            first = follower.poll()
            assert first is not None
            follower.confirm(first.position, first.generation)
        driver.publish({"v": zset((3, 3, "c", 1))}, 3)
        self.switch_at(driver, 3)
        clock.advance(HISTORY_AGE_MAX + timedelta(minutes=5))
        driver.publish({"v": zset((4, 4, "d", 1))}, 4)
        driver.store.collect()
        place = {"generation": first.generation, "follower": "sink"}
        with Subscription(driver.store.address, "v", first.position, **place) as follower:  # type: ignore[arg-type]
            found = [follower.poll(), follower.poll()]
            assert [None if one is None else one.rows["key"].to_pylist() for one in found] == [[3], [4]]

    def switch_at(self, driver: Driver, position: int) -> None:
        """Another definition that takes everything over."""
        runs = driver.store.runs(driver.generation)
        built = driver.store.open_generation("all", definition("v", "w"))
        adopted = {name: [name] for name in runs}
        driver.store.switch(Switch(built.id, driver.epoch, "all", adopted=adopted, unchanged=["v", "w"]))
        driver.generation = built.id
        assert driver.store.generation(built.id).position == at(position)

    def test_the_former_one_can_be_kept_and_switched_back_to(self, driver: Driver) -> None:
        former = self.switch(driver, former="one again")
        (back,) = [one for one in driver.store.generations() if one.status == "building"]
        assert (back.fingerprint, back.batch, back.position, back.is_former) == ("one again", 2, at(2), True)
        runs = driver.store.runs(back.id)
        assert {name: len(found) for name, found in runs.items()} == {
            name: len(found) for name, found in driver.store.runs(former).items()
        }
        driver.publish({"v": zset((3, 3, "c", 1)), "w": zset((9, 9, "new", 1))}, 3)
        beside = BatchCommit(back.id, driver.epoch, 3, at(3), write(driver.store, {"view/w": zset((6, 6, "w", 1))}))
        driver.store.commit(beside)
        told = {"kept": ["view/w"], "adopted": {"view/v": ["view/v"]}, "unchanged": ["v"]}
        with Subscription(driver.store.address, "w") as follower:
            assert follower.poll() is not None
            now = driver.store.switch(Switch(back.id, driver.epoch, "one", **told))  # type: ignore[arg-type]
            change = follower.poll()
            assert change is not None
            changed = dict(zip(change.rows["key"].to_pylist(), change.weights.to_pylist(), strict=True))
            assert changed == {6: 1, 7: 1, 8: -1, 9: -1}
        assert (now.status, now.is_former) == ("current", False)
        with Reader(driver.store.address) as reader:
            assert rows(reader) == [1, 2, 3]

    def test_anybody_can_wish_for_a_switch(self, driver: Driver) -> None:
        built = driver.store.open_generation("two", definition("v"))
        with open_store(driver.store.address, create=False) as other:
            ticket = driver.store.ticket()
            other.wish(built.id, "switch")
            driver.store.wait(ticket, 10)
            assert driver.store.generation(built.id).wish == "switch"
            other.wish(built.id, None)
            assert driver.store.generation(built.id).wish is None
            with pytest.raises(UsageError):
                other.wish(driver.generation, "discard")
            with pytest.raises(UsageError):
                other.discard(built.id, driver.epoch)

    def test_what_is_known_of_lateness_moves_with_each_batch_and_is_taken_over(self, driver: Driver) -> None:
        def judged(topic: str, position: int, late: int) -> Judged:
            rule = LateRule(WatermarkRule(topic, "at", timedelta(seconds=1), "device"))
            return Judged(rule, at(position), Lateness({"a": (5, 6)}, reached=4, records=9, late=late))

        store, former = driver.store, driver.generation
        first, second = judged("clicks", 3, 1), judged("clicks", 4, 2)
        store.commit(BatchCommit(former, driver.epoch, driver.batch + 1, at(3), judged={"clicks": first}))
        assert store.judged(former) == {"clicks": first}
        store.commit(BatchCommit(former, driver.epoch, driver.batch + 2, at(4), judged={"clicks": second}))
        assert store.judged(former) == {"clicks": second}
        built = store.open_generation("two", definition("v")).id
        own = judged("usage", 4, 0)
        store.commit(BatchCommit(built, driver.epoch, 1, at(4), judged={"usage": own}))
        store.switch(Switch(built, driver.epoch, "two"))
        assert store.judged(built) == {"clicks": second, "usage": own}
        delete_state(store.address)
        assert store.judged(built) == {}

    def test_what_is_discarded_leaves_nothing(self, driver: Driver, clock: ManualClock) -> None:
        built = driver.store.open_generation("two", definition("v"))
        (run,) = write(driver.store, {"x/rows": ONE})
        driver.store.commit(BatchCommit(built.id, driver.epoch, 1, at(1), [run]))
        with pytest.raises(Fenced):
            driver.store.discard(built.id, driver.epoch - 1)
        driver.store.discard(built.id, driver.epoch)
        assert [one.id for one in driver.store.generations()] == [driver.generation]
        with pytest.raises(InternalError):
            driver.store.discard(driver.generation, driver.epoch)
        driver.store.collect()
        clock.advance(GRACE + timedelta(minutes=1))
        driver.store.collect()
        assert driver.store.blobs.size(run.file) is None

    def test_it_is_refused_at_another_position_and_by_another_driver(self, driver: Driver) -> None:
        built = driver.store.open_generation("two", definition("v"))
        driver.store.commit(BatchCommit(built.id, driver.epoch, 1, at(1)))
        with pytest.raises(InternalError, match="position"):
            driver.store.switch(Switch(built.id, driver.epoch, "two", unchanged=["v"]))
        with pytest.raises(InternalError, match="not being built"):
            driver.store.switch(Switch(driver.generation, driver.epoch, "two"))
        epoch = driver.epoch
        driver.store.take_over()
        with pytest.raises(Fenced):
            driver.store.switch(Switch(built.id, epoch, "two"))


class TestBases:
    def test_a_base_stays_as_it_was_when_it_was_taken(self, store: ViewStore, clock: ManualClock) -> None:
        driver = Driver(store.address, clock=clock)
        driver.publish({"v": ONE}, 1)
        base = driver.store.take_base(driver.generation, driver.epoch, {"t": {0: 7}})
        assert (base.batch, base.position, base.offsets) == (1, at(1), {"t": {0: 7}})
        for number in range(2, 40):
            driver.publish({"v": zset((number, number, "b", 1))}, number)
        clock.advance(HISTORY_AGE_MAX + REPLACED_KEPT + GRACE)
        driver.store.collect()
        with driver.store.read() as look:
            assert look.bases(driver.generation) == [base]
            assert content(load(store.blobs, look.base_runs(base), ONE.schema)) == {(1, 1, "a"): 1}
            assert look.bases(driver.generation + 1) == []
        assert driver.store.bases(driver.generation) == [base]
        driver.close()

    def test_others_than_those_kept_go_with_their_files(self, store: ViewStore, clock: ManualClock) -> None:
        driver = Driver(store.address, clock=clock)
        bases = []
        for number in range(1, 41):
            driver.publish({"v": zset((number, number, "b", 1))}, number)
            if number % 10 == 0:
                bases.append(driver.store.take_base(driver.generation, driver.epoch, {}, [10, 20]))
        assert driver.store.bases(driver.generation) == [bases[0], bases[1], bases[3]]
        with driver.store.read() as look:
            assert look.base_runs(bases[2]) == []
            assert content(load(store.blobs, look.base_runs(bases[1]), ONE.schema)).total() == 20
        driver.store.take_base(driver.generation, driver.epoch, {})
        clock.advance(HISTORY_AGE_MAX + timedelta(minutes=1))
        driver.publish({"v": zset((50, 50, "b", 1))}, 50)
        driver.store.collect()
        clock.advance(GRACE + REPLACED_KEPT)
        driver.store.collect()
        with driver.store.read() as look:
            named = {run.file for run in look.runs(driver.generation)}
            named |= {run.file for one in look.bases(driver.generation) for run in look.base_runs(one)}
            changes = {run.file for change in look.changes(driver.generation, "v", 0) for run in change.runs}
        assert {blob.name for blob in store.blobs.list()} == named | changes
        driver.close()

    def test_a_driver_that_was_fenced_takes_none(self, store: ViewStore) -> None:
        driver = Driver(store.address)
        driver.publish({"v": ONE})
        store.take_over()
        with pytest.raises(Fenced):
            driver.store.take_base(driver.generation, driver.epoch, {})
        assert store.bases(driver.generation) == []
        driver.close()

    def test_they_go_with_their_generation(self, store: ViewStore, clock: ManualClock) -> None:
        driver = Driver(store.address, clock=clock)
        driver.publish({"v": ONE})
        driver.store.take_base(driver.generation, driver.epoch, {})
        driver.store.delete_state()
        assert store.bases(driver.generation) == []
        driver.close()


class TestCollect:
    def test_a_reader_beside_a_collecting_driver_misses_nothing(self, store: ViewStore, clock: ManualClock) -> None:
        driver = Driver(store.address, clock=clock)
        driver.publish({"v": zset((0, 0, "a", 1))})
        with Reader(store.address) as reader, Subscription(store.address, "v") as subscription:
            seen = 0
            for number in range(1, 40):
                driver.publish({"v": zset((number, number, "a", 1))})
                clock.advance(REPLACED_KEPT)
                driver.store.collect()
                assert rows(reader) == list(range(number + 1))
                while (changes := subscription.poll()) is not None:
                    seen += sum(changes.weights.to_pylist())
                assert seen == number + 1
        driver.close()

    def test_only_what_nothing_names_goes_and_not_at_once(self, store: ViewStore, clock: ManualClock) -> None:
        generation, epoch = store.open_generation("one", VIEWS), store.take_over()
        (kept,) = write(store, {"x": ONE})
        store.commit(BatchCommit(generation.id, epoch, 1, at(1), [kept]))
        (handed_in_late,) = write(store, {"x": TWO})
        assert store.collect().files == 0
        clock.advance(GRACE + timedelta(minutes=1))
        found = store.collect()
        assert (found.files, store.blobs.size(handed_in_late.file)) == (1, None)
        assert store.blobs.size(kept.file) is not None

    def test_old_changes_are_forgotten_and_it_is_known_up_to_where(self, store: ViewStore, clock: ManualClock) -> None:
        driver = Driver(store.address, clock=clock)
        for _ in range(3):
            driver.publish({"v": ONE})
        clock.advance(HISTORY_AGE_MAX + timedelta(minutes=1))
        driver.publish({"v": TWO})
        assert driver.store.collect().changes == 3
        with driver.store.read() as look:
            forgotten = look.forgotten(driver.generation, "v")
            assert forgotten is not None
            assert (forgotten.batch, forgotten.position) == (3, at(3))
            assert [one.batch for one in look.changes(driver.generation, "v", 0)] == [4]
            assert [look.batch_at(driver.generation, "v", at(position)) for position in (3, 4, 9)] == [0, 4, 4]
        with Subscription(store.address, "v", at(2)) as subscription, pytest.raises(ViewPositionGone):
            subscription.poll()
        driver.close()

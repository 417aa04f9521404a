"""Followers that sleep, die and come back, against the history of a view: none of them misses anything."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from headwater.engine.arrangements import arrangement_of
from headwater.engine.publication import Switch
from headwater.engine.relational import followers, packing, squashing
from headwater.engine.relational import store as store_module
from headwater.engine.runs import forget_open_runs
from headwater.engine.subscription import Changes, Subscription
from headwater.engine.view_store import REPLACED_KEPT, RETIRED_KEPT
from headwater.testing.clock import ManualClock
from tests.unit.engine.samples import Driver, Unsynced, at, definition, zset

ROWS = st.lists(st.tuples(st.integers(0, 5), st.sampled_from(["a", "b"]), st.integers(-2, 2)), max_size=4)
NAMES = ("one", "two")
BYTES_MAX = 6000
"""Some five changes: each of these is a file of about a kilobyte."""

Row = tuple[int, str]
Place = tuple[str, int]


def rows_of(changes: Changes) -> Counter[Row]:
    """By how much the number of each row changes."""
    rows = zip(changes.rows["key"].to_pylist(), changes.rows["text"].to_pylist(), strict=True)
    return Counter(dict(zip(rows, changes.weights.to_pylist(), strict=True)))


def added(content: Counter[Row], change: Counter[Row]) -> Counter[Row]:
    total = Counter(content)
    for row, weight in change.items():
        total[row] += weight
    return Counter({row: weight for row, weight in total.items() if weight})


class Follower:
    """A target that knows what it has, after each change, and has perhaps not said so yet."""

    def __init__(self, directory: Path, name: str) -> None:
        self.directory, self.name = directory, name
        self.content: Counter[Row] = Counter()
        self.place: Place | None = None
        self.confirmed: tuple[Place, Counter[Row]] | None = None
        self.squashed = 0
        self.subscription = self.subscribe()

    def subscribe(self) -> Subscription:
        if self.place is None:
            return Subscription(self.directory, "v", follower=self.name)
        position, generation = self.place
        return Subscription(self.directory, "v", at(int(position)), generation=generation, follower=self.name)

    def take(self) -> Place | None:
        """One change, if there is one."""
        found = self.subscription.poll()
        if found is None:
            return None
        self.content = rows_of(found) if found.snapshot else added(self.content, rows_of(found))
        self.place = str(found.position), found.generation
        self.squashed += found.squashed
        return self.place

    def confirm(self) -> None:
        if self.place is not None:
            self.confirmed = self.place, self.content
            self.subscription.confirm(at(int(self.place[0])), self.place[1])

    def die(self, *, forget: bool) -> None:
        """Comes back where it is; or, if it has to forget, where it has last said that it is."""
        self.subscription.close()
        if forget:
            self.place, self.content = (None, Counter()) if self.confirmed is None else self.confirmed
        self.subscription = self.subscribe()


class FollowerMachine(RuleBasedStateMachine):
    """Random batches, definitions and collections, with limits so small that most of the history is squashed."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(store_module, "HISTORY_BATCHES_MAX", 2)
        self.patch.setattr(store_module, "CHANGES_BYTES_MAX", BYTES_MAX)
        self.patch.setattr(followers, "HELD_CHANGES", 3)
        self.patch.setattr(squashing, "RUN_ROWS_MAX", 3)
        self.patch.setattr(packing, "PACK_BYTES_MAX", 4000)
        self.directory = Path(tempfile.mkdtemp())
        self.clock = ManualClock(datetime.now(UTC))
        self.content: Counter[Row] = Counter()
        self.history: dict[Place, Counter[Row]] = {}
        self.definitions = 0
        self.first_known_as: dict[int, int] = {}
        self.open()
        self.followers = {name: Follower(self.directory, name) for name in NAMES}

    def open(self) -> None:
        forget_open_runs()
        self.driver = Driver(self.directory, f"definition {self.definitions}", storage=Unsynced(), clock=self.clock)

    def teardown(self) -> None:
        for follower in self.followers.values():
            follower.subscription.close()
        self.driver.close()
        self.patch.undo()
        shutil.rmtree(self.directory)

    def commit(self, change: Counter[Row]) -> None:
        changed = zset(*((key, key, text, weight) for (key, text), weight in change.items()))
        position = self.position() + 1
        self.driver.publish({"v": changed} if changed.num_rows else {}, position)
        self.content = added(self.content, change)
        self.history[self.named((str(position), self.driver.generation))] = self.content

    def named(self, place: Place) -> Place:
        """A place in the generation by which the view was known before others took it over unchanged."""
        return place[0], self.first_known_as.get(place[1], place[1])

    def position(self) -> int:
        return max((int(position) for position, _ in self.history), default=0)

    @initialize()
    def begin(self) -> None:
        self.commit(Counter({(1, "a"): 1}))

    @rule(rows=ROWS, times=st.integers(1, 6))
    def publish(self, rows: list[tuple[int, str, int]], times: int) -> None:
        for _ in range(times):
            self.commit(Counter({(key, text): weight for key, text, weight in rows if weight}))

    @rule(rows=ROWS)
    def define_otherwise(self, rows: list[tuple[int, str, int]]) -> None:
        """Another definition is built from nothing, with other rows."""
        self.definitions += 1
        store = self.driver.store
        self.driver.generation = store.open_generation(f"definition {self.definitions}", definition("v")).id
        self.driver.batch = 0
        self.content = Counter()
        self.commit(Counter({(key, text): weight for key, text, weight in rows if weight}))

    @rule()
    def take_over(self) -> None:
        """Another definition in which the view means the same: it keeps its content and its history."""
        former, store = self.driver.generation, self.driver.store
        runs = store.runs(former)
        self.switch(self.begun(), adopted={name: [name] for name in runs}, unchanged=["v"])
        self.first_known_as[self.driver.generation] = self.first_known_as.get(former, former)

    @rule(rows=ROWS)
    def change_beside(self, rows: list[tuple[int, str, int]]) -> None:
        """Another definition of the view is built up to the position at which the former one is, and switched to."""
        position, batch = self.position(), self.driver.batch
        self.driver.generation, self.driver.batch = self.begun(), 0
        self.content = Counter()
        change = Counter({(key, text): weight for key, text, weight in rows if weight})
        changed = zset(*((key, key, text, weight) for (key, text), weight in change.items()))
        self.driver.publish({"v": changed} if changed.num_rows else {}, position, promote=False)
        self.switch(self.driver.generation, kept=[arrangement_of("v")])
        self.driver.batch = batch
        self.content = added(self.content, change)
        self.history[str(position), self.driver.generation] = self.content

    def begun(self) -> int:
        self.definitions += 1
        return self.driver.store.open_generation(f"definition {self.definitions}", definition("v")).id

    def switch(self, generation: int, **what: Any) -> None:
        store, fingerprint = self.driver.store, f"definition {self.definitions}"
        store.switch(Switch(generation, self.driver.epoch, fingerprint, **what))
        self.driver.generation = generation

    @rule(long=st.booleans())
    def collect(self, long: bool) -> None:
        self.clock.advance((RETIRED_KEPT if long else REPLACED_KEPT) + timedelta(minutes=1))
        self.driver.store.collect()

    @rule()
    def restart(self) -> None:
        self.driver.close()
        self.open()

    @rule(name=st.sampled_from(NAMES), changes=st.integers(1, 9), confirms=st.booleans())
    def follow(self, name: str, changes: int, confirms: bool) -> None:
        follower = self.followers[name]
        for _ in range(changes):
            place = follower.take()
            if place is None:
                break
            assert follower.content == self.history[self.named(place)]
            if confirms:
                follower.confirm()

    @rule(name=st.sampled_from(NAMES), forget=st.booleans())
    def die(self, name: str, forget: bool) -> None:
        self.followers[name].die(forget=forget)

    @rule(name=st.sampled_from(NAMES))
    def catch_up(self, name: str) -> None:
        follower = self.followers[name]
        while (place := follower.take()) is not None:
            assert follower.content == self.history[self.named(place)]
        assert follower.content == self.content
        follower.confirm()

    @invariant()
    def only_a_few_changes_are_kept(self) -> None:
        """What is held by nobody and lies behind the history is squashed by the next collection."""
        if not self.history:
            return
        self.driver.store.collect()
        held: dict[tuple[int, int], int] = {}
        with self.driver.store.read() as look:
            for number in {hold.generation for hold in look.holds()}:
                ranges = [(hold.low, hold.high) for hold in look.holds() if hold.generation == number]
                for step in look.changes(number, "v", 0):
                    if step.batch < self.driver.batch - 2 and not any(low < step.batch <= high for low, high in ranges):
                        single = step.first is None
                        held[number, single] = held.get((number, single), 0) + sum(run.bytes for run in step.runs)
        for number, _ in held:
            assert held.get((number, True), 0) <= max(BYTES_MAX, held.get((number, False), 0))


TestFollowers = FollowerMachine.TestCase
TestFollowers.settings = settings(max_examples=max(1, settings().max_examples // 5), stateful_step_count=30)

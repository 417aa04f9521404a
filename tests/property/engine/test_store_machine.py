"""The engine's storage against a dictionary: whatever is added, merged, reopened or collected, both hold the same."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from headwater.engine import merging, runs
from headwater.engine.arrangements import arrangement_of
from headwater.engine.manifest import Merge
from headwater.engine.merging import merge
from headwater.engine.opening import open_store
from headwater.engine.publication import BatchCommit
from headwater.engine.reading import Reader
from headwater.engine.runs import HIGHEST, LOWEST, Run, RunWriter, forget_open_runs, lookup, rows_of
from headwater.engine.subscription import Subscription
from headwater.engine.view_store import GRACE, HISTORY_AGE_MAX
from headwater.errors import Fenced
from headwater.testing.clock import ManualClock
from tests.unit.engine.samples import SCHEMA, Content, Unsynced, at, content, definition, stored, zset

ARRANGEMENTS = ("3/left", "3/right", arrangement_of("v"))
HASHES = st.one_of(
    st.sampled_from([LOWEST, -1, 0, 1, 7, HIGHEST]),
    st.integers(0, 40).map(lambda number: (number * 0x9E3779B97F4A7C15) % 2**64 - 2**63),
)
ROWS = st.tuples(HASHES, st.integers(0, 3), st.sampled_from(["a", "b"]), st.integers(-2, 3))
DELTAS = st.dictionaries(st.sampled_from(ARRANGEMENTS), st.lists(ROWS, max_size=30), max_size=3)


def task_range(task: int, tasks: int) -> tuple[int, int]:
    return LOWEST + 2**64 * task // tasks, LOWEST + 2**64 * (task + 1) // tasks - 1


class StoreMachine(RuleBasedStateMachine):
    """One driver after the other, with tasks that share the hashes, against the sum of everything committed."""

    def __init__(self) -> None:
        super().__init__()
        # Small limits, so that runs are cut, merged piece by piece, and spread over files.
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(merging, "MERGE_ROWS_MAX", 40)
        self.patch.setattr(merging, "MERGE_ROWS_PER_ROW_ADDED", 1)
        self.patch.setattr(merging, "RUN_ROWS_MAX", 16)
        self.patch.setattr(merging, "SMALL_ROWS", 32)
        self.patch.setattr(runs, "OWN_FILE_BYTES", 900)
        self.directory = Path(tempfile.mkdtemp())
        self.clock = ManualClock(datetime.now(UTC))
        self.model: dict[str, Content] = {name: Counter() for name in ARRANGEMENTS}
        self.followed: Counter[tuple[int, str]] = Counter()
        self.collected_unfollowed = 0
        self.batch = 0
        self.open()
        self.subscription = Subscription(self.directory, "v")

    def open(self) -> None:
        forget_open_runs()
        self.store = open_store(self.directory, storage=Unsynced(), clock=self.clock)
        self.epoch = self.store.take_over()
        self.generation = self.store.open_generation("one", definition("v")).id

    def teardown(self) -> None:
        self.subscription.close()
        self.store.close()
        self.patch.undo()
        shutil.rmtree(self.directory)

    def write(self, deltas: dict[str, pa.Table], tasks: int) -> tuple[list[Run], list[Merge]]:
        """What the tasks of a batch do: each adds the rows that it owns, and merges what is due."""
        added: list[Run] = []
        merges: list[Merge] = []
        current = self.store.runs(self.generation)
        for task in range(tasks):
            low, high = task_range(task, tasks)
            writer = RunWriter(self.store.blobs, name="task", low=low, high=high)
            for name in ARRANGEMENTS:
                mine = [
                    row for row in deltas.get(name, SCHEMA.empty_table()).to_pylist() if low <= row["_hash"] <= high
                ]
                writer.add(name, pa.Table.from_pylist(mine, SCHEMA))
                found = current.get(name, [])
                merges.append(merge(self.store.blobs, writer, found, schema=SCHEMA, low=low, high=high))
            added += writer.close()
        return added, [Merge.from_json(done.to_json()) for done in merges]

    @initialize()
    def begin(self) -> None:
        self.commit({}, 1)

    @rule(deltas=DELTAS, tasks=st.integers(1, 4))
    def commit(self, deltas: dict[str, list[tuple[int, int, str, int]]], tasks: int) -> None:
        tables = {name: zset(*rows) for name, rows in deltas.items()}
        added, merges = self.write(tables, tasks)
        view = arrangement_of("v")
        changes = {"v": [run for run in added if run.arrangement == view]}
        self.batch += 1
        self.store.commit(
            BatchCommit(self.generation, self.epoch, self.batch, at(self.batch), added, merges, changes, promote=True)
        )
        for name, table in tables.items():
            total = self.model[name]
            for row, weight in content(table).items():
                total[row] += weight
            self.model[name] = Counter({row: weight for row, weight in total.items() if weight})

    @rule(deltas=DELTAS)
    def die_before_the_commit(self, deltas: dict[str, list[tuple[int, int, str, int]]]) -> None:
        self.write({name: zset(*rows) for name, rows in deltas.items()}, 2)
        self.reopen()

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.open()
        assert self.store.generation(self.generation).batch == self.batch

    @rule(deltas=DELTAS)
    def be_replaced(self, deltas: dict[str, list[tuple[int, int, str, int]]]) -> None:
        with open_store(self.directory, storage=Unsynced(), clock=self.clock) as other:
            newer = other.take_over()
        added, merges = self.write({name: zset(*rows) for name, rows in deltas.items()}, 1)
        with pytest.raises(Fenced):
            self.store.commit(
                BatchCommit(self.generation, self.epoch, self.batch + 1, at(self.batch + 1), added, merges)
            )
        self.epoch = newer

    @precondition(lambda self: (self.collected_unfollowed + 1) * (GRACE + timedelta(minutes=1)) < HISTORY_AGE_MAX)
    @rule()
    def collect(self) -> None:
        # In all less than the age of changes, so that the subscription can continue.
        self.collected_unfollowed += 1
        self.clock.advance(GRACE + timedelta(seconds=1))
        self.store.collect()
        forget_open_runs()

    @rule(name=st.sampled_from(ARRANGEMENTS), hashes=st.lists(HASHES, max_size=60))
    def look_up(self, name: str, hashes: list[int]) -> None:
        wanted = np.unique(np.array(hashes, dtype=np.int64))
        found = lookup(self.store.blobs, self.store.runs(self.generation).get(name, []), wanted, SCHEMA)
        expected = {row: weight for row, weight in self.model[name].items() if row[0] in set(hashes)}
        assert content(found) == expected

    @precondition(lambda self: min(self.model[arrangement_of("v")].values(), default=1) > 0)
    @rule()
    def read(self) -> None:
        with Reader(self.directory) as reader:
            snapshot = reader.read(["v"])
        table = snapshot.tables["v"]
        found = Counter(zip(table["key"].to_pylist(), table["text"].to_pylist(), strict=True))
        assert snapshot.position == at(self.batch)
        assert found == self.view_rows()

    @rule()
    def follow(self) -> None:
        self.collected_unfollowed = 0
        while (changes := self.subscription.poll()) is not None:
            rows = zip(changes.rows["key"].to_pylist(), changes.rows["text"].to_pylist(), strict=True)
            for row, weight in zip(rows, changes.weights.to_pylist(), strict=True):
                self.followed[row] += weight
        assert Counter({row: weight for row, weight in self.followed.items() if weight}) == self.view_rows()

    @invariant()
    def both_hold_the_same(self) -> None:
        for name in ARRANGEMENTS:
            assert stored(self.store, self.generation, name) == self.model[name]

    @invariant()
    def runs_count_their_rows(self) -> None:
        for found in self.store.runs(self.generation).values():
            for run in found:
                assert rows_of(self.store.blobs, run).num_rows == run.rows > 0

    def view_rows(self) -> Counter[tuple[int, str]]:
        total: Counter[tuple[int, str]] = Counter()
        for (_, key, text), weight in self.model[arrangement_of("v")].items():
            total[key, text] += weight
        return Counter({row: weight for row, weight in total.items() if weight})


TestStore = StoreMachine.TestCase
TestStore.settings = settings(max_examples=max(1, settings().max_examples // 5), stateful_step_count=40)

# A thorough run takes as long as it is asked to.
pytestmark = pytest.mark.timeout(24 * 3600)

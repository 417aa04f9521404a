"""Merging keeps runs few and content the same, no matter who merges which part."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from headwater.engine import merging
from headwater.engine.manifest import Manifest, Merge, replacement
from headwater.engine.merging import consolidated, merge, plan
from headwater.engine.opening import open_blobs
from headwater.engine.runs import HIGHEST, LOWEST, Run, RunWriter, load
from headwater.errors import InternalError
from tests.unit.engine.samples import SCHEMA, Content, Unsynced, content, zset

SPREAD = 0x9E3779B97F4A7C15


def spread(key: int) -> int:
    """A hash: keys that follow each other are far apart."""
    return (key * SPREAD + 2**63) % 2**64 - 2**63


def rows(keys: range, weight: int = 1, text: str = "a") -> pa.Table:
    return zset(*((spread(key), key, text, weight) for key in keys))


class Arrangement:
    """One arrangement without a store."""

    def __init__(self, directory: Path) -> None:
        self.blobs = open_blobs(directory, storage=Unsynced())
        self.manifest = Manifest([])
        self.merged_rows: list[int] = []

    @property
    def runs(self) -> list[Run]:
        return self.manifest.runs().get("a", [])

    def content(self) -> Content:
        return content(load(self.blobs, self.runs, SCHEMA))

    def add(self, table: pa.Table, *, tasks: int = 1) -> None:
        """A batch: the table is added, and each task merges what is due in its range."""
        writer = RunWriter(self.blobs, name="delta")
        writer.add("a", table)
        merges = []
        for task in range(tasks):
            low, high = LOWEST + 2**64 * task // tasks, LOWEST + 2**64 * (task + 1) // tasks - 1
            mine = RunWriter(self.blobs, name=f"task-{task}", low=low, high=high)
            merges.append(merge(self.blobs, mine, self.runs, low=low, high=high))
            mine.close()
        self.merged_rows.append(sum(piece.rows for done in merges for piece in done.removed))
        self.manifest.apply(writer.close(), replacement(merges))

    def depth(self) -> int:
        """How many runs lie over the hash that has most of them."""
        edges = [run.low for run in self.runs]
        return max((sum(run.low <= edge <= run.high for run in self.runs) for edge in edges), default=0)


@pytest.mark.parametrize("tasks", [1, 3])
def test_thousands_of_commits_to_a_hundred_keys_stay_small(tmp_path: Path, tasks: int) -> None:
    arrangement = Arrangement(tmp_path)
    for step in range(2_000 if tasks == 1 else 500):
        key = step % 100
        before = [(spread(key), key, str(step - 100), -1)] if step >= 100 else []
        arrangement.add(zset((spread(key), key, str(step), 1), *before), tasks=tasks)
        if step % 10 == 0:
            assert sum(run.rows for run in arrangement.runs) < 1000
            assert arrangement.depth() <= 12
    assert arrangement.content() == {(spread(n), n, str(step - 99 + n)): 1 for n in range(100)}


def test_what_cancels_vanishes(tmp_path: Path) -> None:
    arrangement = Arrangement(tmp_path)
    arrangement.add(rows(range(10_000)))
    arrangement.add(rows(range(9_900), -1))
    arrangement.add(SCHEMA.empty_table())
    assert sum(run.rows for run in arrangement.runs) == 100
    assert arrangement.content() == content(rows(range(9_900, 10_000)))


def test_runs_stay_logarithmic_while_an_arrangement_grows(tmp_path: Path) -> None:
    arrangement = Arrangement(tmp_path)
    for step in range(400):
        arrangement.add(rows(range(step * 50, step * 50 + 50)))
    assert sum(run.rows for run in arrangement.runs) == 20_000
    assert arrangement.depth() <= 15
    # Each row was merged a few times, not once for each batch.
    assert sum(arrangement.merged_rows) < 10 * 20_000


def test_a_huge_arrangement_is_merged_piece_by_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging, "MERGE_ROWS_MAX", 2_000)
    monkeypatch.setattr(merging, "MERGE_ROWS_PER_ROW_ADDED", 0)
    monkeypatch.setattr(merging, "RUN_ROWS_MAX", 1_000)
    arrangement = Arrangement(tmp_path)
    expected: Content = Counter()
    for step in range(10):
        table = rows(range(5_000), text=str(step))
        arrangement.add(table)
        expected += content(table)
    for _ in range(200):
        arrangement.add(SCHEMA.empty_table())
    assert arrangement.content() == expected
    # The estimate may be a little off; a piece is cut to size when it is merged.
    assert max(arrangement.merged_rows) <= 2_000
    assert arrangement.merged_rows[-1] == 0
    assert arrangement.depth() <= 8
    assert max(run.rows for run in arrangement.runs if run.low > LOWEST) <= 1_000 + 10


def test_one_hash_with_too_many_rows_is_merged_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging, "MERGE_ROWS_MAX", 100)
    monkeypatch.setattr(merging, "MERGE_ROWS_PER_ROW_ADDED", 0)
    arrangement = Arrangement(tmp_path)
    for step in range(30):
        arrangement.add(zset(*((7, key, "x", 1) for key in range(step * 50, step * 50 + 50))))
    assert arrangement.content() == {(7, key, "x"): 1 for key in range(1500)}
    assert len(arrangement.runs) <= 9


def test_tasks_with_other_ranges_share_a_run(tmp_path: Path) -> None:
    arrangement = Arrangement(tmp_path)
    expected: Content = Counter()
    for step, tasks in enumerate([1, 1, 1, 1, 3, 1, 2, 5, 4, 4, 7, 1, 2]):
        table = rows(range(step * 10, step * 10 + 40), text=str(step % 2))
        expected += content(table)
        arrangement.add(table, tasks=tasks)
        assert arrangement.content() == expected
    assert arrangement.depth() <= 4


def test_other_measures_than_the_weight_add_up(tmp_path: Path) -> None:
    def groups(key: int, total: int, weight: int) -> pa.Table:
        return pa.table({"_hash": [key], "key": [key], "total": [total], "_w": [weight]})

    writer = RunWriter(open_blobs(tmp_path), name="task")
    for table in (groups(1, 5, 1), groups(1, -5, 0), groups(2, 3, 1), groups(2, -3, -1)):
        writer.add("a", table)
    runs = writer.close()
    second = RunWriter(open_blobs(tmp_path), name="task")
    done = merge(open_blobs(tmp_path), second, runs, ("total", "_w"))
    second.close()
    (run,) = done.added
    found = load(open_blobs(tmp_path), [run], groups(0, 0, 0).schema)
    assert found.to_pylist() == [{"_hash": 1, "key": 1, "total": 0, "_w": 1}]


def test_a_single_run_is_left_alone(tmp_path: Path) -> None:
    run = Run("a", "missing", 0, LOWEST, HIGHEST, 10**9, 10**9)
    assert merge(open_blobs(tmp_path), RunWriter(open_blobs(tmp_path), name="task"), [run]) == Merge((), ())


def test_what_can_be_merged_as_a_whole_is_not_cut() -> None:
    runs = [Run("a", str(n), 0, LOWEST, HIGHEST, 10, 10) for n in range(4)]
    (job,) = plan(runs, LOWEST, HIGHEST, 1000)
    assert (set(job.runs), job.low, job.high) == (set(runs), LOWEST, HIGHEST)
    assert plan(runs[:3], LOWEST, HIGHEST, 1000) == []


def test_merges_that_took_the_same_rows_are_a_bug(tmp_path: Path) -> None:
    writer = RunWriter(open_blobs(tmp_path), name="task")
    for _ in range(4):
        writer.add("a", rows(range(10)))
    runs = writer.close()
    done = merge(open_blobs(tmp_path), RunWriter(open_blobs(tmp_path), name="task"), runs)
    assert done.removed
    with pytest.raises(InternalError):
        replacement([done, done])


def test_a_merge_survives_json(tmp_path: Path) -> None:
    writer = RunWriter(open_blobs(tmp_path), name="task")
    for _ in range(4):
        writer.add("a", rows(range(10)))
    done = merge(open_blobs(tmp_path), RunWriter(open_blobs(tmp_path), name="task"), writer.close())
    assert Merge.from_json(done.to_json()) == done


@pytest.mark.parametrize("lonely", [0, 100])
def test_only_rows_that_share_a_hash_are_compared(lonely: int) -> None:
    # With many rows that share none, those are taken as they are; with few, all are compared.
    apart = zset(*((1000 + n, n, "alone", 1) for n in range(lonely)))
    one = zset((1, 1, "a", 1), (2, 2, "b", 1), (3, 3, "c", 0), (4, 4, "d", 1), (4, 4, "d", 1), (4, 5, "e", 1))
    other = zset((2, 2, "b", -1), (5, 5, "f", 2))
    found = consolidated([other, pa.concat_tables([one, apart])])
    assert found.num_rows == len(content(found))
    expected = {(1, 1, "a"): 1, (4, 4, "d"): 2, (4, 5, "e"): 1, (5, 5, "f"): 2}
    assert content(found) == expected | content(apart)

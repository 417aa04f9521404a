"""Runs are written sorted, found by hash, and never taken for what they are not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from headwater.engine import runs as runs_module
from headwater.engine.blobs import Blobs
from headwater.engine.opening import open_blobs
from headwater.engine.runs import (
    HIGHEST,
    LOWEST,
    OWN_FILE_BYTES,
    Run,
    RunWriter,
    forget_open_runs,
    is_open,
    keep_open,
    load,
    lookup,
    rows_of,
)
from headwater.errors import Corrupt, DiskFull, InternalError, StateCorrupt, UsageError
from headwater.system.storage import Storage
from tests.unit.engine.samples import SCHEMA, content, zset


@pytest.fixture(autouse=True)
def nothing_open() -> Iterator[None]:
    forget_open_runs()
    yield
    forget_open_runs()


def write(blobs: Blobs, *tables: pa.Table, arrangement: str = "a") -> list[Run]:
    writer = RunWriter(blobs, name="test")
    for table in tables:
        writer.add(arrangement, table)
    return writer.close()


def hashes(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def test_a_run_comes_back_sorted_by_hash(tmp_path: Path) -> None:
    table = zset((5, 1, "a", 1), (-3, 2, "b", 1), (5, 3, "c", -1), (LOWEST, 4, "d", 1), (HIGHEST, 5, "e", 2))
    (run,) = write(open_blobs(tmp_path), table)
    assert (run.low, run.high, run.rows) == (LOWEST, HIGHEST, 5)
    back = load(open_blobs(tmp_path), [run], SCHEMA)
    assert back["_hash"].to_pylist() == [LOWEST, -3, 5, 5, HIGHEST]
    assert back["text"].to_pylist() == ["d", "b", "a", "c", "e"]


def test_many_runs_of_different_columns_share_one_file(tmp_path: Path) -> None:
    writer = RunWriter(open_blobs(tmp_path), name="task")
    writer.add("a", zset((1, 1, "a", 1)))
    writer.add("b", pa.table({"_hash": [3, 2], "list": [[1], None], "_w": [1, 1]}))
    writer.add("a", zset((2, 1, "b", 1)))
    first, other, second = writer.close()
    assert {run.file for run in (first, other, second)} == {path.name for path in tmp_path.iterdir()}
    assert content(load(open_blobs(tmp_path), [first, second], SCHEMA)) == {(1, 1, "a"): 1, (2, 1, "b"): 1}
    assert rows_of(open_blobs(tmp_path), other)["list"].to_pylist() == [None, [1]]


def test_a_large_run_gets_a_file_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs_module, "OWN_FILE_BYTES", 2000)
    small, large = write(open_blobs(tmp_path), zset((1, 1, "a", 1)), zset(*((n, n, "x" * 100, 1) for n in range(50))))
    assert small.file != large.file
    assert load(open_blobs(tmp_path), [small, large], SCHEMA).num_rows == 51


def test_nothing_added_makes_no_file(tmp_path: Path) -> None:
    assert write(open_blobs(tmp_path), SCHEMA.empty_table()) == []
    assert list(tmp_path.iterdir()) == []


def test_a_closed_writer_takes_nothing(tmp_path: Path) -> None:
    writer = RunWriter(open_blobs(tmp_path), name="task")
    writer.close()
    with pytest.raises(UsageError):
        writer.add("a", zset((1, 1, "a", 1)))


def test_a_row_outside_the_range_of_its_task_is_a_bug(tmp_path: Path) -> None:
    with pytest.raises(InternalError):
        RunWriter(open_blobs(tmp_path), name="task", low=0, high=9).add("a", zset((10, 1, "a", 1)))


def test_only_rows_within_the_range_of_a_run_count(tmp_path: Path) -> None:
    (run,) = write(open_blobs(tmp_path), zset(*((n, n, str(n), 1) for n in range(10))))
    part = run.with_part(3, 5, 3)
    assert load(open_blobs(tmp_path), [part], SCHEMA)["key"].to_pylist() == [3, 4, 5]
    assert lookup(open_blobs(tmp_path), [part], hashes(2, 3, 5, 6), SCHEMA)["key"].to_pylist() == [3, 5]


@pytest.mark.parametrize("rows", [5, 500])
def test_a_lookup_finds_every_row_of_its_hashes(tmp_path: Path, rows: int) -> None:
    # With 5 rows the run is smaller than what is wanted, with 500 it is larger: two ways of searching.
    table = zset(*((n // 3 * 2, n, str(n), 1) for n in range(rows)))
    wanted = hashes(-1, 0, 1, 2, 4, 50, 51, 10_000)
    found = lookup(open_blobs(tmp_path), write(open_blobs(tmp_path), table), wanted, SCHEMA)
    expected = [key for key in range(rows) if key // 3 * 2 in set(wanted.tolist())]
    assert expected
    assert found["key"].to_pylist() == expected


def test_a_lookup_without_runs_or_hashes_is_empty(tmp_path: Path) -> None:
    found = write(open_blobs(tmp_path), zset((1, 1, "a", 1)))
    assert lookup(open_blobs(tmp_path), [], hashes(1), SCHEMA).equals(SCHEMA.empty_table())
    assert lookup(open_blobs(tmp_path), found, hashes(), SCHEMA).equals(SCHEMA.empty_table())


def test_a_run_that_is_open_outlives_its_file(tmp_path: Path) -> None:
    (run,) = write(open_blobs(tmp_path), zset((1, 1, "a", 1)))
    load(open_blobs(tmp_path), [run], SCHEMA)
    (tmp_path / run.file).unlink()
    assert content(load(open_blobs(tmp_path), [run], SCHEMA)) == {(1, 1, "a"): 1}


def test_a_bounded_number_of_runs_stays_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs_module, "OPEN_RUNS_MAX", 2)
    first, second, third = write(open_blobs(tmp_path), *(zset((n, n, "a", 1)) for n in range(3)))
    load(open_blobs(tmp_path), [first, second, first, third], SCHEMA)
    (tmp_path / first.file).unlink()
    assert load(open_blobs(tmp_path), [first, third], SCHEMA).num_rows == 2
    with pytest.raises(StateCorrupt):
        load(open_blobs(tmp_path), [second], SCHEMA)


def test_runs_whose_file_was_removed_do_not_stay_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs_module, "SWEEP_OPENED", 1)
    (old,), (kept,), (new,) = (write(open_blobs(tmp_path), zset((n, n, "a", 1))) for n in range(3))
    load(open_blobs(tmp_path), [old, kept], SCHEMA)
    (tmp_path / old.file).unlink()
    load(open_blobs(tmp_path), [new], SCHEMA)
    assert [is_open(str(tmp_path), run.file, run.index) for run in (old, kept, new)] == [False, True, True]


def test_only_chosen_runs_stay_open(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    for folder in (here, there):
        folder.mkdir()
    first, second = write(open_blobs(here), zset((1, 1, "a", 1)), zset((2, 2, "b", 1)))
    (other,) = write(open_blobs(there), zset((3, 3, "c", 1)))
    load(open_blobs(here), [first, second], SCHEMA)
    load(open_blobs(there), [other], SCHEMA)
    keep_open(open_blobs(here), [second])
    assert [is_open(str(here), run.file, run.index) for run in (first, second)] == [False, True]
    assert is_open(str(there), other.file, other.index)


def test_large_sections_are_mapped_and_small_ones_are_read(tmp_path: Path) -> None:
    (small,) = write(open_blobs(tmp_path), zset((1, 1, "a", 1)))
    (large,) = write(open_blobs(tmp_path), zset((1, 1, "x" * OWN_FILE_BYTES, 1)))
    load(open_blobs(tmp_path), [small, large], SCHEMA)
    maps = Path("/proc/self/maps").read_text()
    assert [run.file in maps for run in (small, large)] == [False, True]


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    (run,) = write(open_blobs(tmp_path), zset((1, 1, "a", 1)), arrangement="3/left")
    (tmp_path / run.file).unlink()
    with pytest.raises(Corrupt, match=f"{run.file}.*3/left.*missing") as caught:
        load(open_blobs(tmp_path), [run], SCHEMA)
    assert "rebuilds it from the log" in caught.value.hint


def test_every_flipped_byte_and_every_cut_is_found(tmp_path: Path) -> None:
    (run,) = write(open_blobs(tmp_path), zset((1, 1, "a", 1), (2, 2, "b", 1)))
    path = tmp_path / run.file
    good = path.read_bytes()
    payload = 64 + run.bytes
    for byte in [*range(24), *range(64, payload)]:
        path.write_bytes(good[:byte] + bytes([good[byte] ^ 4]) + good[byte + 1 :])
        with pytest.raises(StateCorrupt):
            load(open_blobs(tmp_path), [run], SCHEMA)
    for size in range(0, payload, 7):
        path.write_bytes(good[:size])
        with pytest.raises(StateCorrupt):
            load(open_blobs(tmp_path), [run], SCHEMA)
    path.write_bytes(good)
    assert load(open_blobs(tmp_path), [run], SCHEMA).num_rows == 2


def test_a_full_disk_says_so(tmp_path: Path) -> None:
    class FullDisk(Storage):
        def write(self, *_: object) -> None:
            raise OSError(28, "No space left on device")

    writer = RunWriter(open_blobs(tmp_path, storage=FullDisk()), name="task")
    writer.add("a", zset((1, 1, "a", 1)))
    with pytest.raises(DiskFull):
        writer.close()


def test_a_run_survives_json() -> None:
    run = Run("3/left", "task-1.runs", 64, LOWEST, HIGHEST, 7, 100)
    assert Run.from_json(run.to_json()) == run

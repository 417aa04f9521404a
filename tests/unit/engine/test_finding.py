"""Rows are found by the values of columns, over all runs, as a filter over everything finds them."""

from __future__ import annotations

import random
from collections import Counter
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from headwater.engine import finding
from headwater.engine.reading import Reader
from headwater.engine.runs import forget_open_runs
from headwater.errors import UnknownView, UsageError
from headwater.log.embedded.position import commit_of
from tests.unit.engine.samples import Driver, zset


def key(**columns: object) -> dict[str, pa.Array]:
    types = {"key": pa.int64(), "text": pa.string()}
    return {name: pa.array([value], types[name]) for name, value in columns.items()}


@pytest.mark.parametrize("columns", [("key",), ("text",), ("text", "key")])
def test_what_is_found_is_what_a_filter_finds(tmp_path: Path, columns: tuple[str, ...]) -> None:
    driver, chosen = Driver(tmp_path), random.Random(5)
    held: Counter[tuple[int, str]] = Counter()
    with Reader(tmp_path) as reader:
        for _ in range(40):
            changes: Counter[tuple[int, str]] = Counter()
            for _ in range(30):
                changes[chosen.randrange(20), chosen.choice("abc")] += chosen.choice((1, 2))
            changes.subtract({row: weight for row, weight in held.items() if chosen.random() < 0.3})
            held = Counter({row: held[row] + changes[row] for row in {*held, *changes} if held[row] + changes[row]})
            rows = [(number, text, weight) for (number, text), weight in changes.items() if weight]
            driver.publish({"v": zset(*((number * 7, number, text, weight) for number, text, weight in rows))})
            asked = {"key": chosen.randrange(20), "text": chosen.choice("abc")}
            found = reader.find("v", key(**{name: asked[name] for name in columns}), timeout=timedelta(0))
            expected = Counter(
                {row: weight for row, weight in held.items()
                 if all({"key": row[0], "text": row[1]}[name] == asked[name] for name in columns)}
            )  # fmt: skip
            got = Counter((row["key"], row["text"]) for row in found.tables["v"].to_pylist())
            assert got == expected
            assert commit_of(found.position) == driver.batch
    driver.close()


def test_what_can_not_be_found(tmp_path: Path) -> None:
    driver = Driver(tmp_path)
    driver.publish({"v": zset((1, 1, "a", 1))})
    with Reader(tmp_path) as reader:
        assert reader.find("v", key(key=9)).tables["v"].num_rows == 0
        with pytest.raises(UsageError, match="cannot be found by"):
            reader.find("v", {"nope": pa.array([1])})
        with pytest.raises(UnknownView):
            reader.find("w", key(key=1))
    driver.close()


def test_indexes_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding, "INDEXED_ROWS_MAX", 3)
    driver = Driver(tmp_path)
    with Reader(tmp_path) as reader:
        for number in range(8):
            driver.publish({"v": zset((number, number, "a", 1), (number + 100, number, "b", 1))})
            assert reader.find("v", key(key=number)).tables["v"].num_rows == 2
        held = [len(index.rows) for index in finding._indexes.values()]
        # The one that was just made is kept, however large it is.
        assert len(held) == 1 or sum(held) <= 3
    driver.close()


def test_batches_are_read_from_any_process(tmp_path: Path) -> None:
    driver = Driver(tmp_path)
    with Reader(tmp_path) as reader:
        assert (reader.published(5), reader.excluded()) == ([], [])
        for _ in range(4):
            driver.publish({"v": zset((1, 1, "a", 1))})
        assert [one.batch for one in reader.published(3)] == [2, 3, 4]
        assert reader.published(1)[0].stats.changes == {"v": 1}
    driver.close()


def test_an_index_goes_with_its_run(tmp_path: Path) -> None:
    driver = Driver(tmp_path, views=("v", "w"))
    driver.publish({"v": zset((1, 1, "a", 1)), "w": zset((2, 2, "b", 1))})
    with Reader(tmp_path) as reader:
        reader.find("v", key(key=1))
        (first,) = (one for one in finding._indexes if one[0] == reader.store.blobs.address)
        forget_open_runs()
        reader.find("w", key(key=2))
        assert first not in finding._indexes
    driver.close()

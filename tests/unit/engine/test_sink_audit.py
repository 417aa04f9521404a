"""The comparison of an audit, against the same done with dictionaries."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.engine.sinks import audit
from headwater.engine.sinks.audit import compare
from headwater.views.zset import WEIGHT, consolidate, with_weights

SCHEMA = pa.schema([("key", pa.int64()), ("text", pa.string()), ("more", pa.list_(pa.float64()))])
ROWS = st.dictionaries(
    st.integers(0, 40),
    st.tuples(st.sampled_from(["a", "b", None]), st.none() | st.lists(st.sampled_from([0.0, -0.0, 1.5, float("nan")]))),
)


def table(rows: dict[int, tuple[str | None, list[float] | None]]) -> pa.Table:
    return pa.Table.from_pylist([{"key": k, "text": v[0], "more": v[1]} for k, v in rows.items()], SCHEMA)


def zset(rows: pa.Table) -> pa.Table:
    return with_weights(rows, np.ones(rows.num_rows, np.int64))


def same(one: object, other: object) -> bool:
    return repr(one).replace("-0.0", "0.0") == repr(other).replace("-0.0", "0.0")


@given(ROWS, ROWS, st.integers(1, 7))
def test_the_keys_that_differ_are_found(
    ours: dict[int, tuple[str | None, list[float] | None]],
    theirs: dict[int, tuple[str | None, list[float] | None]],
    pieces: int,
) -> None:
    def rows() -> Iterator[pa.Table]:
        for first in range(0, len(theirs), pieces):
            yield table(theirs).slice(first, pieces)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(audit, "RANGE_ROWS", 4)
        found = compare(zset(table(ours)), rows, ["key"])
    assert set(found.missing["key"].to_pylist()) == ours.keys() - theirs.keys()
    assert set(found.extra["key"].to_pylist()) == theirs.keys() - ours.keys()
    both = ours.keys() & theirs.keys()
    assert set(found.different["key"].to_pylist()) == {key for key in both if not same(ours[key], theirs[key])}
    assert found.rows == (len(ours), len(theirs))
    if found.missing.num_rows + found.extra.num_rows + found.different.num_rows:
        assert found.checksums[0] != found.checksums[1] or found.rows[0] != found.rows[1]
        assert found.ranges_different
    else:
        assert found.checksums[0] == found.checksums[1]


@given(st.lists(st.sampled_from("abc")), st.lists(st.sampled_from("abc")))
def test_without_a_key_rows_are_counted(ours: list[str], theirs: list[str]) -> None:
    columns = pa.schema([("text", pa.string())])
    view, target = (pa.table({"text": pa.array(rows, pa.string())}, schema=columns) for rows in (ours, theirs))
    found = compare(consolidate(zset(view)), lambda: iter([target]), [])
    assert dict(zip(found.difference["text"].to_pylist(), found.difference[WEIGHT].to_pylist(), strict=True)) == {
        text: count for text in "abc" if (count := ours.count(text) - theirs.count(text))
    }
    assert set(found.missing["text"].to_pylist()) == {text for text in "abc" if ours.count(text) > theirs.count(text)}
    assert set(found.extra["text"].to_pylist()) == {text for text in "abc" if ours.count(text) < theirs.count(text)}


def test_a_key_that_a_target_has_twice_is_different() -> None:
    row = table({1: ("a", None)})
    found = compare(zset(row), lambda: iter([row, row]), ["key"])
    assert found.different["key"].to_pylist() == [1]
    assert found.extra.num_rows == 0


def test_of_a_million_rows_one_is_found_in_one_range() -> None:
    numbers = np.arange(1_000_000)
    view = pa.table({"key": numbers, "value": numbers * 3})
    other = view.set_column(1, "value", pa.array(np.where(numbers == 777_777, -1, numbers * 3)))
    found = compare(zset(view), lambda: iter([other]), ["key"])
    assert found.different.to_pylist() == [{"key": 777_777, "value": 777_777 * 3}]
    assert (found.ranges, found.ranges_different) == (256, 1)

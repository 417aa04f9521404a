"""Values as texts of PostgreSQL: read back, they are the same; and digests of rows."""

from __future__ import annotations

import hashlib
from collections import Counter
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.cdc.comparison import Key, differences, differing, ranges_of, sums_of
from headwater.cdc.digests import DIGEST, digests
from headwater.cdc.postgres.arrays import format_array, parse_array
from headwater.cdc.postgres.identity import row_texts
from headwater.cdc.postgres.texts import to_texts
from headwater.cdc.postgres.values import convert
from headwater.connectors.postgres.occurrences import Occurrences

texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
VALUES: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.float64(), st.floats(allow_nan=False)),
    (pa.float32(), st.floats(allow_nan=False, width=32)),
    (pa.bool_(), st.booleans()),
    (pa.binary(), st.binary()),
    (pa.string(), texts),
    (pa.date32(), st.dates()),
    (pa.timestamp("us"), st.datetimes()),
    (pa.timestamp("us", "UTC"), st.datetimes()),
    (pa.decimal128(20, 3), st.decimals(-(10**16), 10**16, places=3)),
    (pa.decimal128(38, 20), st.decimals(-(10**17), 10**17, places=20)),
    (pa.list_(pa.string()), st.lists(st.none() | texts)),
    (pa.list_(pa.float64()), st.lists(st.none() | st.floats(allow_nan=False))),
]


@pytest.mark.parametrize(("arrow", "values"), VALUES)
def test_a_text_reads_back_as_its_value(arrow: pa.DataType, values: st.SearchStrategy[Any]) -> None:
    @given(st.lists(st.none() | values, max_size=20))
    def check(given_values: list[Any]) -> None:
        array = (
            pa.array(given_values, pa.timestamp("us")).cast(arrow) if arrow.equals(pa.timestamp("us", "UTC")) else None
        )
        array = pa.array(given_values, arrow) if array is None else array
        read, specials = convert(to_texts(array, arrow), arrow)
        assert read.equals(array)
        assert not specials

    check()


@pytest.mark.parametrize(
    ("arrow", "value", "expected"),
    [
        (pa.float64(), 1e15, "1e+15"),
        (pa.float64(), 123456789012345.0, "123456789012345"),
        (pa.float64(), 0.0001, "0.0001"),
        (pa.float64(), 0.00001, "1e-05"),
        (pa.float64(), -0.0, "-0"),
        (pa.float64(), float("nan"), "NaN"),
        (pa.float64(), float("-inf"), "-Infinity"),
        (pa.float64(), 46423656718241203e1, "4.6423656718241203e+17"),
        (pa.float32(), 53514592.0, "5.3514592e+07"),
        (pa.decimal128(30, 10), Decimal("0E-10"), "0.0000000000"),
        (pa.timestamp("us"), datetime.fromisoformat("2024-01-02T03:04:10"), "2024-01-02 03:04:10"),
        (pa.timestamp("us", "UTC"), datetime.fromisoformat("0999-01-02T03:04:05.120000"), "0999-01-02 03:04:05.12+00"),
        (pa.date32(), date(1, 2, 3), "0001-02-03"),
        (pa.list_(pa.string()), ["a b", "", "nUll", None], '{"a b","","nUll",NULL}'),
        (pa.list_(pa.string()), ['"', "\\", "\u00a0"], '{"\\"","\\\\",\u00a0}'),
    ],
)  # fmt: skip
def test_as_postgresql_writes_it(arrow: pa.DataType, value: object, expected: str) -> None:
    assert to_texts(pa.array([value], arrow), arrow).to_pylist() == [expected]


@given(st.lists(st.none() | texts))
def test_arrays(elements: list[str | None]) -> None:
    assert parse_array(format_array(elements)) == elements


def test_the_text_of_a_row() -> None:
    columns = [pa.array(["1", None, "it's", None]), pa.array(["a\\b'", None, None, ""])]
    written = row_texts(["id", 'a "b"'], columns).to_pylist()
    assert written == ['"id"=\'1\',"a ""b"""=E\'a\\\\b\'\'\',', "", "\"id\"='it''s',", '"a ""b"""=\'\',']
    assert digests(pa.array(["x"])).tolist() == [hashlib.md5(b"x", usedforsecurity=False).hexdigest().encode()]


changes = st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=30)


@given(st.lists(changes, max_size=5))
def test_rows_are_counted(batches: list[list[tuple[str, bool]]]) -> None:
    occurrences, expected = Occurrences(), Counter[str]()
    for batch in batches:
        contents = np.array([name * 32 for name, _ in batch], DIGEST)
        numbers = occurrences.count(contents, np.array([removed for _, removed in batch], np.bool_))
        for (name, removed), number in zip(batch, numbers.tolist(), strict=True):
            if not removed:
                expected[name] += 1
                assert number == expected[name]
            else:
                assert number == expected[name]
                expected[name] = max(0, expected[name] - 1)


@given(st.lists(st.integers(0, 10_000), unique=True), st.sets(st.integers(0, 10_000)), st.sets(st.integers(0, 10_000)))
def test_ranges_that_differ_have_the_keys_that_differ(ids: list[int], lost: set[int], changed: set[int]) -> None:
    there = pa.array(ids, pa.int64())
    here = pa.array([each for each in ids if each not in lost], pa.int64())
    ranges = ranges_of(here)
    before, after = (
        digests(pa.array([f"{each}{each in wrong}" for each in side.to_pylist()], pa.string()))
        for side, wrong in ((there, set[int]()), (here, changed))
    )
    wrong = differing(sums_of(before, ranges.of(there)), sums_of(after, ranges.of(here)))
    fetched = [
        ((str(each),), digest)
        for each, digest, number in zip(ids, before.tolist(), ranges.of(there).tolist(), strict=True)
        if number in wrong
    ]
    known: dict[Key, bytes] = {
        (str(each),): digest
        for each, digest, number in zip(here.to_pylist(), after.tolist(), ranges.of(here).tolist(), strict=True)
        if number in wrong
    }
    found = differences(fetched, known)
    assert {int(key[0]) for key in found.missing} == lost & set(ids)
    assert {int(key[0]) for key in found.different} == changed & set(ids) - lost
    assert not found.extra

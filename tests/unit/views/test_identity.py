from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, strategies

from headwater.views.identity import number_keys

TYPES = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint64()]


def numbered(values: Sequence[int | None]) -> list[int]:
    """What is promised: numbers in the order in which values appear."""
    seen: dict[int | None, int] = {}
    return [seen.setdefault(value, len(seen)) for value in values]


@given(strategies.lists(strategies.integers(-40, 40)), strategies.lists(strategies.integers(-40, 40)))
def test_numbers_are_given_in_the_order_in_which_keys_appear(one: list[int], other: list[int]) -> None:
    tables = [pa.table({"k": pa.array(values, pa.int64())}) for values in (one, other)]
    numbers = number_keys(tables, [["k"], ["k"]])
    assert np.concatenate(numbers).tolist() == numbered([*one, *other])


@pytest.mark.parametrize("kind", TYPES, ids=str)
@pytest.mark.parametrize("at", ["lowest", "highest"])
def test_numbers_at_the_ends_of_a_type(kind: pa.DataType, at: str) -> None:
    info = np.iinfo(kind.to_pandas_dtype())
    near = [info.min, info.min + 3, info.min + 1] if at == "lowest" else [info.max - 3, info.max, info.max - 1]
    values = near * 3
    (numbers,) = number_keys([pa.table({"k": pa.array(values, kind)})], [["k"]])
    assert numbers.tolist() == numbered(values)


def test_numbers_from_end_to_end_of_a_type() -> None:
    values = [-(2**63), 2**63 - 1, -128, 127] * 2
    (numbers,) = number_keys([pa.table({"k": pa.array(values, pa.int64())})], [["k"]])
    assert numbers.tolist() == numbered(values)


def test_null_is_a_key() -> None:
    values = [2, None, 1, None, 2]
    (numbers,) = number_keys([pa.table({"k": pa.array(values, pa.int64())})], [["k"]])
    assert numbers.tolist() == numbered(values)

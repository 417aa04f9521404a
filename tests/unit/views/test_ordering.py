"""The order of values: numbers that compare as Spark's values do."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from headwater.views.ordering import ranks, sorted_places
from tests.property.views.values import POOLS, place, strict_place

KINDS = pytest.mark.parametrize("kind", list(POOLS), ids=str)


@KINDS
@pytest.mark.parametrize("zeros_apart", [False, True])
def test_ranks_are_ordered_as_values_are(kind: pa.DataType, zeros_apart: bool) -> None:
    values = [None, *POOLS[kind], None]
    order = strict_place if zeros_apart else place
    column = pa.chunked_array([pa.array(values, kind).slice(2), pa.array(values, kind).slice(0, 2)])
    found = ranks(column, zeros_apart=zeros_apart).tolist()
    shown = column.to_pylist()
    for one, rank in zip(shown, found, strict=True):
        for other, other_rank in zip(shown, found, strict=True):
            assert (rank < other_rank) == (order(one) < order(other)), (one, other)


@KINDS
def test_nothing_and_only_nulls_have_ranks_too(kind: pa.DataType) -> None:
    assert ranks(pa.chunked_array([], kind)).tolist() == []
    assert len(set(ranks(pa.chunked_array([pa.nulls(3, kind)])).tolist())) == 1


def test_the_ends_of_long_are_no_obstacle() -> None:
    column = pa.chunked_array([pa.array([2**63 - 1, None, -(2**63)])])
    top, null, bottom = ranks(column).tolist()
    assert null < bottom < top


@pytest.mark.parametrize("widest", [3, 1000, 2**40, 2**63 - 1])
def test_rows_are_sorted_by_keys_of_any_width(widest: int) -> None:
    dice = np.random.default_rng(widest % 1000)
    for size in (0, 1, 200):
        keys = [dice.integers(-most, most, size) for most in (2, widest, 3, widest, 2)]
        found = sorted_places(keys)
        expected = np.lexsort(tuple(reversed(keys)))
        assert sorted(found.tolist()) == list(range(size))
        assert all((key[found] == key[expected]).all() for key in keys)

"""The order of values: numbers that compare as Spark's values do."""

from __future__ import annotations

import pyarrow as pa
import pytest

from headwater.views.ordering import ranks
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

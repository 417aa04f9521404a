"""Records survive the way through JSON, whatever is in them."""

from __future__ import annotations

import json
import math

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.log.kafka.values import from_json, to_json
from tests.property.rows import KINDS, pool

TYPES = [pa.int8(), pa.int64(), pa.bool_(), pa.float32(), pa.float64(), pa.string(), pa.binary(), pa.date32()]
TYPES += [pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.decimal128(38, 10), pa.list_(pa.float64())]
TYPES += [pa.map_(pa.string(), pa.date32()), pa.map_(pa.int32(), pa.string()), pa.struct([("a", pa.binary())])]


def same(left: object, right: object) -> bool:
    """Equal, where NaN equals itself."""
    if isinstance(left, float) and isinstance(right, float) and math.isnan(left):
        return math.isnan(right)
    if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[name], right[name]) for name in left)
    return left == right


@given(st.data())
def test_every_value_comes_back(data: st.DataObject) -> None:
    types = data.draw(st.lists(st.sampled_from(TYPES), min_size=1, max_size=4))
    schema = pa.schema([(f'c{number} "ä\\', arrow) for number, arrow in enumerate(types)])
    values = [st.lists(st.sampled_from([None, *pool(arrow)]), min_size=4, max_size=4) for arrow in types]
    table = pa.Table.from_arrays(
        [pa.array(data.draw(one), arrow) for one, arrow in zip(values, types, strict=True)], schema=schema
    )
    rows = to_json(table)
    assert all(json.loads(row).keys() == set(schema.names) for row in rows)
    assert same(from_json(rows, schema).to_pylist(), table.to_pylist())


@given(st.lists(st.text(), min_size=1))
def test_every_text_comes_back(texts: list[str]) -> None:
    table = pa.table({"text": [text.encode("utf-8", "replace").decode() for text in texts]})
    rows = to_json(table)
    assert [json.loads(row)["text"] for row in rows] == table["text"].to_pylist()
    assert from_json(rows, table.schema).equals(table)


@pytest.mark.parametrize("kind", KINDS)
def test_a_column_that_a_record_does_not_have_is_null(kind: str) -> None:
    schema, _ = KINDS[kind]
    assert from_json([b"{}", b'{"unknown": 1}'], schema).to_pylist() == [dict.fromkeys(schema.names)] * 2


def test_what_is_no_record_is_an_error() -> None:
    with pytest.raises(ValueError, match="Expecting"):
        from_json([b'{"n": 1}', b"{"], pa.schema([("n", pa.int64())]))

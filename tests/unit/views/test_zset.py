"""Z-sets: what adds up and what is the same, for every type that Spark sends."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import InternalError
from headwater.views.identity import normal, number_keys, same
from headwater.views.zset import WEIGHT, add, changed, consolidate, empty, identities, negate, with_weights
from tests.property.views.driver import changes_of, content
from tests.property.views.values import POOLS, identity
from tests.property.views.values import normal as plain_normal

NAN = float("nan")
KINDS = pytest.mark.parametrize("kind", list(POOLS), ids=str)


def zset(kind: pa.DataType, changes: list[tuple[object, int]]) -> pa.Table:
    return pa.table(
        {"v": pa.array([value for value, _ in changes], kind), WEIGHT: pa.array([w for _, w in changes], pa.int64())}
    )


@KINDS
def test_the_same_values_are_one_row(kind: pa.DataType) -> None:
    values = [None, *POOLS[kind]]
    table = zset(kind, [(value, number + 1) for number, value in enumerate(values)])
    twice = consolidate(pa.concat_tables([table.slice(1), table, table.slice(0, 1)]))
    assert twice.schema == table.schema
    assert twice.num_rows == len(values)
    expected = {identity((value,)): 2 * number + 2 for number, value in enumerate(values)}
    assert content(changes_of(twice)) == expected


@KINDS
def test_a_change_and_its_retraction_are_nothing(kind: pa.DataType) -> None:
    table = zset(kind, [(value, 3) for value in [None, *POOLS[kind]]])
    assert consolidate(add(table, negate(table))).num_rows == 0


@KINDS
def test_nothing_stays_nothing(kind: pa.DataType) -> None:
    table = zset(kind, [])
    assert consolidate(table).schema == table.schema
    assert consolidate(pa.concat_tables([table.slice(0, 0)])).num_rows == 0
    assert identities(table, ["v"]).num_rows == 0


@KINDS
def test_columns_without_chunks_are_taken(kind: pa.DataType) -> None:
    table = pa.table({"v": pa.chunked_array([], kind), WEIGHT: pa.chunked_array([], pa.int64())})
    assert consolidate(table).num_rows == 0
    assert [len(numbers) for numbers in number_keys([table, table], [["v"], ["v"]])] == [0, 0]


@pytest.mark.parametrize("kind", [kind for kind in POOLS if pa.types.is_list(kind)], ids=str)
def test_lists_without_any_memory_are_taken(kind: pa.DataType) -> None:
    nothing = pa.Array.from_buffers(kind, 0, [None, None], children=[pa.nulls(0, kind.value_type)])
    table = pa.table({"v": nothing, WEIGHT: pa.array([], pa.int64())})
    assert normal(table["v"]).type == kind
    assert identities(table, ["v"]).num_rows == 0


def test_without_columns_there_is_one_row() -> None:
    table = pa.table({WEIGHT: pa.array([2, -1, 4], pa.int64())})
    assert consolidate(table).to_pylist() == [{WEIGHT: 5}]
    assert consolidate(add(table, negate(table))).num_rows == 0
    assert consolidate(table.slice(0, 0)).num_rows == 0


def test_a_row_goes_when_all_its_measures_are_0() -> None:
    columns = {"k": ["a", "a", "b", "b", "c"], "_0_count": [1, -1, 2, -2, 0], WEIGHT: [1, -1, 1, 0, 0]}
    totals = consolidate(pa.table(columns), ("_0_count", WEIGHT))
    assert totals.to_pylist() == [{"k": "b", "_0_count": 0, WEIGHT: 1}]


def test_measures_add_up_when_rows_are_all_different_too() -> None:
    columns = {"k": ["a", "b"], "_0_count": [0, 0], WEIGHT: [0, 1]}
    assert consolidate(pa.table(columns), ("_0_count", WEIGHT))["k"].to_pylist() == ["b"]


def test_strings_that_differ_in_case_or_trailing_spaces_are_different() -> None:
    table = zset(pa.string(), [("a", 1), ("A", 1), ("a ", 1), ("", 1), (None, 1)])
    assert consolidate(table).num_rows == 5
    assert number_keys([table], [["v"]])[0].tolist() == [0, 1, 2, 3, 4]


def test_zeros_are_two_rows_and_one_key() -> None:
    table = zset(pa.float64(), [(0.0, 1), (-0.0, 1), (NAN, 1), (-NAN, 1)])
    assert consolidate(table).num_rows == 3
    assert number_keys([table], [["v"]])[0].tolist() == [0, 0, 1, 1]


def test_sums_of_files_and_batches_differ_in_what_they_say_about_nulls() -> None:
    strict = pa.schema([pa.field("v", pa.int64(), nullable=False), pa.field(WEIGHT, pa.int64(), nullable=False)])
    table = zset(pa.int64(), [(None, 1), (1, 1)])
    assert consolidate(add(table, zset(pa.int64(), [(1, 1)]).cast(strict))).num_rows == 2
    assert add(zset(pa.int64(), [(1, 1)]).cast(strict), table).num_rows == 3
    assert add(table, table.select([WEIGHT, "v"])).column_names == ["v", WEIGHT]


def test_sets_of_different_columns_do_not_add_up() -> None:
    with pytest.raises(InternalError):
        add(zset(pa.int64(), [(1, 1)]), pa.table({WEIGHT: [1]}))


def test_what_is_not_held_can_not_be_taken_away() -> None:
    held = zset(pa.int64(), [(1, 1), (2, 1)])
    assert changes_of(changed(held, zset(pa.int64(), [(1, -1)]), "join")) == [((2,), 1)]
    with pytest.raises(InternalError, match="The join kernel"):
        changed(held, zset(pa.int64(), [(1, -2)]), "join")


def test_weights_can_be_given_to_rows_without_columns() -> None:
    assert with_weights(pa.table({}), pa.array([1, 2], pa.int64())).num_rows == 2
    assert empty(pa.schema([("a", pa.int64())])).column_names == ["a", WEIGHT]


@KINDS
def test_keys_are_shown_with_one_zero(kind: pa.DataType) -> None:
    values = [None, *POOLS[kind], POOLS[kind][0]]
    column = pa.chunked_array([pa.array(values, kind).slice(1), pa.array(values, kind)])
    shown = normal(column)
    assert shown.type == kind
    # A 32-bit NaN or string is the same whatever it came through.
    assert list(map(identity, shown.to_pylist())) == [identity(plain_normal(each)) for each in column.to_pylist()]


@given(st.data())
def test_keys_of_several_tables_are_numbered_alike(data: st.DataObject) -> None:
    kinds = data.draw(st.lists(st.sampled_from(list(POOLS)), min_size=1, max_size=3))
    tuples = st.lists(st.tuples(*(st.sampled_from([None, *POOLS[kind]]) for kind in kinds)), max_size=6)
    contents = data.draw(st.lists(tuples, min_size=1, max_size=3))
    names = [f"c{number}" for number in range(len(kinds))]
    tables = [
        pa.table([pa.array([row[n] for row in rows], kind) for n, kind in enumerate(kinds)], names=names)
        for rows in contents
    ]
    numbers = number_keys(tables, [names] * len(tables))
    seen: dict[object, int] = {}
    expected = [[seen.setdefault(identity(plain_normal(row)), len(seen)) for row in rows] for rows in contents]
    assert [each.tolist() for each in numbers] == expected


@KINDS
def test_columns_are_compared_by_what_they_hold(kind: pa.DataType) -> None:
    values = [None, *POOLS[kind]]
    pairs = [(one, other) for one in values for other in values]
    left, right = (pa.chunked_array([pa.array(list(each), kind)]) for each in zip(*pairs, strict=True))
    assert same(left, right).tolist() == [identity(one) == identity(other) for one, other in pairs]

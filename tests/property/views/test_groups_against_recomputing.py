"""The kernels that keep rows by key (upsert, rows, replace, top-k, ranks), against recomputing after every step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cmp_to_key
from itertools import count
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from headwater.views.kernel import Kernel
from headwater.views.ordering import Order
from headwater.views.ranks import RANK_TYPES, Ranks
from headwater.views.replace import Replace
from headwater.views.rows import Rows
from headwater.views.topk import TopK
from headwater.views.upsert import Upsert
from tests.property.views.driver import Change, Driver, content, expanded
from tests.property.views.sequences import HASHES, change_lists, check_cuts
from tests.property.views.values import ORDERED, POOLS, Row, identity, normal, place, rows, strict_place


def schema_of(kinds: Sequence[pa.DataType]) -> pa.Schema:
    return pa.schema([(f"c{number}", kind) for number, kind in enumerate(kinds)])


SCHEMAS = st.lists(st.sampled_from(list(POOLS)), min_size=1, max_size=3).map(schema_of)


def groups_of(kernel: Kernel, changes: Sequence[Change]) -> dict[Row, list[Row]]:
    assert isinstance(kernel, Rows | TopK | Ranks)
    groups: dict[Row, list[Row]] = {}
    for row in expanded(changes):
        key = identity(normal(tuple(row[kernel.schema.names.index(name)] for name in kernel.key)))
        groups.setdefault(key, []).append(row)
    return groups


@given(SCHEMAS, st.integers(0, 2), HASHES, st.data())
def test_rows_hands_over_whole_groups(schema: pa.Schema, columns: int, hashes: int, data: st.DataObject) -> None:
    kernel = Rows(schema, tuple(schema.names[:columns]))
    driver = Driver(kernel, {"rows": kernel.key}, hashes)
    done: list[Change] = []
    for step in data.draw(change_lists([field.type for field in schema])):
        before = groups_of(kernel, done)
        done += step
        after = groups_of(kernel, done)
        changed = [
            key
            for key in before.keys() | after.keys()
            if Counter(map(identity, before.get(key, []))) != Counter(map(identity, after.get(key, [])))
        ]
        out = driver.step({"rows": step})
        assert Counter((identity(normal(row)), weight) for row, weight in out) == Counter((key, 1) for key in changed)
        expected = Counter(identity(row) for key in changed for row in after.get(key, []))
        assert Counter(map(identity, driver.handed)) == expected


@given(SCHEMAS, st.integers(0, 2), HASHES, st.data())
def test_what_a_node_gave_is_taken_back_whatever_it_gives_now(
    schema: pa.Schema, columns: int, hashes: int, data: st.DataObject
) -> None:
    """The node gives another answer each time it is asked, as a sum of doubles may: only what was given can go back."""
    key = tuple(schema.names[:columns])
    rows = Driver(Rows(schema, key), {"rows": key}, hashes)
    results = pa.schema([*(schema.field(name) for name in key), ("size", pa.int64()), ("answer", pa.int64())])
    empty = None if key else pa.table({"size": pa.array([0]), "answer": pa.array([-1])})
    replace = Driver(Replace(results, key, empty), {"groups": key, "results": key}, hashes)
    told: dict[Row, Row] = {} if key else {(): (0, -1)}
    answers = count()
    replace.step({})
    done: list[Change] = []
    for step in data.draw(change_lists([field.type for field in schema])):
        done += step
        touched = [row for row, _ in rows.step({"rows": step})]
        groups = groups_of(rows.kernel, done)
        given = []
        for group in touched:
            members = groups.get(identity(normal(group)), [])
            told.pop(identity(normal(group)), None)
            if members:
                given.append((*normal(group), len(members), next(answers)))
                told[identity(normal(group))] = given[-1]
            elif not key:
                told[()] = (0, -1)
        replace.step({"groups": [(group, 1) for group in touched], "results": [(row, 1) for row in given]})
        assert replace.result() == Counter(map(identity, told.values()))


def compared(kernel: TopK | Ranks, orders: Sequence[Order], one: Row, other: Row) -> int:
    """Which of two rows comes first by these orders."""
    for order in orders:
        column = kernel.schema.names.index(order.column)
        left, right = one[column], other[column]
        if (left is None) != (right is None):
            return -1 if (left is None) == order.nulls_first else 1
        if place(left) != place(right):
            return -1 if (place(left) < place(right)) != order.descending else 1
    return 0


def in_order(kernel: TopK | Ranks, members: list[Row]) -> list[Row]:
    def compare(one: Row, other: Row) -> int:
        left, right = strict_place(one), strict_place(other)
        return compared(kernel, kernel.order, one, other) or int(left > right) - int(left < right)

    return sorted(members, key=cmp_to_key(compare))


@st.composite
def topks(draw: st.DrawFn) -> TopK:
    schema = schema_of(draw(st.lists(st.sampled_from(ORDERED), min_size=1, max_size=3)))
    key = tuple(schema.names[: draw(st.integers(0, 1))])
    orders = st.builds(Order, st.sampled_from(schema.names), st.booleans(), st.booleans())
    chosen = draw(st.lists(orders, max_size=2, unique_by=lambda order: order.column))
    return TopK(schema, key, tuple(chosen), draw(st.integers(0, 4)), draw(st.sampled_from([0, 0, 1, 3])))


@given(topks(), HASHES, st.data())
def test_the_top_is_what_sorting_everything_gives(kernel: TopK, hashes: int, data: st.DataObject) -> None:
    driver = Driver(kernel, {"rows": kernel.key}, hashes)
    steps = data.draw(change_lists([field.type for field in kernel.schema]))
    done: list[Change] = []
    for step in steps:
        done += step
        driver.step({"rows": step})
        chosen = [
            row
            for members in groups_of(kernel, done).values()
            for row in in_order(kernel, members)[kernel.offset : kernel.offset + kernel.limit]
        ]
        assert driver.result() == Counter(map(identity, chosen))
    check_cuts(lambda: Driver(kernel, {"rows": kernel.key}, hashes), [{"rows": step} for step in steps], data)


@st.composite
def ranks(draw: st.DrawFn) -> Ranks:
    schema = schema_of(draw(st.lists(st.sampled_from(ORDERED), min_size=1, max_size=3)))
    key = tuple(schema.names[: draw(st.integers(0, 1))])
    orders = st.builds(Order, st.sampled_from(schema.names), st.booleans(), st.booleans())
    chosen = tuple(draw(st.lists(orders, min_size=1, max_size=2, unique_by=lambda order: order.column)))
    functions = draw(st.lists(st.sampled_from(list(RANK_TYPES)), min_size=1, max_size=3))
    return Ranks(schema, key, chosen, draw(st.integers(1, len(chosen))), tuple(functions))


def with_ranks(kernel: Ranks, members: list[Row]) -> list[Row]:
    """The rows of a group and what SQL says of each."""
    ordered, made = in_order(kernel, members), []
    for number, row in enumerate(ordered):
        sides = [compared(kernel, kernel.order[: kernel.stated], other, row) for other in ordered]
        less, tied = sides.count(-1), sides.count(0)
        firsts = [
            place
            for place in range(less)
            if not place or compared(kernel, kernel.order[: kernel.stated], ordered[place - 1], ordered[place])
        ]
        known = {
            "row_number": number + 1,
            "rank": less + 1,
            "dense_rank": len(firsts) + 1,
            "percent_rank": less / (len(ordered) - 1) if len(ordered) > 1 else 0.0,
            "cume_dist": (less + tied) / len(ordered),
        }
        made.append((*row, *(known[function] for function in kernel.functions)))
    return made


@given(ranks(), HASHES, st.data())
def test_ranks_are_what_sorting_everything_gives(kernel: Ranks, hashes: int, data: st.DataObject) -> None:
    driver = Driver(kernel, {"rows": kernel.key}, hashes)
    steps = data.draw(change_lists([field.type for field in kernel.schema]))
    done: list[Change] = []
    for step in steps:
        done += step
        out = driver.step({"rows": step})
        expected = [row for members in groups_of(kernel, done).values() for row in with_ranks(kernel, members)]
        assert driver.result() == Counter(map(identity, expected))
        assert content(out) == Counter({identity(row): weight for row, weight in out})
    check_cuts(lambda: Driver(kernel, {"rows": kernel.key}, hashes), [{"rows": step} for step in steps], data)


@st.composite
def record_lists(draw: st.DrawFn, kinds: Sequence[pa.DataType]) -> list[list[Change]]:
    """Records of increasing commits, in any order within a step."""
    steps: list[list[Change]] = []
    commit = 0
    for _ in range(draw(st.integers(1, 4))):
        step: list[Change] = []
        for row in draw(st.lists(rows(kinds), max_size=8)):
            commit += draw(st.booleans())
            # Offsets of different partitions say nothing about order: they may well be lower in a later commit.
            offset = len(step) if step and step[-1][0][-3] == commit else draw(st.integers(0, 9))
            step.append(((*row, commit, offset + 10 * len(step), draw(st.booleans())), 1))
        commit += 1
        steps.append(draw(st.permutations(step)))
    return steps


@given(SCHEMAS, st.integers(0, 2), HASHES, st.data())
def test_the_last_record_of_a_key_is_its_row(schema: pa.Schema, columns: int, hashes: int, data: st.DataObject) -> None:
    kernel = Upsert(schema, tuple(schema.names[:columns]))
    driver = Driver(kernel, {"records": kernel.key}, hashes)
    steps = data.draw(record_lists([field.type for field in schema]))
    table: dict[Any, Row] = {}
    for step in steps:
        for (*row, _commit, _offset, deleted), _ in sorted(step, key=lambda change: change[0][-3:-1]):
            key = identity(normal(tuple(row[: len(kernel.key)])))
            table.pop(key, None)
            if not deleted:
                table[key] = tuple(row)
        out = driver.step({"records": step})
        assert driver.result() == Counter(map(identity, table.values()))
        assert content(out) == Counter({identity(row): weight for row, weight in out})
    check_cuts(lambda: Driver(kernel, {"records": kernel.key}, hashes), [{"records": step} for step in steps], data)

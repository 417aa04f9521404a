"""The aggregate kernel against a plain recomputation of every group after every step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pyarrow.types as pat
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import Overflow
from headwater.views.aggregate import Aggregate, Function
from tests.property.views.driver import Change, Driver, expanded
from tests.property.views.sequences import HASHES, change_lists, check_cuts
from tests.property.views.values import NUMERIC, ORDERED, POOLS, Row, identity, normal, strict_place


class TooLarge(Exception):
    """A sum that its type does not hold."""


def sum_type(kind: pa.DataType) -> pa.DataType:
    if pat.is_decimal(kind):
        return pa.decimal128(min(kind.precision + 10, 38), kind.scale)
    return pa.float64() if pat.is_floating(kind) else pa.int64()


def total(values: Sequence[Any], kind: pa.DataType) -> Any:
    if not values:
        return None
    if pat.is_floating(kind):
        infinite = {value for value in values if value in (float("inf"), float("-inf"))}
        if any(value != value for value in values) or len(infinite) == 2:  # noqa: PLR0124
            return float("nan")
        exact = Fraction() if infinite else sum(map(Fraction, values), Fraction())
        try:
            return infinite.pop() if infinite else float(exact)
        except OverflowError:
            return float("inf") if exact > 0 else float("-inf")
    exact = sum(map(Fraction, values), Fraction())
    if pat.is_decimal(kind):
        unscaled = exact * 10**kind.scale
        if abs(unscaled) >= 10**kind.precision:
            raise TooLarge
        return Decimal(f"{int(unscaled)}E-{kind.scale}")
    if not -(2**63) <= exact < 2**63:
        raise TooLarge
    return int(exact)


def value_of(function: Function, rows: Sequence[Row], names: Sequence[str]) -> Any:
    places = [names.index(argument) for argument in function.arguments]
    tuples = [tuple(row[place] for place in places) for row in rows]
    tuples = [each for each in tuples if None not in each]
    if function.kind.endswith("distinct"):
        tuples = list({identity(normal(each)): normal(each) for each in tuples}.values())
    if function.kind.startswith("count"):
        return len(tuples)
    if function.kind.startswith("sum"):
        return total([each[0] for each in tuples], function.type)
    if not tuples:
        return None
    return (min if function.kind == "min" else max)((each[0] for each in tuples), key=strict_place)


def recomputed(kernel: Aggregate, changes: Sequence[Change]) -> Counter[Row]:
    names = kernel.schema.names
    groups: dict[Row, tuple[Row, list[Row]]] = {} if kernel.key else {(): ((), [])}
    for row in expanded(changes):
        key = normal(tuple(row[names.index(name)] for name in kernel.key))
        groups.setdefault(identity(key), (key, []))[1].append(row)
    return Counter(
        identity((*key, *(value_of(function, rows, names) for function in kernel.functions)))
        for key, rows in groups.values()
    )


@st.composite
def kernels(draw: st.DrawFn) -> Aggregate:
    kinds = [draw(st.sampled_from(list(POOLS))), draw(st.sampled_from(ORDERED)), draw(st.sampled_from(NUMERIC))]
    kinds.append(draw(st.sampled_from(ORDERED)))
    names = [f"c{number}" for number in range(len(kinds))]
    schema = pa.schema(list(zip(names, kinds, strict=True)))
    key = draw(st.sampled_from([(), ("c0",), ("c3",), ("c0", "c3")]))
    offered = [
        Function("count", (), "f0", pa.int64()),
        Function("count", ("c1", "c2"), "f1", pa.int64()),
        Function("sum", ("c2",), "f2", sum_type(kinds[2])),
        Function("min", ("c1",), "f3", kinds[1]),
        Function("max", ("c1",), "f4", kinds[1]),
        Function("count_distinct", ("c1",), "f5", pa.int64()),
        Function("count_distinct", ("c1", "c2"), "f6", pa.int64()),
        Function("sum_distinct", ("c2",), "f7", sum_type(kinds[2])),
        Function("min", ("c2",), "f8", kinds[2]),
        Function("sum", ("c2",), "f9", sum_type(kinds[2])),
    ]
    chosen = draw(st.lists(st.sampled_from(offered), max_size=4, unique_by=lambda function: function.name))
    return Aggregate(key, tuple(chosen), schema)


@given(kernels(), HASHES, st.data())
def test_every_step_equals_recomputing(kernel: Aggregate, hashes: int, data: st.DataObject) -> None:
    driver = Driver(kernel, {"rows": kernel.key}, hashes)
    done: list[Change] = []
    for step in data.draw(change_lists([field.type for field in kernel.schema])):
        done += step
        try:
            expected = recomputed(kernel, done)
        except TooLarge:
            with pytest.raises(Overflow):
                driver.step({"rows": step})
            return
        out = driver.step({"rows": step})
        assert driver.result() == expected
        assert len({(identity(row), weight > 0) for row, weight in out}) == len(out)
        assert not {identity(row) for row, weight in out if weight > 0} & {
            identity(row) for row, weight in out if weight < 0
        }


@given(kernels(), HASHES, st.data())
def test_cuts_do_not_matter(kernel: Aggregate, hashes: int, data: st.DataObject) -> None:
    steps = data.draw(change_lists([field.type for field in kernel.schema]))
    done: list[Change] = []
    try:
        for step in steps:
            done += step
            recomputed(kernel, done)
    except TooLarge:
        return
    check_cuts(lambda: Driver(kernel, {"rows": kernel.key}, hashes), [{"rows": step} for step in steps], data)


@given(st.lists(st.tuples(st.floats(), st.sampled_from([1, 2, 3]))), st.randoms(use_true_random=False))
def test_any_doubles_cancel_to_the_last_bit(values: list[tuple[float, int]], random: Any) -> None:
    kernel = Aggregate((), (Function("sum", ("v",), "s", pa.float64()),), pa.schema([("v", pa.float64())]))
    driver = Driver(kernel, {"rows": ()})
    changes = [((value,), weight) for value, weight in values]
    driver.step({"rows": changes})
    assert driver.result() == recomputed(kernel, changes)
    random.shuffle(changes)
    kept = len(changes) // 2
    driver.step({"rows": [(row, -weight) for row, weight in changes[kept:]]})
    assert driver.result() == recomputed(kernel, changes[:kept])
    driver.step({"rows": [(row, -weight) for row, weight in changes[:kept]]})
    assert all(table.num_rows == 0 for table in driver.state.values())

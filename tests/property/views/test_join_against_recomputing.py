"""The join kernel against nested loops over everything that is there, after every step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import get_args

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import TooManyRows
from headwater.views.join import Join, JoinKind
from tests.property.views.driver import Change, Changes, Driver, expanded
from tests.property.views.sequences import HASHES, change_lists, check_cuts, together
from tests.property.views.values import FLAT, POOLS, Row, identity, normal


def recomputed(kernel: Join, left: Sequence[Change], right: Sequence[Change]) -> Counter[Row]:
    rights = expanded(right)
    partnered = [False] * len(rights)
    result: Counter[Row] = Counter()
    nothing = (None,) * len(kernel.left), (None,) * len(kernel.right)
    for row in expanded(left):
        partners = [number for number, other in enumerate(rights) if matches(kernel, row, other)]
        for number in partners:
            partnered[number] = True
        if kernel.kind == "existence":
            result[identity((*row, bool(partners)))] += 1
        elif kernel.kind in ("semi", "anti"):
            result[identity(row)] += bool(partners) == (kernel.kind == "semi")
        else:
            result.update(identity(row + rights[number]) for number in partners)
            if not partners and kernel.kind in ("left", "full"):
                result[identity(row + nothing[1])] += 1
    if kernel.kind in ("right", "full"):
        result.update(identity(nothing[0] + row) for row, met in zip(rights, partnered, strict=True) if not met)
    return Counter({row: weight for row, weight in result.items() if weight})


def matches(kernel: Join, left: Row, right: Row) -> bool:
    for left_name, right_name in zip(kernel.left_key, kernel.right_key, strict=True):
        one, other = left[kernel.left.names.index(left_name)], right[kernel.right.names.index(right_name)]
        if identity(normal(one)) != identity(normal(other)) or (one is None and not kernel.null_safe):
            return False
    return True


@st.composite
def kernels(draw: st.DrawFn) -> Join:
    keys = draw(st.lists(st.sampled_from(list(POOLS)), min_size=2, max_size=2))
    extra = draw(st.sampled_from(FLAT))
    left = pa.schema([("a", keys[0]), ("b", keys[1]), ("c", extra)])
    right = pa.schema([("y", keys[1]), ("x", keys[0])])
    count = draw(st.integers(0, 2))
    kind = draw(st.sampled_from(get_args(JoinKind)))
    return Join(kind, left, right, ("a", "b")[:count], ("x", "y")[:count], draw(st.booleans()))


def both_sides(kernel: Join) -> st.SearchStrategy[list[Changes]]:
    sides = {port: change_lists([field.type for field in schema], 4) for port, schema in kernel.ports.items()}
    return st.fixed_dictionaries(sides).map(together)


def driver_of(kernel: Join, hashes: int) -> Driver:
    return Driver(kernel, {"left": kernel.left_key, "right": kernel.right_key}, hashes)


@given(kernels(), HASHES, st.data())
def test_every_step_equals_recomputing(kernel: Join, hashes: int, data: st.DataObject) -> None:
    driver = driver_of(kernel, hashes)
    done: dict[str, list[Change]] = {"left": [], "right": []}
    for step in data.draw(both_sides(kernel)):
        for port, changes in step.items():
            done[port] += changes
        driver.step(step)
        assert driver.result() == recomputed(kernel, done["left"], done["right"])


@given(kernels(), HASHES, st.data())
def test_cuts_do_not_matter(kernel: Join, hashes: int, data: st.DataObject) -> None:
    check_cuts(lambda: driver_of(kernel, hashes), data.draw(both_sides(kernel)), data)


@given(kernels(), HASHES, st.data())
def test_a_second_partner_is_an_error_if_one_is_asked_for(kernel: Join, hashes: int, data: st.DataObject) -> None:
    single = Join("left", kernel.left, kernel.right, kernel.left_key, kernel.right_key, kernel.null_safe, single=True)
    driver = driver_of(single, hashes)
    done: dict[str, list[Change]] = {"left": [], "right": []}
    for step in data.draw(both_sides(single)):
        for port, changes in step.items():
            done[port] += changes
        rights = expanded(done["right"])
        if any(sum(matches(single, row, other) for other in rights) > 1 for row in expanded(done["left"])):
            with pytest.raises(TooManyRows):
                driver.step(step)
            return
        driver.step(step)
        assert driver.result() == recomputed(single, done["left"], done["right"])

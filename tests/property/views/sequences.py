"""Sequences of changes: inserts, retractions of what is there, duplicates, and changes that take themselves back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from tests.property.views.driver import Change, Changes, Driver, expanded
from tests.property.views.values import rows

HASHES = st.sampled_from([1, 3, 2**31])


@st.composite
def change_lists(draw: st.DrawFn, kinds: Sequence[pa.DataType], steps: int = 5) -> list[list[Change]]:
    """Steps of changes of one input; after each step no row is there less than not at all."""
    done: list[Change] = []
    result = []
    for _ in range(draw(st.integers(1, steps))):
        weights = st.sampled_from([1, 1, 1, 2, 3])
        inserted: list[Change] = draw(st.lists(st.tuples(rows(kinds), weights), max_size=6))
        present = expanded([*done, *inserted])
        places = st.lists(st.sampled_from(range(len(present))), max_size=8, unique=True) if present else st.just([])
        step = draw(st.permutations([*inserted, *((present[place], -1) for place in draw(places))]))
        done += step
        result.append(step)
    return result


@st.composite
def cuts(draw: st.DrawFn, steps: Sequence[Changes]) -> list[Changes]:
    """The same changes in other steps, some of them one step now."""
    result: list[dict[str, list[Change]]] = [{}]
    for step in steps:
        for port, changes in step.items():
            result[-1].setdefault(port, []).extend(changes)
        if draw(st.booleans()):
            result.append({})
    return list(result)


def check_cuts(make: Callable[[], Driver], steps: Sequence[Changes], data: st.DataObject) -> None:
    """However changes are cut into steps, the result and the state are the same."""
    plain, cut = make(), make()
    for step in steps:
        plain.step(step)
    for step in data.draw(cuts(steps)):
        cut.step(step)
    assert plain.result() == cut.result()
    assert plain.held() == cut.held()


def together(ports: Mapping[str, Sequence[Any]]) -> list[Changes]:
    """The steps of several inputs side by side; inputs that end earlier change no more."""
    length = max(map(len, ports.values()))
    return [{port: steps[number] for port, steps in ports.items() if number < len(steps)} for number in range(length)]

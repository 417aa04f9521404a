"""A few rounds for every target; `make torture-sinks N=100` runs more."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from tests.contract.sinks.opensearch import stop_opensearch
from tests.sinks.story import Rows, Story, Witness
from tests.sinks.torture import torture
from tests.sinks.victims import VICTIMS

ROUNDS = {"opensearch": 3}


@pytest.fixture(scope="module", autouse=True)
def servers() -> Iterator[None]:
    yield
    stop_opensearch()


@pytest.mark.timeout(400)
@pytest.mark.parametrize("name", sorted(VICTIMS))
def test_a_target_ends_with_the_view_whatever_is_killed(name: str) -> None:
    figures = torture(name, seed=1, rounds=ROUNDS.get(name, 5))
    print(figures)
    assert figures.polls > 5
    assert figures.versions > 5


def test_a_witness_sees_what_a_target_must_not_show() -> None:
    story, chance = Story(), Random(1)
    states: list[Rows] = [{}]
    for _ in range(5):
        story.next_change(chance)
        states.append(dict(story.rows))
    torn = {**states[4], **{key: text for key, text in states[5].items() if key < 150}}
    assert torn not in states
    witness = Witness(story, transactional=True)
    for state in (states[1], states[3]):
        witness.look(state)
    with pytest.raises(AssertionError, match="no version"):
        witness.look(torn)
    with pytest.raises(AssertionError, match="after 3"):
        witness.look(states[2])
    by_row = Witness(story, transactional=False)
    for state in (states[3], torn, states[5]):
        by_row.look(state)
    with pytest.raises(AssertionError, match="key"):
        by_row.look(states[2])

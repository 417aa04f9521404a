"""The life of a capture: every transition that the table has, and none that it has not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import headwater as hw
from headwater.connectors.capture.lifecycle import (
    TRANSITIONS,
    Event,
    Life,
    State,
    after,
    jobs_in,
    state_in,
    stored_as,
)
from headwater.errors import InternalError
from headwater.log.port import Log


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with hw.open(tmp_path) as log:
        yield log


def life(log: Log) -> Life:
    return Life(log, "s.snapshot", "s.paused")


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("event", Event)
def test_what_the_table_does_not_have_is_a_bug(state: State, event: Event) -> None:
    if event in TRANSITIONS[state]:
        assert after(state, event, before=State.STREAMING) in State
    else:
        with pytest.raises(InternalError, match=r"cannot take"):
            after(state, event)


def test_every_state_can_be_reached() -> None:
    reached = {State.NEW}
    while True:
        found = {after(state, event) for state in reached for event in TRANSITIONS[state]}
        if found <= reached:
            break
        reached |= found
    assert reached == set(State)


def test_a_life_from_the_beginning_to_the_end(log: Log) -> None:
    one, other = life(log), life(log)
    assert one.state is State.NEW
    for event, state in [
        (Event.BEGIN, State.CREATING),
        (Event.SLOT_CREATED, State.SNAPSHOT),
        (Event.RESTART, State.CREATING),
        (Event.SLOT_CREATED, State.SNAPSHOT),
        (Event.SNAPSHOT_COMMITTED, State.STREAMING),
        (Event.DROP, State.DROPPED),
        (Event.BEGIN, State.CREATING),
    ]:
        one.move(event)
        assert other.state is state
    with pytest.raises(InternalError):
        one.move(Event.SLOT_REPLACED)


def test_a_pause_returns_to_the_state_that_it_interrupted(log: Log) -> None:
    one, other = life(log), life(log)
    one.move(Event.BEGIN)
    one.pause()
    one.pause()
    assert (other.state, other.uninterrupted) == (State.PAUSED, State.CREATING)
    one.move(Event.SLOT_CREATED)  # what was under way comes to its end
    other.resume()
    other.resume()
    assert one.state is State.SNAPSHOT


def test_a_lost_slot_is_known_to_who_found_it_until_it_is_replaced(log: Log) -> None:
    one, other = life(log), life(log)
    for event in (Event.BEGIN, Event.SLOT_CREATED, Event.SNAPSHOT_COMMITTED):
        one.move(event)
    one.lose()
    assert (one.state, other.state) == (State.LOST, State.STREAMING)
    one.move(Event.SLOT_REPLACED)
    assert one.state is State.STREAMING
    other.move(Event.DROP)
    one.lose()
    assert one.state.value == "dropped", "that is why it was lost"


def test_jobs_are_added_to_what_others_have_asked_for(log: Log) -> None:
    one = life(log)
    one.move(Event.BEGIN)
    one.ask([{"id": "a"}])
    life(log).ask([{"id": "b"}])
    assert one.jobs == [{"id": "a"}, {"id": "b"}]
    stored = one.stored
    one.move(Event.SLOT_CREATED)
    with log.commit(on_conflict="return") as commit:
        one.add_to(commit, stored, Event.SLOT_CREATED)
    assert commit.conflict is not None, "it was moved by another"
    assert (one.state, one.jobs) == (State.SNAPSHOT, [])


def test_a_drop_that_removed_nothing_is_undone(log: Log) -> None:
    one = life(log)
    one.move(Event.BEGIN)
    one.ask([{"id": "a"}])
    for before in (one.stored, stored_as(State.NEW)):
        one.move(Event.DROP)
        one.undo_drop(before)
        assert (one.state, one.jobs) == (state_in(before), jobs_in(before))

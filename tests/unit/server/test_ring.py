"""The ring of changes: bounded, and it knows what it does not have any more."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import UsageError
from headwater.log.embedded.position import commit_of, commit_position
from headwater.server.ring import Change, Ring
from headwater.server.sse import Mark, event, to_json


def mark_at(commit: int, generation: int) -> Mark:
    return Mark(commit_position(commit), generation)


def ring(events: int = 3, size: int = 1000) -> Ring:
    return Ring(mark_at(10, 1), events_max=events, bytes_max=size)


def change(commit: int, generation: int = 1, size: int = 1) -> Change:
    return Change(mark_at(commit, generation), b"x" * size)


def test_changes_come_one_after_the_other() -> None:
    held = ring()
    assert held.after(mark_at(10, 1)) is None
    for commit in (12, 15):
        held.add(change(commit))
    assert held.after(mark_at(10, 1)) == change(12)
    assert held.after(mark_at(12, 1)) == change(15)
    assert held.after(mark_at(13, 1)) == change(15)
    assert held.after(mark_at(15, 1)) is None


def test_what_is_too_much_goes_and_who_needs_it_is_not_covered() -> None:
    held = ring(events=2)
    for commit in (11, 12, 13):
        held.add(change(commit))
    assert not held.covers(mark_at(10, 1))
    assert held.covers(mark_at(11, 1))
    assert held.after(mark_at(11, 1)) == change(12)


def test_bytes_are_bounded_too() -> None:
    held = ring(events=100, size=10)
    for commit in range(11, 31):
        held.add(change(commit, size=4))
    assert held.start == mark_at(28, 1)
    held.skip(mark_at(31, 1))
    assert not held.covers(mark_at(30, 1))
    assert held.covers(mark_at(31, 1))


def test_another_generation_at_the_same_position_comes_after() -> None:
    held = ring()
    held.add(change(12))
    held.add(change(12, generation=2))
    assert held.after(mark_at(12, 1)) == change(12, generation=2)


@given(st.lists(st.integers(1, 5), max_size=40), st.integers(1, 6), st.integers(0, 40))
def test_whoever_is_covered_misses_nothing(steps: list[int], room: int, slow: int) -> None:
    """A follower that reads after every `slow` changes gets each change once, or is not covered."""
    held, sent, got, mark = (
        Ring(mark_at(0, 1), events_max=room, bytes_max=10_000),
        list[Mark](),
        list[Mark](),
        mark_at(0, 1),
    )
    for number, step in enumerate(steps):
        sent.append(mark_at((commit_of(sent[-1].position) if sent else 0) + step, 1))
        held.add(Change(sent[-1], b"x"))
        if slow and number % slow:
            continue
        while held.covers(mark) and (found := held.after(mark)) is not None:
            got.append(found.mark)
            mark = found.mark
        if not held.covers(mark):
            assert got == sent[: len(got)]
            return
    assert got == sent[: len(got)]


def test_marks_are_written_and_read() -> None:
    assert Mark.parse(str(mark_at(12, 3))) == mark_at(12, 3)
    for text in ("", "12", "12.", ".3", "12.3.4", "-1.2", "x.y", "1" * 19 + ".1"):
        with pytest.raises(UsageError):
            Mark.parse(text)


def test_an_event_is_one_line_of_json() -> None:
    assert event({"a": "x\ny"}, name="change", mark=mark_at(1, 2)) == (
        b'id: 1.2\nevent: change\ndata: {"a":"x\\ny"}\n\n'
    )
    assert to_json({"a": "é"}) == '{"a":"é"}'

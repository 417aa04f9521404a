"""Changes become messages: in order, none too large, several positions together, and resumed anywhere."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.connectors.webhooks import messages
from headwater.connectors.webhooks.messages import Message, Packer
from headwater.engine.sinks.port import CannotContinue, Mark
from headwater.engine.subscription import Changes
from tests.unit.engine.samples import at


def step(position: int, *rows: str, generation: int = 1, snapshot: bool = False) -> Changes:
    table = pa.table({"text": pa.array(rows, pa.string())})
    return Changes(at(position), generation, table, pa.chunked_array([[1] * len(rows)], pa.int64()), snapshot)


def mark(position: int, generation: int = 1, following: int | None = None, rows: int = 0) -> Mark:
    return Mark(at(position), generation, None if following is None else at(following), rows)


BEGINNING = mark(0)


def packer(reached: Mark | None = BEGINNING, sequence: int = 0) -> Packer:
    return Packer("to.shop", "v", sequence, reached)


def packed(made: Packer, *steps: Changes | None) -> list[Message]:
    """The messages of steps, of which None is where nothing more is there yet."""
    return list(pack(made, steps))


def pack(made: Packer, steps: Iterable[Changes | None]) -> Iterator[Message]:
    given = [*steps, None]
    for changes, following in pairwise(given):
        if changes is not None:
            yield from made.pack(changes, more=following is not None)


def read(message: Message) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(message.body)
    return body


def texts(message: Message) -> list[tuple[str, str]]:
    return [(one["position"], one["row"]["text"]) for one in read(message)["changes"]]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "MESSAGE_CHANGES_MAX", 3)


def test_what_is_there_goes_together() -> None:
    (only,) = packed(packer(), step(4, "a", "b"), step(5, "c"), None)
    assert texts(only) == [("4", "a"), ("4", "b"), ("5", "c")]
    assert (only.id, only.mark) == ("to~shop_1_5", mark(5, 1))
    about = read(only)
    assert (about["type"], about["webhook"], about["view"]) == ("view.changes", "to.shop", "v")
    assert (about["sequence"], about["position"], about["complete"]) == (1, "5", True)
    assert about["changes"][0] == {"position": "4", "weight": 1, "row": {"text": "a"}}


def test_nothing_waits_for_more() -> None:
    assert [texts(one) for one in packed(packer(), step(4, "a"), None, step(5, "b"), None)] == [
        [("4", "a")],
        [("5", "b")],
    ]


@pytest.mark.usefixtures("small")
def test_a_large_step_comes_in_parts_and_says_so() -> None:
    made = packed(packer(), step(4, "a"), step(5, *"bcdefg"), None)
    assert [[text for _, text in texts(one)] for one in made] == [["a", "b", "c"], ["d", "e", "f"], ["g"]]
    assert [read(one)["complete"] for one in made] == [False, False, True]
    assert [one.mark for one in made] == [mark(4, 1, 5, 2), mark(4, 1, 5, 5), mark(5, 1)]
    assert [one.id for one in made] == ["to~shop_1_5", "to~shop_2_5", "to~shop_3_5"]


@pytest.mark.usefixtures("small")
def test_a_message_that_ends_with_its_step_is_complete() -> None:
    made = packed(packer(), step(4, *"abc"), step(5, "d"), None)
    assert [(read(one)["complete"], one.mark) for one in made] == [(True, mark(4, 1)), (True, mark(5, 1))]


def test_bytes_are_limited_and_a_row_that_is_larger_goes_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "MESSAGE_BYTES_MAX", 200)
    made = packed(packer(), step(4, "a", "ä" * 300, "b", "c"), None)
    assert [len(texts(one)) for one in made] == [1, 1, 2]


@pytest.mark.usefixtures("small")
def test_content_has_numbered_parts_and_no_place_until_its_end() -> None:
    made = packed(packer(None), step(9, *"abcd", snapshot=True), step(10, "e"), None)
    assert [(read(one)["type"], read(one).get("part"), read(one)["complete"], one.mark) for one in made] == [
        ("view.snapshot", 1, False, None),
        ("view.snapshot", 2, True, mark(9, 1)),
        ("view.changes", None, True, mark(10, 1)),
    ]


def test_empty_content_is_told() -> None:
    (only,) = packed(packer(None), step(9, snapshot=True))
    assert (read(only)["changes"], read(only)["position"], only.mark) == ([], "9", mark(9, 1))


def test_content_in_between_parts_what_came_before() -> None:
    made = packed(packer(), step(4, "a"), step(9, "b", generation=2, snapshot=True), None)
    assert [read(one)["type"] for one in made] == ["view.changes", "view.snapshot"]


def test_a_gap_is_told() -> None:
    gap = packer(sequence=7).gap(mark(30, 2), "too old")
    assert (read(gap)["type"], read(gap)["reason"], gap.mark) == ("view.gap", "too old", mark(30, 2))
    assert (read(gap)["sequence"], read(gap)["position"], read(gap)["changes"]) == (8, "30", [])


@pytest.mark.parametrize("other", [step(6, *"bcd"), step(5, *"bcd", generation=2)])
def test_a_step_that_is_another_one_is_not_gone_on_with(other: Changes) -> None:
    with pytest.raises(CannotContinue):
        packed(packer(mark(4, 1, 5, 2)), other)


@given(
    st.lists(st.lists(st.text(max_size=5), max_size=8), max_size=6),
    st.lists(st.booleans(), max_size=6),
    st.integers(0, 20),
)
def test_however_it_is_interrupted_everything_comes_once_and_in_order(
    rows: Sequence[Sequence[str]], pauses: Sequence[bool], killed_after: int
) -> None:
    steps = [step(number + 1, *texts) for number, texts in enumerate(rows)]

    def given_from(reached: Mark) -> Iterator[Changes | None]:
        for number, one in enumerate(steps):
            if one.position > reached.position:
                yield one
                if number < len(pauses) and pauses[number]:
                    yield None
        yield None

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(messages, "MESSAGE_CHANGES_MAX", 3)
        first = list(pack(packer(), given_from(BEGINNING)))[:killed_after]
        reached = first[-1].mark if first else BEGINNING
        assert reached is not None
        rest = list(pack(packer(reached, len(first)), given_from(reached)))
    expected = [(str(number + 1), text) for number, each in enumerate(rows) for text in each]
    assert [found for one in first + rest for found in texts(one)] == expected
    assert len({one.id for one in first + rest}) == len(first + rest)
    assert all(len(texts(one)) <= 3 for one in first + rest)

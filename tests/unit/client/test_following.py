"""A subscription's state: changes are given when they are complete, and resumed after the last one that was."""

from __future__ import annotations

import json

from headwater.client.answers import Change
from headwater.client.following import Following
from headwater.model.position import Position


def event(name: str, position: int, *numbers: int, mark: str = "") -> list[str]:
    rows = [{"row": {"n": number}, "weight": 1} for number in numbers]
    lines = [f"event: {name}", f"data: {json.dumps({'position': str(position), 'changes': rows})}", ""]
    return [f"id: {mark}", *lines] if mark else lines


def fed(following: Following, *events: list[str]) -> list[tuple[str, str, list[int]]]:
    found: list[Change] = [change for lines in events for line in lines if (change := following.line(line))]
    return [(change.kind, change.id, [row["n"] for row, _ in change.rows]) for change in found]


def test_a_change_of_several_events_is_one_change() -> None:
    following = Following()
    assert fed(following, event("snapshot", 1, 1, 2), event("snapshot", 1, 3)) == []
    assert following.after is None
    assert fed(following, event("snapshot", 1, 4, mark="1.1")) == [("snapshot", "1.1", [1, 2, 3, 4])]
    assert fed(following, event("change", 2, 5, mark="2.1")) == [("change", "2.1", [5])]
    assert following.after == "2.1"


def test_what_was_incomplete_is_forgotten_with_its_connection() -> None:
    following = Following("4.1")
    assert fed(following, event("change", 5, 1), ["event: change", 'data: {"half']) == []
    following.connected()
    assert following.after == "4.1"
    assert fed(following, event("change", 5, 1), event("change", 5, 2, mark="5.1")) == [("change", "5.1", [1, 2])]


def test_a_gap_is_followed_by_a_snapshot() -> None:
    following = Following("4.1")
    reset = ["event: reset", 'data: {"error": {"code": "view_position_gone"}}', ""]
    assert fed(following, event("change", 5, 1), reset) == []
    assert following.after is None
    assert fed(following, event("snapshot", 9, 7, mark="9.1")) == [("snapshot", "9.1", [7])]


def test_comments_and_other_events_are_passed_over() -> None:
    following = Following()
    lines = [": still here", "", "retry: 1000", "", "event: dropped", 'data: {"reason": "slow"}', "", "data", ""]
    assert [following.line(line) for line in lines] == [None] * len(lines)


def test_a_change_has_weights_and_a_position() -> None:
    following = Following()
    body = {"position": "8", "changes": [{"row": {"a": 1}, "weight": -1}]}
    *_, change = [following.line(line) for line in ("id: 8.2", "event: change", f"data:{json.dumps(body)}", "")]
    assert change == Change("change", "8.2", Position.parse("8"), [({"a": 1}, -1)])

"""Each anomaly is found in a small history that shows it, and in no history that does not."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from headwater.testing.history import (
    CHECKS,
    Action,
    Anomaly,
    Check,
    Entry,
    Operation,
    Type,
    aborted_reads,
    anomalies,
    attempts_of,
    broken_orders,
    duplicates,
    inconsistent_offsets,
    lost_writes,
    torn_commits,
)


class Story:
    """A history as it is written down by hand. Entries are text: `a=x` is x in partition a, `a@3=x` at offset 3."""

    def __init__(self) -> None:
        self.history: list[Operation] = []
        self._clock = itertools.count(1)

    def begin(self, process: str, action: Action, **fields: Any) -> Story:
        return self._add(process, "invoke", action, fields)

    def end(self, process: str, action: Action, kind: Type = "ok", **fields: Any) -> Story:
        return self._add(process, kind, action, fields)

    def send(self, process: str, values: str, kind: Type = "ok", told: str | None = None) -> Story:
        """A whole send; `told` is what the log answered, if that is more than what was sent."""
        return self.begin(process, "send", sent=values).end(process, "send", kind, sent=told or values)

    def poll(self, process: str, values: str = "", **fields: Any) -> Story:
        return self.begin(process, "poll", group=fields.get("group")).end(process, "poll", read=values, **fields)

    def settle(self, process: str, values: str, kind: Type = "ok", *, sent: str = "", group: str = "g") -> Story:
        self.begin(process, "settle", read=values, sent=sent, group=group)
        return self.end(process, "settle", kind, read=values, sent=sent, group=group)

    def _add(self, process: str, kind: Type, action: Action, fields: dict[str, Any]) -> Story:
        parsed: dict[str, Any] = {
            name: entries(text) if name in ("sent", "read") else text for name, text in fields.items()
        }
        self.history.append(Operation(next(self._clock), process, kind, action, **parsed))
        return self


def entries(text: str) -> tuple[Entry, ...]:
    found = []
    for word in text.split():
        place, value = word.split("=")
        partition, _, offset = place.partition("@")
        found.append(Entry(partition, value, int(offset) if offset else None))
    return tuple(found)


def found_by(check: Check, story: Story) -> list[tuple[int, str, str]]:
    return [(anomaly.number, anomaly.partition, anomaly.value) for anomaly in check(story.history)]


EVERYTHING: dict[str, Any] = {"covers": ("a", "b"), "whole": True, "at_end": True}


def good() -> Story:
    """Two writers, one commit over two partitions, one that failed, one in doubt; a reader, and a group of two."""
    story = Story().send("w1", "a=x a=y", told="a@0=x a@1=y").send("w2", "a=no b=no2", "fail")
    story.begin("w1", "send", sent="a=z b=u").poll("r", "a@0=x a@1=y", **EVERYTHING)
    story.end("w1", "send", sent="a@2=z b@0=u").begin("w2", "send", sent="b=maybe")
    story.poll("m1", "a@0=x a@1=y", group="g").settle("m1", "a@0=x a@1=y", sent="b@1=made")
    story.poll("m2", "a@2=z", group="g").settle("m2", "a@2=z", "fail").settle("m1", "a@2=z")
    return story.poll("r", "a@2=z b@0=u b@1=made b@2=maybe", **EVERYTHING)


def test_a_good_history_shows_nothing() -> None:
    assert anomalies(good().history) == []


# 1 lost write


def test_a_value_that_was_read_past_is_lost() -> None:
    story = Story().send("w", "a=x", told="a@0=x").send("w", "a=y", told="a@1=y").poll("r", "a@1=y")
    assert found_by(lost_writes, story) == [(1, "a", "x")]


def test_a_value_that_nobody_could_have_read_yet_is_not_lost() -> None:
    story = Story().send("w", "a=x", told="a@0=x").send("w", "a=y", told="a@1=y").poll("r", "a@0=x")
    assert found_by(lost_writes, story) == []


def test_a_value_that_somebody_else_read_is_not_lost() -> None:
    story = Story().send("w", "a=x", told="a@0=x").send("w", "a=y", told="a@1=y").poll("r", "a@1=y").poll("s", "a@0=x")
    assert found_by(lost_writes, story) == []


def test_an_acknowledged_value_is_lost_if_a_later_reading_to_the_end_has_it_not() -> None:
    story = Story().send("w", "a=x").poll("r", "", covers=("a",), at_end=True)
    assert found_by(lost_writes, story) == [(1, "a", "x")]


def test_a_reading_to_the_end_may_miss_what_is_acknowledged_while_it_reads() -> None:
    story = Story().begin("w", "send", sent="a=x").begin("r", "poll").end("w", "send", sent="a=x")
    story.end("r", "poll", covers=("a",), at_end=True)
    assert found_by(lost_writes, story) == []


def test_a_reading_to_the_end_may_have_read_the_value_before() -> None:
    story = Story().send("w", "a=x").poll("r", "a@0=x").poll("r", "", covers=("a",), at_end=True)
    assert found_by(lost_writes, story) == []


def test_a_value_in_a_partition_that_is_not_read_is_not_missed() -> None:
    story = Story().send("w", "b=x").poll("r", "", covers=("a",), at_end=True)
    assert found_by(lost_writes, story) == []


def test_a_value_in_doubt_is_not_missed() -> None:
    story = Story().begin("w", "send", sent="a=x").poll("r", "", covers=("a",), at_end=True)
    assert found_by(lost_writes, story) == []


def test_a_value_that_a_group_passed_over_is_lost() -> None:
    story = Story().send("w", "a=x a=y", told="a@0=x a@1=y").settle("m", "a@1=y")
    assert found_by(lost_writes, story) == [(1, "a", "x")]


def test_a_value_that_a_group_may_have_settled_is_not_lost() -> None:
    story = Story().send("w", "a=x a=y", told="a@0=x a@1=y").settle("m", "a@0=x", "info").settle("n", "a@1=y")
    assert found_by(lost_writes, story) == []


def test_a_value_is_lost_if_it_was_settled_only_together_with_what_nobody_ever_read() -> None:
    story = Story().send("w", "a=x a=y", told="a@0=x a@1=y")
    story.settle("m", "a@0=x", "info", sent="b=made").settle("n", "a@1=y")
    assert found_by(lost_writes, story) == [(1, "a", "x")]
    story.poll("r", "b@0=made")
    assert found_by(lost_writes, story) == []


def test_a_value_that_one_group_settled_is_still_for_the_other() -> None:
    story = Story().send("w", "a=x a=y", told="a@0=x a@1=y").settle("m", "a@0=x", group="g")
    story.settle("n", "a@1=y", group="h")
    assert found_by(lost_writes, story) == [(1, "a", "x")]


# 2 duplicate


def test_a_value_at_two_offsets_is_a_duplicate() -> None:
    story = Story().send("w", "a=x").poll("r", "a@0=x a@1=x")
    assert found_by(duplicates, story) == [(2, "a", "x")]


def test_a_value_in_two_partitions_is_a_duplicate() -> None:
    story = Story().send("w", "a=x", told="a@0=x").poll("r", "b@0=x")
    assert found_by(duplicates, story) == [(2, "a", "x")]


def test_a_value_that_two_readers_see_at_one_offset_is_no_duplicate() -> None:
    story = Story().send("w", "a=x", told="a@0=x").poll("r", "a@0=x").poll("s", "a@0=x")
    assert found_by(duplicates, story) == []


def test_a_value_that_a_group_settled_twice_is_a_duplicate() -> None:
    story = Story().send("w", "a=x").settle("m", "a@0=x").settle("n", "a@0=x")
    assert found_by(duplicates, story) == [(2, "a", "x")]


def test_a_value_that_one_member_settled_twice_is_a_duplicate() -> None:
    story = Story().send("w", "a=x").settle("m", "a@0=x").settle("m", "a@0=x")
    assert found_by(duplicates, story) == [(2, "a", "x")]


@pytest.mark.parametrize("kind", ["fail", "info"])
def test_a_value_may_be_settled_again_if_it_may_not_have_been(kind: Type) -> None:
    story = Story().send("w", "a=x").settle("m", "a@0=x", kind).settle("n", "a@0=x")
    assert found_by(duplicates, story) == []


def test_a_settling_in_doubt_counts_if_what_it_sent_was_read() -> None:
    story = Story().send("w", "a=x").settle("m", "a@0=x", "info", sent="b=made").settle("n", "a@0=x")
    story.poll("r", "b@0=made")
    assert found_by(duplicates, story) == [(2, "a", "x")]


def test_a_value_that_each_of_two_groups_settled_is_no_duplicate() -> None:
    story = Story().send("w", "a=x").settle("m", "a@0=x", group="g").settle("n", "a@0=x", group="h")
    assert found_by(duplicates, story) == []


# 3 aborted read


def test_a_value_of_a_failed_commit_that_is_read_is_an_aborted_read() -> None:
    story = Story().send("w", "a=x", "fail").poll("r", "a@0=x")
    assert found_by(aborted_reads, story) == [(3, "a", "x")]


def test_a_value_that_nobody_sent_is_an_aborted_read() -> None:
    assert found_by(aborted_reads, Story().poll("r", "a@0=x")) == [(3, "a", "x")]


def test_a_value_of_a_failed_commit_that_is_settled_is_an_aborted_read() -> None:
    story = Story().send("w", "a=x", "fail").settle("m", "a@0=x")
    assert found_by(aborted_reads, story) == [(3, "a", "x")]


@pytest.mark.parametrize("kind", ["ok", "info"])
def test_a_value_of_a_commit_that_may_have_happened_may_be_read(kind: Type) -> None:
    assert found_by(aborted_reads, Story().send("w", "a=x", kind).poll("r", "a@0=x")) == []


def test_a_value_of_a_commit_that_never_ended_may_be_read() -> None:
    assert found_by(aborted_reads, Story().begin("w", "send", sent="a=x").poll("r", "a@0=x")) == []


# 4 inconsistent offset


def test_two_values_at_one_offset_are_inconsistent() -> None:
    story = Story().send("w", "a=x").send("w", "a=y").poll("r", "a@0=x").poll("s", "a@0=y")
    assert found_by(inconsistent_offsets, story) == [(4, "a", "x")]


def test_a_writer_and_a_reader_that_disagree_are_inconsistent() -> None:
    story = Story().send("w", "a=x", told="a@0=x").send("v", "a=y").poll("r", "a@0=y")
    assert found_by(inconsistent_offsets, story) == [(4, "a", "x")]


def test_two_values_at_one_offset_of_two_partitions_are_consistent() -> None:
    story = Story().send("w", "a=x").send("w", "b=y").poll("r", "a@0=x b@0=y")
    assert found_by(inconsistent_offsets, story) == []


# 5 broken order


def test_a_poll_that_goes_back_breaks_the_order() -> None:
    story = Story().send("w", "a=x a=y").poll("r", "a@1=y a@0=x")
    assert found_by(broken_orders, story) == [(5, "a", "x")]


def test_a_poll_that_goes_back_behind_the_one_before_breaks_the_order() -> None:
    story = Story().send("w", "a=x a=y").poll("r", "a@1=y").poll("r", "a@0=x")
    assert found_by(broken_orders, story) == [(5, "a", "x")]


def test_a_poll_that_reads_a_value_again_breaks_the_order() -> None:
    story = Story().send("w", "a=x").poll("r", "a@0=x").poll("r", "a@0=x")
    assert found_by(broken_orders, story) == [(5, "a", "x")]


def test_a_poll_that_leaves_a_value_out_breaks_the_order() -> None:
    story = Story().send("w", "a=x a=y a=z").poll("r", "a@0=x").poll("r", "a@2=z").poll("s", "a@0=x a@1=y a@2=z")
    assert found_by(broken_orders, story) == [(5, "a", "z")]


def test_an_offset_that_holds_no_value_is_not_left_out() -> None:
    story = Story().send("w", "a=x a=z").poll("r", "a@0=x a@2=z")
    assert found_by(broken_orders, story) == []


def test_another_reader_begins_where_it_likes() -> None:
    story = Story().send("w", "a=x a=y").poll("r", "a@0=x a@1=y").poll("s", "a@0=x a@1=y").poll("t", "a@1=y")
    assert found_by(broken_orders, story) == []


def test_a_member_may_go_back_and_skip_between_polls_but_not_inside_one() -> None:
    story = Story().send("w", "a=x a=y a=z").poll("m", "a@0=x", group="g").poll("m", "a@2=z", group="g")
    story.poll("m", "a@0=x a@1=y", group="g")
    assert found_by(broken_orders, story) == []
    story.poll("m", "a@0=x a@2=z", group="g")
    assert found_by(broken_orders, story) == [(5, "a", "z")]


def test_a_send_that_is_put_before_an_acknowledged_one_breaks_the_order() -> None:
    story = Story().send("w", "a=x", told="a@5=x").send("v", "a=y", told="a@4=y")
    assert found_by(broken_orders, story) == [(5, "a", "y")]


def test_where_a_send_lies_may_be_known_only_from_who_read_it() -> None:
    story = Story().send("w", "a=x").begin("v", "send", sent="a=y").poll("r", "a@0=y a@1=x")
    assert found_by(broken_orders, story) == [(5, "a", "y")]


def test_two_sends_at_the_same_time_have_any_order() -> None:
    story = Story().begin("w", "send", sent="a=x").begin("v", "send", sent="a=y")
    story.end("w", "send", sent="a@5=x").end("v", "send", sent="a@4=y")
    assert found_by(broken_orders, story) == []


def test_the_values_of_one_send_keep_their_order() -> None:
    assert found_by(broken_orders, Story().send("w", "a=x a=y", told="a@1=x a@0=y")) == [(5, "a", "y")]
    assert found_by(broken_orders, Story().send("w", "a=x b=y a=z", told="a@4=x b@0=y a@5=z")) == []


# 6 torn commit


def test_a_reading_of_whole_commits_that_shows_half_of_one_is_torn() -> None:
    story = Story().send("w", "a=x b=y").poll("r", "a@0=x", covers=("a", "b"), whole=True)
    assert found_by(torn_commits, story) == [(6, "b", "y")]


def test_a_commit_in_doubt_is_whole_or_not_there() -> None:
    story = Story().begin("w", "send", sent="a=x a=y b=z").poll("r", "", **EVERYTHING)
    assert found_by(torn_commits, story) == []
    story.poll("s", "a@0=x b@0=z", **EVERYTHING)
    assert found_by(torn_commits, story) == [(6, "a", "y")]


def test_a_commit_may_be_seen_in_several_polls_of_which_the_last_is_whole() -> None:
    story = Story().send("w", "a=x b=y").poll("r", "a@0=x", covers=("a", "b"))
    story.poll("r", "b@0=y", covers=("a", "b"), whole=True)
    assert found_by(torn_commits, story) == []


def test_a_commit_is_torn_even_if_the_poll_that_should_have_the_rest_is_empty() -> None:
    story = Story().send("w", "a=x b=y").poll("r", "a@0=x", covers=("a", "b"))
    story.poll("r", "", covers=("a", "b"), whole=True)
    assert found_by(torn_commits, story) == [(6, "b", "y")]


def test_a_reading_of_some_partitions_need_not_show_the_others() -> None:
    story = Story().send("w", "a=x b=y").poll("r", "a@0=x", covers=("a",), whole=True)
    assert found_by(torn_commits, story) == []


# All of them


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: str(check.__name__))
def test_checks_are_numbered_and_an_empty_history_is_a_good_one(check: Callable[..., list[Anomaly]]) -> None:
    assert check([]) == []
    bad = {
        lost_writes: Story().send("w", "a=x").poll("r", "", covers=("a",), at_end=True),
        duplicates: Story().send("w", "a=x").poll("r", "a@0=x a@1=x"),
        aborted_reads: Story().poll("r", "a@0=x"),
        inconsistent_offsets: Story().poll("r", "a@0=x").poll("r", "a@0=y"),
        broken_orders: Story().poll("r", "a@1=x a@0=y"),
        torn_commits: Story().send("w", "a=x b=y").poll("r", "a@0=x", covers=("a", "b"), whole=True),
    }[check]
    number = CHECKS.index(check) + 1
    assert {anomaly.number for anomaly in check(bad.history)} == {number}
    assert str(check(bad.history)[0]).startswith(f"{number} ")
    assert number in {anomaly.number for anomaly in anomalies(bad.history)}


def test_an_operation_ends_after_it_began_and_before_the_next() -> None:
    with pytest.raises(ValueError, match="before its last one had ended"):
        attempts_of(Story().begin("w", "send").begin("w", "send").history)
    with pytest.raises(ValueError, match="had not begun"):
        attempts_of(Story().end("w", "send").history)
    assert [attempt.type for attempt in attempts_of(Story().begin("w", "send").begin("v", "send").history)] == [
        "info",
        "info",
    ]

"""What people do to sinks, for every target: audit and repair, pause, reset, drop, and refused rows sent again."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from headwater.engine.sinks.feed import Feed
from headwater.errors import RowRefused, TargetFailed, UsageError
from tests.contract.sinks.feeding import Keyed
from tests.contract.sinks.keyed import REFUSED, MemorySystem, System
from tests.contract.sinks.targets import FunctionTarget
from tests.webhooks.receiver import until
from tests.webhooks.sending import Feeding

NOTHING: tuple[list[int], list[int], list[int]] = ([], [], [])


def differing(found: dict[str, Any]) -> tuple[list[int], list[int], list[int]]:
    return found["missing"], found["different"], found["extra"]


def is_there(system: System, view: Keyed) -> bool:
    return system.rows() == view.held


def arrives(system: System, view: Keyed, made: Feeding) -> None:
    """Returns when the target has all of the view, and the feed knows."""
    until(lambda: is_there(system, view) and made.at() == view.driver.batch)


def corrupt(system: System, view: Keyed) -> None:
    """A row is changed, one is deleted, and one is added."""
    system.put(1, "changed behind its back")
    system.put(2, None)
    system.put(99, "never was in the view")
    assert not is_there(system, view)


def test_an_audit_names_the_keys_that_differ_and_repair_mends_them(system: System, view: Keyed) -> None:
    view.change({key: f"row {key}" for key in range(3, 40)})
    with view.feeding(system.target()) as made:
        arrives(system, view, made)
        found = view.audit(system.target())
        assert (found["equal"], differing(found), found["repaired"]) == (True, NOTHING, None)
        assert found["checksum_of_view"] == found["checksum_of_target"]
        assert (found["rows_in_view"], found["rows_in_target"], found["position"]) == (39, 39, "2")

        corrupt(system, view)
        found = view.audit(system.target())
        assert (found["equal"], differing(found)) == (False, ([2], [1], [99]))
        assert found["checksum_of_view"] != found["checksum_of_target"]
        assert not is_there(system, view)

        found = view.audit(system.target(), repair=True)
        assert (differing(found), found["repaired"]) == (([2], [1], [99]), True)
        assert is_there(system, view)
        assert view.audit(system.target())["equal"]

        # And the sink continues as if nothing had happened, also with what was mended.
        view.publish(k1="one again", k2=None, k50="fifty")
        arrives(system, view, made)
        assert view.audit(system.target())["equal"]
        assert made.status().position == "3"


def test_what_was_mended_stays_after_a_restart(system: System, view: Keyed) -> None:
    with view.feeding(system.target()) as made:
        arrives(system, view, made)
    corrupt(system, view)
    # Nobody feeds the sink now: the audit is done by the process that asks.
    assert view.audit(system.target(), repair=True)["repaired"]
    assert is_there(system, view)
    view.publish(k3="three")
    with view.feeding(system.target()) as made:
        arrives(system, view, made)
        assert made.said == []


def test_repair_writes_only_what_differs(view: Keyed) -> None:
    system = MemorySystem()
    with view.feeding(system.target()) as made:
        arrives(system, view, made)
        corrupt(system, view)
        view.audit(system.target(), repair=True)
    last = system.deliveries[-1]
    assert last.repair
    assert sorted(last.upserts["key"].to_pylist()) == [1, 2]
    assert last.deletes["key"].to_pylist() == [99]


def test_an_audit_waits_for_no_later_change(system: System, view: Keyed) -> None:
    """Changes keep coming while it compares: it stays at one position."""
    stop = threading.Event()

    def publish() -> None:
        number = 0
        while not stop.wait(0.01):
            number += 1
            view.publish(k1=f"{number}", **{f"k{number % 7 + 10}": f"{number}" if number % 3 else None})

    with view.feeding(system.target()) as made:
        arrives(system, view, made)
        publisher = threading.Thread(target=publish)
        publisher.start()
        try:
            for _ in range(3):
                assert view.audit(system.target())["equal"]
        finally:
            stop.set()
            publisher.join()
        arrives(system, view, made)


def test_refused_rows_are_no_difference(system: System, view: Keyed) -> None:
    if not system.refuses:
        return
    with view.feeding(system.target()) as made:
        view.publish(k4=REFUSED)
        until(lambda: made.at() == 2)
        found = view.audit(system.target(), repair=True)
        assert (found["equal"], found["refused"], found["repaired"]) == (True, 1, None)
        assert len(view.letters()) == 1


def test_a_paused_sink_gets_nothing_until_it_is_resumed(system: System, view: Keyed) -> None:
    with view.feeding(system.target()) as made:
        until(lambda: made.at() == 1)
        made.feed.pause()
        until(lambda: any("is paused" in said for said in made.said))
        before = system.rows()
        view.publish(k1="later")
        assert (made.status().status, made.status().lag) == ("paused", 2)
        assert view.audit(system.target())["position"] == "1"
        assert system.rows() == before
    with view.feeding(system.target()) as made:
        # A pause outlives the process.
        assert made.status().status == "paused"
        made.feed.resume()
        arrives(system, view, made)
        until(lambda: made.status().status == "running")


def test_a_sink_that_gave_up_is_resumed(system: System, view: Keyed) -> None:
    with view.feeding(system.target()) as made:
        until(lambda: made.at() == 1)
        view.add(2, "zwei")
        until(made.gave_up)
        view.add(2, "two", -1)
        view.held[2] = "zwei"
        made.feed.resume()
        arrives(system, view, made)
        until(lambda: not made.gave_up())


def test_reset_brings_the_content_again(system: System, view: Keyed) -> None:
    with view.feeding(system.target()) as made:
        arrives(system, view, made)
        corrupt(system, view)
        view.feed(system.target()).reset()
        arrives(system, view, made)
        until(lambda: made.status().position is not None)
        assert made.said == []
    corrupt(system, view)
    view.feed(system.target()).reset()
    with view.feeding(system.target()) as made:
        arrives(system, view, made)
    view.publish(k1="after")
    with view.feeding(system.target()) as made:
        arrives(system, view, made)
        # It was reset once.
        assert made.status().deliveries < 6


def test_a_reset_reaches_a_sink_whose_target_does_not_answer(system: System, view: Keyed) -> None:
    with view.feeding(system.target()) as made:
        arrives(system, view, made)
        system.stop()
        view.publish(k1="while it was down")
        until(lambda: made.status().error is not None)
        with pytest.raises(TargetFailed):
            view.audit(system.target())
        view.feed(system.target()).reset()
        assert made.status().position is None
        system.start()
        arrives(system, view, made)


def test_a_dropped_sink_leaves_the_rows_and_nothing_else(system: System, view: Keyed) -> None:
    with view.feeding(system.target()) as made:
        arrives(system, view, made)
        view.feed(system.target()).drop()
        assert (made.status().status, made.status().position) == ("paused", None)
        assert is_there(system, view)
        with view.driver.store.read() as look:
            assert look.holds() == []
        with pytest.raises((UsageError, TargetFailed)):
            view.audit(system.target())


# Refused rows


def refused(view: Keyed, number: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(view.letters()[number]["original"])
    return found


def send(system: System, view: Keyed, row: dict[str, Any]) -> bool:
    return view.feed(system.target()).send(refused(view), row)


def test_a_refused_row_is_fixed_and_sent_again(system: System, view: Keyed) -> None:
    if not system.refuses:
        return
    with view.feeding(system.target()) as made:
        view.publish(k4=REFUSED)
        until(lambda: made.at() == 2)
        with pytest.raises(RowRefused, match="refuse"):
            send(system, view, {"key": 4, "text": REFUSED})
        with pytest.raises(UsageError, match="keeps its key"):
            send(system, view, {"key": 5, "text": "five"})
        assert len(view.letters()) == 1
        assert send(system, view, {"key": 4, "text": "fixed"})
        assert system.rows() == {**view.held, 4: "fixed"}
        # What was fixed by hand is no difference that a repair would undo.
        assert view.audit(system.target(), repair=True)["equal"]
        assert system.rows()[4] == "fixed"
        # A later version of the row wins over what was sent.
        view.publish(k4="four")
        arrives(system, view, made)


def test_a_later_version_of_a_row_wins_over_one_sent_again(system: System, view: Keyed) -> None:
    if not system.refuses:
        return
    with view.feeding(system.target()) as made:
        view.publish(k4=REFUSED)
        until(lambda: made.at() == 2)
        view.publish(k4="four")
        arrives(system, view, made)
        assert len(view.letters()) == 1
        assert not send(system, view, {"key": 4, "text": "fixed"})
        assert is_there(system, view)
        view.publish(k4=None)
        arrives(system, view, made)
        assert not send(system, view, {"key": 4, "text": "fixed"})
        assert is_there(system, view)


def test_a_sink_that_holds_nothing_cannot_be_audited(view: Keyed) -> None:
    feed = Feed(view.directory, "out", "v", FunctionTarget().sink(), "content")
    with pytest.raises(UsageError, match="cannot be audited"):
        feed.audit()

"""What holds for every target with a key: it ends with the view's rows, whatever happens, and names what it refuses."""

from __future__ import annotations

import json
from random import Random

import pytest

from headwater.engine.relational import store as store_module
from headwater.engine.sinks import delivering
from tests.contract.sinks.feeding import Keyed
from tests.contract.sinks.keyed import REFUSED, System
from tests.unit.engine.samples import zset
from tests.webhooks.receiver import until


def is_there(system: System, view: Keyed) -> bool:
    return system.rows() == view.held


def test_the_content_comes_first_and_then_each_change(system: System, view: Keyed) -> None:
    with view.feeding(system.target()) as made:
        until(lambda: is_there(system, view))
        view.publish(k2="zwei", k3="three")
        until(lambda: is_there(system, view))
        view.publish(k1=None)
        until(lambda: is_there(system, view))
        until(lambda: made.status().lag == 0)
        assert made.status().error is None
    assert system.rows() == view.content() == {2: "zwei", 3: "three"}


def test_every_text_arrives_as_it_is(system: System, view: Keyed) -> None:
    texts = ["", " ", "\\", "\\N", '"', "'", "a,b\tc\nd\r", "ä漢\U0001f600", "null", "NULL", "%s {0}", "x" * 100_000]
    with view.feeding(system.target()):
        view.change(dict(enumerate(texts, start=10)))
        until(lambda: is_there(system, view))


def test_a_new_process_continues_where_the_target_is(system: System, view: Keyed) -> None:
    for number in range(4):
        with view.feeding(system.target()):
            until(lambda: is_there(system, view))
        view.publish(k1=f"round {number}", k9=f"nine {number}" if number % 2 else None)
    with view.feeding(system.target()):
        until(lambda: is_there(system, view))


def test_batches_that_wait_arrive_together(system: System, view: Keyed) -> None:
    if not system.target().joins:
        return
    with view.feeding(system.target()) as made:
        until(lambda: made.at() == 1)
    for number in range(30):
        view.publish(k1=f"{number}", k7=f"{number}" if number % 2 else None)
    with view.feeding(system.target()) as made:
        until(lambda: made.at() == 31)
        assert made.status().deliveries == 2
    assert is_there(system, view)


def test_changes_that_come_to_nothing_move_the_position(system: System, view: Keyed) -> None:
    with view.feeding(system.target()) as made:
        until(lambda: made.at() == 1)
        view.driver.publish({"v": zset((5, 5, "five", 1), (5, 5, "five", -1))})
        until(lambda: made.at() == 2)
        view.publish(k3="three")
        until(lambda: is_there(system, view))
        assert made.said == []


def test_what_the_target_lost_comes_again(system: System, view: Keyed) -> None:
    with view.feeding(system.target()) as made:
        until(lambda: made.at() == 1)
    system.lose()
    view.publish(k5="five")
    with view.feeding(system.target()) as made:
        until(lambda: is_there(system, view))
        assert any("has lost its position" in said for said in made.said)


def test_a_target_that_is_down_gets_everything_when_it_is_back(system: System, view: Keyed) -> None:
    with view.feeding(system.target()) as made:
        until(lambda: is_there(system, view))
        system.stop()
        view.publish(k1="while it was down", k2=None)
        until(lambda: made.status().error is not None)
        assert made.status().status == "retrying"
        system.start()
        until(lambda: is_there(system, view))
        until(lambda: made.status().error is None)


def test_rows_that_are_refused_become_dead_letters_and_the_others_arrive(system: System, view: Keyed) -> None:
    if not system.refuses:
        return
    with view.feeding(system.target()) as made:
        view.publish(k3="three", k4=REFUSED, k5="five")
        until(lambda: made.at() == 2)
        rows = system.rows()
        assert 4 not in rows
        assert rows == {key: text for key, text in view.held.items() if key != 4}
        (letter,) = view.letters()
        assert json.loads(letter["original"]) == {"key": 4, "text": REFUSED}
        assert letter["topic"] == "v"
        assert letter["reason"]
        view.publish(k4="four")
        until(lambda: is_there(system, view))


def test_a_row_that_becomes_unacceptable_is_removed(system: System, view: Keyed) -> None:
    """What the view no longer says must not stay in the target."""
    if not system.refuses:
        return
    with view.feeding(system.target()) as made:
        until(lambda: is_there(system, view))
        view.publish(k1=REFUSED)
        until(lambda: made.at() == 2)
        assert system.rows() == {2: "two"}


def test_a_key_with_two_rows_stops_the_sink_and_is_named(system: System, view: Keyed) -> None:
    with view.feeding(system.target()) as made:
        until(lambda: made.at() == 1)
        view.add(2, "zwei")
        until(made.gave_up)
        status = made.status()
        assert status.status == "paused"
        assert status.error == "View 'v' has more than one row with the key key=2"
    assert system.rows() == {1: "one", 2: "two"}
    view.add(2, "two", -1)
    view.held[2] = "zwei"
    with view.feeding(system.target()):
        until(lambda: is_there(system, view))


def test_a_key_with_two_rows_is_found_in_the_first_content(system: System, view: Keyed) -> None:
    view.add(2, "zwei")
    with view.feeding(system.target()) as made:
        until(made.gave_up)
        assert made.status().error == "View 'v' has more than one row with the key key=2"
    assert system.rows() == {}


def test_changes_that_are_not_kept_any_more_are_replaced_by_the_content(
    system: System, view: Keyed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "HISTORY_BATCHES_MAX", 3)
    with view.feeding(system.target()) as made:
        until(lambda: made.at() == 1)
    for number in range(30):
        view.publish(k1=f"{number}", k2=None if number % 2 else "two")
    view.driver.store.collect()
    with view.feeding(system.target()):
        until(lambda: is_there(system, view))


@pytest.mark.parametrize("seed", [1, 2])
def test_random_changes_in_random_deliveries_end_with_the_view(
    system: System, view: Keyed, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = Random(seed)
    monkeypatch.setattr(delivering, "JOINED_ROWS_MAX", 20)
    for _ in range(4):
        with view.feeding(system.target()):
            for _ in range(random.randrange(12)):
                keys = random.sample(range(20), random.randrange(1, 8))
                view.change({key: random.choice([None, "a", "b", f"{random.random()}"]) for key in keys})
            if random.random() < 0.7:
                until(lambda: is_there(system, view))
    with view.feeding(system.target()):
        until(lambda: is_there(system, view))

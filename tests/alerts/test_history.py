"""What fires and clears is in the history once each, whatever happens to the process and its state."""

from __future__ import annotations

import shutil
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from headwater.engine.alerts.history import firing
from headwater.engine.alerts.state import AlertState
from headwater.errors import Determinate
from headwater.log.commit import Commit
from headwater.testing.clock import BEGIN
from tests.alerts.watching import RULE, TOPIC, Watch
from tests.contract.sinks.feeding import Keyed
from tests.unit.engine.samples import zset
from tests.webhooks.receiver import until


def test_rows_fire_when_they_appear_and_clear_when_they_are_gone(view: Keyed) -> None:
    watch = Watch(view)
    with watch.evaluating() as made:
        until(lambda: made.at() == 1)
        watch.pass_time(seconds=5)
        view.publish(k2="two")
        until(lambda: made.at() == 2)
        view.publish(k1="ONE")
        watch.pass_time(seconds=5)
        view.publish(k1=None)
        until(lambda: made.at() == 4)
    assert watch.happened() == [("fired", "1"), ("fired", "2"), ("cleared", "1")]
    first, second, cleared = watch.records()
    assert (first.at, first.since, second.at) == (BEGIN, BEGIN, BEGIN + timedelta(seconds=5))
    assert (cleared.at, cleared.since) == (BEGIN + timedelta(seconds=10), BEGIN)
    assert cleared.id == first.id != second.id
    assert (first.row, cleared.row) == ('{"key":1,"text":"one"}', '{"key":1,"text":"ONE"}')
    assert (first.alert, first.view, first.position, cleared.position) == ("late", "v", "1", "4")
    assert [record.key for record in firing(watch.records())] == ["2"]


def test_a_row_has_to_stay_for_a_time(view: Keyed) -> None:
    watch = Watch(view, replace(RULE, after=timedelta(minutes=2)))
    with watch.evaluating() as made:
        until(lambda: made.at() == 1)
        watch.pass_time(seconds=60)
        view.publish(k2="two", k3="three")
        until(lambda: made.at() == 2)
        watch.pass_time(seconds=59)
        view.publish(k3=None, k1="changed")
        until(lambda: made.at() == 3)
        assert watch.happened() == []
        watch.pass_time(seconds=1)
        until(lambda: watch.happened() == [("fired", "1")])
        watch.pass_time(seconds=60)
        until(lambda: len(watch.happened()) == 2)
    assert watch.happened() == [("fired", "1"), ("fired", "2")]
    assert watch.records()[0].row == '{"key":1,"text":"changed"}'
    assert watch.records()[1].at - watch.records()[1].since == timedelta(minutes=2)


def test_the_time_that_has_passed_survives_a_restart(view: Keyed) -> None:
    watch = Watch(view, replace(RULE, after=timedelta(minutes=2)))
    with watch.evaluating() as made:
        until(lambda: made.at() == 1)
    watch.pass_time(minutes=1)
    with watch.evaluating() as made:
        until(lambda: made.at() == 1)
        assert watch.happened() == []
    watch.pass_time(minutes=1)
    with watch.evaluating():
        until(lambda: watch.happened() == [("fired", "1")])


def test_a_clock_that_is_set_back_delays_an_alert_by_no_more_than_its_time(view: Keyed) -> None:
    watch = Watch(view, replace(RULE, after=timedelta(minutes=2)))
    with watch.evaluating() as made:
        until(lambda: made.at() == 1)
        watch.clock.set_back(timedelta(days=1))
        until(lambda: not made.feed.sink.outside._opened().is_due(watch.clock.now(), 120_000_000))  # type: ignore[attr-defined]
        watch.pass_time(minutes=2)
        until(lambda: watch.happened() == [("fired", "1")])


def test_a_row_that_comes_back_fires_again(view: Keyed) -> None:
    watch = Watch(view)
    with watch.evaluating() as made:
        until(lambda: made.at() == 1)
        for _ in range(3):
            view.publish(k1=None)
            view.publish(k1="again")
        until(lambda: made.at() == 7)
    assert watch.happened() == [("fired", "1"), *[("cleared", "1"), ("fired", "1")] * 3]
    assert len({record.id for record in watch.records()}) == 4


def test_what_came_and_went_while_it_was_away_is_in_the_history(view: Keyed) -> None:
    watch = Watch(view)
    with watch.evaluating() as made:
        until(lambda: made.at() == 1)
    view.publish(k2="two")
    view.publish(k2=None, k1=None)
    with watch.evaluating() as made:
        until(lambda: made.at() == 3)
    assert watch.happened()[:2] == [("fired", "1"), ("fired", "2")]
    assert sorted(watch.happened()[2:]) == [("cleared", "1"), ("cleared", "2")]


@pytest.mark.parametrize("lost", ["everything", "state", "an older state"])
def test_lost_state_is_made_again_from_the_history_without_a_record_twice(
    view: Keyed, tmp_path: Path, lost: str
) -> None:
    watch = Watch(view)
    state, backup = view.directory / "alerts", tmp_path / "backup"
    with watch.evaluating() as made:
        until(lambda: made.at() == 1)
    shutil.copytree(state, backup)
    with watch.evaluating() as made:
        view.publish(k2="two", k3="three")
        until(lambda: made.at() == 2)
    shutil.rmtree(state)
    if lost == "an older state":
        shutil.copytree(backup, state)
    if lost == "everything":
        shutil.rmtree(view.directory / "sinks")
    view.publish(k2=None, k4="four")
    with watch.evaluating() as made:
        until(lambda: made.at() == 3)
        view.publish(k1=None)
        until(lambda: made.at() == 4)
    happened = watch.happened()
    assert happened[0] == ("fired", "1")
    assert sorted(happened[1:3]) == [("fired", "2"), ("fired", "3")]
    assert sorted(happened[3:5]) == [("cleared", "2"), ("fired", "4")]
    assert happened[5:] == [("cleared", "1")]
    assert len({(record.id, record.event) for record in watch.records()}) == 6


@pytest.mark.parametrize("happens", [True, False])
def test_a_commit_of_which_nobody_knows_whether_it_happened_is_made_once(
    view: Keyed, monkeypatch: pytest.MonkeyPatch, happens: bool
) -> None:
    """The commit to the history fails, and has happened or not: three times in a row."""
    watch, failures = Watch(view), [0]
    leave = Commit.__exit__

    def fails(self: Commit, *rest: Any) -> Any:
        if failures[0] >= 3:
            return leave(self, *rest)
        failures[0] += 1
        if happens:
            leave(self, *rest)
        raise Determinate("There is no room.")

    with watch.evaluating() as made:
        until(lambda: made.at() == 1)
        monkeypatch.setattr(Commit, "__exit__", fails)
        view.publish(k2="two")
        view.publish(k3="three", k2=None)
        until(lambda: made.at() == 3)
        assert failures == [3]
    assert sorted(watch.happened()) == [("cleared", "2"), ("fired", "1"), ("fired", "2"), ("fired", "3")]


def test_records_that_were_being_appended_when_it_was_killed_are_appended_once(
    view: Keyed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the commit to the history and the note that it arrived, the process ends."""
    watch = Watch(view)
    arrived = AlertState.arrived
    with watch.evaluating() as made:
        until(lambda: made.at() == 1)
        monkeypatch.setattr(AlertState, "arrived", lambda _: (_ for _ in ()).throw(SystemExit))
        view.publish(k2="two")
        until(made.is_over)
        assert isinstance(made.failure, SystemExit)
        made.failure = None
    monkeypatch.setattr(AlertState, "arrived", arrived)
    view.publish(k2=None)
    with watch.evaluating() as made:
        until(lambda: made.at() == 3)
    assert watch.happened() == [("fired", "1"), ("fired", "2"), ("cleared", "2")]


def test_moves_without_changes_write_nothing_to_the_log(view: Keyed) -> None:
    watch = Watch(view)
    with watch.evaluating() as made:
        until(lambda: made.at() == 1)
        before = view.log.position()
        for _ in range(5):
            view.driver.publish({"v": zset((9, 9, "nine", 1), (9, 9, "nine", -1))})
        until(lambda: made.at() == 6)
    assert view.log.position() == before
    assert TOPIC in [topic.name for topic in view.log.topics()]

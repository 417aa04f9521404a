"""Receivers of alerts are told what fires and clears, with repeats, quiet hours and digests, each for itself."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from headwater.connectors.http.pagerduty import PagerDuty
from headwater.engine.alerts.rule import quiet_hours
from headwater.errors import MessageRefused, TargetFailed, UsageError
from headwater.testing.clock import ManualClock
from tests.alerts.watching import RULE, Phone, Watch
from tests.channels.posts import HUSH, Posts
from tests.contract.sinks.feeding import Keyed
from tests.webhooks.receiver import status, until


def test_every_receiver_is_told_once(view: Keyed) -> None:
    watch, phones = Watch(view), (Phone(), Phone())
    with watch.evaluating() as made, watch.notifying(*phones):
        until(lambda: all(phone.rings for phone in phones))
        view.publish(k2="two")
        view.publish(k1=None, k2="TWO")
        until(lambda: made.at() == 3)
        for phone in phones:
            until(lambda: len(phone.told()) == 3)  # noqa: B023 - it is called at once
    for phone in phones:
        assert phone.told() == [("fired", "1"), ("fired", "2"), ("cleared", "1")]
        assert [message.id for message in phone.rings] == [f"shop~late_{phones.index(phone)}_{n}" for n in (1, 2, 3)]
        assert phone.notices()[0].row == {"key": 1, "text": "one"}
        assert (phone.notices()[0].name, phone.notices()[0].view) == ("late", "v")


def test_nobody_is_told_twice_after_a_restart(view: Keyed) -> None:
    watch, phone = Watch(view), Phone()
    with watch.evaluating(), watch.notifying(phone):
        until(lambda: phone.rings)
    with watch.evaluating() as made, watch.notifying(phone):
        view.publish(k2="two")
        until(lambda: made.at() == 2 and len(phone.rings) == 2)
    assert phone.told() == [("fired", "1"), ("fired", "2")]


def test_a_receiver_that_is_added_is_told_what_fires_then(view: Keyed) -> None:
    watch, phone = Watch(view), Phone()
    with watch.evaluating() as made:
        view.publish(k2="two")
        view.publish(k1=None)
        until(lambda: made.at() == 3)
    with watch.notifying(phone):
        until(lambda: phone.rings)
    assert phone.told() == [("fired", "2")]


def test_a_dead_receiver_holds_up_nobody_and_is_told_everything_later(view: Keyed) -> None:
    watch, dead, phone = Watch(view), Phone(), Phone()
    dead.failures = [TargetFailed("busy")] * 10_000
    with watch.evaluating() as made, watch.notifying(dead, phone) as (first, _):
        until(lambda: phone.rings and first.status()["status"] == "retrying")
        view.publish(k2="two")
        view.publish(k2=None)
        until(lambda: made.at() == 3 and len(phone.told()) == 3)
        until(lambda: first.status()["status"] == "retrying")
        assert dead.rings == []
        dead.failures = []
        until(lambda: len(dead.told()) == 3)
        until(lambda: first.status()["status"] == "running")
    assert dead.told() == phone.told() == [("fired", "1"), ("fired", "2"), ("cleared", "2")]


def test_a_message_that_was_under_way_comes_again_with_its_id(view: Keyed) -> None:
    watch, phone = Watch(view), Phone()
    phone.failures = [TargetFailed("gone away", "gone")]
    with watch.evaluating() as made, watch.notifying(phone) as (notifier,):
        until(lambda: made.at() == 1)
        until(lambda: notifier.status()["status"] == "paused")
        assert notifier.status()["waiting"] == 1
    view.publish(k1=None)
    with watch.evaluating() as made, watch.notifying(phone):
        until(lambda: len(phone.rings) == 2)
    assert [(message.id, message.notices[0].event) for message in phone.rings] == [
        ("shop~late_0_1", "fired"), ("shop~late_0_2", "cleared"),
    ]  # fmt: skip


def test_a_message_that_is_refused_is_left_out_and_shown(view: Keyed) -> None:
    watch, phone = Watch(view), Phone()
    phone.failures = [MessageRefused("too long")]
    with watch.evaluating(), watch.notifying(phone) as (notifier,):
        until(lambda: notifier.status()["failures"] == 1)
        view.publish(k2="two")
        until(lambda: phone.rings)
    assert phone.told() == [("fired", "2")]


def test_what_still_fires_is_repeated(view: Keyed) -> None:
    watch, phone = Watch(view, replace(RULE, repeat=timedelta(hours=1))), Phone()
    with watch.evaluating() as made, watch.notifying(phone) as (notifier,):
        until(lambda: phone.told() == [("fired", "1")] and notifier.status()["waiting"] == 0)
        watch.pass_time(minutes=59)
        view.publish(k2="two")
        until(lambda: len(phone.told()) == 2 and notifier.status()["messages"] == 2)
        watch.pass_time(minutes=1)
        until(lambda: len(phone.told()) == 3 and notifier.status()["messages"] == 3)
        view.publish(k1=None)
        until(lambda: made.at() == 3 and len(phone.told()) == 4 and notifier.status()["messages"] == 4)
        watch.pass_time(hours=3)
        until(lambda: len(phone.told()) == 5)
    assert phone.told() == [("fired", "1"), ("fired", "2"), ("repeated", "1"), ("cleared", "1"), ("repeated", "2")]
    assert [record.event for record in watch.records()] == ["fired", "fired", "cleared"]


def test_quiet_hours_hold_back_what_still_fires_afterwards(view: Keyed) -> None:
    quiet = quiet_hours(("22:00", "07:00"), "Europe/Vienna")
    clock = ManualClock(datetime(2026, 7, 1, 21, 30, tzinfo=UTC))  # 23:30 in Vienna
    watch, phone = Watch(view, replace(RULE, quiet=quiet), clock), Phone()
    with watch.evaluating() as made, watch.notifying(phone) as (notifier,):
        view.publish(k2="two")
        until(lambda: made.at() == 2 and notifier.status()["waiting"] == 2)
        view.publish(k2=None)
        until(lambda: made.at() == 3 and notifier.status()["waiting"] == 1)
        watch.pass_time(hours=7, minutes=29)
        assert not phone.rings
        watch.pass_time(minutes=1)
        until(lambda: phone.told() == [("fired", "1")])
    assert watch.happened() == [("fired", "1"), ("fired", "2"), ("cleared", "2")], "the history has everything"


def test_a_digest_tells_all_in_one_message(view: Keyed) -> None:
    watch, phone = Watch(view, replace(RULE, digest=timedelta(minutes=5))), Phone(several=True)
    with watch.evaluating() as made, watch.notifying(phone) as (notifier,):
        until(lambda: notifier.status()["waiting"] == 1)
        watch.pass_time(minutes=4)
        view.publish(k2="two", k1=None)
        until(lambda: made.at() == 2 and notifier.status()["waiting"] == 3)
        assert not phone.rings
    with watch.evaluating(), watch.notifying(phone):
        watch.pass_time(minutes=1)
        until(lambda: phone.rings)
    (message,) = phone.rings
    assert sorted(phone.told()) == [("cleared", "1"), ("fired", "1"), ("fired", "2")]
    assert message.id == "shop~late_0_1"


def test_pagerduty_opens_an_incident_per_key_and_resolves_it(view: Keyed, posts: Posts) -> None:
    posts.answers += [status(429, Retry_After="0"), status(500)]
    watch = Watch(view, replace(RULE, repeat=timedelta(hours=1)))
    channel = PagerDuty(f"k-{HUSH}", url=posts.url, allow_private=True)
    with watch.evaluating() as made, watch.notifying(channel) as (notifier,):
        until(lambda: notifier.status()["messages"] == 1)
        watch.pass_time(hours=1)
        until(lambda: notifier.status()["messages"] == 2)
        view.publish(k1=None)
        until(lambda: made.at() == 2 and notifier.status()["messages"] == 3)
    assert [(one["event_action"], one["dedup_key"]) for one in posts.once()] == [
        ("trigger", "headwater:late:1"), ("trigger", "headwater:late:1"), ("resolve", "headwater:late:1"),
    ]  # fmt: skip
    held = "".join(path.read_text() for path in (view.directory / "alerts").glob("*.json"))
    assert HUSH not in held + repr(notifier) + str(notifier.status())


@pytest.mark.parametrize(
    ("given", "zone", "inside", "outside"),
    [
        (("22:00", "07:00"), "UTC", "2026-01-01T06:59:59+00:00", "2026-01-01T07:00:00+00:00"),
        (("22:00", "07:00"), "UTC", "2026-01-01T22:00:00+00:00", "2026-01-01T21:59:59+00:00"),
        (("12:00", "13:30"), "America/New_York", "2026-01-01T17:00:00+00:00", "2026-01-01T18:30:00+00:00"),
        (("12:00", "13:30"), "America/New_York", "2026-07-01T16:00:00+00:00", "2026-07-01T17:30:00+00:00"),
    ],
)
def test_quiet_hours_go_by_the_clocks_of_their_zone(
    given: tuple[str, str], zone: str, inside: str, outside: str
) -> None:
    quiet = quiet_hours(given, zone)
    assert quiet is not None
    assert quiet.covers(datetime.fromisoformat(inside))
    assert not quiet.covers(datetime.fromisoformat(outside))


@pytest.mark.parametrize("wrong", [("22:00",), "22:00", ("22:00", "22:00"), ("late", "early"), (22, 7)])
def test_quiet_hours_that_make_no_sense_are_refused(wrong: object) -> None:
    with pytest.raises(UsageError, match="Invalid quiet="):
        quiet_hours(wrong, "UTC")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="Unknown time zone 'Mars/Olympus'"):
        quiet_hours(None, "Mars/Olympus")

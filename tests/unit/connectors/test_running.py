"""Captures and senders beside something else: tried again after what passes, ended by what only a person can mend."""

from __future__ import annotations

import threading

import pytest

from headwater.connectors.running import Captures
from headwater.engine.parts import Part, Report, Stop
from headwater.errors import TooManyOpenFiles, UsageError
from headwater.system import background


class Failing:
    """Fails with each of some errors in turn, and then runs until it is stopped."""

    title = "t-failing"

    def __init__(self, *errors: Exception) -> None:
        self._errors = list(errors)
        self.running, self._stopped = threading.Event(), threading.Event()

    def run(self) -> None:
        if self._errors:
            raise self._errors.pop(0)
        self.running.set()
        self._stopped.wait()

    def stop(self) -> None:
        self._stopped.set()

    def is_stopped(self) -> bool:
        return self._stopped.is_set()

    def is_ready(self) -> bool:
        return self.running.is_set()


class FailingFeed(Part):
    """Fails once, and then runs until it is stopped."""

    name = "t-feed"

    def __init__(self, error: Exception) -> None:
        self._errors, self.running = [error], threading.Event()

    def run(self, stop: Stop, report: Report) -> None:
        if self._errors:
            raise self._errors.pop()
        self.running.set()
        while not stop.wait(1):
            report.say("running")


def test_what_the_machine_refuses_for_a_while_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "PAUSE_SECONDS", 0.001)
    capture = Failing(TooManyOpenFiles("catalog.db"), OSError(24, "Too many open files"))
    with Captures([capture]) as captures:
        captures.wait_until_ready(lambda: False)
        captures.check()
        assert capture.running.is_set()


@pytest.mark.parametrize("error", [UsageError("mend it"), ValueError("a bug")])
def test_everything_else_ends_all_of_them_and_is_told(error: Exception) -> None:
    broken, other = Failing(error), Failing()
    with Captures([broken, other]) as captures, pytest.raises(type(error)):
        captures.wait_until_ready(lambda: False)
    assert captures.failure is error


@pytest.mark.parametrize("error", [UsageError("fix it"), ValueError("a bug")])
def test_a_feed_that_raises_is_restarted_and_stops_nothing_else(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background, "PAUSE_SECONDS", 0.001)
    feed, capture = FailingFeed(error), Failing()
    with Captures([capture], [feed]) as captures:
        captures.wait_until_ready(lambda: False)
        assert feed.running.wait(10)
        captures.check()
        assert capture.running.is_set()
        assert not capture.is_stopped()

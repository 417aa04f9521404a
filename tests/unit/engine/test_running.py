"""Parts beside something else: restarted after what passes, left as failed by what only a person can mend."""

from __future__ import annotations

import threading

import pytest

from headwater.engine.parts import Part, Report, Stop
from headwater.engine.running import Runner
from headwater.errors import InternalError, TooManyOpenFiles, UsageError
from headwater.system import background
from headwater.system.background import background_states


class Failing(Part):
    """Fails with each of some errors in turn, and then runs until it is stopped."""

    def __init__(self, name: str, *errors: Exception) -> None:
        self._name, self._errors = name, list(errors)
        self.running, self.stopped = threading.Event(), threading.Event()

    @property
    def name(self) -> str:
        return self._name

    def run(self, stop: Stop, report: Report) -> None:
        if self._errors:
            raise self._errors.pop(0)
        self.running.set()
        with stop.calling(self.stopped.set):
            self.stopped.wait()
        report.say("stopped")

    def is_ready(self) -> bool:
        return self.running.is_set()


class Noting(Report):
    """Keeps what failed."""

    def __init__(self) -> None:
        self.failures: list[tuple[str, Exception]] = []

    def failed(self, part: str, error: Exception) -> None:
        self.failures.append((part, error))


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "PAUSE_SECONDS", 0.001)


@pytest.mark.parametrize(
    "errors", [(TooManyOpenFiles("catalog.db"), OSError(24, "Too many open files")), (ValueError("a bug"),)]
)
def test_what_may_pass_is_tried_again(errors: tuple[Exception, ...]) -> None:
    part, other = Failing("t-failing", *errors), Failing("t-other")
    with Runner([part, other]) as runner:
        runner.wait_until_ready(lambda: False)
        assert part.running.is_set()
        assert [state.restarts >= 1 for state in runner.states()] == [True, False]
        assert runner.failure is None
        assert not other.stopped.is_set()


@pytest.mark.parametrize("error", [UsageError("mend it"), InternalError("a bug that was noticed")])
def test_what_a_person_has_to_mend_leaves_a_part_as_failed_and_stops_no_other(error: Exception) -> None:
    broken, other, report = Failing("t-broken", error), Failing("t-other"), Noting()
    with Runner([broken, other], report) as runner:
        assert other.running.wait(10)
        while runner.failure is None:
            pass
        assert (runner.is_working("t-broken"), runner.is_working()) == (False, True)
        assert [(state.name, state.status) for state in runner.states()] == [
            ("t-broken", "failed"),
            ("t-other", "running"),
        ]
        shown = {state.name: state for state in background_states()}["t-broken"]
        assert (shown.failed, shown.is_down) == (True, True)
        assert str(error) in str(shown.error)
        assert not other.stopped.is_set()
        with pytest.raises(type(error)):
            runner.check()
    assert report.failures == [("t-broken", error)]
    assert "t-broken" not in {state.name for state in background_states()}


def test_who_waits_is_told_if_nothing_is_left() -> None:
    with Runner([Failing("t-broken", UsageError("mend it"))]) as runner, pytest.raises(UsageError):
        runner.wait_until_ready(lambda: False)


def test_a_wait_ends_when_it_is_asked_to() -> None:
    other = Failing("t-other")
    with Runner([Failing("t-broken", UsageError("mend it")), other]) as runner:
        assert other.running.wait(10)
        runner.wait_until_ready(lambda: True)


def test_a_stop_that_came_first_is_not_missed() -> None:
    stop, called = Stop(), threading.Event()
    stop.set()
    with stop.calling(called.set):
        assert called.is_set()
        assert stop.wait(60)

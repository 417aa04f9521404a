"""Supervision: batches are tried again after a lost process, for a while, and nothing else is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import pytest

from headwater.engine import supervision
from headwater.engine.pipeline import Progress
from headwater.engine.supervision import TRIES_MAX, Retry, supervised
from headwater.errors import SparkStopped, ViewFailed, WorkerLost


class Work:
    """Batches that fail as a script says: an error is raised, anything else is a batch."""

    def __init__(self, *script: object) -> None:
        self._script = list(script)
        self.recovered: list[Exception] = []
        self.retries: list[Retry] = []
        self.is_stopped = False

    def run(self) -> list[Any]:
        return list(supervised(self._batches, self.recovered.append, self.retries.append, lambda: self.is_stopped))

    def _batches(self) -> Iterator[Progress]:
        while self._script:
            given = self._script.pop(0)
            if isinstance(given, Exception):
                raise given
            yield cast("Progress", given)


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervision, "PAUSE_SECONDS_MAX", 0.0)


def test_batches_go_on_after_a_lost_process() -> None:
    lost, stopped = WorkerLost("it crashed"), SparkStopped("connection refused")
    work = Work(1, lost, 2, stopped, 3)
    assert work.run() == [1, 2, 3]
    assert work.recovered == [lost, stopped]
    assert [retry.failed for retry in work.retries] == [1, 1]
    assert str(work.retries[0]) == "Spark lost a worker process: it crashed. Trying again in 0 s (1 of 7)."


def test_what_never_succeeds_ends() -> None:
    work = Work(1, *(WorkerLost(str(number)) for number in range(TRIES_MAX + 5)))
    with pytest.raises(WorkerLost, match=str(TRIES_MAX - 1)):
        work.run()
    assert len(work.retries) == TRIES_MAX - 1


def test_a_success_begins_the_count_again() -> None:
    lost = [WorkerLost("again")] * (TRIES_MAX - 1)
    assert Work(*lost, 1, *lost, 2).run() == [1, 2]


def test_nothing_else_is_tried_again() -> None:
    work = Work(1, ViewFailed("v", "Division by zero."), 2)
    with pytest.raises(ViewFailed):
        work.run()
    assert work.recovered == []


def test_nothing_is_tried_again_once_it_is_to_end() -> None:
    work = Work(WorkerLost("it crashed"), 1)
    work.is_stopped = True
    with pytest.raises(WorkerLost):
        work.run()
    assert work.retries == []

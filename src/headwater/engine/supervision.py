"""Supervision: a batch that fails because a process was lost is tried again, with pauses, for a while."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from headwater.engine.pipeline import Progress
from headwater.errors import SparkStopped, WorkerLost

TRIES_MAX = 8
"""How often a batch is tried before its failure counts: a batch that succeeds begins the count again."""
PAUSE_SECONDS = 0.5
"""How long the first pause is; each is twice as long as the one before."""
PAUSE_SECONDS_MAX = 30.0
_LOOK_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Retry:
    """A batch that is going to be tried again: what it failed with, how often it has failed, and when it is tried."""

    error: SparkStopped | WorkerLost
    failed: int
    pause_seconds: float

    def __str__(self) -> str:
        return f"{self.error.message} Trying again in {self.pause_seconds:g} s ({self.failed} of {TRIES_MAX - 1})."


def supervised(
    batches: Callable[[], Iterator[Progress]],
    recover: Callable[[SparkStopped | WorkerLost], None],
    on_retry: Callable[[Retry], None],
    stopped: Callable[[], bool],
) -> Iterator[Progress]:
    """Batches, which are begun again after a process was lost: nothing has happened of the batch that it was in."""
    failed = 0
    while True:
        try:
            for progress in batches():
                failed = 0
                yield progress
        except (SparkStopped, WorkerLost) as error:
            failed += 1
            if failed >= TRIES_MAX or stopped():
                raise
            retry = Retry(error, failed, min(PAUSE_SECONDS * 2 ** (failed - 1), PAUSE_SECONDS_MAX))
            on_retry(retry)
            _pause(retry.pause_seconds, stopped)
            recover(error)
        else:
            return


def _pause(seconds: float, stopped: Callable[[], bool]) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end and not stopped():
        time.sleep(min(_LOOK_SECONDS, seconds))

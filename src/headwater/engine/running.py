"""A runner: keeps parts running beside something else, each in a thread, and knows how each of them is."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Self

from headwater.engine.parts import Part, Report, Stop
from headwater.errors import Determinate, HeadwaterError, Indeterminate
from headwater.system.background import Background, BackgroundState

LOOK_SECONDS = 0.1


def needs_person(error: Exception) -> bool:
    """Whether trying again is useless before somebody changes something, or looks at a bug that was noticed."""
    return isinstance(error, HeadwaterError) and not isinstance(error, Determinate | Indeterminate)


class Runner:
    """Runs parts within a `with` block.

    A part that raises is restarted with back-off and is shown as restarting among the background work. If only a person
    can mend what it raises, it is left as failed. Neither stops another part.
    """

    def __init__(self, parts: Iterable[Part], report: Report | None = None) -> None:
        self._parts = list(parts)
        self._stop, self._report = Stop(), report or Report()
        self._threads: dict[str, Background] = {}

    def __enter__(self) -> Self:
        for part in self._parts:
            run = partial(part.run, self._stop, self._report)
            self._threads[part.name] = Background(
                part.name, run, gives_up_on=needs_person, on_give_up=partial(self._report.failed, part.name)
            ).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        for thread in self._threads.values():
            thread.stop()

    def stop(self) -> None:
        """Lets all parts end soon."""
        self._stop.set()

    @property
    def failure(self) -> Exception | None:
        """What the first part that failed for good has failed with."""
        failures = (thread.failure for thread in self._threads.values())
        return next((failure for failure in failures if failure is not None), None)

    def check(self) -> None:
        """Raises what a part has failed with for good."""
        if self.failure is not None:
            raise self.failure

    def is_working(self, name: str | None = None) -> bool:
        """Whether a part, or any, still runs or is about to be restarted."""
        threads = self._threads.values() if name is None else [self._threads[name]]
        return any(thread.is_alive() and thread.failure is None for thread in threads)

    def states(self) -> list[BackgroundState]:
        """How each part is."""
        return [thread.state() for thread in self._threads.values()]

    def wait_until_ready(self, ended: Callable[[], bool]) -> None:
        """Returns when every part is ready, or when `ended` says so. Raises what has failed if no part works."""
        while not ended() and not all(part.is_ready() for part in self._parts):
            if not self.is_working():
                self.check()
            time.sleep(LOOK_SECONDS)

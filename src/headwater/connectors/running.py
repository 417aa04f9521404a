"""Captures, and what sends webhooks, beside something else, each in a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from functools import partial
from typing import Protocol, Self

from headwater.engine.parts import Part, Report, Stop
from headwater.errors import TooManyOpenFiles
from headwater.system.background import Background

PASSING = (OSError, TooManyOpenFiles)
"""What the machine refuses for a while, such as one more open file: it is tried again. All else is told."""


class Runs(Protocol):
    """What captures a source or sends to a sink: until it is stopped, or only a person can mend what has happened."""

    @property
    def title(self) -> str:
        """What it is called where background work is shown."""

    def run(self) -> None: ...

    def stop(self) -> None: ...

    def is_ready(self) -> bool:
        """Whether its topics are there, with everything that was there when it began; a sink has none."""


class Captures:
    """Runs captures and senders within a `with` block.

    The first error that ends a capture is in `failure`, and ends the others. A sender that raises is restarted with
    back-off, is shown as restarting among the background work, and stops nothing else.
    """

    def __init__(self, captures: Iterable[Runs], feeds: Iterable[Part] = (), report: Report | None = None) -> None:
        self._captures, self._feeds = list(captures), list(feeds)
        self._stop, self._report = Stop(), report or Report()
        self._threads: list[Background] = []
        self._changed = threading.Event()
        self.failure: BaseException | None = None

    def __enter__(self) -> Self:
        for capture in self._captures:
            self._threads.append(Background(capture.title, partial(self._run, capture), restarts_on=PASSING).start())
        for feed in self._feeds:
            run = partial(feed.run, self._stop, self._report)
            self._threads.append(Background(feed.name, run).start())
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        for thread in self._threads:
            thread.stop()

    def stop(self) -> None:
        """Lets all of them end soon."""
        self._stop.set()
        for capture in self._captures:
            capture.stop()

    def wait_until_ready(self, ended: Callable[[], bool]) -> None:
        """Returns when every source has its topics, or when it shall end. Raises what ended one."""
        while not ended() and not all(capture.is_ready() for capture in self._captures):
            self.check()
            self._changed.wait(0.1)
        self.check()

    def wait(self, seconds: float) -> None:
        """Returns after some time, or as soon as a capture has ended."""
        self._changed.wait(seconds)

    def check(self) -> None:
        """Raises what ended a capture."""
        if self.failure is not None:
            raise self.failure

    def _run(self, capture: Runs) -> None:
        try:
            capture.run()
        except PASSING:
            raise
        except BaseException as error:  # noqa: BLE001 - whoever waits is told
            self.failure = self.failure or error
            self._changed.set()
            self.stop()

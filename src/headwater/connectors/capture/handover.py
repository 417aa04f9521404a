"""What passes between the thread that follows a stream and the one that reads tables meanwhile: values, both ways."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

WorkT = TypeVar("WorkT")
ReportT = TypeVar("ReportT")


class Handover(Generic[WorkT, ReportT]):
    """The stream's thread gives work and takes reports; the reading thread waits for work and reports.

    Whatever was reported before the stream's thread takes is taken, so a reader that reports first and reads then knows
    that everything which passes from then on is seen in the light of its report.
    """

    def __init__(self, work: WorkT) -> None:
        self._work = work
        self._reports: deque[ReportT] = deque()
        self._change = threading.Condition()
        self._stopped = False

    # What the stream's thread calls

    def give(self, work: WorkT) -> None:
        """What there is to do from now on."""
        with self._change:
            self._work = work
            self._change.notify_all()

    def take(self) -> list[ReportT]:
        """What was reported since the last time, in its order."""
        found: list[ReportT] = []
        while self._reports:
            found.append(self._reports.popleft())
        return found

    def stop(self) -> None:
        """Wakes the reader, which waits for nothing any more."""
        with self._change:
            self._stopped = True
            self._change.notify_all()

    # What the reading thread calls

    @property
    def is_stopped(self) -> bool:
        return self._stopped

    def wait_for(self, ready: Callable[[WorkT], bool]) -> WorkT | None:
        """The work, as soon as it is ready; None if the reader shall end."""
        with self._change:
            self._change.wait_for(lambda: self._stopped or ready(self._work))
            return None if self._stopped else self._work

    def rest(self, seconds: float) -> None:
        """Waits for some time, or until the reader shall end."""
        with self._change:
            self._change.wait_for(lambda: self._stopped, seconds)

    def report(self, report: ReportT) -> None:
        """Tells the stream's thread."""
        self._reports.append(report)

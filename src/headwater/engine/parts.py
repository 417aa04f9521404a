"""A part: one thing that a run keeps running, such as a source, the pipeline, a sink or the server."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Stop:
    """Asks a part to end. The asking side calls `set`; the part looks at `is_set`, or waits with `wait`."""

    def __init__(self) -> None:
        self._asked = threading.Event()
        self._turn = threading.RLock()
        self._calls: list[Callable[[], None]] = []

    def is_set(self) -> bool:
        return self._asked.is_set()

    def wait(self, seconds: float) -> bool:
        """Returns when the time has passed, or as soon as the part is asked to end; whether it was asked."""
        return self._asked.wait(seconds)

    def set(self) -> None:
        with self._turn:
            self._asked.set()
            calls = list(self._calls)
        for call in calls:
            call()

    @contextmanager
    def calling(self, call: Callable[[], None]) -> Iterator[None]:
        """Within the block `set` also calls `call`, from its own thread: for work that waits for something else."""
        with self._turn:
            self._calls.append(call)
            asked = self._asked.is_set()
        if asked:
            call()
        try:
            yield
        finally:
            with self._turn:
                self._calls.remove(call)


class Report:
    """What a run tells the one that watches it: nothing, unless a subclass shows it. Called from any thread."""

    def say(self, text: str) -> None:
        """Something that is good to know."""

    def warn(self, text: str) -> None:
        """Something that went wrong and is tried again, or does not keep the rest from running."""

    def failed(self, part: str, error: Exception) -> None:
        """A part has failed for good; the others keep running."""

    def progress(self, what: str, done: int, total: int) -> None:
        """How far long work is, such as reading the tables of a database for the first time."""


class Part(ABC):
    """One thing that is kept running. Parts do not know each other, and the failure of one stops no other."""

    @property
    @abstractmethod
    def name(self) -> str:
        """What it is called wherever it is shown; parts of one run have different names."""

    @abstractmethod
    def run(self, stop: Stop, report: Report) -> None:
        """Runs until `stop` is set, or until nothing is left to do.

        Called in a thread, and again after it has raised, with pauses that grow. What only a person can mend, such as a
        `UsageError`, is not tried again.
        """

    def is_ready(self) -> bool:
        """Whether what depends on this part can begin; it is asked from any thread, again and again."""
        return True

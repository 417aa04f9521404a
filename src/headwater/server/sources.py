"""Captured databases as they answer: asked again and again, whether or not anybody captures them."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass

from headwater.engine.sources import Source, SourceStatus
from headwater.errors import HeadwaterError
from headwater.system.background import Background
from headwater.system.clock import Clock

ASK_SECONDS = 10.0
"""How often each database is asked."""
ENDING_SECONDS_MAX = 2.0
"""How long a server that ends waits for an answer that is on its way."""
ANSWER_SECONDS_MAX = 60.0
"""How long an answer counts: a database that has not answered since then does not answer."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a database said last, and when, in microseconds since 1970."""

    status: SourceStatus
    at: int


class Sources:
    """Asks in a separate thread, so that a database that hangs blocks nothing else."""

    def __init__(self, sources: Mapping[str, Source], clock: Clock) -> None:
        self._sources, self._clock = sources, clock
        self._answers: dict[str, Answer] = {}
        self._ended = threading.Event()
        self._thread: Background | None = None

    def start(self) -> None:
        if self._sources:
            self._thread = Background("sources", self._run).start()

    def stop(self) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join(ENDING_SECONDS_MAX)

    def answers(self) -> dict[str, SourceStatus | None]:
        """What each database has said of late; None for one that does not answer."""
        oldest = self._clock.now() - ANSWER_SECONDS_MAX * 1e6
        found = {name: self._answers.get(name) for name in self._sources}
        return {name: None if one is None or one.at < oldest else one.status for name, one in found.items()}

    def ask(self) -> None:
        """Asks each of them now."""
        for name, source in self._sources.items():
            try:
                self._answers[name] = Answer(source.status(), self._clock.now())
            except HeadwaterError:
                self._answers.pop(name, None)

    def _run(self) -> None:
        self.ask()
        while not self._ended.wait(ASK_SECONDS):
            self.ask()

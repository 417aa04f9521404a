"""Lateness as one reads its definition: commit by commit and record by record, with nothing but dictionaries."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Event:
    """A record: its producer, its event time, and whether it was put back."""

    producer: str | None
    at: int | None
    amended: bool = False


@dataclass(frozen=True)
class Committed:
    """A commit: a tick of the clock, a watermark record, and records of the topic; any of them may be missing."""

    number: int
    tick: int | None = None
    mark: int | None = None
    events: Sequence[Event] = ()
    received: int = 0


@dataclass
class Model:
    """What `headwater.engine.lateness` has to agree with."""

    delay: int
    idle: int | None = None
    allowance: int = 0
    future_max: int | None = None
    newest: dict[str, int] = field(default_factory=dict)
    heard: dict[str, int | None] = field(default_factory=dict)
    clock: int | None = None
    reached: int | None = None

    def is_future(self, commit: Committed, event: Event) -> bool:
        """Whether an event cannot have happened yet."""
        if self.future_max is None or event.at is None or event.amended:
            return False
        return event.at > commit.received + self.future_max

    def judge(self, commits: Iterable[Committed]) -> list[tuple[int, Event, int | None, bool]]:
        """Each event with the number of its commit, the watermark before it, and whether it is late."""
        return [judged for commit in commits for judged in self._judge(commit)]

    def _judge(self, commit: Committed) -> list[tuple[int, Event, int | None, bool]]:
        real = [event for event in commit.events if not self.is_future(commit, event)]
        found = [(commit.number, one, self.reached, one in real and self._is_late(one)) for one in commit.events]
        if self.idle is not None and commit.tick is not None:
            if self.clock is None:
                self.heard = dict.fromkeys(self.heard, commit.tick)
            self.clock = commit.tick
        for event in real:
            if event.at is not None and not event.amended:
                name = event.producer or ""
                self.newest[name] = max(self.newest.get(name, event.at), event.at)
                self.heard[name] = self.clock
        promises = [newest for name, newest in self.newest.items() if not self._is_idle(name)]
        reached = [min(promises) - self.delay] if promises else []
        reached += [moment for moment in (commit.mark, self.reached) if moment is not None]
        self.reached = max(reached, default=None)
        return found

    def _is_late(self, event: Event) -> bool:
        if event.at is None or event.amended or self.reached is None:
            return False
        return event.at < self.reached - self.allowance

    def _is_idle(self, name: str) -> bool:
        heard = self.heard[name]
        return self.idle is not None and self.clock is not None and heard is not None and (
            heard <= self.clock - self.idle
        )  # fmt: skip

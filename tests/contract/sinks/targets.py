"""What the contract suite of sinks needs to know of a target: how to open it, how it fails, and what it holds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from typing import ClassVar

from headwater.connectors.webhooks.target import parse_target
from headwater.connectors.webhooks.webhook import Webhook
from headwater.engine.sinks.function import FunctionSink
from headwater.engine.sinks.port import Journal, Mark, Sink
from headwater.engine.subscription import Changes
from headwater.errors import TargetFailed
from tests.webhooks.receiver import SECRET, receiving, status


class Target(ABC):
    """One target, empty at first. A new kind of sink writes one such class and names it in `conftest.py`."""

    keeps_position: ClassVar[bool] = False
    """Whether it is changed exactly once, because it keeps its position with its rows."""

    @abstractmethod
    def sink(self) -> Sink:
        """A sink of this target, as a new process would have it."""

    @abstractmethod
    def rows(self) -> dict[str, int]:
        """What it holds: texts and how often each."""

    @abstractmethod
    def fail(self, times: int) -> None:
        """Lets this many deliveries fail, from now on; each of them could be tried again."""

    @abstractmethod
    def refuse(self) -> None:
        """Lets everything fail that is delivered from now on, as only a person can mend it."""

    @abstractmethod
    def accept(self) -> None:
        """Ends `refuse`."""

    @abstractmethod
    def close(self) -> None:
        """Gives everything back."""


class WebhookTarget(Target):
    """A receiver of webhooks, which takes each id once."""

    def __init__(self) -> None:
        self._opened = ExitStack()
        self._receiver = self._opened.enter_context(receiving())

    def sink(self) -> Sink:
        return Webhook("out", "v", parse_target(self._receiver.url, allow_private=True), (SECRET,))

    def rows(self) -> dict[str, int]:
        return self._receiver.rows()

    def fail(self, times: int) -> None:
        self._receiver.answers += [status(503)] * times

    def refuse(self) -> None:
        self._receiver.answers += [status(404)] * 10

    def accept(self) -> None:
        self._receiver.answers.clear()

    def close(self) -> None:
        self._opened.close()


class _Held(Target):
    """Rows in memory, and whether it takes any."""

    def __init__(self) -> None:
        self.held: Counter[str] = Counter()
        self._failures: Iterator[TargetFailed] = iter(())

    def rows(self) -> dict[str, int]:
        return {text: weight for text, weight in self.held.items() if weight}

    def fail(self, times: int) -> None:
        self._failures = iter([TargetFailed("busy")] * times)

    def refuse(self) -> None:
        self._failures = iter([TargetFailed("no", "refused")] * 10)

    def accept(self) -> None:
        self._failures = iter(())

    def close(self) -> None:
        self.held.clear()

    def take(self, changes: Changes) -> None:
        failure = next(self._failures, None)
        if failure is not None:
            raise failure
        if changes.snapshot:
            self.held.clear()
        if changes.rows.num_rows:
            for text, weight in zip(changes.rows["text"].to_pylist(), changes.weights.to_pylist(), strict=True):
                self.held[text] += weight


class FunctionTarget(_Held):
    """A function in Python, which adds up what it is called with."""

    def sink(self) -> Sink:
        return FunctionSink(self.take)


class TransactionalTarget(_Held):
    """A database in memory: rows and position change together, and only together."""

    keeps_position = True

    def __init__(self) -> None:
        super().__init__()
        self.mark: Mark | None = None

    def sink(self) -> Sink:
        return _Transactional(self)


class _Transactional(Sink):
    kind: ClassVar[str] = "memory"

    def __init__(self, held: TransactionalTarget) -> None:
        self._held = held

    @property
    def target(self) -> str:
        return "memory"

    def open(self, journal: Journal) -> Mark | None:
        return self._held.mark

    def write(self, changes: Changes, *, more: bool) -> None:
        self._held.take(changes)
        self._held.mark = Mark(changes.position, changes.generation)

    def gap(self, mark: Mark, reason: str) -> None:
        self._held.mark = mark

    def close(self) -> None:
        pass

"""What the contract suite of targets needs to know of each: how to make it, what it holds, and how to break it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import pyarrow as pa

from headwater.engine.sinks.port import PositionChanged
from headwater.engine.sinks.target import Assignment, Delivery, Target
from headwater.errors import TargetFailed

REFUSED = "refused"
"""A text that a system refuses, if it can refuse any."""


class System(ABC):
    """An outside system, empty at first. A new kind of target writes one such class and names it in `conftest.py`.

    The view has the columns `key` (bigint) and `text` (string), and is sunk by `key`.
    """

    transactional: ClassVar[bool] = True
    """Whether whoever looks sees a version of the view at any time."""
    refuses: ClassVar[bool] = True
    """Whether it refuses rows whose text is `REFUSED`."""

    @abstractmethod
    def target(self) -> Target:
        """A target of this system, as a new process would have it."""

    @abstractmethod
    def rows(self) -> dict[int, str]:
        """The texts that it holds, by key."""

    @abstractmethod
    def put(self, key: int, text: str | None) -> None:
        """Changes a row behind the target's back; None deletes it."""

    @abstractmethod
    def lose(self) -> None:
        """Loses everything, with the position."""

    def back_up(self) -> Callable[[], None] | None:
        """What restores rows and position as they are now, also while a sink writes; None if that is not possible."""
        return None

    @abstractmethod
    def stop(self) -> None:
        """The system is down: it ends as a crash would."""

    @abstractmethod
    def start(self) -> None:
        """Ends `stop`; what it has acknowledged is there."""

    @abstractmethod
    def close(self) -> None:
        """Gives everything back."""


class MemorySystem(System):
    """A system in memory, to test the suite and what all targets share."""

    def __init__(self) -> None:
        self.held: dict[int, dict[str, Any]] = {}
        self.stamp: str | None = None
        self.deliveries: list[Delivery] = []
        self.is_down = False

    def target(self) -> Target:
        return MemoryTarget(self)

    def rows(self) -> dict[int, str]:
        return {key: row["text"] for key, row in self.held.items()}

    def put(self, key: int, text: str | None) -> None:
        self.held.pop(key, None)
        if text is not None:
            self.held[key] = {"key": key, "text": text}

    def lose(self) -> None:
        self.held, self.stamp = {}, None

    def back_up(self) -> Callable[[], None]:
        held, stamp = dict(self.held), self.stamp

        def restore() -> None:
            self.held, self.stamp = dict(held), stamp

        return restore

    def stop(self) -> None:
        self.is_down = True

    def start(self) -> None:
        self.is_down = False

    def close(self) -> None:
        self.held.clear()


class MemoryTarget(Target):
    """Rows and stamp in memory, which change together."""

    kind: ClassVar[str] = "memory"

    def __init__(self, system: MemorySystem) -> None:
        self._system = system
        self._assignment: Assignment | None = None
        self._stamp: str | None = None

    @property
    def address(self) -> str:
        return "memory"

    def open(self, assignment: Assignment) -> str | None:
        self._check()
        self._assignment, self._stamp = assignment, self._system.stamp
        return self._system.stamp

    def deliver(self, delivery: Delivery) -> None:
        self._check()
        assert self._assignment is not None
        if self._system.stamp != self._stamp and not delivery.content:
            raise PositionChanged
        held = {} if delivery.content else dict(self._system.held)
        for row in delivery.deletes.to_pylist():
            held.pop(row["key"], None)
        refused = [row for row in delivery.upserts.to_pylist() if row["text"] == REFUSED]
        if refused:
            self._assignment.refuse(pa.Table.from_pylist(refused), ["It is refused"] * len(refused))
        for row in delivery.upserts.to_pylist():
            if row in refused:
                held.pop(row["key"], None)
            else:
                held[row["key"]] = row
        self._system.held, self._system.stamp = held, delivery.stamp
        self._stamp = delivery.stamp
        self._system.deliveries.append(delivery)

    def rows(self, columns: pa.Schema) -> Iterator[pa.Table]:
        self._check()
        yield pa.Table.from_pylist(list(self._system.held.values()), columns)

    def check(self) -> None:
        if self._system.stamp != self._stamp:
            raise PositionChanged

    def forget(self) -> None:
        self._system.stamp = None

    def close(self) -> None:
        pass

    def _check(self) -> None:
        if self._system.is_down:
            raise TargetFailed("It is down")

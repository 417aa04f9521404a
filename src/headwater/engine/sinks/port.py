"""The port of sinks: what a target outside has to do, so that it can be kept in step with a view."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar, Literal, Protocol, Self

from headwater.engine.sinks.audit import SinkAudit
from headwater.engine.subscription import Changes
from headwater.errors import UsageError
from headwater.model.position import Position

Start = Literal["now", "content"]
State = Literal["running", "retrying", "paused"]


@dataclass(frozen=True, slots=True)
class Mark:
    """How far a target is: it has a view up to a position, as a generation of the view has it.

    Of the changes that come at `next` it has the first `rows`.
    """

    position: Position
    generation: int
    next: Position | None = None
    rows: int = 0


class CannotContinue(Exception):
    """The target has a part of changes that have been replaced by others meanwhile."""


class PositionChanged(Exception):
    """The target is not where its last delivery left it: it was restored, or has lost what it had."""


class ChangesReader(Protocol):
    """What a feed gets changes from; see `Subscription`."""

    @property
    def reached(self) -> tuple[Position, int] | None: ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def confirm(self, position: Position, generation: int) -> None: ...

    def poll(self, timeout: timedelta) -> Changes | None: ...


class Journal(Protocol):
    """What is written down about one sink, for targets that cannot say themselves how far they are."""

    @property
    def mark(self) -> Mark | None:
        """How far the target is, as far as it is known here."""

    @property
    def deliveries(self) -> int:
        """How many deliveries have arrived, ever."""

    @property
    def under_way(self) -> str | None:
        """The delivery that was begun and has not ended, which may have arrived or not."""

    def begin(self, delivery: str) -> None:
        """Writes down a delivery before it is made; it is on the disk when this returns."""

    def end(self, mark: Mark | None) -> None:
        """The delivery has arrived, and the target is at `mark`: None within the content of a view."""

    def progress(self, done: int, total: int) -> None:
        """How far a long delivery is, such as the first content, in rows."""


class Sink(ABC):
    """A target that is kept in step with a view.

    Of all processes that run the application, one calls these methods, from one thread; `close` from any.
    """

    kind: ClassVar[str]
    """What sinks of this class are called in status, flow and metrics."""
    holds_content: ClassVar[bool] = False
    """Whether the target holds the view's content: then it can be audited, and has a position of its own."""

    @property
    def every(self) -> timedelta:
        """The least time between two deliveries, unless more changes wait than one delivery can take."""
        return timedelta(0)

    @property
    @abstractmethod
    def target(self) -> str:
        """Where the view goes, without any secret. Asked by any process, at any time; must not look outside."""

    @abstractmethod
    def open(self, journal: Journal) -> Mark | None:
        """How far the target is; None if it has nothing yet. Called before anything else, and after each `close`.

        A target that keeps its position in the same transaction as the rows is asked; otherwise it is
        `journal.mark`. A delivery that is still under way must be finished first: it may or may not have arrived.
        May raise `TargetFailed`, and is called again after a pause.
        """

    @abstractmethod
    def write(self, changes: Changes, *, more: bool) -> None:
        """Brings changes to the target, in the order of the calls.

        With `changes.snapshot` they are the complete content of the view and replace everything that the target has.
        Changes without rows only move the position. When it returns, the target has them, and says so at the next
        `open`; with `more`, another write follows at once, and a sink may wait for it and deliver both together.
        May raise `TargetFailed`, and is then called again with the same value after a pause: the target must have
        every change at least once, and the position must never be ahead of the changes. May raise `CannotContinue`
        if it has delivered a part of changes that have been replaced since, and `PositionChanged`, after which it is
        closed and opened.
        """

    @property
    def waiting(self) -> bool:
        """Whether it has changes that it has still to deliver: until then they are not the target's."""
        return False

    def rest(self) -> None:
        """Nothing follows for now. Called about once a second, so that a sink that gathers can deliver when it is time.

        May raise `TargetFailed`, and is then called again.
        """
        return

    @abstractmethod
    def gap(self, mark: Mark, reason: str) -> None:
        """Tells the target that changes up to `mark` are missing and will not come.

        Called only for a sink that starts with "now"; others get the content again. May raise `TargetFailed`, and is
        then called again.
        """

    @abstractmethod
    def close(self) -> None:
        """Breaks off what is under way, and gives back what `open` took. Called from any thread, more than once."""

    @property
    def dead_letter(self) -> str | None:
        """The topic of the rows that the target refuses, if it refuses single rows."""
        return None

    def member(self, name: str | None) -> Sink:
        """The sink of a group that is called so; for any other this one."""
        return self

    # What a target that holds content can do as well, between two deliveries

    def check(self) -> None:  # noqa: B027 - most have nothing to look at
        """Looks whether the target is where its last delivery left it; called now and then while nothing changes.

        May raise `PositionChanged`, and `TargetFailed`, which is only a reason to look again later.
        """

    def audit(self, *, repair: bool, progress: Callable[[int, int], None]) -> SinkAudit:
        """Compares the target with the view at the target's position; see `SinkAudit`. Raises `TargetFailed`."""
        raise UsageError(
            f"A sink of kind {self.kind!r} cannot be audited.",
            hint="What it was sent is gone; only targets that hold the rows of a view can be compared with it.",
        )

    def send(self, original: Mapping[str, Any], row: Mapping[str, Any]) -> bool:
        """Puts a row into the target that was refused as `original`, if the view still has that; whether it has.

        Raises `RowRefused` if the target refuses it again.
        """
        raise UsageError(f"A sink of kind {self.kind!r} refuses no single rows.")

    def forget(self) -> None:  # noqa: B027 - a sink may keep nothing in its target
        """Removes the position from the target, but no rows."""


@dataclass(frozen=True, slots=True)
class SinkStatus:
    """How far a sink is, whichever process runs it.

    `lag` is how many changed rows are still to be delivered, as far as they are kept, and `lag_seconds` the age of the
    first of them. `done` of `total` rows of a long delivery, such as the first content, have arrived. Instants are
    ISO 8601.
    """

    sink: str
    view: str
    target: str
    status: State
    position: str | None
    lag: int | None
    deliveries: int
    failures: int
    error: str | None
    failed_at: str | None
    delivered_at: str | None
    lag_seconds: float | None = None
    rows: int = 0
    rows_per_second: float = 0.0
    done: int = 0
    total: int = 0
    dead_letter: str | None = None

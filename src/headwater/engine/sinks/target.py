"""The port of targets: what an outside system has to do to hold a view, by key or as a Z-set, at a position it keeps.

A target is simpler than a sink: it is given finished deliveries. `delivering.py` makes a sink of any target, with what
targets have in common: net changes per key, the check of the key, batches that are joined, dead letters, the audit.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import ClassVar

import pyarrow as pa

from headwater.engine.sinks.port import Mark
from headwater.errors import UsageError


def _ignore(rows: pa.Table, reasons: Sequence[str]) -> None:
    """Refused rows of a target that nobody asks about."""


def _silent(done: int, total: int) -> None:
    """Progress that nobody watches."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """What a target is to hold: a view, for a sink of an application, by `key` unless that is empty.

    A target calls `refuse` for the rows that it will not take, with its own words for each, before it moves its
    position; they become dead letters. It calls `progress` while it takes a view's first content.
    """

    application: str
    sink: str
    view: str
    key: tuple[str, ...] = ()
    refuse: Callable[[pa.Table, Sequence[str]], None] = field(default=_ignore, compare=False)
    progress: Callable[[int, int], None] = field(default=_silent, compare=False)

    @property
    def owner(self) -> str:
        """What the sink is called in the target, where sinks of other applications may be, too."""
        return f"{self.application}.{self.sink}"


@dataclass(frozen=True, slots=True)
class Delivery:
    """What changes a target at once: afterwards it holds the view as of `mark`, and keeps `stamp`.

    `rows` and `weights` are the net change, each row once; if only the position moves there are no rows, and no columns
    either. For a target with a key, `upserts` have each new or changed row once, and `deletes` the keys whose rows are
    gone; no key is in both. With `content` the upserts (or rows) are everything that the view has, and what else the
    target holds of it has to be removed. With `repair` it mends rows at the position where the target is, which others
    may have changed: whatever the target has of these keys, they are as the delivery says afterwards.
    """

    mark: Mark
    stamp: str
    rows: pa.Table
    weights: pa.ChunkedArray
    upserts: pa.Table
    deletes: pa.Table
    content: bool = False
    repair: bool = False

    @property
    def is_move(self) -> bool:
        """Whether only the position moves."""
        return not self.content and not self.rows.num_rows


class Target(ABC):
    """A system outside that can hold a view. Its `repr` shows no secret.

    Its methods are called from one thread, except `close`. They raise `TargetFailed` and are called again with the same
    arguments after a pause: `passing` if the target may answer later, `refused` if somebody has to change something.
    """

    kind: ClassVar[str]
    """What sinks with this target are called in status, flow and metrics."""
    needs_key: ClassVar[bool] = True
    """Whether it holds rows by their key. Other targets take a view without one, too."""
    joins: ClassVar[bool] = True
    """Whether batches that wait may be delivered as one."""
    joined_rows_max: ClassVar[int | None] = None
    """With how many changed rows a delivery gets no further batches; None for what is good for most targets."""
    every: timedelta = timedelta(0)
    """The least time between two deliveries, for targets where each has its price. Batches wait meanwhile, and join."""

    @property
    @abstractmethod
    def address(self) -> str:
        """Where the rows are, without any secret. Asked by any process; must not look outside."""

    @property
    def under_way(self) -> str | None:
        """The stamp of a delivery of which the target has a part; None if it has all or nothing of each.

        Asked after `open`. Changes are joined up to this delivery, which then comes again exactly as it was, and no
        further: of two changes that cancel each other out, the target may already have the first one.
        """
        return None

    @abstractmethod
    def open(self, assignment: Assignment) -> str | None:
        """The stamp of the last delivery that the target has completely; None if it has none, or has lost it.

        Connects, and fences: what an older process still sends must not change anything from here on, where the target
        can refuse it. Called before anything else and after each `close`.
        """

    @abstractmethod
    def deliver(self, delivery: Delivery) -> None:
        """Brings a delivery. When it returns, the target has all of it, and `open` gives its stamp.

        A transactional target shows all of it or nothing. Another one may show a part of it first, as long as the stamp
        is written last and the same delivery can be brought again. Rows that it refuses go to `assignment.refuse`, and
        it keeps no row of their keys: what it had there is not what the view says.
        """

    def rest(self) -> None:
        """Nothing is to be delivered for now. Called about once a second, for targets that watch a clock."""
        return

    @property
    def transaction(self) -> str | None:
        """Targets that say the same here can be written in one transaction; None if it can be in none with others."""
        return None

    def deliver_with(self, delivery: Delivery, others: Sequence[tuple[Target, Delivery]]) -> None:
        """As `deliver`, and brings other open targets of the same `transaction` theirs: all happens, or nothing."""
        raise UsageError(f"Targets of kind {self.kind!r} cannot move together.")

    @abstractmethod
    def close(self) -> None:
        """Breaks off what is under way and disconnects. Called from any thread, more than once."""

    def check(self) -> None:  # noqa: B027 - most have nothing to look at
        """Raises `PositionChanged` if it is not where the last delivery left it. Called now and then."""

    def rows(self, columns: pa.Schema) -> Iterator[pa.Table]:
        """All rows that the target holds of the view, with these columns and types, some at a time. For the audit."""
        raise UsageError(f"A target of kind {self.kind!r} cannot be audited.", hint="It does not show what it holds.")

    def forget(self) -> None:
        """Removes what the sink keeps beside its rows, and no row: it is dropped. Called between `open` and `close`."""
        raise UsageError(f"A target of kind {self.kind!r} keeps what it has.", hint="Remove it there by hand.")

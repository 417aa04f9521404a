"""A group: several sinks of one transactional system, which show their views at one position at any time.

It is one sink to its feed, which follows all of the views at once. What came up to one position is one delivery.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa

from headwater.engine.parts import Report
from headwater.engine.reading import Reader
from headwater.engine.sinks.audit import SinkAudit
from headwater.engine.sinks.control import Control, Request
from headwater.engine.sinks.delivering import TargetSink
from headwater.engine.sinks.feed import Feed
from headwater.engine.sinks.patience import Patience
from headwater.engine.sinks.port import ChangesReader, Journal, Mark, Sink
from headwater.engine.sinks.progress import ProgressFile
from headwater.engine.sinks.target import Delivery
from headwater.engine.subscription import Changes, Subscription
from headwater.errors import UnknownSink
from headwater.model.position import Position

LOOK_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class GroupChanges(Changes):
    """What happened to several views up to one position; `parts` has the changes of each sink's view, in order."""

    parts: Mapping[str, Sequence[Changes]] = field(default_factory=dict)


class GroupSubscription:
    """Follows several views at once, cut at positions that all of them have been at."""

    def __init__(
        self, directory: Path, views: Mapping[str, str], after: Position | None, generation: int | None
    ) -> None:
        """`views` has the view of each sink, which is a follower of it."""
        self._directory, self._views = directory, dict(views)
        self._reader, self._ended = Reader(directory), threading.Event()
        self._parts: dict[str, Subscription] = {}
        self._held: dict[str, Changes] = {}
        self._last: dict[str, tuple[Position, int]] = {}
        self._given: list[tuple[tuple[Position, int], dict[str, tuple[Position, int]]]] = []
        self._reached: tuple[Position, int] | None = None
        if after is not None and generation is not None:
            self._begin(after, generation)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._ended.set()
        for part in self._parts.values():
            part.close()
        self._reader.close()

    @property
    def reached(self) -> tuple[Position, int] | None:
        """The position up to which everything was given, and its generation; None before the first look."""
        return self._reached

    def confirm(self, position: Position, generation: int) -> None:
        """Says that everything up to here is durable in the targets."""
        reached = [
            at for at, ((there, of), _) in enumerate(self._given) if of == generation and there <= position
        ]  # fmt: skip
        # What the targets have may end behind the last changes: positions move on without any, too.
        for _ in range(reached[-1] + 1 if reached else 0):
            _, parts = self._given.pop(0)
            for name, place in parts.items():
                self._parts[name].confirm(*place)

    def poll(self, timeout: timedelta) -> Changes | None:
        """The changes of all views up to one position; None if there were none for so long."""
        deadline = time.monotonic() + timeout.total_seconds()
        while not self._ended.is_set():
            ticket = self._reader.ticket()
            found = self._next() if self._parts else self._content()
            if found is not None:
                return found
            left = deadline - time.monotonic()
            if left <= 0:
                return None
            self._reader.wait(ticket, min(left, LOOK_SECONDS))
        return None

    def _begin(self, position: Position, generation: int) -> None:
        for name, view in self._views.items():
            self._parts[name] = Subscription(
                self._directory, view, position, generation=generation, follower=f"sink-{name}"
            )
            self._last[name] = (position, generation)
        self._reached = (position, generation)

    def _content(self) -> Changes | None:
        """The content of all views at one position; None before there is any."""
        if self._reader.current() is None:
            return None
        snapshot = self._reader.read(list(dict.fromkeys(self._views.values())))
        self._begin(snapshot.position, snapshot.generation)
        parts = {}
        for name, view in self._views.items():
            rows = snapshot.tables[view]
            weights = pa.chunked_array([pa.array(np.ones(rows.num_rows, np.int64))])
            parts[name] = [Changes(snapshot.position, snapshot.generation, rows, weights, snapshot=True)]
        return self._cut(parts, snapshot=True)

    def _next(self) -> Changes | None:
        """Everything up to where the views are; None if nothing has changed since."""
        parts: dict[str, list[Changes]] = {name: [] for name in self._parts}
        while True:
            current = self._reader.current()
            if current is None:
                return None
            for name, part in self._parts.items():
                parts[name] += self._taken(name, part, current.position)
            after = self._reader.current()
            # A new definition of the views, at the same position, has to be that of all.
            if after is not None and after.id == current.id:
                break
        self._reached = (current.position, current.id)
        return self._cut(parts) if any(parts.values()) else None

    def _taken(self, name: str, part: Subscription, until: Position) -> list[Changes]:
        taken: list[Changes] = []
        while True:
            found = self._held.pop(name, None) or part.poll()
            if found is None:
                return taken
            if not found.position <= until:
                self._held[name] = found
                return taken
            taken.append(found)
            self._last[name] = (found.position, found.generation)

    def _cut(self, parts: Mapping[str, Sequence[Changes]], *, snapshot: bool = False) -> GroupChanges:
        assert self._reached is not None, "it has begun"
        self._given.append((self._reached, dict(self._last)))
        rows = sum(each.rows.num_rows for part in parts.values() for each in part)
        counted = pa.table({"rows": pa.nulls(rows)})
        weights = pa.chunked_array([], pa.int64())
        return GroupChanges(*self._reached, counted, weights, snapshot=snapshot, parts=parts)


class GroupSink(Sink):
    """Sinks that move together: their targets are written in one transaction."""

    kind: ClassVar[str] = "group"
    holds_content: ClassVar[bool] = True

    def __init__(self, members: Mapping[str, TargetSink]) -> None:
        """Of targets with the same `transaction`."""
        self._members = dict(members)
        self._journal: Journal | None = None
        self._taken: GroupChanges | None = None
        self._ready: dict[str, Delivery] = {}

    @property
    def target(self) -> str:
        return ", ".join(member.target for member in self._members.values())

    def member(self, name: str | None) -> Sink:
        if name not in self._members:
            raise UnknownSink(str(name), list(self._members))
        return self._members[name]

    def open(self, journal: Journal) -> Mark | None:
        """Where all of them are; None unless that is one place, so that all get the content, at one position."""
        self._journal, self._taken, self._ready = journal, None, {}
        marks = {member.open(journal) for member in self._members.values()}
        return marks.pop() if len(marks) == 1 else None

    def write(self, changes: Changes, *, more: bool) -> None:
        """All at once: what comes together has been put together already."""
        if self._taken is not changes:
            self._taken, self._ready = changes if isinstance(changes, GroupChanges) else None, {}
        mark = Mark(changes.position, changes.generation)
        for name, member in self._members.items():
            if name not in self._ready:
                parts = changes.parts[name] if isinstance(changes, GroupChanges) else []
                self._ready[name] = member.prepared(mark, parts)
        first, *others = self._members
        with_others = [(self._members[name].outside, self._ready[name]) for name in others]
        self._members[first].outside.deliver_with(self._ready[first], with_others)
        for member in self._members.values():
            member.reach(mark)
        self._ready = {}
        assert self._journal is not None, "it was opened"
        self._journal.end(mark)

    def gap(self, mark: Mark, reason: str) -> None:
        """Targets start with content, and get it again."""

    def close(self) -> None:
        for member in self._members.values():
            member.close()

    def check(self) -> None:
        for member in self._members.values():
            member.check()

    def forget(self) -> None:
        for member in self._members.values():
            member.forget()

    def audit(self, *, repair: bool, progress: Callable[[int, int], None]) -> SinkAudit:
        """Of its members one by one."""
        raise UnknownSink("", list(self._members))


class GroupFeed(Feed):
    """Brings several views to the targets of a group. Its members show how far they are, and are asked for things."""

    def __init__(
        self, directory: Path, group: str, members: Mapping[str, TargetSink], patience: Patience | None = None
    ) -> None:
        # No sink can be called so.
        super().__init__(directory, f"group~{group}", f"group {group}", GroupSink(members), "content", patience)
        self.members = [MemberFeed(directory, name, member, self, self._file) for name, member in members.items()]

    def current(self) -> Mark | None:
        with Reader(self._directory) as reader:
            current = reader.current()
        if current is None or any(each.view not in current.definition.views for each in self.members):
            return None
        return Mark(current.position, current.id)

    def subscribe(self, mark: Mark | None) -> ChangesReader:
        after, generation = (None, None) if mark is None else (mark.position, mark.generation)
        views = {each.sink_name: each.view for each in self.members}
        return GroupSubscription(self._directory, views, after, generation)

    def let_go(self) -> None:
        for each in self.members:
            each.let_go()


class MemberFeed(Feed):
    """A sink of a group, which is fed, paused, reset and dropped with the others."""

    def __init__(self, directory: Path, name: str, sink: TargetSink, group: GroupFeed, file: ProgressFile) -> None:
        super().__init__(directory, name, sink.assignment.view, sink, "content")
        self.group = group
        self._file, self._noted_as = file, group.view
        self.control: Control = group.control

    def carry_out(self, request: Request, report: Report | None = None) -> Mapping[str, Any]:
        named = Request(request.action, {**request.arguments, "sink": self.sink_name}, request.id)
        return self.group.carry_out(named, report)

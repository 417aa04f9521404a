"""Delivering: makes a sink of any target, and does for it what is the same for all of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from headwater.engine.sinks.audit import SinkAudit
from headwater.engine.sinks.keyed import Net, net_of
from headwater.engine.sinks.letters import DeadLetters
from headwater.engine.sinks.mending import Mending, complete
from headwater.engine.sinks.port import Journal, Mark, Sink
from headwater.engine.sinks.progress import mark_json, mark_of
from headwater.engine.sinks.promise import Promise
from headwater.engine.sinks.target import Assignment, Delivery, Target
from headwater.engine.subscription import Changes
from headwater.errors import ExternalError, TargetFailed, UsageError
from headwater.log.port import Log
from headwater.views.zset import WEIGHT, consolidate

JOINED_ROWS_MAX = 50_000
"""Changed rows of batches that wait, which are delivered as one; a batch with more is delivered alone."""
_NO_KEY = "The key has null in it, and a target finds rows by their key"


class TargetSink(Sink):
    """Brings a view to a target, which keeps the position: a stamp that also says of which log and view it is."""

    holds_content: ClassVar[bool] = True

    def __init__(self, target: Target, assignment: Assignment, directory: Path, log: Log, dead_letter: str) -> None:
        self.outside, self._directory, self._log = target, directory, log
        self._given, self._letters = assignment, DeadLetters(log, dead_letter, assignment.view)
        self._promise = Promise(directory, assignment.view, assignment.key) if assignment.key else None
        self._journal: Journal | None = None
        self._reached: Mark | None = None
        self._taken: Changes | None = None
        self._waiting: list[Changes] = []
        self._ready: Delivery | None = None

    @property
    def kind(self) -> str:  # type: ignore[override]
        return self.outside.kind

    @property
    def target(self) -> str:
        return self.outside.address

    @property
    def dead_letter(self) -> str | None:
        return self._letters.topic

    @property
    def every(self) -> timedelta:
        return self.outside.every

    @property
    def assignment(self) -> Assignment:
        return self._given

    def open(self, journal: Journal) -> Mark | None:
        self._journal, self._taken, self._waiting, self._ready = journal, None, [], None
        if self._promise is not None:
            self._promise.forget()
        given = self._given
        stamp = self.outside.open(
            Assignment(given.application, given.sink, given.view, given.key, self._letters.keep, journal.progress)
        )
        self._reached = self._mark_of(stamp)
        return self._reached

    def write(self, changes: Changes, *, more: bool) -> None:
        if self._taken is not changes:
            self._taken = changes
            self._waiting = [changes] if changes.snapshot else [*self._waiting, changes]
            self._ready = None
        if more and self._may_join(changes):
            return
        self._ready = self._ready or self._delivery(self._waiting)
        self.outside.deliver(self._ready)
        self._reached, self._waiting, self._ready = self._ready.mark, [], None
        assert self._journal is not None, "it was opened"
        self._journal.end(self._reached)

    def rest(self) -> None:
        self.outside.rest()

    def _may_join(self, changes: Changes) -> bool:
        """Whether what comes next may be delivered together with these changes."""
        rows_max = self.outside.joined_rows_max or JOINED_ROWS_MAX
        if not self.outside.joins or sum(each.rows.num_rows for each in self._waiting) >= rows_max:
            return False
        under_way = self.outside.under_way
        return under_way is None or under_way != self._stamp(Mark(changes.position, changes.generation))

    def prepared(self, mark: Mark, parts: Sequence[Changes]) -> Delivery:
        """What brings the target to a mark, with these changes of the view up to it. Not to be called again for them.

        For sinks that move together: who delivers it tells by `reach`. Raises `KeyRepeated`, `CannotContinue`.
        """
        first = next((place for place in range(len(parts) - 1, -1, -1) if parts[place].snapshot), 0)
        if parts:
            return replace(self._delivery(parts[first:]), mark=mark, stamp=self._stamp(mark))
        nothing = pa.table({})
        return Delivery(mark, self._stamp(mark), nothing, pa.chunked_array([], pa.int64()), nothing, nothing)

    def reach(self, mark: Mark) -> None:
        """The target is at a mark."""
        self._reached = mark

    def gap(self, mark: Mark, reason: str) -> None:
        """A target without a key that starts with "now" has every change that comes from there on."""
        nothing = pa.table({})
        self.outside.deliver(
            Delivery(mark, self._stamp(mark), nothing, pa.chunked_array([], pa.int64()), nothing, nothing)
        )
        self._reached = mark

    def close(self) -> None:
        self.outside.close()

    def check(self) -> None:
        self.outside.check()

    def forget(self) -> None:
        self.outside.forget()
        self._reached = None

    # Between two deliveries

    def audit(self, *, repair: bool, progress: Callable[[int, int], None]) -> SinkAudit:
        return self._mending().audit(repair=repair, progress=progress)

    def send(self, original: Mapping[str, Any], row: Mapping[str, Any]) -> bool:
        return self._mending().send(original, row)

    def _mending(self) -> Mending:
        """Raises `PositionChanged` if the target is not where the last delivery left it."""
        if self._reached is None:
            raise UsageError(
                "The target does not have the first content yet.", hint="Wait until the sink has a position."
            )
        # One that was restored a moment ago holds the view as of another position.
        self.outside.check()
        return Mending(
            self.outside, self._given, self._letters, self._directory, self._reached, self._stamp(self._reached)
        )

    def _delivery(self, waiting: Sequence[Changes]) -> Delivery:
        """The net change of what waits. Raises `KeyRepeated`, `CannotContinue`."""
        last = waiting[-1]
        mark, content = Mark(last.position, last.generation), waiting[0].snapshot
        parts = [
            each.rows.append_column(WEIGHT, each.weights) for each in waiting if each.rows.num_rows or each.snapshot
        ]
        nothing = pa.table({})
        if not parts:
            weights = pa.chunked_array([], pa.int64())
            return Delivery(mark, self._stamp(mark), nothing, weights, nothing, nothing)
        changes = consolidate(pa.concat_tables(parts)) if len(parts) > 1 else parts[0]
        net = self._net(changes, None if content else self._reached)
        rows, weights = changes.drop_columns([WEIGHT]), changes[WEIGHT]
        return Delivery(mark, self._stamp(mark), rows, weights, net.upserts, net.deletes, content)

    def _net(self, changes: pa.Table, before: Mark | None) -> Net:
        key = self._given.key
        if self._promise is None:
            nothing = pa.table({})
            return Net(nothing, nothing, nothing, nothing)
        missing = [name for name in key if name not in changes.column_names]
        if missing:
            raise TargetFailed(f"View {self._given.view!r} has no column {missing[0]!r}, which is in the key", "gone")
        net = net_of(changes, key)
        if changes.num_rows:
            promise = self._promise
            _reading(lambda: promise.check(changes.filter(complete(changes, key)), before))
        elif before is None:
            self._promise.check(changes, None)
        if net.keyless.num_rows:
            self._letters.keep(net.keyless, [_NO_KEY] * net.keyless.num_rows)
        return net

    def _stamp(self, mark: Mark) -> str:
        held = {"log": self._log.identity, "view": self._given.view, "key": self._given.key, "mark": mark_json(mark)}
        return json.dumps(held, separators=(",", ":"))

    def _mark_of(self, stamp: str | None) -> Mark | None:
        """The mark of a stamp; None for one of another log, view or key, whose rows have to be replaced."""
        if stamp is None:
            return None
        try:
            held = json.loads(stamp)
            same = (held["log"], held["view"], tuple(held["key"]))
            if same != (self._log.identity, self._given.view, self._given.key):
                return None
            return mark_of(held["mark"])
        except (ValueError, KeyError, TypeError, UsageError):
            return None


def _reading(check: Callable[[], None]) -> None:
    """A view that cannot be read now is like a target that does not answer: it is tried again."""
    try:
        check()
    except TargetFailed:
        raise
    except ExternalError as error:
        raise TargetFailed(f"The view cannot be read: {error.message}") from error

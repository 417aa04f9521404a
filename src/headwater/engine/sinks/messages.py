"""Messages of a sink: what changes of a view mean for people and programs that are told of one row after the other."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from headwater.engine.sinks.channel import Channel, Event, Message, Notice, Sender
from headwater.engine.sinks.key_texts import key_texts
from headwater.engine.sinks.keyed import net_of
from headwater.engine.sinks.letters import DeadLetters
from headwater.engine.sinks.port import CannotContinue, Journal, Mark, Sink
from headwater.engine.sinks.progress import mark_json, mark_of
from headwater.engine.sinks.promise import Promise
from headwater.engine.subscription import Changes
from headwater.errors import MessageRefused, TargetFailed
from headwater.model.encoding import format_instant, json_rows
from headwater.system.clock import Clock, instant
from headwater.views.identity import normal
from headwater.views.zset import WEIGHT, consolidate, weights_of

NOTICES_MAX = 1000
"""Notices in one message of a channel that takes several."""


@dataclass(frozen=True, slots=True)
class _Due:
    """A notice, the row that it is about, and how far the sink is when it has been sent."""

    notice: Notice
    row: pa.Table
    mark: Mark | None


class MessageSink(Sink):
    """Sends a message for each row of a view that was added, changed or removed, through a channel.

    With a `key` two changes of one row are one event. A message is written down with its id before it is sent, so
    the same id always comes with the same content. What the other side refuses goes to the dead-letter topic.
    """

    def __init__(
        self,
        name: str,
        view: str,
        channel: Channel,
        key: tuple[str, ...],
        directory: Path,
        letters: DeadLetters,
        clock: Clock | None = None,
    ) -> None:
        self.channel, self._clock = channel, clock or Clock()
        self._name, self._view, self._key, self._letters = name, view, key, letters
        self._owner = f"{directory.name}.{name}"
        self._promise = Promise(directory, view, key) if key else None
        self._sender: Sender | None = None
        self._journal: Journal | None = None
        self._begin(None)

    def _begin(self, mark: Mark | None) -> None:
        self._due: deque[_Due] = deque()
        self._since: float | None = None
        self._taken: Changes | None = None
        # How far everything is in `_due`, or sent.
        self._reached = mark
        if self._promise is not None:
            self._promise.forget()

    @property
    def kind(self) -> str:  # type: ignore[override]
        return self.channel.kind

    @property
    def target(self) -> str:
        return self.channel.address

    @property
    def dead_letter(self) -> str | None:
        """The topic of rows whose messages are refused."""
        return self._letters.topic

    @property
    def waiting(self) -> bool:
        return bool(self._due)

    def open(self, journal: Journal) -> Mark | None:
        self._journal = journal
        self._begin(None)
        self._sender = self.channel.open()
        self._send_under_way(journal)
        self._reached = journal.mark
        return journal.mark

    def write(self, changes: Changes, *, more: bool) -> None:
        if self._taken is not changes:
            self._take(changes)
            self._taken = changes
        if len(self._due) >= NOTICES_MAX:
            self._send_all()
        elif self.channel.digest is not None or not more:
            self.rest()

    def rest(self) -> None:
        digest = self.channel.digest
        if digest is None or (self._since is not None and self._now() - self._since >= digest.total_seconds()):
            self._send_all()

    def gap(self, mark: Mark, reason: str) -> None:
        """Nobody is told of rows that came and went unseen; what was gathered before is sent."""
        self._send_all()
        self._begin(mark)

    def close(self) -> None:
        if self._sender is not None:
            self._sender.close()

    def _now(self) -> float:
        return self._clock.monotonic()

    # What changes mean

    def _take(self, changes: Changes) -> None:
        """Adds the notices of changes to those that are due. Raises `CannotContinue`, `KeyRepeated`."""
        before = self._reached
        end = Mark(changes.position, changes.generation)
        if changes.snapshot:
            before = None
        elif before is not None and before.generation == end.generation and end.position <= before.position:
            # It comes again, because the view could not be read for a moment.
            return
        done = 0 if before is None else before.rows
        if before is not None and done and (before.next, before.generation) != (end.position, end.generation):
            self._begin(self._journal.mark if self._journal is not None else None)
            raise CannotContinue
        notices = list(self._notices(changes, before))
        for number, (notice, row) in enumerate(notices[done:], start=done + 1):
            inside = None if before is None else Mark(before.position, before.generation, end.position, number)
            self._due.append(_Due(notice, row, end if number == len(notices) else inside))
        if self._due and self._since is None:
            self._since = self._now()
        self._reached = end

    def _notices(self, changes: Changes, before: Mark | None) -> Iterator[tuple[Notice, pa.Table]]:
        if not changes.rows.num_rows:
            return
        at, position = format_instant(instant(self._clock.now())), str(changes.position)
        for event, rows in self._events(changes, before):
            if event not in self.channel.events:
                continue
            keys = key_texts(rows, self._key) if self._key else [""] * rows.num_rows
            for number, (row, key) in enumerate(zip(json_rows(rows), keys, strict=True)):
                yield Notice(self._name, self._view, event, key, row, position, at), rows.slice(number, 1)

    def _events(self, changes: Changes, before: Mark | None) -> Iterator[tuple[Event, pa.Table]]:
        """What happened to which rows, as they are now; those that are gone as they were."""
        rows = changes.rows
        weights = changes.weights.to_numpy()
        if self._promise is None:
            yield "added", _repeated(rows, weights)
            yield "removed", _repeated(rows, -weights)
            return
        missing = [name for name in self._key if name not in rows.column_names]
        if missing:
            raise TargetFailed(f"View {self._view!r} has no column {missing[0]!r}, which is in the key", "gone")
        zset = consolidate(rows.append_column(WEIGHT, changes.weights))
        self._check(zset, before)
        net = net_of(zset, self._key)
        if net.keyless.num_rows:
            self._letters.keep(net.keyless, ["A column of its key is null"] * net.keyless.num_rows)
        former = zset.filter(pa.array(weights_of(zset) < 0)).drop_columns([WEIGHT])
        known, gone = key_texts(former, self._key), set(key_texts(net.deletes, self._key))
        there = set(known)
        changed = np.array([text in there for text in key_texts(net.upserts, self._key)], bool)
        yield "added", net.upserts.filter(pa.array(~changed))
        yield "changed", net.upserts.filter(pa.array(changed))
        yield "removed", former.filter(pa.array([text in gone for text in known], pa.bool_()))

    def _check(self, zset: pa.Table, before: Mark | None) -> None:
        assert self._promise is not None, "there is a key"
        keys = [normal(zset[name]).is_valid().to_numpy(zero_copy_only=False) for name in self._key]
        whole = None if before is None else Mark(before.position, before.generation)
        self._promise.check(zset.filter(pa.array(np.logical_and.reduce(keys))), whole)

    # Sending

    def _send_all(self) -> None:
        """Sends the message that is under way, and everything that is due. Raises `TargetFailed`."""
        assert self._journal is not None, "it was opened"
        self._send_under_way(self._journal)
        while self._due:
            count = min(len(self._due), NOTICES_MAX if self.channel.takes_several else 1)
            chosen = [self._due[number] for number in range(count)]
            number = self._journal.deliveries + 1
            # Full stops part what is made of an id in some systems.
            identity = f"{self._owner}_{number}_{chosen[0].notice.position}".replace(".", "~")
            message = Message(identity, tuple(each.notice for each in chosen))
            self._journal.begin(json.dumps({"mark": mark_json(chosen[-1].mark), **message.to_json()}))
            self._send(self._journal, message, chosen[-1].mark, [each.row for each in chosen])
        self._since = None

    def _send_under_way(self, journal: Journal) -> None:
        if journal.under_way is not None:
            held = json.loads(journal.under_way)
            rows = [each.row for each, _ in zip(self._due, held["notices"], strict=False)]
            self._send(journal, Message.from_json(held), mark_of(held["mark"]), rows)

    def _send(self, journal: Journal, message: Message, mark: Mark | None, rows: list[pa.Table]) -> None:
        assert self._sender is not None, "it was opened"
        try:
            self._sender.send(message)
        except MessageRefused as refusal:
            self._refused(message, rows, refusal)
        journal.end(mark)
        for _ in rows:
            self._due.popleft()

    def _refused(self, message: Message, rows: list[pa.Table], refusal: TargetFailed) -> None:
        table = pa.concat_tables(rows) if rows else pa.Table.from_pylist([dict(each.row) for each in message.notices])
        self._letters.keep(table, [refusal.reason] * table.num_rows)


def _repeated(rows: pa.Table, counts: np.ndarray) -> pa.Table:
    """Rows as often as they count, if they count more than zero times."""
    return rows.take(pa.array(np.repeat(np.arange(rows.num_rows), np.maximum(counts, 0))))

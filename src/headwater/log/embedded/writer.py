"""The writer: turns the requests of all threads of a process into commits, many of them with one fsync."""

from __future__ import annotations

import json
import threading
from collections import deque
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from headwater.errors import Conflict, Fenced, Indeterminate, OutOfSequence, UnknownTopic
from headwater.log.catalog import Catalog, Tails, Wakes
from headwater.log.commit import Anything, Committed, Outcome, Request
from headwater.log.embedded.position import commit_position
from headwater.log.topic import Topic
from headwater.system.clock import Clock
from headwater.system.sqlite import Connection

# What one fsync may cover: enough to share its cost, little enough that nobody waits long for others' bytes.
GROUP_BYTES_MAX = 32 << 20


@dataclass(slots=True)
class _Group:
    """The commits of one transaction of the catalog, as they are put together."""

    tx: Connection
    number: int
    at: int
    pieces: dict[tuple[int, int, int], tuple[Topic, list[pa.Table]]] = field(default_factory=dict)
    sharing: list[Request] = field(default_factory=list)


class Writer:
    """Whichever thread comes first commits for all that wait: no thread of its own, no delay when alone."""

    def __init__(self, catalog: Catalog, tails: Tails, wake: Wakes, clock: Clock) -> None:
        self._catalog, self._tails, self._wake, self._clock = catalog, tails, wake, clock
        self._waiting: deque[Request] = deque()
        self._state = threading.Condition()
        self._led = False

    def commit(self, request: Request) -> Committed:
        """Returns when the request is durable, or is known not to have happened. Raises what stopped it."""
        self.commit_all([request])
        return request.settle()

    def commit_all(self, requests: list[Request]) -> None:
        """Returns when each request is durable or known not to have happened; `Request.settle` tells which."""
        self._waiting.extend(requests)
        while not _are_done(requests):
            self._take_turn(requests)

    def _take_turn(self, requests: list[Request]) -> None:
        """Commits for all that wait as soon as nobody else does, unless somebody has done it for these by then."""
        leads = False
        try:
            with self._state:
                # Who is done goes at once: behind the next commit it would wait too long, and miss the one after that.
                self._state.wait_for(lambda: not self._led or _are_done(requests))
                if _are_done(requests):
                    return
                leads = self._led = True
            self._commit_group(self._next_group())
        finally:
            if leads:
                with self._state:
                    self._led = False
                    self._state.notify_all()

    def _next_group(self) -> list[Request]:
        group: list[Request] = []
        size = 0
        while self._waiting and (not group or size < GROUP_BYTES_MAX):
            group.append(self._waiting.popleft())
            size += group[-1].nbytes
        return group

    def _commit_group(self, requests: list[Request]) -> None:
        outcomes: list[tuple[Request, Outcome]] = []
        try:
            with self._catalog.write() as tx:
                try:
                    outcomes = self._write(tx, requests)
                    self._tails.sync()
                except BaseException:
                    self._tails.abandon()
                    raise
        except BaseException as error:
            if isinstance(error, Exception):
                for request in requests:
                    request.error = error
                return
            # This thread was interrupted; the others only know that somebody was, and not how far it had come.
            for request in requests:
                request.error = Indeterminate(
                    "The thread that committed for this one was interrupted.",
                    hint="Look at the log's position or at your bookmark before you try again.",
                )
            raise
        for request, outcome in outcomes:
            request.outcome = outcome
        self._wake.touch()
        self._tails.committed()

    def _write(self, tx: Connection, requests: list[Request]) -> list[tuple[Request, Outcome]]:
        number, last_at = tx.execute("SELECT commit_number, committed_at FROM log").fetchone()
        group = _Group(tx, number, max(self._clock.now(), last_at))
        outcomes: list[tuple[Request, Outcome]] = []
        for request in requests:
            refusal = _refusal(tx, request)
            if refusal is not None:
                outcomes.append((request, refusal))
            elif not (request.pieces or request.bookmarks or request.offsets or request.sequence):
                outcomes.append((request, Committed(commit_position(group.number))))
            else:
                if group.sharing and not (request.mergeable and group.sharing[-1].mergeable):
                    outcomes += self._flush(group)
                if request.commits > 1:
                    outcomes.append((request, self._write_each(group, request)))
                    continue
                if not group.sharing:
                    group.number += 1
                group.sharing.append(request)
                self._note(group, request)
                for piece in request.pieces:
                    key = (piece.topic.id, piece.partition, piece.topic.schema_version)
                    group.pieces.setdefault(key, (piece.topic, []))[1].append(piece.records)
        outcomes += self._flush(group)
        if group.number > number:
            tx.execute("UPDATE log SET commit_number = ?, committed_at = ?", (group.number, group.at))
        return outcomes

    def _note(self, group: _Group, request: Request) -> None:
        """Moves what moves with the commit that is being put together."""
        for move in request.bookmarks:
            group.tx.execute(
                "INSERT INTO bookmarks VALUES (?, ?, ?) "
                "ON CONFLICT DO UPDATE SET value = excluded.value, commit_number = excluded.commit_number",
                (move.name, move.value, group.number),
            )
        for offset in request.offsets:
            group.tx.execute(
                "UPDATE claims SET offset = ?, moved_at = ? WHERE group_name = ? AND topic_id = ? AND partition = ?",
                (offset.offset, group.at, offset.group, offset.topic.id, offset.partition),
            )
        if request.sequence is not None:
            group.tx.execute(
                "UPDATE producers SET sequence = ?, commit_number = ? WHERE name = ?",
                (request.sequence.number, group.number, request.sequence.producer),
            )

    def _write_each(self, group: _Group, request: Request) -> Committed:
        """Writes a request of many commits, after everything before it was flushed."""
        first = group.number + 1
        group.number += request.commits
        self._note(group, request)
        offsets: dict[tuple[str, int], tuple[int, int]] = {}
        for piece in request.pieces:
            topic, numbers = piece.topic, piece.numbers
            if numbers is None:
                numbers = np.full(piece.records.num_rows, request.commits - 1, np.int64)
            begin, end = self._tails.append_each(
                group.tx, topic, piece.partition, piece.records, numbers + first, group.at
            )
            earlier = offsets.get((topic.name, piece.partition))
            offsets[topic.name, piece.partition] = (earlier[0] if earlier else begin, end)
        return Committed(commit_position(group.number), offsets, dead_letters=request.dead_letters)

    def _flush(self, group: _Group) -> list[tuple[Request, Outcome]]:
        """Writes the records of the commit that is being put together."""
        offsets: dict[tuple[str, int], tuple[int, int]] = {}
        for (_, partition, _), (topic, tables) in group.pieces.items():
            first, end = self._tails.append(group.tx, topic, partition, tables, group.number, group.at)
            earlier = offsets.get((topic.name, partition))
            offsets[topic.name, partition] = (earlier[0] if earlier else first, end)
        position = commit_position(group.number)
        outcomes: list[tuple[Request, Outcome]] = [
            (request, Committed(position, offsets, dead_letters=request.dead_letters)) for request in group.sharing
        ]
        group.pieces, group.sharing = {}, []
        return outcomes


def _are_done(requests: list[Request]) -> bool:
    return all(request.is_done for request in requests)


def _refusal(tx: Connection, request: Request) -> Outcome | None:
    """Why the request cannot be committed now, or that it was before; None if it can."""
    for piece in request.pieces:
        if tx.execute("SELECT 1 FROM topics WHERE id = ?", (piece.topic.id,)).fetchone() is None:
            return UnknownTopic(piece.topic.name)
    for check in (_repeated, _fenced, _conflicting):
        refusal = check(tx, request)
        if refusal is not None:
            return refusal
    return None


def _repeated(tx: Connection, request: Request) -> Outcome | None:
    if request.sequence is None:
        return None
    wanted = request.sequence
    row = tx.execute(
        "SELECT epoch, sequence, commit_number FROM producers WHERE name = ?", (wanted.producer,)
    ).fetchone()
    epoch, last, commit = row if row is not None else (0, 0, 0)
    if epoch != wanted.epoch:
        return Fenced("producer", wanted.producer, wanted.epoch, epoch)
    if wanted.number <= last:
        return Committed(commit_position(commit), duplicate=True)
    if wanted.number > last + 1:
        return OutOfSequence(wanted.producer, wanted.number, last + 1)
    return None


def _fenced(tx: Connection, request: Request) -> Outcome | None:
    for move in request.offsets:
        row = tx.execute(
            "SELECT member, epoch FROM claims WHERE group_name = ? AND topic_id = ? AND partition = ?",
            (move.group, move.topic.id, move.partition),
        ).fetchone()
        if row != (move.member, move.epoch):
            name = f"{move.group}/{move.topic.name}/{move.partition}"
            return Fenced("partition", name, move.epoch, row[1] if row else 0)
    return None


def _conflicting(tx: Connection, request: Request) -> Outcome | None:
    for move in request.bookmarks:
        if isinstance(move.expected, Anything):
            continue
        row = tx.execute("SELECT value FROM bookmarks WHERE name = ?", (move.name,)).fetchone()
        actual = row[0] if row is not None else None
        if actual != move.expected:
            return Conflict(move.name, _value(move.expected), _value(actual))
    return None


def _value(text: str | None) -> object:
    return None if text is None else json.loads(text)
